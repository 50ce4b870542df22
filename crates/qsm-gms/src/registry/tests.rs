mod absence;
mod decided;
mod hinted;
mod layout;
mod lifetimes;
mod machine;
mod merging;
mod origins;
mod paces;
mod readdressing;
mod relocation;
mod repairs;
mod reports;
mod resumption;
mod stranded;

pub(super) use self::reports::{hello, region_of_node_0};
use super::*;

use qsm_proto::{Random, Seed};
use qsm_wire::membership::{
    FromService, GroupReport, Hello, Member, OriginDemand, RegionReport, Role, Sender, Signer,
    ToService, Update, ViewStep,
};

use crate::ServiceConfig;
use crate::plan::Region;

const NOW: Instant = Instant(0);

fn registry(seed: u64) -> Registry {
    hinted_registry(seed, "")
}

/// The same with a file of hints.
fn hinted_registry(seed: u64, hints: &str) -> Registry {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let config = ServiceConfig::new(NodeId(1_000_000), address);
    let plan = AddressPlan::new(config.plan, config.cluster_number(), &[config.discovery]);
    let key = SignatureKey::new(&mut Random::new(Seed(seed), "registry"));
    Registry::new(
        config.limits,
        config.drain_max,
        config.gone_after,
        plan,
        key,
        Arc::new(ServiceHints::parse(hints).unwrap()),
    )
}

fn origin(node: u64) -> Origin {
    Origin {
        node: NodeId(node),
        incarnation: Incarnation(1),
    }
}

fn admit(registry: &mut Registry, node: u64) {
    let host = u8::try_from(node % 250).unwrap();
    let address = SocketAddr::from(([10, 0, 0, host], 1));
    registry.admit(origin(node), format!("n{node}"), address, None);
}

fn names(groups: impl IntoIterator<Item = u64>) -> Vec<String> {
    groups
        .into_iter()
        .map(|group| format!("g{group}"))
        .collect()
}

fn enter(registry: &mut Registry, node: u64, groups: impl IntoIterator<Item = u64>) {
    let (request, role) = (1, Role::Subscriber);
    registry
        .enter(NOW, NodeId(node), request, role, &names(groups))
        .unwrap();
}

/// Another node receives a group too: who enters it now moves, and does not get a private region.
fn make_common(registry: &mut Registry, group: u64) {
    admit(registry, 100 + group);
    enter(registry, 100 + group, [group]);
}

fn publish(registry: &mut Registry, node: u64, groups: impl IntoIterator<Item = u64>) {
    let (request, role) = (2, Role::Publisher);
    registry
        .enter(NOW, NodeId(node), request, role, &names(groups))
        .unwrap();
}

fn exit(registry: &mut Registry, node: u64, groups: impl IntoIterator<Item = u64>) {
    let (request, role) = (3, Role::Subscriber);
    registry
        .exit(NodeId(node), request, role, &names(groups))
        .unwrap();
}

/// Reports every leaving member as drained, and that former publishers owe nothing.
fn drain(registry: &mut Registry) {
    let leaving: Vec<(NodeId, RegionId, ViewNumber)> = registry
        .nodes
        .iter()
        .flat_map(|(id, node)| {
            let departures = node.departures.iter();
            departures.map(|(region, departure)| (*id, *region, departure.view))
        })
        .collect();
    for (node, region, view) in leaving {
        registry.drained(node, region, view);
    }
}

/// Applies and drains until nothing changes.
fn settle(registry: &mut Registry) {
    for _ in 0..10 {
        registry.batch(NOW);
        drain(registry);
        if !registry.has_changes() {
            return check(registry);
        }
    }
    panic!("the registry does not come to rest");
}

