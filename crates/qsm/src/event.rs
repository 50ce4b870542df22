use std::net::SocketAddr;

use qsm_proto::UnconfirmedCause;
use qsm_wire::{Incarnation, RegionId, ViewNumber};

use crate::error::{CloseReason, Unconfirmed, Unserved};
use crate::handoff::aside::Item;

/// Something that happened to a node. What happens to messages, losses as well, is told to the
/// subscriptions that they are of: see [`Received`](crate::Received).
///
/// Each core thread of a node is a member of the cluster and tells what happens to itself: of a
/// node with several ([`Builder::cores`](crate::Builder::cores)) most events come once for each.
/// One that is excluded misses messages of its own groups only.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The node is a member of the cluster; after [`Event::Excluded`], again, in a new life.
    Admitted {
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// The node has ended, with all its cores. The last event.
    Closed {
        /// Why.
        reason: CloseReason,
    },
    /// The cluster took this node for dead: it was silent too long. It comes back by itself, in a
    /// new life, and misses what was sent meanwhile. Its subscriptions are told by
    /// [`Received::Away`](crate::Received::Away).
    Excluded,
    /// A multicast address of the cluster cannot be received; the messages sent to it will not
    /// arrive here.
    NotListening {
        /// The address.
        address: SocketAddr,
        /// Why, and what to do.
        reason: String,
    },
    /// A region of this node has a new view.
    RegionView {
        /// The region.
        region: RegionId,
        /// The view.
        view: ViewNumber,
        /// Its members.
        members: u32,
    },
    /// This node's own membership service runs, because no other was found, or always.
    ServiceEmbedded {
        /// Where.
        address: SocketAddr,
    },
    /// The membership service answers: for the first time, again, or another one.
    ServiceFound {
        /// Where.
        address: SocketAddr,
    },
    /// The membership service does not answer. Messages go on among those who know each other;
    /// joining and leaving have to wait.
    ServiceLost,
    /// This node's own membership service could not start.
    ServiceNotEmbedded {
        /// Why, and what to do.
        reason: String,
    },
    /// This node's own membership service has given way to another one.
    ServiceYielded,
    /// Messages that this node had accepted are not sent any more, and not all receivers are known
    /// to have them.
    Unconfirmed {
        /// Which.
        messages: Unconfirmed,
        /// Why. After [`UnconfirmedCause::NewLife`] they are also named by the error of
        /// [`Node::flush`](crate::Node::flush); after [`UnconfirmedCause::NoReceivers`] there was
        /// nobody left to have them.
        cause: UnconfirmedCause,
    },
    /// Receivers left or died, and are not known to have everything that this node had sent them.
    /// The next [`Node::flush`](crate::Node::flush) names them too.
    Unserved(Unserved),
}

impl Item for Event {}
