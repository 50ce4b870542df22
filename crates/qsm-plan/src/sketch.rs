use qsm_wire::{GroupId, mix};

use crate::rates::{RATE_PRIOR, Rates};

/// Hashes of a sketch.
pub(crate) const HASHES: usize = 16;
/// Hashes of a band: sets that agree in one band are compared.
const BAND: usize = 2;
/// Bands of a sketch.
pub(crate) const BANDS: usize = HASHES / BAND;
/// The weight of a group with the prior rate.
const WEIGHT_PRIOR: u64 = 16;
const WEIGHT_MAX: u64 = 1 << 20;

/// The smallest hashes of a set of groups: two sets agree in about as many of them as they have
/// groups in common, weighted by rate (weighted MinHash).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sketch([u32; HASHES]);

impl Sketch {
    /// The sketch of no group.
    pub(crate) const EMPTY: Self = Self([u32::MAX; HASHES]);

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// In how many hashes two sets agree.
    pub(crate) fn matches(&self, other: &Self) -> u32 {
        self.0
            .iter()
            .zip(&other.0)
            .map(|(one, two)| u32::from(one == two))
            .sum()
    }

    /// The hashes of a band, as one number.
    pub(crate) fn band(&self, band: usize) -> u64 {
        let at = band * BAND;
        u64::from(self.0[at]) << 32 | u64::from(self.0[at + 1])
    }

    /// Takes a thing with these hashes into the set.
    #[inline]
    fn add(&mut self, hashes: &[u32; HASHES]) {
        for (least, hash) in self.0.iter_mut().zip(hashes) {
            *least = (*least).min(*hash);
        }
    }
}

/// The hashes of a numbered thing of this weight.
fn hashes(number: u32, weight: u64) -> [u32; HASHES] {
    let mut hash = mix(u64::from(number) + 1);
    core::array::from_fn(|_| {
        hash = mix(hash.wrapping_add(0x9e37_79b9_7f4a_7c15));
        // The smallest of many uniform numbers, each divided by its weight, belongs to each of them
        // with a probability in proportion to its weight, nearly.
        u32::try_from((hash >> 32) / weight).unwrap_or(u32::MAX)
    })
}

/// The hashes of all groups that were seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hashes {
    table: Vec<[u32; HASHES]>,
}

impl Hashes {
    /// Computes the hashes of groups up to this one.
    pub(crate) fn know(&mut self, group: GroupId, rates: &Rates) {
        let known = self.table.len();
        let new = (known..=group.0 as usize).filter_map(|at| u32::try_from(at).ok());
        self.table.extend(new.map(|at| of(GroupId(at), rates)));
    }

    /// A group's rate has changed.
    pub(crate) fn change(&mut self, group: GroupId, rates: &Rates) {
        if let Some(entry) = self.table.get_mut(group.0 as usize) {
            *entry = of(group, rates);
        }
    }

    /// The sketch of a set.
    pub(crate) fn sketch(&self, groups: impl Iterator<Item = GroupId>) -> Sketch {
        let mut sketch = Sketch::EMPTY;
        for group in groups {
            if let Some(hashes) = self.table.get(group.0 as usize) {
                sketch.add(hashes);
            }
        }
        sketch
    }
}

fn of(group: GroupId, rates: &Rates) -> [u32; HASHES] {
    let rate = u64::from(rates.of(group)) * WEIGHT_PRIOR / u64::from(RATE_PRIOR);
    hashes(group.0, rate.clamp(1, WEIGHT_MAX))
}

/// The sketch of numbered things that weigh the same.
pub(crate) fn plain(numbers: impl Iterator<Item = u32>) -> Sketch {
    let mut sketch = Sketch::EMPTY;
    numbers.for_each(|number| sketch.add(&hashes(number, 1)));
    sketch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sketches_agree_as_far_as_sets_do() {
        let mut table = Hashes::default();
        table.know(GroupId(400_000), &Rates::default());
        let set = |from: u32, to: u32| table.sketch((from..to).map(GroupId));
        let agree = |overlap: u32| -> u32 {
            (0..100)
                .map(|at| {
                    let from = at * 4000;
                    set(from, from + 1000)
                        .matches(&set(from + 1000 - overlap, from + 2000 - overlap))
                })
                .sum()
        };
        // Of 1600 hashes; the share is overlap / (2000 - overlap).
        assert_eq!(agree(1000), 1600);
        assert!((430..640).contains(&agree(500)), "{}", agree(500));
        assert!(agree(0) < 10);
    }

    #[test]
    fn groups_with_high_rates_decide() {
        let mut rates = Rates::default();
        rates.set(GroupId(0), 1_000_000);
        let mut table = Hashes::default();
        table.know(GroupId(1000), &rates);
        let one = table.sketch((0..100).map(GroupId));
        let two = table.sketch([0].into_iter().chain(500..599).map(GroupId));
        assert!(one.matches(&two) > 10, "{}", one.matches(&two));
    }
}