/// The registry's indexes agree with each other, recomputed from scratch.
fn check(registry: &Registry) {
    let mut holds: BTreeMap<GroupId, u32> = BTreeMap::new();
    for (id, node) in &registry.nodes {
        let pending = node
            .pending
            .subscribe
            .keys()
            .chain(node.pending.publish.keys());
        for group in node.groups.iter().chain(&node.publishes).chain(pending) {
            *holds.entry(*group).or_default() += 1;
        }
        assert_eq!(
            node.signature,
            registry.key.set(node.groups.iter().copied())
        );
        let homes = node.homes().map(|home| registry.regions.get(home).unwrap());
        let homes: Vec<&Region> = homes.collect();
        let private = homes.iter().filter(|region| region.private).count();
        assert_eq!(private, usize::from(node.private.is_some()));
        assert!(node.home.is_some() || homes.is_empty());
        if !homes.is_empty() {
            let mut groups: Vec<GroupId> = homes
                .iter()
                .flat_map(|region| region.groups_of(*id).to_vec())
                .collect();
            groups.sort_unstable();
            assert_eq!(groups, *node.groups);
        }
        assert_eq!(node.aim.set.groups, node.groups);
        assert_eq!(node.aim.set.signature, node.signature);
        for region in &node.concerned {
            let region = registry.regions.get(*region).unwrap();
            assert!(region.audience.contains_key(id));
        }
    }
    for (id, region) in registry.regions.iter() {
        let members = region.members.iter();
        assert!(members.clone().is_sorted_by_key(|member| member.is_away()));
        let active = members.clone().filter(|member| !member.leaving());
        assert_eq!(active.count(), region.active);
        for member in members {
            let node = &registry.nodes[&member.origin.node];
            assert_eq!(member.leaving(), node.is_leaving(id));
            assert_eq!(!member.leaving(), node.is_at_home(id));
            assert_eq!(member.away, node.absences.reason_in(id));
            assert_eq!(member.address, node.address);
            assert!(node.concerned.contains(&id));
        }
        merging::check_shares(registry, id, region);
        for group in region.groups.iter() {
            assert!(registry.groups.get(*group).unwrap().regions.contains(&id));
        }
    }
    for (id, group) in registry.groups.iter() {
        assert!(
            holds.contains_key(&id) || !group.regions.is_empty(),
            "{id} is unused"
        );
        for region in &group.regions {
            assert!(registry.regions.get(*region).unwrap().groups.contains(&id));
        }
        for node in &group.publishers {
            assert!(registry.nodes[node].publishes.contains(&id));
        }
    }
}

/// Sets of nodes by set of group names, from the registry's regions. Those that wait for their
/// members have the groups that these had.
fn classes(registry: &Registry) -> BTreeMap<BTreeSet<String>, BTreeSet<u64>> {
    let mut classes = BTreeMap::new();
    let waits = |member: &Member| registry.nodes[&member.origin.node].unreported;
    // What members of merged regions want beside may be the same.
    let merges = registry.regions.iter().any(|(_, region)| region.merged);
    let exact = registry.regions.iter();
    let exact = exact.filter(|(_, region)| !(region.merged || merges && region.private));
    for (_, region) in exact.filter(|(_, region)| !region.members.iter().all(waits)) {
        let name = |group: &GroupId| registry.groups.get(*group).unwrap().name.clone();
        let groups = region.groups.iter().map(name).collect();
        let nodes = region.members.iter().map(|member| member.origin.node.0);
        let fresh = classes.insert(groups, nodes.collect()).is_none();
        assert!(fresh, "two regions have the same groups");
    }
    classes
}

fn bytes(updates: &[Update]) -> usize {
    let updates = updates.to_vec();
    let mut out = Vec::new();
    FromService::Batch { number: 1, updates }.encode(&mut out);
    out.len()
}

fn updates(batch: &Batch, node: u64) -> &[Update] {
    batch
        .updates
        .get(&NodeId(node))
        .map_or(&[], |updates| updates)
}

/// R015: 18 nodes, 300 groups in three families A, B and C that overlap as in a Venn diagram:
/// seven regions. A message to a group of A reaches the four regions within A.
#[test]
fn eighteen_nodes_and_three_hundred_overlapping_groups_make_seven_regions() {
    let mut registry = registry(1);
    let sizes = [3, 3, 3, 2, 2, 2, 3];
    let mut node = 0;
    for (family, size) in (1..=7_u64).zip(sizes) {
        for _ in 0..size {
            admit(&mut registry, node);
            let member = |bit: &u64| family & (1 << bit) != 0;
            let groups = (0..3)
                .filter(member)
                .flat_map(|bit| bit * 100..bit * 100 + 100);
            enter(&mut registry, node, groups);
            node += 1;
        }
    }
    assert_eq!(node, 18);
    settle(&mut registry);
    assert_eq!(registry.regions.len(), 7);
    assert_eq!(registry.groups.len(), 300);
    assert!(registry.group_rows().iter().all(|row| row.regions == 4));
    let of = |families: &[u64]| -> BTreeSet<RegionId> {
        let groups = families.iter().flat_map(|family| names([family * 100]));
        let ids = groups.filter_map(|name| registry.groups.find(&name));
        ids.flat_map(|id| registry.groups.get(id).unwrap().regions.clone())
            .collect()
    };
    // 200 messages, one to each group of A and B, need six regional multicasts.
    assert_eq!(of(&[0, 1]).len(), 6);
}

