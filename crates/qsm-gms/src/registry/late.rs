use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use qsm_proto::Instant;
use qsm_wire::{Incarnation, NodeId, Origin};

/// Senders waited for; of others everybody is told that they are dead.
const SENDERS_MAX: usize = 1 << 16;

/// Senders that have not reported, the newest life of each node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LateSenders {
    lives: BTreeMap<NodeId, LateSender>,
    deadlines: BTreeSet<(Instant, NodeId)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LateSender {
    incarnation: Incarnation,
    until: Instant,
}

impl LateSenders {
    /// Waits for a life; `false`: there is no time or room for it, or another life of its node is
    /// waited for.
    pub(super) fn wait_for(&mut self, now: Instant, origin: Origin, patience: Duration) -> bool {
        let Origin { node, incarnation } = origin;
        if let Some(life) = self.lives.get(&node) {
            return life.incarnation == incarnation;
        }
        if patience.is_zero() || self.lives.len() >= SENDERS_MAX {
            return false;
        }
        let until = now.after(patience);
        self.lives.insert(node, LateSender { incarnation, until });
        self.deadlines.insert((until, node));
        true
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    pub(super) fn contains(&self, origin: Origin) -> bool {
        let life = self.lives.get(&origin.node);
        life.is_some_and(|life| life.incarnation == origin.incarnation)
    }

    /// No later life of the node is waited for.
    pub(super) fn is_newest(&self, origin: Origin) -> bool {
        let life = self.lives.get(&origin.node);
        life.is_none_or(|life| life.incarnation <= origin.incarnation)
    }

    /// Waits no more for a life of this node; returns it.
    pub(super) fn take(&mut self, node: NodeId) -> Option<Origin> {
        let LateSender { incarnation, until } = self.lives.remove(&node)?;
        self.deadlines.remove(&(until, node));
        Some(Origin { node, incarnation })
    }

    pub(super) fn take_expired(&mut self, now: Instant) -> Option<Origin> {
        let (at, node) = self.deadlines.first().copied()?;
        if at > now {
            return None;
        }
        self.take(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    #[test]
    fn senders_that_are_waited_for_are_limited_and_expire_in_order() {
        let mut late = LateSenders::default();
        let second = Duration::from_secs(1);
        for node in 0..SENDERS_MAX as u64 {
            assert!(late.wait_for(Instant(node), origin(node), second));
        }
        assert!(!late.wait_for(Instant(0), origin(1 << 20), second));
        assert!(
            late.wait_for(Instant(9), origin(3), second),
            "it is waited for"
        );
        let other = Origin {
            incarnation: Incarnation(2),
            ..origin(3)
        };
        assert!(!late.wait_for(Instant(9), other, second) && !late.contains(other));
        assert_eq!(late.take(NodeId(0)), Some(origin(0)));
        assert_eq!(late.next_timeout(), Some(Instant(1).after(second)));
        let now = Instant(2).after(second);
        let expired: Vec<Origin> = core::iter::from_fn(|| late.take_expired(now)).collect();
        assert_eq!(expired, [origin(1), origin(2)]);
        assert!(!LateSenders::default().wait_for(now, origin(1), Duration::ZERO));
    }
}
