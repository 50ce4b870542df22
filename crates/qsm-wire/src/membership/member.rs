use core::net::SocketAddr;

use super::field::record;
use crate::{Origin, ViewNumber};

/// A node's place in a region view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub origin: Origin,
    /// Where it receives unicast.
    pub address: SocketAddr,
    /// The view in which it came: it receives what is sent in that view and later ones.
    pub joined: ViewNumber,
    /// The view in which it left: it receives nothing sent in that view or a later one, but still
    /// takes part in the recovery of what was sent before, until it has all of that.
    pub left: Option<ViewNumber>,
}

impl Member {
    /// Whether it has left and is still there.
    #[must_use]
    pub fn leaving(&self) -> bool {
        self.left.is_some()
    }
}

/// A node that may send to a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// Who.
    pub origin: Origin,
    /// Where it receives unicast.
    pub address: SocketAddr,
}

record! { Member { origin, address, joined, left } }
record! { Sender { origin, address } }
