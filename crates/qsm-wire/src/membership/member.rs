use core::net::SocketAddr;

use super::field::{message, record};
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
    /// Set while nobody waits for it: it caches nothing and is in no ring, and receives.
    pub away: Option<AwayReason>,
}

/// Reason for which nobody waits for a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AwayReason {
    /// The membership service does not hear it.
    Silent,
    /// The membership service hears it, members do not.
    Unreachable,
    /// It has not reported to a membership service that began without memory.
    Unreported,
    /// It takes less than the others do, and senders waited for it.
    Slow,
    /// The same, and its groups have such receivers go on from the present: what it misses it loses.
    Demoted,
}

impl Member {
    /// Whether it has left and is still there.
    #[must_use]
    pub fn leaving(&self) -> bool {
        self.left.is_some()
    }

    /// Whether nobody waits for it.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.away.is_some()
    }
}

impl core::fmt::Display for AwayReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Silent => "silent",
            Self::Unreachable => "unreachable for members",
            Self::Unreported => "not heard of since the membership service began",
            Self::Slow => "slower than the others",
            Self::Demoted => "slower than the others, and loses what it misses",
        })
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

record! { Member { origin, address, joined, left, away } }
message! { AwayReason { 1 => Silent {}, 2 => Unreachable {}, 3 => Unreported {}, 4 => Slow {}, 5 => Demoted {}, } }
record! { Sender { origin, address } }
