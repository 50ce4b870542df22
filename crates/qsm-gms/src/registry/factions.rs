//! Nodes whose reports do not contradict each other (R-MEM-6).
//!
//! Services that have not heard of each other, one after the other or on either side of a network
//! split, give the same numbers to other groups and regions. Nodes of both may report to the next one
//! before it begins: only those of one can go on in their lives.

use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::membership::Hello;
use qsm_wire::{ChannelId, GroupId, NodeId, RegionId};

use super::groups::check_name;

/// Factions that are told apart; nodes that are of none of them do not go on in their lives.
const FACTIONS_MAX: usize = 16;

/// Nodes that mean the same by the same numbers, as far as they use them.
#[derive(Debug, Default)]
struct Faction<'a> {
    nodes: BTreeSet<NodeId>,
    names: BTreeMap<GroupId, &'a str>,
    groups: BTreeMap<&'a str, GroupId>,
    channels: BTreeMap<RegionId, ChannelId>,
}

/// Those of these nodes that agree with each other, as many as there are of one mind; of two factions
/// of one size that of the smallest node. Numbers of groups that are not below `groups_max` agree with
/// nothing.
pub(super) fn largest_faction(
    reports: &BTreeMap<NodeId, Hello>,
    groups_max: usize,
) -> BTreeSet<NodeId> {
    let believed = |hello: &Hello| {
        let mut groups = numbered(hello);
        groups.all(|(group, _)| usize::try_from(group.0).is_ok_and(|group| group < groups_max))
    };
    let mut factions: Vec<Faction<'_>> = Vec::new();
    for (node, hello) in reports.iter().filter(|(_, hello)| believed(hello)) {
        let admits = |faction: &&mut Faction<'_>| faction.admits(hello);
        if let Some(faction) = factions.iter_mut().find(admits) {
            faction.join(*node, hello);
        } else if factions.len() < FACTIONS_MAX {
            let mut faction = Faction::default();
            faction.join(*node, hello);
            factions.push(faction);
        }
    }
    let sizes = factions.into_iter().rev();
    let largest = sizes.max_by_key(|faction| faction.nodes.len());
    largest.map(|faction| faction.nodes).unwrap_or_default()
}

/// The groups of which a node knows the numbers.
fn numbered(hello: &Hello) -> impl Iterator<Item = (GroupId, &str)> {
    let named = hello.groups.iter();
    let named = named.filter(|report| check_name(&report.name).is_ok());
    named.filter_map(|report| Some((report.group?, report.name.as_str())))
}

impl<'a> Faction<'a> {
    fn admits(&self, hello: &Hello) -> bool {
        let mut regions = hello.regions.iter();
        numbered(hello).all(|(group, name)| {
            let (named, known) = (self.names.get(&group), self.groups.get(name));
            named.is_none_or(|named| *named == name) && known.is_none_or(|known| *known == group)
        }) && regions.all(|report| {
            let known = self.channels.get(&report.region);
            known.is_none_or(|known| *known == report.channel)
        })
    }

    fn join(&mut self, node: NodeId, hello: &'a Hello) {
        self.nodes.insert(node);
        for (group, name) in numbered(hello) {
            self.names.insert(group, name);
            self.groups.insert(name, group);
        }
        let regions = hello.regions.iter();
        self.channels
            .extend(regions.map(|report| (report.region, report.channel)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::hello;
    use super::*;
    use qsm_wire::membership::{GroupReport, Role};

    fn knows(groups: &[(u32, &str)]) -> Hello {
        let groups = groups.iter().map(|(group, name)| GroupReport {
            group: Some(GroupId(*group)),
            name: (*name).to_owned(),
            role: Role::Subscriber,
        });
        Hello {
            groups: groups.collect(),
            ..hello()
        }
    }

    fn largest(hellos: impl IntoIterator<Item = Hello>) -> Vec<u64> {
        let reports = (0..).map(NodeId).zip(hellos).collect();
        let largest = largest_faction(&reports, 10);
        largest.into_iter().map(|node| node.0).collect()
    }

    // Rule R-MEM-6.
    #[test]
    fn most_of_those_that_contradict_each_other_are_of_one_faction() {
        let [first, second] = [[(0, "a"), (1, "b")], [(0, "b"), (1, "a")]].map(|one| knows(&one));
        let silent = || knows(&[]);
        assert_eq!(largest([first.clone(), first.clone(), silent()]), [0, 1, 2]);
        assert_eq!(largest([first.clone(), second.clone()]), [0]);
        let more = [first.clone(), second.clone(), second];
        assert_eq!(largest(more), [1, 2]);
        // One name, two numbers.
        assert_eq!(
            largest([first, knows(&[(2, "a")]), knows(&[(2, "a")])]),
            [1, 2]
        );
        assert_eq!(largest([knows(&[(9, "a")]), knows(&[(10, "b")])]), [0]);
        assert!(largest([]).is_empty());
    }

    // Rule R-MEM-6.
    #[test]
    fn a_region_with_another_channel_is_another_one() {
        use super::super::tests::region_of_node_0;

        let hellos = [1, 2, 2].map(|channel| {
            let channel = ChannelId(channel);
            let region = region_of_node_0();
            let regions = vec![qsm_wire::membership::RegionReport { channel, ..region }];
            Hello { regions, ..hello() }
        });
        assert_eq!(largest(hellos), [1, 2]);
    }
}
