//! A region of a plan as it can be carried out where its members may receive only so much that they
//! do not want: which groups its channel carries, and which nodes it has then.

use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_wire::{GroupId, NodeId};

/// Bounds of a region that is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedLimits {
    /// Deliveries of a million that may be unwanted, each group having as many messages.
    pub unwanted_ppm: u32,
    /// Members that a group may have that goes to each of them as a copy.
    pub copies: u32,
}

/// Members of a region, and the groups that go to all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedRegion {
    /// The members, ascending.
    pub members: Vec<NodeId>,
    /// The groups that are sent to all; ascending. Others go to each member that wants them.
    pub groups: Vec<GroupId>,
    /// Some of these groups some members do not want.
    pub mixed: bool,
}

/// Nodes with the groups that each wants.
type Wants = BTreeMap<NodeId, Arc<[GroupId]>>;

/// The region that these nodes can share. `carries`: whether so many of so many nodes are enough for
/// a packet to all. Nodes that want a group for which neither a packet to all nor copies will do are
/// left out; `None`: fewer than two nodes are left.
pub(crate) fn shared(
    mut wants: Wants,
    limits: SharedLimits,
    carries: impl Fn(u32, u32) -> bool,
) -> Option<SharedRegion> {
    loop {
        let size = u32::try_from(wants.len()).unwrap_or(u32::MAX);
        if size < 2 {
            return None;
        }
        let counts = counts(&wants);
        let (groups, mixed) = carried(size, &counts, limits);
        let rest = counts.iter();
        let rest = rest.filter(|(group, _)| groups.binary_search(group).is_err());
        let served = |count: u32| count <= limits.copies && !carries(size, count) || count == 1;
        let unserved = rest.filter(|(_, count)| !served(**count));
        let unserved: Vec<GroupId> = unserved.map(|(group, _)| *group).collect();
        if unserved.is_empty() {
            let members = wants.into_keys().collect();
            return Some(SharedRegion {
                members,
                groups,
                mixed,
            });
        }
        wants.retain(|_, groups| !unserved.iter().any(|one| groups.binary_search(one).is_ok()));
    }
}

fn counts(wants: &Wants) -> BTreeMap<GroupId, u32> {
    let mut counts = BTreeMap::new();
    for group in wants.values().flat_map(|groups| groups.iter()) {
        *counts.entry(*group).or_insert(0) += 1;
    }
    counts
}

/// The groups that most want, as many as the limit of unwanted deliveries lets; ascending. And
/// whether anybody does not want one.
fn carried(
    size: u32,
    counts: &BTreeMap<GroupId, u32>,
    limits: SharedLimits,
) -> (Vec<GroupId>, bool) {
    let mut wanted: Vec<(u32, GroupId)> = counts.iter().map(|(group, n)| (*n, *group)).collect();
    wanted.sort_unstable_by(|one, other| other.cmp(one));
    let (mut unwanted, mut deliveries) = (0_u64, 0_u64);
    let within = wanted.iter().take_while(|(count, _)| {
        unwanted += u64::from(size - count);
        deliveries += u64::from(size);
        u128::from(unwanted) * 1_000_000 <= u128::from(deliveries) * u128::from(limits.unwanted_ppm)
    });
    let within: Vec<(u32, GroupId)> = within.copied().collect();
    let mixed = within.iter().any(|(count, _)| *count < size);
    let mut groups: Vec<GroupId> = within.into_iter().map(|(_, group)| group).collect();
    groups.sort_unstable();
    (groups, mixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(nodes: &[(u64, &[u32])]) -> Wants {
        let nodes = nodes.iter().map(|(node, groups)| {
            let groups = groups.iter().map(|group| GroupId(*group)).collect();
            (NodeId(*node), groups)
        });
        nodes.collect()
    }

    fn shape(region: Option<SharedRegion>) -> Option<(Vec<u64>, Vec<u32>, bool)> {
        let region = region?;
        let members = region.members.iter().map(|node| node.0).collect();
        let groups = region.groups.iter().map(|group| group.0).collect();
        Some((members, groups, region.mixed))
    }

    /// By the costs of a plan, roughly: copies for a quarter of the nodes.
    fn carries(size: u32, count: u32) -> bool {
        count * 4 > size
    }

    #[test]
    fn what_few_lack_is_for_all_within_the_limit_and_odd_groups_are_copies() {
        let nodes = wants(&[
            (1, &[1, 2, 3]),
            (2, &[1, 2, 3]),
            (3, &[1, 2, 3]),
            (4, &[1, 2, 9]),
        ]);
        let of = |unwanted_ppm| {
            let limits = SharedLimits {
                unwanted_ppm,
                copies: 3,
            };
            shape(shared(nodes.clone(), limits, carries))
        };
        // One of twelve deliveries is unwanted.
        assert_eq!(of(84_000), Some((vec![1, 2, 3, 4], vec![1, 2, 3], true)));
        // Three of four want group 3, too many for copies: who lacks it is not in the region.
        assert_eq!(of(83_000), None);
    }

    #[test]
    fn who_wants_what_suits_neither_is_left_out() {
        let nodes = wants(&[(1, &[1]), (2, &[1]), (3, &[1, 2]), (4, &[1, 2])]);
        let limits = SharedLimits {
            unwanted_ppm: 100_000,
            copies: 3,
        };
        let region = shape(shared(nodes, limits, carries));
        assert_eq!(region, Some((vec![1, 2], vec![1], false)));
    }

    #[test]
    fn one_node_shares_nothing() {
        let limits = SharedLimits {
            unwanted_ppm: 1_000_000,
            copies: 3,
        };
        assert_eq!(shared(wants(&[(1, &[1])]), limits, carries), None);
    }
}
