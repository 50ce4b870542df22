//! Merged regions (R-VIEW-16): who is where, and what everybody is told of it.

use qsm_wire::membership::MemberFilter;

use super::layout::layout;
use super::*;
use crate::plan::MemberStay;
use crate::registry::Advice;

/// What nodes have been told of regions, as they keep it.
#[derive(Default)]
struct Told {
    groups: BTreeMap<(NodeId, RegionId), Vec<GroupId>>,
    filters: BTreeMap<(NodeId, RegionId), BTreeMap<NodeId, MemberFilter>>,
}

impl Told {
    fn take(&mut self, batch: Batch) {
        for (node, updates) in batch.updates {
            let mut unfiltered = BTreeSet::new();
            for update in updates {
                self.take_update(node, update, &mut unfiltered);
            }
            for region in unfiltered {
                self.filters.remove(&(node, region));
            }
        }
    }

    fn take_update(&mut self, node: NodeId, update: Update, unfiltered: &mut BTreeSet<RegionId>) {
        match update {
            Update::Region { region, groups, .. } => {
                self.groups.insert((node, region), groups);
                unfiltered.insert(region);
            }
            Update::Closed { region } => {
                self.groups.remove(&(node, region));
                self.filters.remove(&(node, region));
            }
            Update::Filters {
                region,
                whole,
                members,
            } => {
                let known = self.filters.entry((node, region)).or_default();
                if whole {
                    known.clear();
                    unfiltered.remove(&region);
                }
                let members = members.into_iter();
                known.extend(members.map(|filter| (filter.origin.node, filter)));
            }
            _ => {}
        }
    }

    fn filter(&self, told: NodeId, region: RegionId, member: NodeId) -> Option<&MemberFilter> {
        self.filters.get(&(told, region))?.get(&member)
    }

    /// A node knows what a member of a merged region receives of the groups that it publishes to.
    fn check_share(
        &self,
        told: NodeId,
        id: RegionId,
        stay: &MemberStay,
        member: NodeId,
        published: &[GroupId],
    ) {
        let said = self.filter(told, id, member);
        let unwanted = said.map_or(&[][..], |filter| &filter.unwanted[..]);
        for group in published {
            assert_eq!(!unwanted.contains(group), stay.groups.contains(group));
        }
        if told == member {
            let since = said.iter().flat_map(|filter| &filter.since);
            let since = since.map(|start| (start.group, start.view)).collect();
            assert_eq!(stay.since, since);
        }
    }

    /// Everybody knows what it has to know of merged regions.
    fn check(&self, registry: &Registry) {
        let merged = registry.regions.iter().filter(|(_, region)| region.merged);
        for (id, region) in merged {
            for told in region.audience.keys() {
                let node = &registry.nodes[told];
                let published: Vec<GroupId> = region
                    .groups
                    .iter()
                    .copied()
                    .filter(|group| node.publishes.contains(group))
                    .collect();
                let own = region.stays.get(told);
                let own = own.map_or(&[][..], |stay| &stay.groups[..]);
                let list: BTreeSet<GroupId> = own.iter().chain(&published).copied().collect();
                let list: Vec<GroupId> = list.into_iter().collect();
                assert_eq!(self.groups.get(&(*told, id)), Some(&list), "{told} of {id}");
                for (member, stay) in &region.stays {
                    self.check_share(*told, id, stay, *member, &published);
                }
            }
        }
    }
}

/// Applies and drains until nothing changes.
fn settle_told(registry: &mut Registry, told: &mut Told) {
    for _ in 0..10 {
        told.take(registry.batch(NOW));
        drain(registry);
        if !registry.has_changes() {
            check(registry);
            return told.check(registry);
        }
    }
    panic!("the registry does not come to rest");
}

/// The plan has these regions: nodes and groups.
fn plan(registry: &mut Registry, unwanted_ppm: u32, regions: &[(&[u64], &[u64])]) {
    let merged = (1..).zip(regions).map(|(id, (members, groups))| {
        let names = names(groups.iter().copied());
        let groups = names.iter().filter_map(|name| registry.groups.find(name));
        let mut groups: Vec<GroupId> = groups.collect();
        groups.sort_unstable();
        PlannedRegion {
            id: ClusterId::Planned(id),
            members: members.iter().copied().map(NodeId).collect(),
            groups,
        }
    });
    let merged = merged.collect();
    let advice = Advice {
        merged,
        unwanted_ppm,
        ..Advice::default()
    };
    registry.apply(NOW, Command::Advise(advice));
}

