//! Subscriptions of systems that do not exist, drawn from a seed.

use qsm_wire::{GroupId, Random, Seed};

/// A way in which groups overlap (R006, E58).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Nodes in racks; services on some racks each, with many groups; and groups of all nodes.
    Planted {
        /// Nodes.
        nodes: u32,
        /// Groups.
        groups: u32,
        /// Groups at random that each node is in besides.
        extras: u32,
    },
    /// Nodes with the same ten groups, and one more of each node's own.
    PrivateGroups {
        /// Nodes.
        nodes: u32,
    },
    /// Nodes in sets of ten with a hundred groups each, and some at random besides.
    RandomExtras {
        /// Nodes.
        nodes: u32,
        /// Groups at random for each node.
        extras: u32,
    },
    /// Each node is in groups at random, of which few are popular: the n-th has a share of 1/n.
    Zipf {
        /// Nodes.
        nodes: u32,
        /// Groups.
        groups: u32,
        /// Groups of each node.
        each: u32,
    },
    /// Each group has half of the nodes of the one before: four levels, many times over.
    Hierarchical {
        /// Nodes.
        nodes: u32,
        /// Groups.
        groups: u32,
    },
    /// Groups of one node each.
    Singles {
        /// Nodes.
        nodes: u32,
        /// Groups.
        groups: u32,
    },
}

/// Nodes of a planted rack.
const RACK: u32 = 25;
/// Racks of a planted service, at most.
const SPREAD: u64 = 20;
/// One of so many planted groups has all nodes.
const WIDE: u32 = 250;
/// Groups of a set of nodes, and nodes of a set.
const SET_GROUPS: u32 = 100;
const SET_NODES: u32 = 10;
/// Levels of a hierarchy.
const LEVELS: u32 = 4;
/// Groups that all nodes with private ones share.
const COMMON: u32 = 10;

impl Layout {
    /// Its nodes.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        match *self {
            Self::Planted { nodes, .. }
            | Self::PrivateGroups { nodes }
            | Self::RandomExtras { nodes, .. }
            | Self::Zipf { nodes, .. }
            | Self::Hierarchical { nodes, .. }
            | Self::Singles { nodes, .. } => nodes,
        }
    }

    /// The regions that are in it on purpose, if there are any.
    #[must_use]
    pub fn planted(&self) -> Option<u32> {
        match *self {
            Self::Planted { nodes, .. } => Some(nodes.div_ceil(RACK)),
            Self::PrivateGroups { .. } => Some(1),
            Self::RandomExtras { nodes, .. } => Some(nodes.div_ceil(SET_NODES)),
            Self::Hierarchical { nodes, .. } => Some(nodes.div_ceil(SET_NODES)),
            Self::Zipf { .. } | Self::Singles { .. } => None,
        }
    }

    /// Groups that all nodes are in.
    #[must_use]
    pub fn wide(&self) -> u32 {
        match *self {
            Self::Planted { groups, .. } => groups / WIDE,
            Self::PrivateGroups { .. } => COMMON,
            _ => 0,
        }
    }

    /// The groups of each node, ascending.
    #[must_use]
    pub fn draw(&self, seed: Seed) -> Vec<Vec<GroupId>> {
        let mut random = Random::new(seed, "layout");
        let mut nodes = match *self {
            Self::Planted {
                nodes,
                groups,
                extras,
            } => planted(nodes, groups, extras, &mut random),
            Self::PrivateGroups { nodes } => {
                let own = |node: u32| (0..COMMON).chain([COMMON + node]).map(GroupId).collect();
                (0..nodes).map(own).collect()
            }
            Self::RandomExtras { nodes, extras } => random_extras(nodes, extras, &mut random),
            Self::Zipf {
                nodes,
                groups,
                each,
            } => zipf(nodes, groups, each, &mut random),
            Self::Hierarchical { nodes, groups } => hierarchical(nodes, groups),
            Self::Singles { nodes, groups } => {
                let own = |node: u32| (node..groups).step_by(nodes.max(1) as usize).map(GroupId);
                (0..nodes).map(|node| own(node).collect()).collect()
            }
        };
        for groups in &mut nodes {
            groups.sort_unstable();
            groups.dedup();
        }
        nodes
    }
}

fn below(random: &mut Random, bound: u32) -> u32 {
    u32::try_from(random.below(u64::from(bound))).unwrap_or(0)
}

/// The layout of algorithms (a): as many services as racks.
fn planted(nodes: u32, groups: u32, extras: u32, random: &mut Random) -> Vec<Vec<GroupId>> {
    let racks = nodes.div_ceil(RACK).max(1);
    let wide = groups / WIDE;
    let each = (groups - wide) / racks;
    let mut services: Vec<Vec<u32>> = vec![Vec::new(); racks as usize];
    for service in 0..racks {
        let spread = random.below(SPREAD.min(u64::from(racks))) + 1;
        for _ in 0..spread {
            services[below(random, racks) as usize].push(service);
        }
    }
    let mut all = Vec::with_capacity(nodes as usize);
    for node in 0..nodes {
        let mut own: Vec<GroupId> = (0..wide).map(GroupId).collect();
        for service in &services[(node / RACK) as usize] {
            let first = wide + service * each;
            own.extend((first..first + each).map(GroupId));
        }
        own.extend((0..extras).map(|_| GroupId(below(random, groups))));
        all.push(own);
    }
    all
}

fn random_extras(nodes: u32, extras: u32, random: &mut Random) -> Vec<Vec<GroupId>> {
    let groups = nodes.div_ceil(SET_NODES) * SET_GROUPS;
    let mut all = Vec::with_capacity(nodes as usize);
    for node in 0..nodes {
        let first = node / SET_NODES * SET_GROUPS;
        let mut own: Vec<GroupId> = (first..first + SET_GROUPS).map(GroupId).collect();
        own.extend((0..extras).map(|_| GroupId(below(random, groups))));
        all.push(own);
    }
    all
}

fn zipf(nodes: u32, groups: u32, each: u32, random: &mut Random) -> Vec<Vec<GroupId>> {
    // The sum of the shares up to each group, in parts of 2³².
    let shares = (1..=u64::from(groups)).scan(0_u64, |sum, n| {
        *sum += (1 << 32) / n;
        Some(*sum)
    });
    let sums: Vec<u64> = shares.collect();
    let all = sums.last().copied().unwrap_or(0);
    let mut draw = || {
        let value = random.below(all);
        let at = sums.partition_point(|sum| *sum <= value);
        GroupId(u32::try_from(at).unwrap_or(0))
    };
    (0..nodes)
        .map(|_| (0..each).map(|_| draw()).collect())
        .collect()
}

/// Sets of ten nodes; four sets lie inside each other.
fn hierarchical(nodes: u32, groups: u32) -> Vec<Vec<GroupId>> {
    let sets = nodes.div_ceil(SET_NODES).max(1);
    let each = groups / sets;
    let own = |node: u32| {
        let set = node / SET_NODES;
        let outer = set / LEVELS * LEVELS..=set;
        outer
            .flat_map(move |set| (set * each..(set + 1) * each).map(GroupId))
            .collect()
    };
    (0..nodes).map(own).collect()
}
