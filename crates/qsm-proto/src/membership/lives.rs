use std::collections::{BTreeSet, VecDeque};

use qsm_wire::Origin;

/// Lives, such as those that are over by the word of the membership service; those that came
/// first are forgotten if there are too many.
#[derive(Debug, Default)]
pub(super) struct LifeTable {
    all: BTreeSet<Origin>,
    order: VecDeque<Origin>,
}

/// Lives remembered.
const LIVES_MAX: usize = 1024;

impl LifeTable {
    pub(super) fn insert(&mut self, origin: Origin) {
        if !self.all.insert(origin) {
            return;
        }
        self.order.push_back(origin);
        if self.order.len() > LIVES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, origin: Origin) {
        if self.all.remove(&origin) {
            self.order.retain(|other| *other != origin);
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
    fn the_newest_lives_are_remembered() {
        let mut dead = LifeTable::default();
        // The highest number first: age counts, not order.
        for incarnation in (0..=1024).rev() {
            dead.insert(origin(incarnation));
            dead.insert(origin(incarnation));
        }
        assert_eq!(dead.list().len(), 1024);
        assert!(!dead.contains(origin(1024)));
        assert!(dead.contains(origin(1023)) && dead.contains(origin(0)));
        dead.remove(origin(3));
        assert!(!dead.contains(origin(3)) && dead.list().len() == 1023);
        dead.clear();
        assert!(dead.list().is_empty() && !dead.contains(origin(0)));
    }
}
