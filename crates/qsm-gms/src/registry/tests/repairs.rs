//! The limit of repairs is told to all nodes, and to each that comes.

use qsm_wire::membership::RepairLimit;

use super::*;

const LIMIT: RepairLimit = RepairLimit {
    bytes_per_second: 0,
    share_ppm: 50_000,
};

/// The limits that a batch tells a node.
fn told(batch: &Batch, node: u64) -> Vec<RepairLimit> {
    let updates = updates(batch, node).iter();
    let limits = updates.filter_map(|update| match update {
        Update::Repairs { limit } => Some(*limit),
        _ => None,
    });
    limits.collect()
}

// Rule R-NAK-16.
#[test]
fn a_limit_is_told_to_all_and_to_each_that_comes_and_once() {
    let mut registry = registry(1);
    for node in 1..=2 {
        admit(&mut registry, node);
        enter(&mut registry, node, [1]);
    }
    let batch = registry.batch(NOW);
    assert_eq!([1, 2].map(|node| told(&batch, node).len()), [0, 0]);
    registry.apply(NOW, Command::LimitRepairs(LIMIT));
    assert_eq!(registry.repair_limit(), LIMIT);
    assert!(registry.has_changes());
    admit(&mut registry, 3);
    let batch = registry.batch(NOW);
    assert_eq!([1, 2, 3].map(|node| told(&batch, node)), [[LIMIT]; 3]);
    // The same again changes nothing.
    registry.apply(NOW, Command::LimitRepairs(LIMIT));
    assert!(!registry.has_changes());
    // None is told to those who have one, and to nobody else.
    registry.apply(NOW, Command::LimitRepairs(RepairLimit::default()));
    let batch = registry.batch(NOW);
    let none = [RepairLimit::default()];
    assert_eq!([1, 2, 3].map(|node| told(&batch, node)), [none; 3]);
    admit(&mut registry, 4);
    assert!(told(&registry.batch(NOW), 4).is_empty());
    assert_eq!(registry.stats.repair_limits, 2);
}
