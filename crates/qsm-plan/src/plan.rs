//! A plan as data.

use std::collections::BTreeMap;

use qsm_wire::{ChannelId, GroupId, NodeId, RegionId};

use crate::cluster::Cost;

/// The way of a message to the subscribers of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// One packet on each of these channels, which together have all subscribers.
    Multicast(Vec<ChannelId>),
    /// A copy for each subscriber.
    Members(Vec<NodeId>),
    /// Both: some subscribers are in none of the channels.
    Mixed {
        /// The channels.
        channels: Vec<ChannelId>,
        /// Nodes that get a copy.
        residue: Vec<NodeId>,
    },
}

impl Path {
    pub(crate) fn new(channels: Vec<ChannelId>, residue: Vec<NodeId>) -> Self {
        match (channels.is_empty(), residue.is_empty()) {
            (true, _) => Self::Members(residue),
            (false, true) => Self::Multicast(channels),
            (false, false) => Self::Mixed { channels, residue },
        }
    }

    /// Its channels.
    #[must_use]
    pub fn channels(&self) -> &[ChannelId] {
        match self {
            Self::Multicast(channels) | Self::Mixed { channels, .. } => channels,
            Self::Members(_) => &[],
        }
    }

    /// Nodes that get a copy.
    #[must_use]
    pub fn copies(&self) -> &[NodeId] {
        match self {
            Self::Members(nodes) | Self::Mixed { residue: nodes, .. } => nodes,
            Self::Multicast(_) => &[],
        }
    }

    /// Packets that a sender sends for a packet of the group (R020).
    #[must_use]
    pub fn packets(&self) -> usize {
        self.channels().len() + self.copies().len()
    }
}

/// A region: nodes with the same groups, or nearly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRegion {
    /// Its security domain.
    pub domain: u32,
    /// Its nodes, ascending.
    pub members: Vec<NodeId>,
    /// Groups that all, or nearly all, of its nodes want: they are carried by channels.
    pub carried: usize,
    /// Groups of single nodes: pairs of a group and a node that wants it.
    pub residue: usize,
    /// Savings of merging its classes.
    pub gained: Cost,
    /// The region that it is nearest to being merged with, and what that would save: less than
    /// nothing.
    pub refused: Option<(RegionId, Cost)>,
}

/// A multicast address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedChannel {
    /// The regions whose nodes listen to it, ascending.
    pub regions: Vec<RegionId>,
    /// Number of those nodes.
    pub nodes: u64,
    /// The name in the hints, if only pinned groups use it.
    pub pin: Option<String>,
}

/// A group's path and what it costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedGroup {
    /// The way of its messages.
    pub path: Path,
    /// Nodes that want it.
    pub subscribers: u64,
    /// Nodes that get it and do not want it.
    pub unwanted: u64,
    /// Messages in 1000 seconds.
    pub rate: u32,
    /// CPU time of a message, nanoseconds.
    pub cost: u64,
}

/// Sums over a plan. Messages, packets and deliveries are those of 1000 seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Nodes.
    pub nodes: usize,
    /// Different sets of groups: the regions if nothing were merged.
    pub classes: usize,
    /// Groups that somebody wants.
    pub groups: usize,
    /// Messages.
    pub messages: u128,
    /// Packets sent by multicast.
    pub packets: u128,
    /// Copies sent to single nodes.
    pub copies: u128,
    /// Packets for a message of the group that needs most.
    pub packets_max: usize,
    /// Deliveries that are wanted.
    pub wanted: u128,
    /// Deliveries that are not.
    pub unwanted: u128,
    /// Pairs of a group and a node that gets copies of it.
    pub residue: usize,
    /// CPU time, nanoseconds.
    pub cost: Cost,
}

impl Totals {
    /// The share of deliveries that nobody wants, in parts per million of those that are wanted.
    #[must_use]
    pub fn unwanted_ppm(&self) -> u128 {
        self.unwanted * 1_000_000 / self.wanted.max(1)
    }

    pub(crate) fn add(&mut self, group: &PlannedGroup) {
        let rate = u128::from(group.rate);
        self.groups += 1;
        self.messages += rate;
        self.packets += rate * group.path.channels().len() as u128;
        self.copies += rate * group.path.copies().len() as u128;
        self.packets_max = self.packets_max.max(group.path.packets());
        self.wanted += rate * u128::from(group.subscribers);
        self.unwanted += rate * u128::from(group.unwanted);
        self.residue += group.path.copies().len();
        self.cost += Cost::from(group.rate) * Cost::from(group.cost);
    }
}

/// Regions, channels and paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The regions.
    pub regions: BTreeMap<RegionId, PlannedRegion>,
    /// The channels.
    pub channels: BTreeMap<ChannelId, PlannedChannel>,
    /// The groups.
    pub groups: BTreeMap<GroupId, PlannedGroup>,
    /// Sums.
    pub totals: Totals,
}

/// Reasons for a group's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The path that was chosen.
    pub chosen: PlannedGroup,
    /// The regions with subscribers: their nodes, how many want the group, and whether it is one
    /// of the region's own groups.
    pub regions: Vec<WhyRegion>,
    /// The other ways.
    pub alternatives: Vec<Alternative>,
    /// The name of the pinned channel, if hints decide.
    pub pin: Option<String>,
}

/// A region that has subscribers of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WhyRegion {
    /// Its number, or its kind.
    pub region: RegionId,
    /// Its nodes.
    pub nodes: u32,
    /// Those that want the group.
    pub subscribers: u32,
    /// Enough want it for a channel; otherwise they are its residue.
    pub carried: bool,
}

/// Another way to send a group's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alternative {
    /// Its number, or its kind.
    pub way: Way,
    /// Packets for a message, copies included.
    pub packets: u64,
    /// Nodes that would get it and do not want it.
    pub unwanted: u64,
    /// CPU time of a message, nanoseconds.
    pub cost: u64,
}

/// Ways to send a group's messages that a plan considers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A packet for each region with a subscriber.
    PerRegion,
    /// A copy for each subscriber.
    Copies,
    /// One packet on this channel, the smallest that has all subscribers.
    Channel(ChannelId),
}