// Rule R-MEM-2.
#[test]
fn a_change_of_one_node_costs_the_others_the_change_and_the_rest_nothing() {
    let mut registry = registry(2);
    for node in 0..1000 {
        admit(&mut registry, node);
        enter(&mut registry, node, 0..50);
    }
    for node in 2000..2100 {
        admit(&mut registry, node);
        enter(&mut registry, node, 100..150);
    }
    publish(&mut registry, 2000, [7]);
    settle(&mut registry);
    admit(&mut registry, 1500);
    enter(&mut registry, 1500, 0..50);
    let batch = registry.batch(NOW);
    // 1000 members, the newcomer, one publisher: nobody else.
    assert_eq!(batch.updates.len(), 1002);
    assert!(batch.updates.contains_key(&NodeId(2000)));
    for node in [0, 999, 2000] {
        assert!(
            bytes(updates(&batch, node)) < 100,
            "a member is told of one newcomer"
        );
    }
    let whole = bytes(updates(&batch, 1500));
    assert!(
        whole > 1000 * 20,
        "the newcomer is told of all members: {whole}"
    );
    registry.end(NodeId(3));
    let batch = registry.batch(NOW);
    assert_eq!(batch.updates.len(), 1001);
    assert!(batch.updates.values().all(|updates| bytes(updates) < 120));
}

#[test]
fn a_node_that_moves_between_known_regions_touches_no_group_index_at_all() {
    let mut registry = registry(3);
    for (node, count) in [(0, 5000), (1, 5000), (2, 1), (3, 1)] {
        admit(&mut registry, node);
        enter(&mut registry, node, 0..count);
    }
    settle(&mut registry);
    let made = registry.stats.group_touches;
    assert_eq!(made, 5001);
    enter(&mut registry, 2, 1..5000);
    settle(&mut registry);
    assert_eq!(registry.stats.group_touches, made);
    assert_eq!(
        registry.nodes[&NodeId(2)].home,
        registry.nodes[&NodeId(0)].home
    );
    // A region regrouped touches only the difference.
    enter(&mut registry, 3, [6000]);
    settle(&mut registry);
    assert_eq!(registry.stats.group_touches, made + 1);
    let shared = |node: u64| registry.nodes[&NodeId(node)].groups.as_ptr();
    assert_eq!(shared(0), shared(2), "the set of groups exists once");
}

// Rules R-VIEW-4, R-VIEW-5.
#[test]
fn a_moving_node_is_leaving_until_it_has_drained_and_then_gone() {
    let mut registry = registry(4);
    for node in 0..3 {
        admit(&mut registry, node);
        enter(&mut registry, node, [1]);
    }
    make_common(&mut registry, 2);
    settle(&mut registry);
    let old = registry.nodes[&NodeId(0)].home.unwrap();
    let before = registry.regions.get(old).unwrap().view;
    enter(&mut registry, 0, [2]);
    let batch = registry.batch(NOW);
    let marked = ViewNumber(before.0 + 1);
    let steps: Vec<&Update> = updates(&batch, 1).iter().collect();
    assert!(
        matches!(steps[..], [Update::View(ViewStep { view, leaving, removed, .. })]
        if *view == marked && *leaving == [origin(0)] && removed.is_empty())
    );
    assert_eq!(registry.regions.get(old).unwrap().members.len(), 3);
    check(&registry);

    registry.drained(NodeId(0), old, before);
    assert!(!registry.has_changes(), "an older view does not count");
    registry.drained(NodeId(0), old, marked);
    let batch = registry.batch(NOW);
    assert!(updates(&batch, 0).contains(&Update::Closed { region: old }));
    assert!(
        matches!(updates(&batch, 1), [Update::View(ViewStep { removed, .. })] if *removed == [origin(0)])
    );
    check(&registry);
}

