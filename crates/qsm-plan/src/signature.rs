use qsm_wire::{GroupId, Random, mix};

/// A set of groups in 128 bits: the XOR of one pseudo-random value per group, so that entering
/// or leaving a group is one operation (R041, algorithms (a) step 1).
pub type Signature = u128;

/// A key that makes the values unpredictable from outside. Two sets with one signature are told apart
/// by comparing them; the key only keeps that from being provoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureKey {
    low: u64,
    high: u64,
}

impl SignatureKey {
    /// A key that is drawn.
    #[must_use]
    pub fn new(random: &mut Random) -> Self {
        Self {
            low: random.bits(),
            high: random.bits(),
        }
    }

    /// One group's value.
    #[must_use]
    pub fn group(&self, group: GroupId) -> Signature {
        let number = u64::from(group.0) + 1;
        let half = |key: u64| u128::from(mix(mix(number ^ key).wrapping_add(key)));
        half(self.low) | (half(self.high) << 64)
    }

    /// A set's.
    pub fn set(&self, groups: impl IntoIterator<Item = GroupId>) -> Signature {
        let values = groups.into_iter().map(|group| self.group(group));
        values.fold(0, |sum, value| sum ^ value)
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::Seed;

    use super::*;

    #[test]
    fn a_signature_depends_on_the_set_and_not_on_the_way_to_it() {
        let key = SignatureKey::new(&mut Random::new(Seed(1), "key"));
        let set = key.set([GroupId(1), GroupId(2), GroupId(3)]);
        let way = key.set([GroupId(3), GroupId(9), GroupId(1)]);
        assert_eq!(way ^ key.group(GroupId(9)) ^ key.group(GroupId(2)), set);
        assert_eq!(key.set([]), 0);
    }

    #[test]
    fn values_of_neighbouring_groups_share_no_half() {
        let key = SignatureKey::new(&mut Random::new(Seed(2), "key"));
        let mut halves: Vec<u64> = (0..100_000)
            .flat_map(|id| {
                let value = key.group(GroupId(id));
                [(value >> 64) as u64, value as u64]
            })
            .collect();
        halves.sort_unstable();
        halves.dedup();
        assert_eq!(halves.len(), 200_000);
    }
}
