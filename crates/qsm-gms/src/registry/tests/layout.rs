//! Where nodes are put, compared with a model that knows nothing of changes.

use super::*;
use crate::plan::Zone;
use crate::registry::{Advice, CommonSet};

// Rule R-VIEW-4.
#[test]
fn regions_equal_the_classes_found_by_brute_force_in_ten_thousand_systems() {
    for seed in 0..10_000 {
        let mut random = Random::new(Seed(seed), "brute");
        let mut registry = registry(seed);
        let (nodes, groups) = (1 + random.below(7), 1 + random.below(5));
        let mut wanted: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for node in 0..nodes {
            admit(&mut registry, node);
            wanted.insert(node, BTreeSet::new());
        }
        let mut advice = Advised::default();
        for _ in 0..random.below(25) {
            let (node, group) = (random.below(nodes), random.below(groups));
            if random.below(10) == 0 {
                advice = some_advice(&mut random, &mut registry, nodes, groups);
                continue;
            }
            let Some(set) = wanted.get_mut(&node) else {
                continue;
            };
            match random.below(16) {
                0 => {
                    wanted.remove(&node);
                    registry.end(NodeId(node));
                }
                1..=5 => {
                    set.remove(&group);
                    exit(&mut registry, node, [group]);
                }
                6..=7 => publish(&mut registry, node, [group]),
                8 => {
                    registry.batch(NOW);
                }
                9 => drain(&mut registry),
                _ => {
                    set.insert(group);
                    enter(&mut registry, node, [group]);
                }
            }
        }
        settle(&mut registry);
        assert_eq!(
            layout(&registry),
            divided(&registry, &wanted, &advice),
            "seed {seed}"
        );
    }
}

/// What a plan has: groups of each node as residue, and sets of groups that go by common regions.
#[derive(Default)]
struct Advised {
    residue: BTreeMap<u64, BTreeSet<GroupId>>,
    commons: Vec<BTreeSet<GroupId>>,
}

/// Regions: whether each is private, its groups, its nodes.
pub(super) type Regions = BTreeSet<(bool, BTreeSet<String>, BTreeSet<u64>)>;

pub(super) fn layout(registry: &Registry) -> Regions {
    let regions = registry.regions.iter().map(|(_, region)| {
        let name = |group: &GroupId| registry.groups.get(*group).unwrap().name.clone();
        let groups = region.groups.iter().map(name).collect();
        let nodes = region.members.iter().map(|member| member.origin.node.0);
        (region.private, groups, nodes.collect())
    });
    regions.collect()
}

/// Advises what no plan would.
fn some_advice(random: &mut Random, registry: &mut Registry, nodes: u64, groups: u64) -> Advised {
    let mut advised = Advised::default();
    let group = |random: &mut Random| {
        let name = format!("g{}", random.below(groups));
        registry.groups.find(&name)
    };
    for _ in 0..random.below(8) {
        if let Some(group) = group(random) {
            let node = random.below(nodes);
            advised.residue.entry(node).or_default().insert(group);
        }
    }
    for _ in 0..random.below(6) {
        let size = 1 + random.below(3);
        let set: BTreeSet<GroupId> = (0..size).filter_map(|_| group(random)).collect();
        advised.commons.push(set);
    }
    let numbers = |groups: &BTreeSet<GroupId>| groups.iter().copied().collect();
    let set = |groups: &BTreeSet<GroupId>| CommonSet {
        zone: Zone::default(),
        groups: numbers(groups),
    };
    let residue = advised.residue.iter();
    let residue = residue.map(|(node, groups)| (NodeId(*node), numbers(groups)));
    let advice = Advice {
        residue: residue.collect(),
        commons: advised.commons.iter().map(set).collect(),
        ..Advice::default()
    };
    registry.apply(NOW, Command::Advise(advice));
    advised
}

/// The common sets of a node with these groups, the first three that there is room for. Rule
/// R-VIEW-17.
fn commons(registry: &Registry, set: &BTreeSet<u64>, advised: &Advised) -> Vec<BTreeSet<u64>> {
    let mut commons: Vec<BTreeSet<u64>> = Vec::new();
    let name = |group: &GroupId| {
        let group = registry.groups.get(*group);
        group.map(|group| group.name[1..].parse().unwrap())
    };
    for common in advised.commons.iter().filter(|common| !common.is_empty()) {
        // A group that nobody has any more is in no set.
        let Some(common) = common.iter().map(name).collect::<Option<BTreeSet<u64>>>() else {
            continue;
        };
        let free = commons.iter().all(|other| other.is_disjoint(&common));
        if common.is_subset(set) && free && commons.len() < 3 {
            commons.push(common);
        }
    }
    commons
}

/// The classes that these nodes with these groups make: groups of one node alone, and those that
/// are advised, are apart where that lets the node share a region with another. Rules R-VIEW-15,
/// R-VIEW-17.
fn divided(
    registry: &Registry,
    wanted: &BTreeMap<u64, BTreeSet<u64>>,
    advised: &Advised,
) -> Regions {
    let receivers = |group: &u64| wanted.values().filter(|set| set.contains(group)).count();
    let is_advised = |node: &u64, group: &u64| {
        let group = registry.groups.find(&format!("g{group}"));
        let groups = advised.residue.get(node);
        groups.is_some_and(|groups| groups.iter().any(|id| Some(*id) == group))
    };
    let rest = |set: &BTreeSet<u64>| -> BTreeSet<u64> {
        let commons = commons(registry, set, advised);
        let common: BTreeSet<u64> = commons.into_iter().flatten().collect();
        set.difference(&common).copied().collect()
    };
    let shared = |node: &u64, set: &BTreeSet<u64>| -> BTreeSet<u64> {
        rest(set)
            .into_iter()
            .filter(|group| receivers(group) > 1 && !is_advised(node, group))
            .collect()
    };
    let named = |groups: &BTreeSet<u64>| -> BTreeSet<String> {
        names(groups.iter().copied()).into_iter().collect()
    };
    let mut exact: BTreeMap<BTreeSet<String>, BTreeSet<u64>> = BTreeMap::new();
    let mut regions = Regions::new();
    for (node, set) in wanted.iter().filter(|(_, set)| !set.is_empty()) {
        let commons = commons(registry, set, advised);
        let (rest, common) = (rest(set), shared(node, set));
        let fellows = wanted.iter();
        let fellows = fellows.filter(|(node, other)| shared(node, other) == common);
        let divides = !common.is_empty() && common != rest && fellows.count() > 1;
        let (home, private) = match divides {
            true => (common.clone(), rest.difference(&common).copied().collect()),
            false if common.is_empty() && !commons.is_empty() => (BTreeSet::new(), rest),
            false => (rest, BTreeSet::new()),
        };
        for part in commons
            .iter()
            .chain([&home])
            .filter(|part| !part.is_empty())
        {
            exact.entry(named(part)).or_default().insert(*node);
        }
        if !private.is_empty() {
            regions.insert((true, named(&private), [*node].into()));
        }
    }
    regions.extend(exact.into_iter().map(|(home, nodes)| (false, home, nodes)));
    regions
}