#[test]
fn a_leaving_member_that_never_drains_is_taken_out_after_a_while() {
    let mut registry = registry(5);
    for node in 0..2 {
        admit(&mut registry, node);
        enter(&mut registry, node, [1]);
    }
    settle(&mut registry);
    exit(&mut registry, 0, [1]);
    registry.batch(NOW);
    let deadline = registry.next_timeout().unwrap();
    assert_eq!(deadline, NOW.after(Duration::from_secs(30)));
    registry.expire_drains(Instant(deadline.0 - 1));
    assert!(!registry.has_changes());
    registry.expire_drains(deadline);
    registry.batch(deadline);
    assert_eq!(registry.stats.drains_expired, 1);
    assert_eq!(registry.region_rows()[0].members.len(), 1);
    check(&registry);
}

// Rule R-VIEW-5.
#[test]
fn a_member_that_leaves_again_has_the_whole_time_to_drain_again() {
    let mut registry = registry(23);
    for node in 0..2 {
        admit(&mut registry, node);
        enter(&mut registry, node, [1]);
    }
    settle(&mut registry);
    let region = registry.nodes[&NodeId(0)].home.unwrap();
    exit(&mut registry, 0, [1]);
    registry.batch(NOW);
    let first = NOW.after(registry.drain_max);
    settle(&mut registry);
    enter(&mut registry, 0, [1]);
    settle(&mut registry);
    exit(&mut registry, 0, [1]);
    let again = Instant(first.0 - 1);
    registry.batch(again);
    registry.expire_drains(first);
    assert!(!registry.has_changes(), "that was the first departure's");
    assert!(registry.nodes[&NodeId(0)].is_leaving(region));
    registry.expire_drains(again.after(registry.drain_max));
    registry.batch(again.after(registry.drain_max));
    assert!(!registry.nodes[&NodeId(0)].is_leaving(region));
    assert_eq!(registry.stats.drains_expired, 1);
    check(&registry);
}

#[test]
fn a_node_that_wants_back_waits_until_it_is_out() {
    let mut registry = registry(6);
    for node in 0..2 {
        admit(&mut registry, node);
        enter(&mut registry, node, [1]);
    }
    make_common(&mut registry, 2);
    settle(&mut registry);
    let home = registry.nodes[&NodeId(0)].home.unwrap();
    enter(&mut registry, 0, [2]);
    registry.batch(NOW);
    exit(&mut registry, 0, [2]);
    let batch = registry.batch(NOW);
    assert!(batch.done.is_empty(), "its request waits");
    assert!(!registry.has_changes());
    drain(&mut registry);
    let batch = registry.batch(NOW);
    assert_eq!(batch.done, [(NodeId(0), 3)]);
    assert_eq!(registry.nodes[&NodeId(0)].home, Some(home));
    settle(&mut registry);
    assert_eq!(registry.regions.len(), 2);
}

/// R044: when all members of a region change alike, nobody joins or leaves an address (R-VIEW-8).
#[test]
fn a_region_whose_members_all_change_alike_keeps_number_channel_and_address() {
    let mut registry = registry(7);
    for node in 0..3 {
        admit(&mut registry, node);
        enter(&mut registry, node, [1]);
    }
    settle(&mut registry);
    let before = registry.region_rows();
    for node in 0..3 {
        enter(&mut registry, node, [2]);
    }
    let batch = registry.batch(NOW);
    let after = registry.region_rows();
    assert_eq!(after.len(), 1);
    assert_eq!(after[0].region, before[0].region);
    assert_eq!(after[0].address, before[0].address);
    assert_eq!(after[0].members, before[0].members);
    assert_eq!(after[0].view.0, before[0].view.0 + 1);
    assert_eq!(registry.stats.moves, 0);
    let [
        Update::Named { .. },
        Update::Region { groups, .. },
        Update::View(ViewStep { added, .. }),
    ] = updates(&batch, 1)
    else {
        panic!("{:?}", updates(&batch, 1));
    };
    assert_eq!((groups.len(), added.len()), (2, 0));
    check(&registry);
}

