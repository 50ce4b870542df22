//! Nodes that go on at another address.

use qsm_wire::membership::AwayReason;

use super::reports::hello;
use super::*;
use crate::registry::command::{AddressChange, Command, Updates};

/// Where a node is on two networks, and again after it has been moved.
fn places(node: u8, time: u8) -> [SocketAddr; 2] {
    [0, 1].map(|network| SocketAddr::from(([10, network, time, node], 1)))
}

fn greet(registry: &mut Registry, node: u64, hello: Hello) -> Updates {
    let node = NodeId(node);
    registry.apply(NOW, Command::Greet { node, hello })
}

/// A hello that knows all that there is to know.
fn hello_from(registry: &Registry, node: u64, time: u8, on_two: bool) -> Hello {
    let [address, second] = places(u8::try_from(node).unwrap(), time);
    let rows = registry.region_rows().into_iter();
    let regions = rows.map(|row| RegionReport {
        region: row.region,
        view: row.view,
        channel: registry.regions.get(row.region).unwrap().channel,
        address: row.address,
        members: row.members,
        groups: Vec::new(),
        merged: false,
    });
    Hello {
        address,
        second: on_two.then_some(second),
        incarnation: registry
            .origin(NodeId(node))
            .map_or(Incarnation(0), |origin| origin.incarnation),
        term: registry.term(),
        regions: regions.collect(),
        published: true,
        repairs: ToldLimit::default(),
        ..hello()
    }
}

/// Nodes 1 to 3 receive a group and node 4 publishes to it; 1, 2 and 4 are on two networks.
fn four(source_specific: bool) -> Registry {
    let mut registry = registry(50);
    if source_specific {
        let mut config = ServiceConfig::new(NodeId(9), SocketAddr::from(([10, 0, 0, 9], 1)));
        config.plan.base = [232, 192, 0, 0].into();
        let plan = AddressPlan::new(config.plan, config.cluster_number(), &[]);
        registry.regions = RegionTable::new(plan);
    }
    registry.apply(
        NOW,
        Command::Open {
            hellos: BTreeMap::new(),
            era: 1,
        },
    );
    for node in 1..5 {
        let hello = hello_from(&registry, node, 0, node != 3);
        greet(&mut registry, node, hello);
        match node {
            4 => publish(&mut registry, 4, [1]),
            _ => enter(&mut registry, node, [1]),
        }
    }
    settle(&mut registry);
    registry
}

fn seconds(batch: &Batch, node: u64) -> Vec<(usize, Update)> {
    let told = updates(batch, node).iter().cloned().enumerate();
    told.filter(|(_, update)| matches!(update, Update::Second { .. }))
        .collect()
}

// Rule R-MEM-17.
#[test]
fn a_node_at_another_address_goes_on_in_its_life_and_in_its_place() {
    let mut registry = four(false);
    let region = registry.nodes[&NodeId(2)].home.unwrap();
    let before = registry.region_rows()[0].members.clone();
    let (node, reason) = (NodeId(3), AwayReason::Silent);
    registry.apply(NOW, Command::SetAway { node, reason });
    let hello = hello_from(&registry, 2, 7, true);
    let life = registry.origin(NodeId(2)).unwrap();
    let said = greet(&mut registry, 2, hello);
    let ([from, _], [to, second]) = (places(2, 0), places(2, 7));
    let moved = AddressChange {
        origin: life,
        from,
        to,
    };
    assert_eq!((said.relocated, said.welcomed), (vec![moved], vec![life]));
    assert!(said.admitted.is_empty());
    let batch = registry.batch(NOW);
    check(&registry);
    let after = &registry.region_rows()[0].members;
    assert_eq!(
        after[1],
        Member {
            address: to,
            ..before[1]
        }
    );
    for node in [1, 3, 4] {
        let told = updates(&batch, node).iter();
        let steps = told.filter_map(|update| match update {
            Update::View(step) => Some(step),
            _ => None,
        });
        let steps: Vec<&ViewStep> = steps.collect();
        assert!(
            matches!(steps[..], [step] if step.changed.contains(&after[1])
                && step.added.is_empty() && step.removed.is_empty())
        );
    }
    // Those on two networks know first where it is on the second.
    let address = to;
    for node in [1, 4] {
        let expected = vec![(0, Update::Second { address, second })];
        assert_eq!(seconds(&batch, node), expected);
    }
    assert_eq!(seconds(&batch, 3), []);
    assert_eq!(registry.stats.relocated, 1);
    assert_eq!(registry.node_at(to), Some(NodeId(2)));
    assert_eq!(registry.node_at(from), None);

    // The same again says nothing new.
    let hello = hello_from(&registry, 2, 7, true);
    let said = greet(&mut registry, 2, hello);
    assert!(said.relocated.is_empty());
    let view = registry.regions.get(region).unwrap().view;
    registry.batch(NOW);
    assert_eq!(registry.regions.get(region).unwrap().view, view);
}

