//! Promises of every plan, over many small systems drawn at random.

use std::collections::{BTreeMap, BTreeSet};

use qsm_plan::layouts::Layout;
use qsm_plan::{Hints, Move, Names, Path, Plan, Planner, Progress, Settings, Way};
use qsm_wire::{GroupId, Instant, NodeId, Random, RegionId, Seed};

const SECOND: u64 = 1_000_000_000;

type Sets = BTreeMap<NodeId, BTreeSet<GroupId>>;

/// Nodes `n0` … and groups `g0` ….
struct Numbered;

impl Names for Numbered {
    fn node(&self, name: &str) -> Option<NodeId> {
        name.strip_prefix('n')?.parse().ok().map(NodeId)
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        name.strip_prefix('g')?.parse().ok().map(GroupId)
    }
}

fn hints(text: &str) -> Hints {
    Hints::parse(text, &Numbered).unwrap()
}

fn planner(settings: Settings, hints: Hints) -> Planner {
    Planner::new(settings, hints, &mut Random::new(Seed(9), "key")).unwrap()
}

fn draw_set(random: &mut Random, groups: u64) -> BTreeSet<GroupId> {
    // A kind of node has the same groups; most have a few at random besides.
    let kind = random.below(4);
    let mut set: BTreeSet<GroupId> = (0..groups)
        .filter(|group| (group + kind) % 4 < 2)
        .map(|group| GroupId(group as u32))
        .collect();
    for _ in 0..random.below(4) {
        set.insert(GroupId(random.below(groups) as u32));
    }
    if random.chance_ppm(500_000) {
        let kept = |group: &GroupId| !u64::from(group.0).is_multiple_of(3);
        set.retain(kept);
    }
    set
}

fn draw_settings(random: &mut Random) -> Settings {
    let mut settings = Settings {
        addresses: [0, 1, 2, 4, 512][random.below(5) as usize],
        ancestors: random.below(4) as usize,
        residue: random.chance_ppm(800_000),
        ..Settings::default()
    };
    settings.costs.unwanted = [100, 1_500, 20_000][random.below(3) as usize];
    settings
}

/// Everything that has to hold of a plan for these subscriptions.
fn check(plan: &Plan, sets: &Sets, settings: &Settings) {
    let mut homes: BTreeMap<NodeId, RegionId> = BTreeMap::new();
    for (id, region) in &plan.regions {
        assert!(!region.members.is_empty(), "{id:?} is empty");
        for node in &region.members {
            assert_eq!(homes.insert(*node, *id), None, "{node:?} is in two regions");
        }
    }
    let members: BTreeSet<NodeId> = sets
        .iter()
        .filter(|(_, set)| !set.is_empty())
        .map(|(node, _)| *node)
        .collect();
    assert!(homes.keys().eq(&members), "{homes:?} {members:?}");
    assert!(plan.channels.len() <= settings.addresses);
    for id in plan.regions.keys() {
        let heard = plan
            .channels
            .values()
            .filter(|channel| channel.regions.contains(id));
        let (pinned, free): (Vec<_>, Vec<_>) = heard.partition(|channel| channel.pin.is_some());
        assert!(
            free.len() <= 1 + settings.ancestors,
            "{id:?} hears {}",
            free.len()
        );
        assert!(pinned.len() <= settings.addresses);
    }
    let mut wanted: BTreeMap<GroupId, BTreeSet<NodeId>> = BTreeMap::new();
    for (node, set) in sets {
        for group in set {
            wanted.entry(*group).or_default().insert(*node);
        }
    }
    assert!(plan.groups.keys().eq(wanted.keys()));
    for (id, group) in &plan.groups {
        let mut reached: Vec<NodeId> = group.path.copies().to_vec();
        for channel in group.path.channels() {
            for region in &plan.channels[channel].regions {
                reached.extend(&plan.regions[region].members);
            }
        }
        reached.sort_unstable();
        let all = reached.len();
        reached.dedup();
        assert_eq!(
            all,
            reached.len(),
            "{id:?}: somebody is reached twice: {group:?}"
        );
        let subscribers = &wanted[id];
        assert!(
            subscribers
                .iter()
                .all(|node| reached.binary_search(node).is_ok()),
            "{id:?}"
        );
        assert_eq!(group.subscribers, subscribers.len() as u64);
        assert_eq!(group.unwanted, (all - subscribers.len()) as u64, "{id:?}");
        let copies = group.path.copies().iter();
        assert!(
            copies.clone().all(|node| subscribers.contains(node)),
            "{id:?}"
        );
        let cost = group.path.channels().len() as u64 * u64::from(settings.costs.packet)
            + group.unwanted * u64::from(settings.costs.unwanted)
            + copies.len() as u64 * u64::from(settings.costs.copy);
        assert_eq!(group.cost, cost, "{id:?}: {group:?}");
    }
}

