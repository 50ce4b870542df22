use std::net::SocketAddr;
use std::sync::Arc;

use qsm_wire::membership::{Answer, Sender};
use qsm_wire::{ChannelId, GroupId, Origin, RegionId, ViewNumber};

use crate::view::RegionView;

/// What the membership service, or its absence, changed for this node. The changes between one
/// [`Change::BatchEnd`] and the next take effect at once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The node is in the cluster.
    Admitted {
        /// In this life.
        origin: Origin,
        /// A new life; `false` when a service that restarted took the node up as it was.
        fresh: bool,
    },
    /// The former life is over: all regions, group numbers and streams of it are void. Followed
    /// by [`Change::Admitted`] with a fresh life; groups are entered again by themselves.
    Excluded,
    /// A group of this node has this number.
    Named {
        /// The number.
        group: GroupId,
        /// The name.
        name: String,
    },
    /// The node gave up its last role in this group.
    Unnamed {
        /// The number it had.
        group: GroupId,
        /// The name.
        name: String,
    },
    /// A region concerns this node: it is a member or publishes to some of its groups. Said
    /// again when the groups change; then these replace the former ones.
    Region {
        /// Which.
        region: RegionId,
        /// Where to send.
        channel: ChannelId,
        /// The channel's multicast address.
        address: SocketAddr,
        /// A member's: all groups of the region. A publisher's: those it publishes to.
        groups: Vec<GroupId>,
    },
    /// A region's next view.
    View(Arc<RegionView>),
    /// The region concerns this node no more.
    Closed {
        /// Which.
        region: RegionId,
    },
    /// This sender is dead; what it sent is recovered among the receivers (R085).
    Dead {
        /// Who.
        origin: Origin,
    },
    /// Everybody who may send to a region that this node is leaving has this view of it.
    Settled {
        /// Which.
        region: RegionId,
        /// The view that marks this node as leaving, or a later one.
        view: ViewNumber,
        /// Who may have sent something in a view before.
        senders: Vec<Sender>,
    },
    /// Who may send to a region with a source-specific address without being a member of it. It
    /// replaces what was said before.
    Sources {
        /// Which.
        region: RegionId,
        /// They.
        senders: Vec<Sender>,
    },
    /// Who is at this address is at the other as well, on a second network. It may be said again.
    Second {
        /// Where a node is, or the membership service.
        address: SocketAddr,
        /// Where it is on the second network.
        second: SocketAddr,
    },
    /// All of a batch has been said.
    BatchEnd,
    /// What became of a request. Its effects came before.
    Answer(Answer),
    /// The service does not answer; traffic goes on with the last views.
    ServiceLost,
    /// A service answers (for the first time, again, or another one).
    ServiceFound {
        /// Where.
        address: SocketAddr,
    },
    /// No service has been heard of for about a second, and none was configured: the runtime may
    /// start one of its own. Said again every few seconds.
    ServiceMissing,
}
