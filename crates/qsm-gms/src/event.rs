use core::time::Duration;
use std::net::SocketAddr;

use qsm_proto::Damage;
use qsm_wire::membership::AwayReason;
use qsm_wire::{NodeId, Origin};

/// Something for the log, or for the runtime to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceEvent {
    /// A node is in the cluster.
    Admitted {
        /// Who.
        origin: Origin,
        /// Its name.
        name: String,
        /// Where it is.
        address: SocketAddr,
    },
    /// A node was not let in because its address is of the other family: members of a cluster send
    /// to each other, so that all must be of one.
    OtherFamily {
        /// Its name.
        name: String,
        /// Where it says it is.
        address: SocketAddr,
    },
    /// Somebody shook hands and was not let in: the reason was told.
    NotAdmitted {
        /// Where.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// A node may not stay, and is shut out.
    Expelled {
        /// Who.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// A list of revocations cannot be used; the one before it stays in force.
    ListRefused {
        /// Why.
        reason: String,
    },
    /// Nobody waits for a node any more; what it misses is kept for it.
    Away {
        /// Who.
        origin: Origin,
        /// Its name.
        name: String,
        /// Why.
        reason: AwayReason,
    },
    /// A node that was away has caught up, and is waited for again.
    Back {
        /// Who.
        origin: Origin,
        /// Its name.
        name: String,
    },
    /// Datagrams have come that were changed or cut short on their way.
    Damaged(Damage),
    /// The multicast of another node does not reach a member: it lives on repairs. Said of the first
    /// speaker that it does not hear.
    Deaf {
        /// The member that does not hear it.
        origin: Origin,
        /// Its name.
        name: String,
        /// The speaker that it does not hear.
        speaker: Origin,
        /// The speaker's name; empty if it is not known here.
        speaker_name: String,
        /// The multicast address.
        address: Option<SocketAddr>,
    },
    /// A member that was deaf hears everybody again, or those it did not hear are gone.
    Hears {
        /// Who.
        origin: Origin,
        /// Its name.
        name: String,
    },
    /// Packets of another cluster come to the address of a region.
    Foreign {
        /// The first member that has said so.
        origin: Origin,
        /// Its name.
        name: String,
        /// The address.
        address: Option<SocketAddr>,
        /// The region moves to another address; else it stays, because too many have moved lately, or
        /// because it is a merged one.
        moves: bool,
    },
    /// A node goes on at another address: its host has got another one.
    Moved {
        /// Who.
        origin: Origin,
        /// Its name.
        name: String,
        /// Where it was.
        from: SocketAddr,
        /// Where it is.
        to: SocketAddr,
    },
    /// The service itself did not run when it should have: it takes nobody for silent because of
    /// that time.
    Late {
        /// By how much.
        by: Duration,
    },
    /// So many nodes are silent at once that the service may be the one that is cut off: they are
    /// away, and excluded later than a single one would be.
    ManySilent {
        /// How many are away.
        silent: usize,
        /// Of how many.
        nodes: usize,
    },
    /// A node was declared dead because it answered no probe.
    Excluded {
        /// Who.
        origin: Origin,
    },
    /// A node has left.
    Left {
        /// Who.
        origin: Origin,
    },
    /// The wait for reports after the start is over.
    Opened {
        /// The term that begins.
        term: u64,
        /// Nodes taken up as they were.
        resumed: usize,
        /// Members of reported views that did not report: they are away, or dead if that is known.
        absent: usize,
    },
    /// This service has sent its nodes to a better one and does nothing more; the runtime may drop
    /// it after a second.
    Yielded {
        /// Where the other one is.
        to: SocketAddr,
    },
    /// A node is on two networks: the runtime is to send what is for its address to the other one
    /// as well, and to take what comes from that as if it came from the first.
    SecondAddress {
        /// Its address.
        address: SocketAddr,
        /// Its address on the second network.
        second: SocketAddr,
    },
    /// Another service of the same cluster was started that is not embedded, and has yielded to
    /// this one: somebody must stop one of them.
    Conflict {
        /// Who.
        node: NodeId,
        /// Where.
        address: SocketAddr,
    },
}
