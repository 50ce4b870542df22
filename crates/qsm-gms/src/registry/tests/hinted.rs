//! Hints go before plans, from the first batch of a node on.

use super::layout::layout;
use super::*;
use crate::registry::{Advice, ClusterId, CommonSet, PlannedRegion};

/// The shared regions, by their groups, with their nodes.
fn shared(registry: &Registry) -> Vec<(Vec<String>, Vec<u64>)> {
    let regions = layout(registry).into_iter();
    let shared = regions.filter(|(private, ..)| !private);
    let shared = shared.map(|(_, groups, nodes)| {
        let (groups, nodes) = (groups.into_iter(), nodes.into_iter());
        (groups.collect(), nodes.collect())
    });
    shared.collect()
}

fn region(groups: &[u64], nodes: &[u64]) -> (Vec<String>, Vec<u64>) {
    (names(groups.iter().copied()), nodes.to_vec())
}

fn enter_all(registry: &mut Registry, wants: &[(u64, &[u64])]) {
    for (node, groups) in wants {
        if registry.origin(NodeId(*node)).is_none() {
            admit(registry, *node);
        }
        enter(registry, *node, groups.iter().copied());
    }
}

fn addresses(registry: &Registry, nodes: &[u64]) -> BTreeSet<SocketAddr> {
    let regions = registry.regions.iter();
    let of = regions.filter(|(_, region)| {
        let mut members = region.members.iter();
        members.any(|member| nodes.contains(&member.origin.node.0))
    });
    of.map(|(_, region)| region.address).collect()
}

// Rule R-VIEW-18.
#[test]
fn domains_and_nodes_apart_have_regions_of_their_own_from_the_first_batch_on() {
    let mut registry = hinted_registry(1, "domain red: n1 n2\napart: n4 n5 n6\n");
    let all: &[u64] = &[1, 2];
    let wants: Vec<(u64, &[u64])> = (1..=8).map(|node| (node, all)).collect();
    enter_all(&mut registry, &wants);
    registry.batch(NOW);
    let expected = [
        region(&[1, 2], &[1, 2]),
        region(&[1, 2], &[3, 4, 7, 8]),
        region(&[1, 2], &[5]),
        region(&[1, 2], &[6]),
    ];
    assert_eq!(shared(&registry), expected);
    assert_eq!(registry.stats.regions_created, 4);
    // A group that one of a domain leaves, and others not: they move among their own.
    exit(&mut registry, 1, [2]);
    exit(&mut registry, 3, [2]);
    settle(&mut registry);
    let expected = [
        region(&[1], &[1]),
        region(&[1], &[3]),
        region(&[1, 2], &[2]),
        region(&[1, 2], &[4, 7, 8]),
        region(&[1, 2], &[5]),
        region(&[1, 2], &[6]),
    ];
    assert_eq!(shared(&registry), expected);
    let (red, others) = ([1, 2], [3, 4, 5, 6, 7, 8]);
    let red = addresses(&registry, &red);
    assert!(red.is_disjoint(&addresses(&registry, &others)));
}

// Rules R-VIEW-8, R-VIEW-18.
#[test]
fn a_region_whose_nodes_all_change_alike_keeps_its_number_in_each_domain() {
    let mut registry = hinted_registry(2, "domain red: n1 n2\n");
    let all: &[u64] = &[1];
    let wants: Vec<(u64, &[u64])> = (1..=4).map(|node| (node, all)).collect();
    enter_all(&mut registry, &wants);
    settle(&mut registry);
    (1..=4).for_each(|node| enter(&mut registry, node, [2]));
    settle(&mut registry);
    let expected = [region(&[1, 2], &[1, 2]), region(&[1, 2], &[3, 4])];
    assert_eq!(shared(&registry), expected);
    assert_eq!(
        (registry.stats.moves, registry.stats.regions_created),
        (0, 2)
    );
}

