//! Lifetimes of messages are told with regions, to all who are told of them.

use super::*;

/// What a batch tells a node of lifetimes: the names of groups with one, and milliseconds.
fn told(registry: &Registry, batch: &Batch, node: u64) -> Vec<Vec<(String, u32)>> {
    let updates = updates(batch, node);
    let lifetimes = updates.iter().filter_map(|update| match update {
        Update::Lifetimes { groups, .. } => Some(groups),
        _ => None,
    });
    let name = |group| registry.groups.get(group).unwrap().name.clone();
    let named = lifetimes.map(|groups| groups.iter().map(|one| (name(one.group), one.ms)));
    named.map(Iterator::collect).collect()
}

// Rule R-DATA-14.
#[test]
fn members_and_publishers_are_told_which_groups_of_a_region_have_a_lifetime() {
    let mut registry = hinted_registry(1, "lifetime 200ms: g1*\nlifetime 5s: g11\n");
    for node in 1..=2 {
        admit(&mut registry, node);
        enter(&mut registry, node, [1, 2, 11]);
    }
    admit(&mut registry, 3);
    publish(&mut registry, 3, [2]);
    let batch = registry.batch(NOW);
    let both = vec![vec![("g1".to_owned(), 200), ("g11".to_owned(), 5000)]];
    for node in 1..=3 {
        // Also a publisher to none of them: others' messages share its packets' region, and it is asked.
        assert_eq!(told(&registry, &batch, node), both, "{node}");
        let last = updates(&batch, node).last();
        let is_last = matches!(last, Some(Update::Lifetimes { .. }));
        assert!(is_last, "after the region and its view: {last:?}");
    }
    // What does not change is not told again.
    admit(&mut registry, 4);
    enter(&mut registry, 4, [1, 2, 11]);
    let batch = registry.batch(NOW);
    let again = [1, 2, 3, 4].map(|node| told(&registry, &batch, node).len());
    assert_eq!(again, [0, 0, 0, 1]);
    check(&registry);
}

// Rules R-DATA-14, R-MEM-6.
#[test]
fn a_service_that_takes_over_tells_its_lifetimes() {
    let mut registry = hinted_registry(1, "lifetime 200ms: g1\n");
    let groups = [1, 2];
    for node in 1..=2 {
        admit(&mut registry, node);
        enter(&mut registry, node, groups);
    }
    let batch = registry.batch(NOW);
    assert_eq!(told(&registry, &batch, 1).len(), 1);
    registry.resume(NodeId(1), BTreeMap::new(), &[]);
    let batch = registry.batch(NOW);
    let lifetimes = vec![vec![("g1".to_owned(), 200)]];
    assert_eq!(told(&registry, &batch, 1), lifetimes);
    assert!(told(&registry, &batch, 2).is_empty());
}

#[test]
fn without_lifetimes_nothing_is_told_of_them() {
    let mut registry = hinted_registry(1, "domain red: n1\n");
    for node in 1..=2 {
        admit(&mut registry, node);
        enter(&mut registry, node, [1]);
    }
    let batch = registry.batch(NOW);
    assert!((1..=2).all(|node| told(&registry, &batch, node).is_empty()));
}
