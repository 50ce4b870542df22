//! For how long senders follow a slow node, by the groups that it receives.

use core::time::Duration;

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
