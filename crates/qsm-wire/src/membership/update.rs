use core::net::SocketAddr;

use super::field::{Field, message, record};
use super::member::{Member, Sender};
use crate::raw::Reader;
use crate::{ChannelId, DecodeError, GroupId, Origin, RegionId, ViewNumber};

/// A region's next view as a difference: the members of view `base` without `removed`, those in
/// `leaving` marked, those in `changed` as they are there, then `added` at the end, and those who
/// are away behind all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewStep {
    /// Which region.
    pub region: RegionId,
    /// Its new number.
    pub view: ViewNumber,
    /// The view this is a difference to; 0: from nothing.
    pub base: ViewNumber,
    /// Gone.
    pub removed: Vec<Origin>,
    /// Leaving from now on.
    pub leaving: Vec<Origin>,
    /// Away from now on, back, or at another address: what replaces their entries.
    pub changed: Vec<Member>,
    /// New.
    pub added: Vec<Member>,
}

/// One change of what a node has to know. All updates of a batch take effect at once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Update {
    /// The number of a group that this node entered.
    Named {
        /// The number.
        group: GroupId,
        /// The name.
        name: String,
    },
    /// A region with groups that concern this node: it is a member, or publishes to them. Also
    /// sent again when the region's groups change as a whole; then it replaces them.
    Region {
        /// Which.
        region: RegionId,
        /// Where to send.
        channel: ChannelId,
        /// The channel's multicast address. One that is not multicast is that of the only member of
        /// a private region (R-VIEW-15).
        address: SocketAddr,
        /// The region's groups that concern this node, ascending. None: the node is to say
        /// [`ToService::Drained`](super::ToService::Drained) when all that it has sent there has arrived.
        groups: Vec<GroupId>,
    },
    /// A region's next view.
    View(ViewStep),
    /// The region concerns this node no more.
    Closed {
        /// Which.
        region: RegionId,
    },
    /// These senders are dead; what they sent is recovered among the receivers (R085).
    Dead {
        /// Whose streams end.
        origin: Origin,
    },
    /// To a leaving member: everybody who may send to the region knows that it leaves.
    Settled {
        /// The region.
        region: RegionId,
        /// The view that marked it as leaving, or a later one.
        view: ViewNumber,
        /// Who may have sent something before. What others have sent, everybody has.
        senders: Vec<Sender>,
    },
    /// A node that this batch names is on two networks: what is sent to its address is to be sent
    /// to the other one as well.
    Second {
        /// Its address, as it is named elsewhere.
        address: SocketAddr,
        /// Its address on the second network.
        second: SocketAddr,
    },
    /// To the members of a region whose address is source-specific: who else may send to it. It
    /// replaces what was said before.
    Sources {
        /// The region.
        region: RegionId,
        /// Nodes that are not members.
        senders: Vec<Sender>,
    },
    /// Of a region whose members have different groups: who does not receive what (R-VIEW-16). Of a
    /// member that no such update names, all groups of the region are received.
    Filters {
        /// The region.
        region: RegionId,
        /// It replaces all that was said of the region; else what was said of these members.
        whole: bool,
        /// Members.
        members: Vec<MemberFilter>,
    },
    /// The limit of what this node sends again (R-NAK-16). It replaces the one before; a node that has never
    /// been told one has none.
    Repairs {
        /// The limit, and how old it is.
        told: ToldLimit,
    },
    /// Groups of a region whose messages have a lifetime (R-DATA-14), whether they concern this node
    /// or not. It replaces what was said of the region before; the region's groups that it does not
    /// name have none.
    Lifetimes {
        /// The region.
        region: RegionId,
        /// The groups, ascending.
        groups: Vec<GroupLifetime>,
    },
    /// A rate below which no receiver of a region holds its senders (R-RATE-10). It replaces what was
    /// said of the region before; a region that is told again without it has none.
    MinimumRate {
        /// The region.
        region: RegionId,
        /// Packets per second of each sender; 2³²-1: as many as it likes.
        packets_per_second: u32,
    },
    /// Proof that is demanded of what is sent to a region (R-SEC-34). It replaces what was said of the region before; of a
    /// region that is told again without it none is demanded.
    Proof {
        /// The region.
        region: RegionId,
        /// The strictest demand of its groups.
        demand: OriginDemand,
    },
    /// To the members of a region of which proof is demanded: the keys and rights of those who publish there (R-SEC-34). It replaces
    /// what was said before.
    Signers {
        /// The region.
        region: RegionId,
        /// Publishers, ascending.
        signers: Vec<Signer>,
    },
    /// To a node that was away when this sender said goodbye: the packets that it lacks of that were not
    /// for it (R-VIEW-16). Comes before [`Update::Dead`].
    NothingOwed {
        /// The sender.
        origin: Origin,
    },
}