/// Regions: whether each is private, its groups, its nodes.
fn shape(registry: &Registry) -> Vec<(bool, Vec<String>, Vec<u64>)> {
    let regions = layout(registry).into_iter();
    let regions = regions.map(|(private, groups, nodes)| {
        (
            private,
            groups.into_iter().collect(),
            nodes.into_iter().collect(),
        )
    });
    regions.collect()
}

fn shared(groups: &[u64], nodes: &[u64]) -> (bool, Vec<String>, Vec<u64>) {
    (false, names(groups.iter().copied()), nodes.to_vec())
}

fn private(group: u64, node: u64) -> (bool, Vec<String>, Vec<u64>) {
    (true, names([group]), vec![node])
}

/// Three nodes of two groups each of three, in a merged region, and a publisher to all.
fn merged() -> (Registry, Told) {
    let (mut registry, mut told) = (registry(1), Told::default());
    for (node, groups) in [(1, [1, 2]), (2, [1, 3]), (3, [2, 3])] {
        admit(&mut registry, node);
        enter(&mut registry, node, groups);
    }
    admit(&mut registry, 9);
    publish(&mut registry, 9, 1..=5);
    settle_told(&mut registry, &mut told);
    assert_eq!(layout(&registry).len(), 3);
    plan(&mut registry, 340_000, &[(&[1, 2, 3], &[1, 2, 3])]);
    settle_told(&mut registry, &mut told);
    assert_eq!(shape(&registry), [shared(&[1, 2, 3], &[1, 2, 3])]);
    (registry, told)
}