fn load(planner: &mut Planner, sets: &Sets) {
    for (node, set) in sets {
        planner.load(*node, set.iter().copied().collect());
    }
}

fn draw_sets(random: &mut Random) -> (Sets, u64) {
    let (nodes, groups) = (random.below(14) + 1, random.below(14) + 1);
    let sets = (0..nodes).map(|node| (NodeId(node), draw_set(random, groups)));
    (sets.collect(), groups)
}

#[test]
fn every_subscriber_is_reached_exactly_once_whatever_happens() {
    for seed in 0..1500 {
        let mut random = Random::new(Seed(seed), "reached");
        let (mut sets, groups) = draw_sets(&mut random);
        let settings = draw_settings(&mut random);
        let mut planner = planner(settings.clone(), Hints::default());
        for group in 0..groups {
            planner.set_rate(GroupId(group as u32), random.below(5000) as u32);
        }
        load(&mut planner, &sets);
        planner.start(Instant(0)).unwrap();
        planner.finish();
        check(&planner.plan(), &sets, &settings);
        for round in 1..4 {
            planner.start(Instant(round * 20 * SECOND)).unwrap();
            // Nodes come, change and go while the plan is made.
            loop {
                let node = NodeId(random.below(18));
                if random.chance_ppm(200_000) {
                    planner.leave(node);
                    sets.remove(&node);
                } else if random.chance_ppm(500_000) {
                    let next = draw_set(&mut random, groups);
                    let former = sets.insert(node, next.clone()).unwrap_or_default();
                    let enter: Vec<GroupId> = next.iter().copied().collect();
                    let leave: Vec<GroupId> = former.difference(&next).copied().collect();
                    planner.join(node, &enter, &leave);
                    assert_eq!(planner.region_of(node).is_some(), !next.is_empty());
                }
                if round == 3 {
                    check(&planner.plan(), &sets, &settings);
                }
                if planner.step(random.below(200) + 1) == Progress::Done {
                    break;
                }
            }
            check(&planner.plan(), &sets, &settings);
        }
    }
}

// The exact step against brute force: without a gain in merging, regions are the classes.
#[test]
fn without_a_gain_regions_are_the_exact_classes() {
    for seed in 0..10_000 {
        let mut random = Random::new(Seed(seed), "exact");
        let (sets, _) = draw_sets(&mut random);
        // A packet costs next to nothing, what is not wanted a lot.
        let mut settings = Settings::default();
        settings.costs.packet = 1;
        settings.costs.region = 1;
        settings.costs.unwanted = 1_000_000;
        settings.residue = false;
        let mut planner = planner(settings, Hints::default());
        load(&mut planner, &sets);
        planner.start(Instant(0)).unwrap();
        planner.finish();
        let mut classes: BTreeMap<&BTreeSet<GroupId>, Vec<NodeId>> = BTreeMap::new();
        for (node, set) in sets.iter().filter(|(_, set)| !set.is_empty()) {
            classes.entry(set).or_default().push(*node);
        }
        let classes: BTreeSet<Vec<NodeId>> = classes.into_values().collect();
        let plan = planner.plan();
        let regions: BTreeSet<Vec<NodeId>> = plan
            .regions
            .into_values()
            .map(|region| region.members)
            .collect();
        assert_eq!(regions, classes, "seed {seed}");
    }
}

#[test]
fn neither_the_order_of_nodes_nor_the_key_nor_slices_decide_anything() {
    for seed in 0..300 {
        let mut random = Random::new(Seed(seed), "order");
        let (sets, _) = draw_sets(&mut random);
        let settings = draw_settings(&mut random);
        let mut one = planner(settings.clone(), Hints::default());
        load(&mut one, &sets);
        one.start(Instant(0)).unwrap();
        one.finish();
        let mut order: Vec<_> = sets.iter().collect();
        order.sort_by_key(|(node, _)| qsm_wire::mix(node.0 ^ seed));
        let mut two = Planner::new(
            settings,
            Hints::default(),
            &mut Random::new(Seed(seed), "other"),
        )
        .unwrap();
        for (node, set) in order {
            let mut groups: Vec<GroupId> = set.iter().copied().collect();
            groups.reverse();
            two.load(*node, groups);
        }
        two.start(Instant(0)).unwrap();
        while two.step(1) != Progress::Done {}
        assert_eq!(one.plan(), two.plan(), "seed {seed}");
    }
}

