//! A table by group number.
//!
//! The membership service numbers the groups of the whole cluster densely, but a node knows a few
//! of them, spread over all numbers. An array over the numbers, or pages of one, would cost a node
//! memory for groups that are none of its business: with 10,000 nodes and 100,000 groups of which
//! each node has 100, that was 4 MB a node. So this is a hash table with open addressing, whose
//! size follows the groups a node has to do with. The hash is a fixed multiplication and nothing
//! depends on the order of slots, so that a run is the same everywhere. An ordered map would be
//! simpler; it costs each message several searches of a dozen comparisons.

use qsm_wire::GroupId;

/// Values by group; a group that was never touched has the default value. There is no removal:
/// values that are the default again are dropped when the table would have to grow.
#[derive(Debug)]
pub(crate) struct GroupTable<V> {
    /// A power of two of slots, at most [`GroupTable::FULL`] of them taken; or none at all.
    slots: Vec<Option<(GroupId, V)>>,
    taken: usize,
    /// Of a hash's 64 bits, all but those that number the slots.
    shift: u32,
}

impl<V> Default for GroupTable<V> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            taken: 0,
            shift: 0,
        }
    }
}

impl<V: Default + PartialEq> GroupTable<V> {
    /// Slots of the smallest table.
    const SLOTS_MIN: usize = 8;
    /// Share of the slots that may be taken: with linear probing a search then looks at two or
    /// three of them, and at one where numbers follow each other.
    const FULL: (usize, usize) = (3, 4);

    /// The group's value, if it has one.
    pub(crate) fn get(&self, group: GroupId) -> Option<&V> {
        if self.slots.is_empty() {
            return None;
        }
        let slot = &self.slots[self.slot(group)];
        slot.as_ref().map(|(_, value)| value)
    }

    /// The group's value, if it has one, to be changed.
    pub(crate) fn get_mut(&mut self, group: GroupId) -> Option<&mut V> {
        if self.slots.is_empty() {
            return None;
        }
        let at = self.slot(group);
        self.slots[at].as_mut().map(|(_, value)| value)
    }

    /// The group's value, to be changed; the default if it had none.
    pub(crate) fn entry(&mut self, group: GroupId) -> &mut V {
        let full = self.slots.len() / Self::FULL.1 * Self::FULL.0;
        if self.taken >= full && self.get(group).is_none() {
            self.make_room();
        }
        let at = self.slot(group);
        let slot = &mut self.slots[at];
        self.taken += usize::from(slot.is_none());
        let (_, value) = slot.get_or_insert_with(|| (group, V::default()));
        value
    }

    /// All values that there are, in no order that means anything.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.slots.iter_mut().flatten().map(|(_, value)| value)
    }

    /// Places, of which some are taken.
    pub(crate) fn places(&self) -> usize {
        self.slots.len()
    }

    /// The groups that have a value in so many places from this one on.
    pub(crate) fn look(&self, place: usize, count: usize) -> impl Iterator<Item = (GroupId, &V)> {
        let slots = self.slots.iter().skip(place).take(count).flatten();
        slots.map(|(group, value)| (*group, value))
    }

    /// All groups that have a value, by number.
    pub(crate) fn into_sorted(self) -> Vec<(GroupId, V)> {
        let mut values: Vec<_> = self.slots.into_iter().flatten().collect();
        values.sort_unstable_by_key(|(group, _)| *group);
        values
    }

    /// Where the group is, or would be.
    fn slot(&self, group: GroupId) -> usize {
        let mut at = self.home(group);
        while self.slots[at].as_ref().is_some_and(|(id, _)| *id != group) {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    /// Where a search begins. The multiples of the golden ratio spread numbers in any regular
    /// order as evenly as can be (Knuth, volume 3, section 6.4).
    fn home(&self, group: GroupId) -> usize {
        let hash = u64::from(group.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> self.shift) as usize
    }

    /// Drops what is the default again, and makes room for as many values as are left.
    fn make_room(&mut self) {
        let slots = core::mem::take(&mut self.slots).into_iter().flatten();
        let default = V::default();
        let values: Vec<_> = slots.filter(|(_, value)| *value != default).collect();
        let size = (2 * values.len()).next_power_of_two();
        self.slots.resize_with(size.max(Self::SLOTS_MIN), || None);
        self.shift = u64::BITS - self.slots.len().trailing_zeros();
        self.taken = values.len();
        for (group, value) in values {
            let at = self.slot(group);
            self.slots[at] = Some((group, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, Seed};
    use std::collections::BTreeMap;

    #[test]
    fn it_holds_what_an_ordered_map_holds() {
        let mut random = Random::new(Seed(1), "table");
        let mut table = GroupTable::default();
        let mut map = BTreeMap::new();
        for step in 0..20_000_u64 {
            let range = if step < 10_000 {
                300
            } else {
                u64::from(u32::MAX)
            };
            let group = GroupId(u32::try_from(random.below(range)).unwrap());
            let value = random.below(3);
            *table.entry(group) = value;
            map.insert(group, value);
        }
        for (group, value) in &map {
            assert_eq!(table.get(*group).copied().unwrap_or(0), *value, "{group}");
        }
        assert_eq!(table.get(GroupId(301)), None);
        let sum: u64 = table.values_mut().map(|value| *value).sum();
        assert_eq!(sum, map.values().sum::<u64>());
    }

    #[test]
    fn its_size_follows_the_values_not_the_numbers() {
        let mut table = GroupTable::default();
        for group in 0..100 {
            *table.entry(GroupId(group * 1000)) = 1_u64;
        }
        assert!(table.slots.len() <= 256);
        // Groups that come and go do not make it grow.
        for group in 0..100_000 {
            *table.entry(GroupId(group)) = 1;
            *table.entry(GroupId(group)) = 0;
        }
        assert!(table.slots.len() <= 512);
    }

    #[test]
    fn numbers_that_follow_each_other_are_spread() {
        let mut table = GroupTable::default();
        (0..3000).for_each(|group| *table.entry(GroupId(group)) = true);
        let far = (0..3000).filter(|group| {
            let group = GroupId(*group);
            table.slot(group) != table.home(group)
        });
        assert!(far.count() < 300);
    }
}
