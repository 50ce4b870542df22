use std::collections::{BTreeSet, VecDeque};

use qsm_wire::Origin;

/// Lives that are over, by the word of the membership service; the oldest are forgotten.
#[derive(Debug, Default)]
pub(super) struct Dead {
    all: BTreeSet<Origin>,
    order: VecDeque<Origin>,
}

/// Lives remembered.
const DEAD_MAX: usize = 1024;

impl Dead {
    pub(super) fn insert(&mut self, origin: Origin) {
        if !self.all.insert(origin) {
            return;
        }
        self.order.push_back(origin);
        if self.order.len() > DEAD_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, origin: Origin) -> bool {
        self.all.contains(&origin)
    }

    pub(super) fn list(&self) -> Vec<Origin> {
        self.order.iter().copied().collect()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm_wire::{Incarnation, NodeId};

    fn origin(incarnation: u32) -> Origin {
        Origin {
            node: NodeId(1),
            incarnation: Incarnation(incarnation),
        }
    }

    #[test]
    fn the_newest_deaths_are_remembered() {
        let mut dead = Dead::default();
        // The highest number first: age counts, not order.
        for incarnation in (0..=1024).rev() {
            dead.insert(origin(incarnation));
            dead.insert(origin(incarnation));
        }
        assert_eq!(dead.list().len(), 1024);
        assert!(!dead.contains(origin(1024)));
        assert!(dead.contains(origin(1023)) && dead.contains(origin(0)));
        dead.clear();
        assert!(dead.list().is_empty() && !dead.contains(origin(0)));
    }
}