#[test]
fn of_two_regions_that_become_one_the_larger_keeps_its_address() {
    let mut registry = registry(8);
    for node in 0..5 {
        admit(&mut registry, node);
        enter(&mut registry, node, [u64::from(node >= 2)]);
    }
    settle(&mut registry);
    let large = registry.nodes[&NodeId(4)].home.unwrap();
    for node in 0..5 {
        enter(&mut registry, node, 0..3);
    }
    settle(&mut registry);
    assert_eq!(registry.regions.len(), 1);
    assert_eq!(registry.nodes[&NodeId(0)].home, Some(large));
    assert_eq!(registry.stats.moves, 2);
}

#[test]
fn a_publisher_knows_the_regions_of_its_groups_and_only_its_groups_of_them() {
    let mut registry = registry(9);
    for node in 0..3 {
        admit(&mut registry, node);
    }
    enter(&mut registry, 0, [1, 2, 3]);
    enter(&mut registry, 1, [3, 4]);
    make_common(&mut registry, 4);
    publish(&mut registry, 2, [2]);
    settle(&mut registry);
    assert_eq!(registry.nodes[&NodeId(2)].concerned.len(), 1);
    publish(&mut registry, 2, [3]);
    let batch = registry.batch(NOW);
    let id = |name| registry.groups.find(name).unwrap();
    let lists: Vec<Vec<GroupId>> = updates(&batch, 2)
        .iter()
        .filter_map(|update| match update {
            Update::Region { groups, .. } => Some(groups.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(lists, [vec![id("g2"), id("g3")], vec![id("g3")]]);
    assert_eq!(
        batch.updates.len(),
        1,
        "receivers do not care who publishes"
    );
    registry
        .exit(NodeId(2), 4, Role::Publisher, &names([2, 3]))
        .unwrap();
    let batch = registry.batch(NOW);
    let parting =
        |update: &&Update| matches!(update, Update::Region { groups, .. } if groups.is_empty());
    assert_eq!(updates(&batch, 2).iter().filter(parting).count(), 2);
    check(&registry);
    // What it has sent may be on its way: it is told of the regions' views until it says no.
    drain(&mut registry);
    let batch = registry.batch(NOW);
    let closed = |update: &&Update| matches!(update, Update::Closed { .. });
    assert_eq!(updates(&batch, 2).iter().filter(closed).count(), 2);
    check(&registry);
}

// Rule R-VIEW-10.
#[test]
fn a_former_publisher_that_comes_back_is_not_let_go() {
    let mut registry = registry(19);
    admit(&mut registry, 0);
    admit(&mut registry, 1);
    enter(&mut registry, 0, [1]);
    publish(&mut registry, 1, [1]);
    settle(&mut registry);
    let (region, view) = registry
        .regions
        .iter()
        .map(|(id, r)| (id, r.view))
        .next()
        .unwrap();
    let (request, role) = (4, Role::Publisher);
    registry
        .exit(NodeId(1), request, role, &names([1]))
        .unwrap();
    registry.batch(NOW);
    publish(&mut registry, 1, [1]);
    registry.batch(NOW);
    registry.drained(NodeId(1), region, view);
    assert!(!registry.has_changes(), "it publishes there");
    registry
        .exit(NodeId(1), request, role, &names([1]))
        .unwrap();
    registry.batch(NOW);
    // One that never answers is let go all the same.
    let later = NOW.after(registry.drain_max);
    registry.expire_drains(later);
    let batch = registry.batch(later);
    assert_eq!(updates(&batch, 1), [Update::Closed { region }]);
}

// Rule R-VIEW-5.
#[test]
fn a_leaving_member_hears_when_all_who_may_send_to_it_know() {
    let mut registry = registry(20);
    for node in 0..4 {
        admit(&mut registry, node);
    }
    enter(&mut registry, 0, [1]);
    enter(&mut registry, 1, [1]);
    publish(&mut registry, 2, [1]);
    publish(&mut registry, 3, [1]);
    make_common(&mut registry, 2);
    settle(&mut registry);
    let region = registry.nodes[&NodeId(0)].home.unwrap();
    enter(&mut registry, 0, [2]);
    let batch = registry.batch(NOW).number;
    let view = registry.regions.get(region).unwrap().view;
    registry.confirm(NodeId(0), batch);
    registry.confirm(NodeId(1), batch);
    registry.confirm(NodeId(2), batch - 1);
    registry.end(NodeId(3));
    registry.batch(NOW);
    assert!(!registry.has_changes(), "publisher 2 may not know");
    registry.confirm(NodeId(2), batch + 1);
    let settled = registry.batch(NOW);
    let address = registry.nodes[&NodeId(2)].address;
    let senders = vec![Sender {
        origin: origin(2),
        address,
    }];
    let expected = Update::Settled {
        region,
        view,
        senders,
    };
    assert_eq!(updates(&settled, 0), std::slice::from_ref(&expected));
    assert!(updates(&settled, 1).is_empty());
    // A new session has heard of nothing.
    registry.resume(NodeId(0), BTreeMap::new(), &[]);
    let again = registry.batch(NOW);
    assert!(updates(&again, 0).contains(&expected));
}

#[test]
fn all_members_of_regions_a_dead_node_may_have_sent_to_are_told() {
    let mut registry = registry(10);
    for node in 0..4 {
        admit(&mut registry, node);
    }
    enter(&mut registry, 0, [1]);
    enter(&mut registry, 1, [2]);
    enter(&mut registry, 2, [3]);
    publish(&mut registry, 3, [1, 2]);
    settle(&mut registry);
    // What it published to once counts too.
    registry
        .exit(NodeId(3), 1, Role::Publisher, &names([2]))
        .unwrap();
    settle(&mut registry);
    registry.end(NodeId(3));
    let batch = registry.batch(NOW);
    let told: Vec<u64> = batch.updates.keys().map(|node| node.0).collect();
    assert_eq!(told, [0, 1]);
    let dead = Update::Dead { origin: origin(3) };
    assert!(
        batch
            .updates
            .values()
            .all(|updates| *updates == [dead.clone()])
    );
    check(&registry);
}

// Rule R-VIEW-16.
#[test]
fn a_member_is_told_with_a_senders_end_that_it_is_owed_nothing() {
    let mut registry = registry(14);
    for node in 0..3 {
        admit(&mut registry, node);
    }
    enter(&mut registry, 0, [1]);
    enter(&mut registry, 1, [1]);
    publish(&mut registry, 2, [1]);
    settle(&mut registry);
    let members = vec![origin(1)];
    registry.request(NOW, NodeId(2), ToService::NothingOwed { members });
    registry.end(NodeId(2));
    let batch = registry.batch(NOW);
    let origin = origin(2);
    assert_eq!(updates(&batch, 0), [Update::Dead { origin }]);
    let both = [Update::NothingOwed { origin }, Update::Dead { origin }];
    assert_eq!(updates(&batch, 1), both);
}

// Rule R-MEM-1.
#[test]
fn everybody_is_told_of_a_death_that_was_not_seen_here() {
    let mut registry = registry(12);
    for node in 0..4 {
        admit(&mut registry, node);
    }
    settle(&mut registry);
    registry.end(NodeId(3));
    assert_eq!(registry.batch(NOW).updates, BTreeMap::new());
    // It comes back and says which life it had; then a node of which nothing is known.
    registry.end_elsewhere(origin(3));
    assert!(!registry.has_changes());
    registry.end_elsewhere(origin(7));
    let batch = registry.batch(NOW);
    assert_eq!(batch.updates.len(), 3);
    for node in 0..3 {
        let dead = Update::Dead { origin: origin(7) };
        assert_eq!(updates(&batch, node), [dead]);
    }
}

#[test]
fn too_many_groups_are_refused_and_change_nothing() {
    let mut registry = registry(11);
    registry.limits.groups = 3;
    registry.limits.roles_per_node = 5;
    admit(&mut registry, 0);
    registry.batch(NOW);
    let (request, role) = (1, Role::Subscriber);
    assert!(
        registry
            .enter(NOW, NodeId(0), request, role, &names(0..4))
            .is_err()
    );
    assert!(
        registry
            .enter(NOW, NodeId(0), request, role, &names(0..6))
            .is_err()
    );
    assert!(
        registry
            .enter(NOW, NodeId(0), request, role, &["\n".to_owned()])
            .is_err()
    );
    assert!(!registry.has_changes());
    enter(&mut registry, 0, 0..3);
    settle(&mut registry);
    // The same groups again are no more groups.
    publish(&mut registry, 0, 0..2);
    settle(&mut registry);
    assert_eq!(registry.counts(), [1, 3, 1, 1]);
}
