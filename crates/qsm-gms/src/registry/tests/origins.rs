//! Proof of origin is demanded by regions, and who publishes there is told with keys and with what is barred to it.

use std::sync::Arc;

use super::*;
use crate::service::Rights;

/// Proof as a batch tells a node of it: the demand, and who signs.
fn told(batch: &Batch, node: u64) -> (Option<OriginDemand>, Option<Vec<u64>>) {
    let updates = updates(batch, node);
    let mut demands = updates.iter().filter_map(|update| match update {
        Update::Proof { demand, .. } => Some(*demand),
        _ => None,
    });
    let mut signers = updates.iter().filter_map(|update| match update {
        Update::Signers { signers, .. } => {
            let right = |one: &Signer| one.key == format!("key {}", one.origin.node.0);
            assert!(signers.iter().all(right), "{signers:?}");
            Some(signers.iter().map(|one| one.origin.node.0).collect())
        }
        _ => None,
    });
    (demands.next(), signers.next())
}

fn registry(hints: &str, nodes: u64) -> Registry {
    let mut registry = hinted_registry(1, hints);
    for node in 1..=nodes {
        registry.note_key(NodeId(node), format!("key {node}"), None);
        admit(&mut registry, node);
    }
    registry
}

// Rule R-SEC-34.
#[test]
fn the_strictest_demand_of_a_region_and_its_publishers_are_told() {
    let hints = "origin audit: g*\norigin verified: g2\norigin off: g4\n";
    let mut registry = registry(hints, 5);
    for node in 1..=2 {
        enter(&mut registry, node, [1, 2]);
    }
    enter(&mut registry, 3, [4]);
    publish(&mut registry, 3, [1]);
    publish(&mut registry, 1, [2]);
    let batch = registry.batch(NOW);
    let verified = Some(OriginDemand::Verified);
    for node in 1..=2 {
        assert_eq!(told(&batch, node), (verified, Some(vec![1, 3])), "{node}");
    }
    // It sends there, and receives nothing; what it receives demands nothing.
    assert_eq!(told(&batch, 3), (verified, None));
    // Who comes to publish is told to members, and what has not changed to nobody.
    publish(&mut registry, 5, [1, 4]);
    let batch = registry.batch(NOW);
    for node in 1..=2 {
        assert_eq!(told(&batch, node), (None, Some(vec![1, 3, 5])), "{node}");
    }
    assert_eq!(
        (told(&batch, 5), told(&batch, 3)),
        ((verified, None), (None, None))
    );
    check(&registry);
}

// Rule R-SEC-34.
#[test]
fn who_has_proven_no_key_is_no_signer() {
    let mut registry = registry("origin verified: *\n", 3);
    enter(&mut registry, 1, [1]);
    registry.forget_key(NodeId(2));
    publish(&mut registry, 2, [1]);
    publish(&mut registry, 3, [1]);
    let batch = registry.batch(NOW);
    assert_eq!(told(&batch, 1).1, Some(vec![3]));
    assert_eq!(told(&batch, 2).0, Some(OriginDemand::Verified));
}

// Rules R-SEC-34, R-MEM-6.
#[test]
fn a_service_that_takes_over_tells_what_it_demands() {
    let mut registry = registry("origin audit: g1\n", 2);
    for node in 1..=2 {
        enter(&mut registry, node, [1]);
    }
    publish(&mut registry, 2, [1]);
    registry.batch(NOW);
    registry.resume(NodeId(1), BTreeMap::new(), &[]);
    let batch = registry.batch(NOW);
    let audit = Some(OriginDemand::Audit);
    assert_eq!(told(&batch, 1), (audit, Some(vec![2])));
    assert_eq!(told(&batch, 2), (None, None));
}

#[test]
fn without_demands_nobody_is_told_of_signers() {
    let mut registry = registry("pace slowest: g1\n", 2);
    enter(&mut registry, 1, [1]);
    publish(&mut registry, 2, [1]);
    let batch = registry.batch(NOW);
    assert_eq!(
        (told(&batch, 1), told(&batch, 2)),
        ((None, None), (None, None))
    );
}

/// Rights to publish to one group.
#[derive(Debug)]
struct Only(&'static str);

impl Rights for Only {
    fn name(&self) -> &'static str {
        "n"
    }

    fn permits(&self, role: Role, group: &str) -> bool {
        role == Role::Subscriber || group == self.0
    }

    fn key(&self) -> String {
        "key 3".to_owned()
    }

    fn summary(&self) -> String {
        String::new()
    }
}

// Rule R-SEC-36.
#[test]
fn groups_that_are_barred_to_a_publisher_are_told_and_follow_the_region() {
    let mut registry = registry("origin verified: g*\n", 3);
    registry.note_key(NodeId(3), "key 3".to_owned(), Some(Arc::new(Only("g1"))));
    enter(&mut registry, 1, [1, 2]);
    publish(&mut registry, 2, [1]);
    publish(&mut registry, 3, [1]);
    let barred = |batch: &Batch| {
        let updates = updates(batch, 1).iter();
        let signers = updates.filter_map(|update| match update {
            Update::Signers { signers, .. } => Some(signers.clone()),
            _ => None,
        });
        let signers: Vec<Signer> = signers.flatten().collect();
        let barred = signers.into_iter().map(|one| one.barred);
        barred.collect::<Vec<_>>()
    };
    let number = |registry: &Registry, name| registry.groups.find(name).unwrap();
    let batch = registry.batch(NOW);
    let second = number(&registry, "g2");
    assert_eq!(barred(&batch), [vec![], vec![second]]);
    enter(&mut registry, 1, [3]);
    let batch = registry.batch(NOW);
    let third = number(&registry, "g3");
    assert_eq!(barred(&batch), [vec![], vec![second, third]]);
    check(&registry);
}