#[test]
fn hints_are_honoured_before_and_after_changes() {
    let hints = hints(
        "together: n0 n5\ntogether: n5 n7\napart: n1 n2 n0\ndomain red: n3 n4\npin fast: g0 g1\n",
    );
    for seed in 0..500 {
        let mut random = Random::new(Seed(seed), "hints");
        let mut sets: Sets = (0..10)
            .map(|node| {
                let mut set = draw_set(&mut random, 8);
                // The pinned groups are of one domain.
                if [3, 4].contains(&node) {
                    set.retain(|group| group.0 > 1);
                }
                set.insert(GroupId(7));
                (NodeId(node), set)
            })
            .collect();
        let settings = Settings {
            addresses: [1, 3, 512][random.below(3) as usize],
            ..Settings::default()
        };
        let mut planner = planner(settings.clone(), hints.clone());
        load(&mut planner, &sets);
        for round in 0..3 {
            planner.start(Instant(round * 20 * SECOND)).unwrap();
            planner.finish();
            for _ in 0..2 {
                let plan = planner.plan();
                check(&plan, &sets, &settings);
                let home = |node: u64| planner.region_of(NodeId(node));
                assert_eq!((home(0), home(5)), (home(5), home(7)));
                let apart = BTreeSet::from([home(0), home(1), home(2)]);
                assert_eq!(apart.len(), 3, "seed {seed}");
                let mixed = |region: &Vec<NodeId>| {
                    let red = region
                        .iter()
                        .filter(|node| [3, 4].contains(&node.0))
                        .count();
                    red > 0 && red < region.len()
                };
                assert!(!plan.regions.values().any(|region| mixed(&region.members)));
                for channel in plan.channels.values() {
                    let domains = channel.regions.iter().map(|id| plan.regions[id].domain);
                    assert_eq!(domains.collect::<BTreeSet<_>>().len(), 1);
                }
                let node = NodeId(8 + random.below(2));
                let enter = [GroupId(random.below(8) as u32)];
                planner.join(node, &enter, &[]);
                sets.entry(node).or_default().extend(enter);
            }
        }
        let plan = planner.plan();
        let pinned = plan
            .channels
            .iter()
            .find(|(_, channel)| channel.pin.is_some());
        if let Some((id, _)) = pinned {
            for group in [0, 1].map(GroupId) {
                let channels = plan
                    .groups
                    .get(&group)
                    .map(|group| group.path.channels().to_vec());
                assert!(channels.is_none_or(|channels| channels == [*id] || channels.is_empty()));
            }
            let free = plan.groups.iter().filter(|(group, _)| group.0 > 1);
            assert!(
                free.clone()
                    .all(|(_, group)| !group.path.channels().contains(id))
            );
        }
    }
}

#[test]
fn hints_that_cannot_be_followed_are_named() {
    let settings = Settings {
        addresses: 1,
        ..Settings::default()
    };
    let mut one = planner(settings, hints("pin a: g0\npin b: g1"));
    one.load(NodeId(0), vec![GroupId(0), GroupId(1)]);
    let error = one.start(Instant(0)).unwrap_err().to_string();
    assert!(
        error.contains("2 channels, and there are 1 addresses"),
        "{error}"
    );
    let mut two = planner(Settings::default(), hints("\npin a: g0\ndomain red: n1"));
    two.load(NodeId(0), vec![GroupId(0)]);
    two.load(NodeId(1), vec![GroupId(0)]);
    let error = two.start(Instant(0)).unwrap_err().to_string();
    assert!(
        error.contains("line 2: channel a") && error.contains("domain"),
        "{error}"
    );
}

/// A plan as the service carries it out: who is where, who listens, how groups go.
#[derive(Debug, PartialEq, Eq)]
struct World {
    homes: BTreeMap<NodeId, RegionId>,
    listens: BTreeSet<(u32, RegionId)>,
    paths: BTreeMap<GroupId, Path>,
    regions: BTreeSet<RegionId>,
}

impl World {
    fn of(plan: &Plan) -> Self {
        let homes = plan.regions.iter();
        let homes = homes.flat_map(|(id, region)| region.members.iter().map(|node| (*node, *id)));
        let listens = plan.channels.iter();
        let listens = listens.flat_map(|(id, channel)| channel.regions.iter().map(|r| (id.0, *r)));
        let paths = plan
            .groups
            .iter()
            .map(|(id, group)| (*id, group.path.clone()));
        Self {
            homes: homes.collect(),
            listens: listens.collect(),
            paths: paths.collect(),
            regions: plan.regions.keys().copied().collect(),
        }
    }

