//! For how long senders follow a slow node, by the groups that it receives.

use core::time::Duration;

use qsm_plan::LaggardFate;

use super::*;

// Rule R-RATE-8.
#[test]
fn the_most_patient_group_of_a_node_decides() {
    let hints = "pace slowest: g1\npace bounded 3s: g2 g20\npace bounded 60s: g2*\n";
    let mut registry = hinted_registry(1, hints);
    let usual = Duration::from_secs(10);
    let sets: [&[u64]; 7] = [&[3], &[2], &[2, 3], &[21, 3], &[20], &[1, 2], &[]];
    for (node, groups) in (1..).zip(sets) {
        admit(&mut registry, node);
        enter(&mut registry, node, groups.iter().copied());
    }
    // What it publishes to does not count.
    publish(&mut registry, 2, [1]);
    registry.batch(NOW);
    let seconds = |node| registry.patience_with(NodeId(node), usual).as_secs();
    let patience: Vec<u64> = (1..=7).map(seconds).collect();
    assert_eq!(patience, [10, 3, 10, 60, 3, u64::MAX, 10]);
    let registry = hinted_registry(1, "");
    assert_eq!(registry.patience_with(NodeId(9), usual), usual);
}

// Rule R-RATE-12.
#[test]
fn the_mildest_fate_that_a_group_of_a_node_chooses_decides() {
    let hints = "pace bounded 3s then expel: g1\npace bounded 9s then demote: g2\n\
                 pace bounded 4s: g3\npace uncontrolled: g5\n";
    let mut registry = hinted_registry(1, hints);
    let sets: [&[u64]; 8] = [&[1], &[2], &[3], &[4], &[5], &[1, 2], &[1, 3], &[1, 4]];
    for (node, groups) in (1..).zip(sets) {
        admit(&mut registry, node);
        enter(&mut registry, node, groups.iter().copied());
    }
    publish(&mut registry, 1, [4]);
    registry.batch(NOW);
    let fates: Vec<LaggardFate> = (1..=9).map(|node| registry.fate_of(NodeId(node))).collect();
    let (apart, demoted) = (LaggardFate::Apart, LaggardFate::Demoted);
    let expelled = LaggardFate::Expelled;
    let expected = [
        expelled, demoted, apart, apart, apart, demoted, apart, apart, apart,
    ];
    assert_eq!(fates, expected);
}

/// Rates below which no sender is held, as a batch tells a node.
fn minima(batch: &Batch, node: u64) -> Vec<u32> {
    let updates = updates(batch, node).iter();
    let rates = updates.filter_map(|update| match update {
        Update::MinimumRate {
            packets_per_second, ..
        } => Some(*packets_per_second),
        _ => None,
    });
    rates.collect()
}

// Rule R-RATE-10.
#[test]
fn the_smallest_rate_of_a_region_s_groups_is_told_with_it() {
    let hints = "pace bounded 5s min 300/s: g1\npace slowest: g9\n";
    for (groups, expected) in [(&[1][..], vec![300]), (&[1, 2], vec![]), (&[9], vec![])] {
        let mut registry = hinted_registry(1, hints);
        for node in 1..=2 {
            admit(&mut registry, node);
            enter(&mut registry, node, groups.iter().copied());
        }
        let batch = registry.batch(NOW);
        assert_eq!(minima(&batch, 1), expected, "{groups:?}");
        assert_eq!(minima(&batch, 2), expected, "{groups:?}");
        // What does not change is not told again.
        admit(&mut registry, 3);
        enter(&mut registry, 3, groups.iter().copied());
        let batch = registry.batch(NOW);
        let again = [1, 2, 3].map(|node| minima(&batch, node).len());
        assert_eq!(again, [0, 0, expected.len()]);
    }
    // One that receives nothing else is waited for as any that no pace names.
    let mut registry = hinted_registry(1, "pace uncontrolled: g1\n");
    admit(&mut registry, 1);
    enter(&mut registry, 1, [1]);
    let batch = registry.batch(NOW);
    assert_eq!(minima(&batch, 1), [u32::MAX]);
    let usual = Duration::from_secs(10);
    assert_eq!(registry.patience_with(NodeId(1), usual), usual);
}
