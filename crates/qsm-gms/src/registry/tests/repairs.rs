//! The limit of repairs is told to all nodes, and to each that comes.

use qsm_wire::membership::{RepairLimit, ToldLimit};

use super::*;

const LIMIT: RepairLimit = RepairLimit {
    bytes_per_second: 0,
    share_ppm: 50_000,
};

/// The limits that a batch tells a node.
fn told(batch: &Batch, node: u64) -> Vec<RepairLimit> {
    let updates = updates(batch, node).iter();
    let limits = updates.filter_map(|update| match update {
        Update::Repairs { told } => Some(told.limit),
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
    // That there is none is told, too: another service may have told something older.
    admit(&mut registry, 4);
    assert_eq!(told(&registry.batch(NOW), 4), none);
    assert_eq!(registry.stats.repair_limits, 2);
}

const OTHER: RepairLimit = RepairLimit {
    bytes_per_second: 1_000_000,
    share_ppm: 0,
};

fn report(number: u64, limit: RepairLimit) -> Hello {
    Hello {
        repairs: ToldLimit { number, limit },
        ..hello()
    }
}

/// The limit of a service that begins with this one, after nodes have reported.
fn after(first: RepairLimit, reports: &[Hello]) -> (RepairLimit, u64) {
    let mut registry = registry(1);
    registry.begin_with_repair_limit(first);
    registry.recall_repair_limit(reports.iter());
    (registry.repair_limit(), registry.repairs.number)
}

// Rules R-NAK-16, R-MEM-6.
#[test]
fn a_service_that_begins_recalls_the_newest_limit_that_nodes_were_told() {
    let none = RepairLimit::default();
    let reports = [report(2, LIMIT), report(3, OTHER), report(0, none)];
    assert_eq!(after(none, &reports), (OTHER, 3));
    assert_eq!(
        after(LIMIT, &reports),
        (OTHER, 3),
        "what holds goes before what was configured"
    );
    assert_eq!(after(LIMIT, &[report(0, none)]), (LIMIT, 1));
    assert_eq!(
        after(LIMIT, &[report(4, none)]),
        (none, 4),
        "that there is none, too"
    );
    assert_eq!(after(none, &[]), (none, 0));
}

// Rule R-NAK-16.
#[test]
fn an_order_before_the_beginning_is_newer_than_what_nodes_report() {
    let mut registry = registry(1);
    registry.apply(NOW, Command::LimitRepairs(LIMIT));
    registry.recall_repair_limit([report(7, OTHER)].iter());
    assert_eq!(registry.repairs.number, 8);
    assert_eq!(registry.repair_limit(), LIMIT);
}

// Rule R-NAK-16.
#[test]
fn a_node_of_another_service_brings_a_newer_limit_for_all() {
    let mut registry = registry(1);
    for node in 1..=2 {
        admit(&mut registry, node);
    }
    registry.apply(NOW, Command::LimitRepairs(LIMIT));
    registry.batch(NOW);
    let greet = |hello| {
        let node = NodeId(3);
        Command::Greet { node, hello }
    };
    registry.apply(NOW, greet(report(1, OTHER)));
    let batch = registry.batch(NOW);
    assert_eq!(
        [1, 3].map(|node| told(&batch, node)),
        [vec![], vec![LIMIT]],
        "it is not newer"
    );
    registry.apply(NOW, greet(report(2, OTHER)));
    let batch = registry.batch(NOW);
    assert_eq!([1, 2, 3].map(|node| told(&batch, node)), [[OTHER]; 3]);
}