    fn apply(&mut self, step: &Move) {
        match step {
            Move::Open(id) => assert!(self.regions.insert(*id)),
            Move::Close(id) => {
                assert!(
                    self.homes.values().all(|home| home != id),
                    "somebody is still in {id:?}"
                );
                assert!(self.regions.remove(id));
            }
            Move::Listen { channel, regions } => {
                self.listens
                    .extend(regions.iter().map(|region| (channel.0, *region)));
            }
            Move::Mute { channel, regions } => {
                for region in regions {
                    assert!(self.listens.remove(&(channel.0, *region)));
                }
            }
            Move::Relocate { node, from, to } => {
                assert_eq!(self.homes.get(node), from.as_ref());
                assert!(to.is_none_or(|to| self.regions.contains(&to)));
                match to {
                    Some(to) => self.homes.insert(*node, *to),
                    None => self.homes.remove(node),
                };
            }
            Move::Reroute { group, path } => {
                let listened = |channel: u32| self.listens.iter().any(|(id, _)| *id == channel);
                let channels = path.iter().flat_map(Path::channels);
                assert!(channels.clone().all(|channel| listened(channel.0)));
                match path {
                    Some(path) => self.paths.insert(*group, path.clone()),
                    None => self.paths.remove(group),
                };
            }
        }
    }
}

#[test]
fn moves_lead_from_one_plan_to_the_other() {
    for seed in 0..300 {
        let mut random = Random::new(Seed(seed), "moves");
        let mut plans = Vec::new();
        let mut planner = planner(Settings::default(), Hints::default());
        for round in 0..4 {
            let (sets, _) = draw_sets(&mut random);
            for node in (0..14).map(NodeId) {
                planner.leave(node);
            }
            load(&mut planner, &sets);
            planner.start(Instant(round * 20 * SECOND)).unwrap();
            planner.finish();
            plans.push(planner.plan());
        }
        for pair in plans.windows(2) {
            let mut world = World::of(&pair[0]);
            let moves = pair[0].moves_to(&pair[1]);
            moves.iter().for_each(|step| world.apply(step));
            assert_eq!(world, World::of(&pair[1]), "seed {seed}");
            assert_eq!(pair[1].moves_to(&pair[1]), []);
        }
    }
}

fn planned(layout: Layout, settings: Settings) -> Planner {
    let mut planner = planner(settings, Hints::default());
    for (node, groups) in (0..).zip(layout.draw(Seed(3))) {
        planner.load(NodeId(node), groups);
    }
    planner.start(Instant(0)).unwrap();
    planner.finish();
    planner
}

#[test]
fn planted_regions_are_found_among_odd_groups() {
    for extras in [0, 1, 5] {
        let layout = Layout::Planted {
            nodes: 1000,
            groups: 10_000,
            extras,
        };
        for residue in [true, false] {
            let settings = Settings {
                residue,
                ..Settings::default()
            };
            let plan = planned(layout, settings).plan();
            let regions = plan.regions.len();
            assert!(
                (32..=50).contains(&regions),
                "{extras} extras: {regions} regions of 40"
            );
            let limit = if residue { 10_000 } else { 50_000 };
            assert!(plan.totals.unwanted_ppm() <= limit, "{:?}", plan.totals);
            for wide in (0..layout.wide()).map(GroupId) {
                assert!(plan.groups[&wide].path.packets() <= 2);
            }
        }
    }
}

#[test]
fn private_groups_make_no_regions() {
    let planner = planned(Layout::PrivateGroups { nodes: 40 }, Settings::default());
    assert_eq!(planner.regions(), 1);
    assert_eq!(planner.path(GroupId(3)).packets(), 1);
    assert_eq!(planner.path(GroupId(14)), Path::Members(vec![NodeId(4)]));
    let why = planner.why(GroupId(3)).unwrap();
    let copies = why
        .alternatives
        .iter()
        .find(|other| other.way == Way::Copies);
    assert!(copies.is_some_and(|copies| copies.cost > why.chosen.cost && copies.packets == 40));
    assert_eq!(planner.why(GroupId(999)), None);
}

// R022: neither one region for all, nor an address for one.
#[test]
fn groups_of_one_node_cost_neither_addresses_nor_merging() {
    let layout = Layout::Singles {
        nodes: 300,
        groups: 3000,
    };
    let plan = planned(layout, Settings::default()).plan();
    assert_eq!((plan.regions.len(), plan.channels.len()), (300, 0));
    assert!(plan.groups.values().all(|group| group.path.packets() == 1));
}

