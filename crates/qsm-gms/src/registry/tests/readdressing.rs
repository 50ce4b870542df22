//! A region at whose address others send moves, with all who are in it.

use super::*;

fn home(registry: &Registry, node: u64) -> RegionId {
    registry.nodes[&NodeId(node)].home.unwrap()
}

// Rule R-MEM-20.
#[test]
fn all_members_move_to_a_region_at_another_address_and_that_one_is_not_given_again() {
    let mut registry = registry(1);
    for node in 1..=3 {
        admit(&mut registry, node);
        enter(&mut registry, node, [1, 2]);
    }
    admit(&mut registry, 4);
    publish(&mut registry, 4, [2]);
    registry.batch(NOW);
    let old = home(&registry, 1);
    let disturbed = registry.region_address(old).unwrap();
    assert_eq!(registry.is_movable(old, NodeId(2)), Some(true));
    assert_eq!(registry.is_movable(old, NodeId(4)), None, "a publisher");
    registry.apply(NOW, Command::Readdress { region: old });
    assert_eq!(registry.is_movable(old, NodeId(2)), None, "once");
    let batch = registry.batch(NOW);
    let new = home(&registry, 1);
    assert_ne!(new, old);
    assert_eq!([2, 3].map(|node| home(&registry, node)), [new; 2]);
    let address = registry.region_address(new).unwrap();
    assert_ne!(address.ip(), disturbed.ip());
    for node in 1..=4 {
        let told = updates(&batch, node).iter().any(|update| match update {
            Update::Region {
                region,
                address: at,
                ..
            } => (*region, *at) == (new, address),
            _ => false,
        });
        assert!(told, "{node}");
    }
    // Make before break: who leaves the old one is still its member.
    assert!(registry.nodes[&NodeId(1)].is_leaving(old));
    assert_eq!(registry.stats.regions_readdressed, 1);
    // A newcomer is with the others.
    admit(&mut registry, 5);
    enter(&mut registry, 5, [1, 2]);
    registry.batch(NOW);
    assert_eq!(home(&registry, 5), new);
}

// Rule R-MEM-20.
#[test]
fn a_region_that_all_are_leaving_is_entered_by_nobody_again() {
    let mut registry = registry(1);
    for node in 1..=2 {
        admit(&mut registry, node);
        enter(&mut registry, node, [1, 2]);
    }
    registry.batch(NOW);
    let old = home(&registry, 1);
    for node in 1..=2 {
        make_common(&mut registry, 2 + node);
        enter(&mut registry, node, [2 + node]);
    }
    registry.batch(NOW);
    assert!([1, 2].iter().all(|node| home(&registry, *node) != old));
    assert_eq!(registry.is_movable(old, NodeId(2)), Some(true));
    registry.apply(NOW, Command::Readdress { region: old });
    admit(&mut registry, 3);
    enter(&mut registry, 3, [1, 2]);
    registry.batch(NOW);
    assert_ne!(home(&registry, 3), old);
}

// Rule R-MEM-20.
#[test]
fn private_regions_and_those_that_are_not_there_do_not_move() {
    let mut registry = registry(1);
    for node in 1..=2 {
        admit(&mut registry, node);
        enter(&mut registry, node, [1, 10 + node]);
    }
    registry.batch(NOW);
    let private = registry.nodes[&NodeId(1)].private.unwrap();
    assert_eq!(registry.is_movable(private, NodeId(1)), Some(false));
    assert_eq!(registry.is_movable(RegionId(99), NodeId(1)), None);
    let region = RegionId(99);
    registry.apply(NOW, Command::Readdress { region });
    assert!(!registry.has_changes());
}