// Rule R-VIEW-18.
#[test]
fn residue_and_common_regions_are_of_one_domain() {
    let mut registry = hinted_registry(3, "domain red: n1 n2\n");
    let wants: [(u64, &[u64]); 4] = [
        (1, &[1, 2, 11]),
        (2, &[1, 3]),
        (3, &[1, 2, 13]),
        (4, &[1, 3]),
    ];
    enter_all(&mut registry, &wants);
    settle(&mut registry);
    // Node 1 is alone in its class there, and so is node 3: a private region would serve nobody.
    assert!(layout(&registry).iter().all(|(private, ..)| !private));
    let group = registry.groups.find("g1").unwrap();
    let sets = [1, 3].map(|node| CommonSet {
        zone: registry.zone(NodeId(node)),
        groups: vec![group],
    });
    for (commons, count) in [(sets[..1].to_vec(), 1), (sets.to_vec(), 2)] {
        let advice = Advice {
            commons,
            ..Advice::default()
        };
        registry.apply(NOW, Command::Advise(advice));
        settle(&mut registry);
        let common = shared(&registry);
        let common: Vec<_> = common
            .iter()
            .filter(|(groups, _)| groups.len() == 1 && groups[0] == "g1")
            .collect();
        assert_eq!(common.len(), count, "{common:?}");
        assert_eq!(common[0].1, [1, 2]);
    }
}

// Rule R-VIEW-18.
#[test]
fn pinned_groups_go_by_regions_of_their_own_with_addresses_of_their_own() {
    let mut registry = hinted_registry(4, "pin fast: g1 g2\n");
    registry.regions.plan = {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut config = ServiceConfig::new(NodeId(1_000_000), address).plan;
        config.budget = 2;
        let mut plan = AddressPlan::new(config, 7, &[]);
        plan.keep_for(Tenant::named(&registry.hints));
        plan
    };
    let wants: [(u64, &[u64]); 4] = [(1, &[1, 2, 5]), (2, &[1, 2, 6]), (3, &[1, 2]), (4, &[5, 6])];
    enter_all(&mut registry, &wants);
    settle(&mut registry);
    let pinned = |registry: &Registry| {
        let group = registry.groups.find("g1").unwrap();
        let group = registry.groups.get(group).unwrap();
        let regions = group.regions.iter();
        let regions = regions.map(|id| registry.regions.get(*id).unwrap());
        let members =
            |region: &Region| region.members.iter().map(|one| one.origin.node.0).collect();
        let regions = regions.map(|region| (region.groups.len(), members(region), region.address));
        regions.collect::<Vec<(usize, Vec<u64>, SocketAddr)>>()
    };
    let before = pinned(&registry);
    assert_eq!(before.len(), 1, "{before:?}");
    assert_eq!((before[0].0, &before[0].1), (2, &vec![1, 2, 3]));
    let others = registry.regions.iter();
    let others = others.filter(|(_, region)| region.address == before[0].2);
    assert_eq!(others.count(), 1, "nobody else has its address");
    assert_eq!(registry.regions.plan.in_use(), 2);
    // Who receives another part of them is in a region of that part.
    exit(&mut registry, 2, [2]);
    settle(&mut registry);
    let after = pinned(&registry);
    let nodes: Vec<&Vec<u64>> = after.iter().map(|(_, nodes, _)| nodes).collect();
    assert_eq!(nodes, [&vec![1, 3], &vec![2]]);
    let rows = registry.region_rows();
    let common = |row: &&qsm_wire::membership::RegionRow| {
        row.kind == qsm_wire::membership::RegionKind::Common
    };
    assert_eq!(rows.iter().filter(common).count(), 2);
}

// Rules R-VIEW-16, R-VIEW-18.
#[test]
fn no_more_is_unwanted_in_a_merged_region_without_those_that_receive_pinned_groups() {
    let mut registry = hinted_registry(4, "pin fast: g9\n");
    let wants: [(u64, &[u64]); 4] = [(1, &[1, 2, 9]), (2, &[1, 2, 9]), (3, &[1]), (4, &[1, 2])];
    enter_all(&mut registry, &wants);
    let groups = [1, 2, 9].map(|group| registry.groups.find(&format!("g{group}")).unwrap());
    let mut advise = |unwanted_ppm| {
        let planned = PlannedRegion {
            id: ClusterId::Planned(1),
            members: (1..=4).map(NodeId).collect(),
            groups: groups.to_vec(),
        };
        registry.advise(Advice {
            merged: vec![planned],
            unwanted_ppm,
            ..Advice::default()
        });
        settle(&mut registry);
        let rows = registry.region_rows().into_iter();
        let merged = rows.filter(|row| row.kind == qsm_wire::membership::RegionKind::Merged);
        merged.map(|row| row.members.len()).collect::<Vec<_>>()
    };
    // Of eight deliveries one is unwanted; of the four to nodes 3 and 4 it is a quarter.
    assert_eq!(advise(200_000), []);
    assert_eq!(advise(250_000), [2]);
}