// Rule R-VIEW-16.
#[test]
fn nodes_with_similar_groups_share_a_region_and_the_publisher_knows_who_takes_what() {
    let (registry, told) = merged();
    let (id, _) = registry.regions.iter().next().unwrap();
    let unwanted = |node| {
        let filter = told.filter(NodeId(9), id, NodeId(node)).unwrap();
        let names = filter.unwanted.iter();
        let names = names.map(|group| registry.groups.get(*group).unwrap().name.clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!([1, 2, 3].map(unwanted), [["g3"], ["g2"], ["g1"]]);
    // A receiver that publishes nothing needs to know of nobody.
    assert_eq!(told.filter(NodeId(1), id, NodeId(2)), None);
}

// Rule R-VIEW-16.
#[test]
fn who_takes_up_a_group_of_its_region_stays_and_has_it_from_the_next_view_on() {
    let (mut registry, mut told) = merged();
    let (id, before) = registry.regions.iter().next().unwrap();
    let (before, moves) = (before.view, registry.stats.moves);
    enter(&mut registry, 1, [3]);
    settle_told(&mut registry, &mut told);
    let region = registry.regions.get(id).unwrap();
    assert_eq!(registry.stats.moves, moves);
    let since = |told: &Told, node| {
        let filter = told.filter(NodeId(node), id, NodeId(1)).into_iter();
        let since = filter.flat_map(|filter| &filter.since);
        let since = since.map(|start| start.view);
        since.collect::<Vec<_>>()
    };
    let after = region.view;
    assert!(after > before);
    assert_eq!([since(&told, 1), since(&told, 9)], [[after], [after]]);
    exit(&mut registry, 1, [3]);
    settle_told(&mut registry, &mut told);
    assert_eq!([since(&told, 1), since(&told, 9)], [[], []]);
    enter(&mut registry, 1, [3]);
    settle_told(&mut registry, &mut told);
    assert!(since(&told, 1)[0] > after, "another stay");
}

// Rule R-VIEW-16.
#[test]
fn a_group_is_added_where_few_do_not_want_it_and_is_private_otherwise() {
    let (mut registry, mut told) = merged();
    enter(&mut registry, 1, [4]);
    settle_told(&mut registry, &mut told);
    let before = [shared(&[1, 2, 3], &[1, 2, 3]), private(4, 1)];
    assert_eq!(shape(&registry), before);
    // Now two of three want it, as of each other group.
    enter(&mut registry, 2, [4]);
    settle_told(&mut registry, &mut told);
    assert_eq!(shape(&registry), [shared(&[1, 2, 3, 4], &[1, 2, 3])]);
    // What nobody wants any more is taken out.
    exit(&mut registry, 1, [4]);
    settle_told(&mut registry, &mut told);
    exit(&mut registry, 2, [4]);
    settle_told(&mut registry, &mut told);
    assert_eq!(shape(&registry), [shared(&[1, 2, 3], &[1, 2, 3])]);
}

// Rules R-VIEW-7, R-VIEW-16.
#[test]
fn a_plan_that_takes_out_a_group_that_is_wanted_makes_another_region() {
    let (mut registry, mut told) = merged();
    let (id, _) = registry.regions.iter().next().unwrap();
    plan(&mut registry, 100_000, &[(&[1, 2, 3], &[1, 2])]);
    settle_told(&mut registry, &mut told);
    let expected = [shared(&[1, 2], &[1, 2, 3]), private(3, 2), private(3, 3)];
    assert_eq!(shape(&registry), expected);
    assert!(registry.regions.get(id).is_none());
    // Without a plan regions are exact again.
    plan(&mut registry, 0, &[]);
    settle_told(&mut registry, &mut told);
    assert_eq!(layout(&registry).len(), 3);
    assert!(registry.regions.iter().all(|(_, region)| !region.merged));
}

/// Some plan, good or bad.
fn some_plan(random: &mut Random, registry: &mut Registry, nodes: u64, groups: u64) {
    let mut regions: Vec<(Vec<u64>, Vec<u64>)> = Vec::new();
    for _ in 0..random.below(3) {
        let free = |node: &u64| !regions.iter().any(|(members, _)| members.contains(node));
        let members: Vec<u64> = (0..nodes).filter(free).collect();
        let members = members.into_iter().filter(|_| random.below(3) > 0);
        let members = members.collect();
        let groups = (0..groups).filter(|_| random.below(3) > 0).collect();
        regions.push((members, groups));
    }
    let borrowed = regions.iter();
    let borrowed: Vec<(&[u64], &[u64])> = borrowed
        .map(|(members, groups)| (&members[..], &groups[..]))
        .collect();
    let ppm = u32::try_from(random.below(5) * 250_000).unwrap();
    plan(registry, ppm, &borrowed);
}

// Rule R-VIEW-16.
#[test]
fn everybody_knows_who_takes_what_in_ten_thousand_systems() {
    let mut merged = 0;
    for seed in 0..10_000 {
        let mut random = Random::new(Seed(seed), "merging");
        let (mut registry, mut told) = (registry(seed), Told::default());
        let (nodes, groups) = (2 + random.below(6), 1 + random.below(6));
        (0..nodes).for_each(|node| admit(&mut registry, node));
        let mut gone = BTreeSet::new();
        for _ in 0..random.below(40) {
            let (node, group) = (random.below(nodes), random.below(groups));
            if gone.contains(&node) {
                continue;
            }
            match random.below(20) {
                0 => {
                    gone.insert(node);
                    registry.end(NodeId(node));
                }
                1..=4 => exit(&mut registry, node, [group]),
                5..=6 => publish(&mut registry, node, [group]),
                7 => registry
                    .exit(NodeId(node), 4, Role::Publisher, &names([group]))
                    .unwrap(),
                8..=9 => told.take(registry.batch(NOW)),
                10 => drain(&mut registry),
                11..=12 => some_plan(&mut random, &mut registry, nodes, groups),
                13 => registry.resume(NodeId(node), BTreeMap::new(), &[]),
                _ => enter(&mut registry, node, [group]),
            }
        }
        settle_told(&mut registry, &mut told);
        merged += registry.regions.iter().filter(|(_, it)| it.merged).count();
    }
    assert!(merged > 1000, "{merged}");
}

/// Of a merged region each member has a share: all that it wants of the region's groups.
pub(super) fn check_shares(registry: &Registry, id: RegionId, region: &Region) {
    let members = region.members.iter().map(|member| member.origin.node);
    let members: BTreeSet<NodeId> = members.collect();
    let sharing: BTreeSet<NodeId> = region.stays.keys().copied().collect();
    assert_eq!(
        sharing,
        if region.merged {
            members
        } else {
            BTreeSet::new()
        }
    );
    let mut wanted = BTreeSet::new();
    for (node, stay) in &region.stays {
        assert!(stay.since.keys().all(|group| stay.groups.contains(group)));
        let node = &registry.nodes[node];
        if node.is_at_home(id) {
            let own = node.groups.iter().copied();
            let own = own.filter(|group| region.groups.contains(group));
            assert_eq!(own.collect::<Vec<_>>(), *stay.groups);
        }
        wanted.extend(stay.groups.iter().copied());
    }
    let nobody_leaves = region.members.len() == region.active;
    if region.merged && nobody_leaves {
        assert_eq!(wanted.into_iter().collect::<Vec<_>>(), *region.groups);
    }
}