// Rule R-MEM-17.
#[test]
fn another_second_address_is_told_to_those_on_two_networks() {
    let mut registry = four(false);
    let [_, second] = places(2, 7);
    let mut hello = hello_from(&registry, 2, 0, true);
    hello.second = Some(second);
    let said = greet(&mut registry, 2, hello);
    assert!(said.relocated.is_empty());
    let batch = registry.batch(NOW);
    let [address, _] = places(2, 0);
    for node in [1, 4] {
        let told = seconds(&batch, node).into_iter();
        let told: Vec<Update> = told.map(|(_, update)| update).collect();
        assert_eq!(told, [Update::Second { address, second }]);
    }
    assert_eq!(seconds(&batch, 3), []);
}

// Rules R-MEM-13, R-MEM-17.
#[test]
fn members_are_told_where_a_sender_is_that_they_must_name() {
    let mut registry = four(true);
    let hello = hello_from(&registry, 4, 7, true);
    greet(&mut registry, 4, hello);
    let batch = registry.batch(NOW);
    let [address, _] = places(4, 7);
    for node in 1..4 {
        let told = updates(&batch, node).iter();
        let named = told.filter_map(|update| match update {
            Update::Sources { senders, .. } => senders.first().map(|sender| sender.address),
            _ => None,
        });
        assert_eq!(named.collect::<Vec<_>>(), [address]);
    }
    // A publisher is in no view.
    assert!(
        updates(&batch, 1)
            .iter()
            .all(|update| !matches!(update, Update::View(_)))
    );
    check(&registry);
}

// Rules R-MEM-6, R-MEM-17.
#[test]
fn a_node_that_has_not_reported_may_come_from_another_address() {
    let former = four(false);
    let mut registry = registry(51);
    let mut hellos = BTreeMap::new();
    for node in [1, 2] {
        let mut hello = hello_from(&former, node, if node == 2 { 7 } else { 0 }, false);
        hello.groups = vec![GroupReport {
            group: former.groups.find("g1"),
            name: "g1".to_owned(),
            role: Role::Subscriber,
        }];
        hellos.insert(NodeId(node), hello);
    }
    let late = hellos.remove(&NodeId(2)).unwrap();
    registry.apply(NOW, Command::Open { hellos, era: 1 });
    registry.batch(NOW);
    let said = greet(&mut registry, 2, late);
    let life = former.origin(NodeId(2)).unwrap();
    assert_eq!(said.welcomed, [life]);
    assert_eq!(said.relocated.len(), 1);
    registry.batch(NOW);
    check(&registry);
    let [to, _] = places(2, 7);
    assert_eq!(registry.address(NodeId(2)), Some(to));
}

// Rules R-MEM-17, R-VIEW-15.
#[test]
fn a_private_region_goes_with_its_member() {
    let mut registry = four(false);
    enter(&mut registry, 2, [9]);
    publish(&mut registry, 4, [9]);
    settle(&mut registry);
    let private = registry.nodes[&NodeId(2)].private.unwrap();
    let ([from, _], [to, _]) = (places(2, 0), places(2, 7));
    let place = |registry: &Registry| registry.region_address(private);
    assert_eq!(place(&registry), Some(from));
    let hello = hello_from(&registry, 2, 7, true);
    greet(&mut registry, 2, hello);
    let batch = registry.batch(NOW);
    assert_eq!(place(&registry), Some(to));
    let mut told = updates(&batch, 4).iter();
    assert!(told.any(|update| matches!(update, Update::View(step)
        if step.region == private && step.changed.iter().any(|member| member.address == to))));
    check(&registry);
}