// Rule R-VIEW-18.
#[test]
fn nodes_together_share_a_region_that_grows_with_them() {
    let mut registry = hinted_registry(5, "together: n1 n2 n3\n");
    let wants: [(u64, &[u64]); 5] = [
        (1, &[1, 2, 11]),
        (2, &[1, 3]),
        (4, &[1, 2]),
        (5, &[1, 3]),
        (6, &[12]),
    ];
    enter_all(&mut registry, &wants);
    registry.batch(NOW);
    let merged = |registry: &Registry| {
        let regions = registry.regions.iter();
        let merged = regions.filter(|(_, region)| region.merged);
        let merged = merged.map(|(_, region)| {
            let members = region.members.iter().map(|member| member.origin.node.0);
            (region.groups.len(), members.collect())
        });
        merged.collect::<Vec<(usize, Vec<u64>)>>()
    };
    // What one alone receives goes to it alone.
    assert_eq!(merged(&registry), [(3, vec![1, 2])]);
    let private = registry.regions.iter().filter(|(_, region)| region.private);
    assert_eq!(private.count(), 1);
    enter_all(&mut registry, &[(3, &[12])]);
    settle(&mut registry);
    assert_eq!(merged(&registry), [(4, vec![1, 2, 3])]);
    // A plan says nothing of them.
    registry.apply(NOW, Command::Advise(Advice::default()));
    settle(&mut registry);
    assert_eq!(merged(&registry), [(4, vec![1, 2, 3])]);
    assert_eq!(registry.aims_from(NodeId(0)).count(), 3);
    // Nodes that have nothing in common with anybody share it all the same.
    for node in 1..=3 {
        let groups = registry.nodes[&NodeId(node)].groups.to_vec();
        let held: Vec<u64> = groups
            .iter()
            .map(|group| {
                registry.groups.get(*group).unwrap().name[1..]
                    .parse()
                    .unwrap()
            })
            .collect();
        exit(&mut registry, node, held);
        enter(&mut registry, node, [20 + node]);
    }
    settle(&mut registry);
    assert_eq!(merged(&registry), [(3, vec![1, 2, 3])]);
}

// Rules R-VIEW-18, R-MEM-6.
#[test]
fn whoever_comes_and_goes_nodes_are_where_hints_let_them() {
    for seed in 0..300 {
        let mut random = Random::new(Seed(seed), "hints");
        let text = "domain red: n0 n1\napart: n1 n0\napart: n2 n3 n4\npin fast: g0 g1\n";
        let mut registry = hinted_registry(seed, text);
        for _ in 0..30 {
            let node = random.below(8);
            if registry.origin(NodeId(node)).is_none() {
                admit(&mut registry, node);
            }
            match random.below(6) {
                0 => {
                    registry.end(NodeId(node));
                }
                1 => exit(&mut registry, node, [random.below(5)]),
                _ => enter(&mut registry, node, [random.below(5)]),
            }
            registry.batch(NOW);
            if random.chance_ppm(500_000) {
                drain(&mut registry);
            }
            check_hints(&registry);
        }
        settle(&mut registry);
        check_hints(&registry);
    }
}

/// No region has nodes of two compartments, and none pinned groups beside others.
fn check_hints(registry: &Registry) {
    let hints = &registry.hints;
    let mut domains: BTreeMap<SocketAddr, u32> = BTreeMap::new();
    for (_, region) in registry.regions.iter() {
        let members = region
            .members
            .iter()
            .map(|member| &registry.nodes[&member.origin.node]);
        let hint = members.map(|node| hints.node(&node.name));
        let compartments: BTreeSet<u32> = hint.clone().map(|hint| hint.compartment).collect();
        assert!(compartments.len() <= 1);
        let channels = region
            .groups
            .iter()
            .map(|group| registry.channel_of(*group));
        let channels: BTreeSet<Option<u32>> = channels.collect();
        assert!(channels.len() <= 1 || region.private);
        let domain = hint.map(|hint| hint.domain).next().unwrap_or(0);
        let known = *domains.entry(region.address).or_insert(domain);
        assert_eq!(known, domain, "an address of two domains");
    }
}