#[test]
fn with_few_addresses_groups_share_or_are_copied() {
    let layout = Layout::RandomExtras {
        nodes: 200,
        extras: 0,
    };
    let mut before = u128::MAX;
    for addresses in [0, 5, 10, 20, 512] {
        let settings = Settings {
            addresses,
            ..Settings::default()
        };
        let totals = planned(layout, settings).plan().totals;
        assert!(
            totals.cost as u128 <= before,
            "{addresses} addresses cost more"
        );
        before = totals.cost as u128;
        // Ten channels of two regions each, and a few packets that are not wanted.
        assert_eq!(totals.residue > 0, addresses < 10, "{addresses}");
    }
}

#[test]
fn what_saves_little_or_not_for_long_changes_nothing() {
    let mut planner = planner(Settings::default(), Hints::default());
    for node in 0..20 {
        let first = if node < 10 { 0 } else { 50 };
        planner.load(NodeId(node), (first..first + 50).map(GroupId).collect());
    }
    planner.start(Instant(0)).unwrap();
    planner.finish();
    let ids: Vec<RegionId> = planner.region_ids().collect();
    assert_eq!(ids.len(), 2);
    // Now all are the same: one region costs half. Nodes move one by one into the other region
    // only when they themselves gain.
    let all: Vec<GroupId> = (0..100).map(GroupId).collect();
    let mut late = planner;
    for node in 0..20 {
        late.join(NodeId(node), &all, &[]);
    }
    for second in [100, 105] {
        late.start(Instant(second * SECOND)).unwrap();
        late.finish();
        assert!(
            late.region_ids().all(|id| ids.contains(&id)),
            "at {second} s"
        );
    }
    late.start(Instant(115 * SECOND)).unwrap();
    late.finish();
    assert_eq!(late.regions(), 1);
    assert!(
        late.region_ids().all(|id| ids.contains(&id)),
        "it keeps a number"
    );
}

#[test]
fn nodes_that_move_between_regions_change_no_region() {
    let layout = Layout::Planted {
        nodes: 250,
        groups: 2500,
        extras: 2,
    };
    let mut planner = planned(layout, Settings::default());
    let mut sets = layout.draw(Seed(3));
    let before: Vec<RegionId> = planner.region_ids().collect();
    let channels: Vec<_> = planner.plan().channels.into_keys().collect();
    let mut random = Random::new(Seed(5), "churn");
    for second in 0..60 {
        if second % 15 == 0 {
            planner.start(Instant(second * SECOND)).unwrap();
        }
        for _ in 0..5 {
            let (from, to) = (random.below(250) as usize, random.below(250) as usize);
            let next = sets[to].clone();
            planner.join(NodeId(from as u64), &next, &sets[from]);
            sets[from] = next;
            planner.step(50_000);
        }
    }
    planner.finish();
    let after: Vec<RegionId> = planner.region_ids().collect();
    assert_eq!(before, after);
    let kept: Vec<_> = planner.plan().channels.into_keys().collect();
    assert_eq!(channels, kept);
}

#[test]
fn a_thousand_joins_delay_a_plan_by_their_own_work_only() {
    const UNITS: u64 = 20_000;
    let layout = Layout::Planted {
        nodes: 250,
        groups: 2500,
        extras: 2,
    };
    let sets = layout.draw(Seed(3));
    let mut one = planned(layout, Settings::default());
    one.start(Instant(20 * SECOND)).unwrap();
    let mut alone = 1;
    while one.step(UNITS) != Progress::Done {
        alone += 1;
    }
    let mut two = planned(layout, Settings::default());
    two.start(Instant(20 * SECOND)).unwrap();
    let (mut joins, mut steps) = (0, 1);
    while two.step(UNITS) != Progress::Done {
        steps += 1;
        if joins < 1000 {
            two.join(NodeId(joins % 250), &[GroupId(joins as u32 % 2500)], &[]);
            joins += 1;
        }
    }
    // Each slice places at least one node.
    assert!(steps <= alone + 1000 + 250, "{steps} steps, {alone} alone");
    let mut expected: Sets = (0..)
        .map(NodeId)
        .zip(sets.into_iter().map(BTreeSet::from_iter))
        .collect();
    for join in 0..joins {
        let set = expected.get_mut(&NodeId(join % 250)).unwrap();
        set.insert(GroupId(join as u32 % 2500));
    }
    assert!(joins > 50, "the plan took {joins} slices only");
    check(&two.plan(), &expected, &Settings::default());
}