/// Demand on the packets of a region's senders. A later one is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OriginDemand {
    /// Messages are delivered as ever, and packets that their sender has not made are told.
    Audit,
    /// Messages wait until their packets are proven. A forged packet is dropped, told, and asked for again.
    Verified,
}

/// A node, and the key by which it signs what it sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// The node.
    pub origin: Origin,
    /// Its public key as a text, `qsm-node-1.…`.
    pub key: String,
    /// Groups of the region to which it may not publish, ascending.
    pub barred: Vec<GroupId>,
}

/// Bounds of what a node sends again, in every interval of 10 ms. Of two that are given both hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RepairLimit {
    /// Bytes per second; 0: as many as it likes.
    pub bytes_per_second: u64,
    /// Bytes of a million that the node sends and receives for the first time; 0: as many as it likes.
    pub share_ppm: u32,
}

/// A limit of repairs as a service tells it, and as nodes tell it to a service that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToldLimit {
    /// Counts the limits that the cluster has had: of two the one with the higher number holds. 0: none has
    /// been told.
    pub number: u64,
    /// The limit.
    pub limit: RepairLimit,
}

/// A group whose messages are not sent again once they are older than this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLifetime {
    /// The group.
    pub group: GroupId,
    /// The lifetime, milliseconds; 0: none.
    pub ms: u32,
}

/// Groups of a region that a member of it does not receive, or not since it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberFilter {
    /// The member.
    pub origin: Origin,
    /// Of the groups that the told node publishes to there, those that the member does not receive;
    /// ascending.
    pub unwanted: Vec<GroupId>,
    /// Groups that it receives from a later view on than that in which it came; ascending.
    pub since: Vec<GroupStart>,
}

/// The first view in which a member receives a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupStart {
    /// The group.
    pub group: GroupId,
    /// What is sent to it in this view and in later ones is received.
    pub view: ViewNumber,
}

record! { ViewStep { region, view, base, removed, leaving, changed, added } }
record! { ToldLimit { number, limit } }
record! { RepairLimit { bytes_per_second, share_ppm } }
record! { GroupStart { group, view } }
record! { GroupLifetime { group, ms } }
record! { MemberFilter { origin, unwanted, since } }
record! { Signer { origin, key, barred } }

impl Field for OriginDemand {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(match self {
            Self::Audit => 1,
            Self::Verified => 2,
        });
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Audit),
            2 => Ok(Self::Verified),
            _ => Err(DecodeError::BadValue),
        }
    }
}

message! { Update [3 => View] {
    1 => Named { group, name },
    2 => Region { region, channel, address, groups },
    4 => Closed { region },
    5 => Dead { origin },
    6 => Settled { region, view, senders },
    7 => Second { address, second },
    8 => Sources { region, senders },
    9 => Filters { region, whole, members },
    10 => Lifetimes { region, groups },
    11 => Repairs { told },
    12 => MinimumRate { region, packets_per_second },
    13 => NothingOwed { origin },
    14 => Proof { region, demand },
    15 => Signers { region, signers },
} }
