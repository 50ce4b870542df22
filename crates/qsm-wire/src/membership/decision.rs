//! A membership service's account of one group: its regions, why they are such, and what else would be
//! possible (R-MEM-18).

use super::answer::RegionKind;
use super::field::{codec, message, record};
use crate::{GroupId, RegionId};

/// A group, as the membership service decided on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDecision {
    /// Its number.
    pub group: GroupId,
    /// Nodes that are to receive it.
    pub receivers: u32,
    /// Nodes that publish to it without receiving it, or beside.
    pub publishers: u32,
    /// Packets that a message takes: the regions that it has (R020).
    pub packets: u32,
    /// CPU time that a message costs senders and receivers, nanoseconds, as plans count it.
    pub cost_ns: u64,
    /// Messages in 1000 s, in the words of its publishers; `None`: not all have said so, and plans count
    /// with one a second.
    pub rate: Option<u32>,
    /// The limits of plans; `None`: the service makes none.
    pub limits: Option<PlanLimits>,
    /// The channel that a hint pins it to (R-VIEW-18).
    pub pin: Option<String>,
    /// Its regions, those with most receivers first.
    pub regions: Vec<RegionDecision>,
    /// Regions that there was no room for.
    pub left_out: u32,
    /// Other ways, and what they would cost.
    pub ways: Vec<GroupWay>,
}

/// Limits that an operator has set for plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanLimits {
    /// Deliveries of a million that may be unwanted in merged regions; 0: none is made (R-VIEW-16).
    pub unwanted_ppm: u32,
    /// Packets in a second that a common region has to save; `None`: none is made (R-VIEW-17).
    pub common: Option<u32>,
}

/// A region of a group, and why it is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionDecision {
    /// Its number.
    pub region: RegionId,
    /// The nodes that it has.
    pub kind: RegionKind,
    /// Its members that are not leaving.
    pub members: u32,
    /// Of these, members that receive the group.
    pub receivers: u32,
    /// Groups that it has.
    pub groups: u32,
    /// Deliveries of a million that its members do not want, each of its groups having as many messages.
    pub unwanted_ppm: u32,
    /// Hints that bind it.
    pub hints: RegionHints,
    /// Another region of the group that it could be merged with, the one that fits best.
    pub nearest: Option<NearRegion>,
}

/// Hints that bind a region's members (R-VIEW-18).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegionHints {
    /// The security domain; `None`: the common one.
    pub domain: Option<String>,
    /// The compartment: nodes of others share no region with them; 0: that of all whom no hint divides.
    pub compartment: u32,
    /// They are together, and share the region whatever it costs.
    pub together: bool,
}

/// A region that another one could be merged with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearRegion {
    /// Its number.
    pub region: RegionId,
    /// Deliveries of a million that would be unwanted in both together, each group having as many
    /// messages.
    pub unwanted_ppm: u32,
}

/// A way of a group's messages, in force or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupWay {
    /// A region for each set of groups that a receiver has, apart from what it alone has (R-VIEW-4,
    /// R-VIEW-15).
    Exact {
        /// Packets for a message.
        packets: u32,
        /// CPU time of a message, nanoseconds.
        cost_ns: u64,
    },
    /// A copy for each receiver.
    Copies {
        /// Packets for a message.
        packets: u32,
        /// CPU time of a message, nanoseconds.
        cost_ns: u64,
    },
    /// One region for all that have it and the groups that go with it (R-VIEW-17).
    Common {
        /// Packets for a message.
        packets: u32,
        /// CPU time of a message, nanoseconds.
        cost_ns: u64,
        /// Groups that it would have.
        groups: u32,
        /// Packets that it saves in 1000 s, of all its groups, beside the first way.
        saved: u64,
        /// Packets in 1000 s that its tokens cost.
        spent: u64,
    },
    /// One region of all its receivers, with all their groups (R-VIEW-16).
    Merged {
        /// Packets for a message.
        packets: u32,
        /// CPU time of a message, nanoseconds.
        cost_ns: u64,
        /// Deliveries of a million that would be unwanted there, each group having as many messages.
        unwanted_ppm: u32,
    },
}

impl GroupDecision {
    /// Longest name of a channel or a domain in it, bytes; a longer one is cut.
    pub const NAME_BYTES_MAX: usize = 64;
}

/// The answer to a [`GroupQuery`](crate::GroupQuery).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupAnswer {
    /// The group; `None`: there is none of this name.
    pub decision: Option<GroupDecision>,
}

record! { GroupAnswer { decision } }
record! { GroupDecision {
    group, receivers, publishers, packets, cost_ns, rate, limits, pin, regions, left_out, ways
} }
record! { PlanLimits { unwanted_ppm, common } }
record! { RegionDecision { region, kind, members, receivers, groups, unwanted_ppm, hints, nearest } }
record! { RegionHints { domain, compartment, together } }
record! { NearRegion { region, unwanted_ppm } }
message! { GroupWay {
    1 => Exact { packets, cost_ns },
    2 => Copies { packets, cost_ns },
    3 => Common { packets, cost_ns, groups, saved, spent },
    4 => Merged { packets, cost_ns, unwanted_ppm },
} }

codec!(GroupAnswer);
