/// A set of numbers as sorted runs without overlap. Deliveries come almost in order, so there are
/// few runs and the last one grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    runs: Vec<(u64, u64)>,
}

impl Runs {
    /// Adds `first..=last`; an empty range adds nothing.
    pub(crate) fn add(&mut self, first: u64, last: u64) {
        if last < first {
            return;
        }
        let from = self
            .runs
            .partition_point(|run| run.1.saturating_add(1) < first);
        let to = self
            .runs
            .partition_point(|run| run.0 <= last.saturating_add(1));
        let merged = self.runs[from..to].iter().fold((first, last), |all, run| {
            (all.0.min(run.0), all.1.max(run.1))
        });
        if self.runs.is_empty() {
            // One run is all that most sets ever have.
            self.runs.reserve_exact(1);
        }
        self.runs.splice(from..to.max(from), [merged]);
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let at = self.runs.partition_point(|run| run.1 < number);
        self.runs.get(at).is_some_and(|run| run.0 <= number)
    }

    /// Whether any number of `first..=last` is held.
    pub(crate) fn overlaps(&self, first: u64, last: u64) -> bool {
        let at = self.runs.partition_point(|run| run.1 < first);
        self.runs.get(at).is_some_and(|run| run.0 <= last)
    }

    /// The smallest number that is not in `other`.
    pub(crate) fn first_outside(&self, other: &Self) -> Option<u64> {
        let mut runs = self.runs.iter();
        runs.find_map(|(first, last)| other.first_missing(&Self::default(), *first, *last))
    }

    /// Adds all of another set.
    pub(crate) fn add_all(&mut self, other: &Self) {
        other.runs.iter().for_each(|run| self.add(run.0, run.1));
    }

    /// Numbers held.
    pub(crate) fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.1 - run.0 + 1).sum()
    }

    /// The smallest number of `first..=last` that is neither here nor in `other`.
    pub(crate) fn first_missing(&self, other: &Self, first: u64, last: u64) -> Option<u64> {
        let mut number = first;
        while number <= last {
            let end = [self, other]
                .into_iter()
                .find_map(|runs| runs.end_of(number));
            match end {
                Some(end) => number = end.checked_add(1)?,
                None => return Some(number),
            }
        }
        None
    }

    fn end_of(&self, number: u64) -> Option<u64> {
        let at = self.runs.partition_point(|run| run.1 < number);
        self.runs
            .get(at)
            .filter(|run| run.0 <= number)
            .map(|run| run.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm_proto::{Random, Seed};
    use std::collections::BTreeSet;

    #[test]
    fn runs_agree_with_a_plain_set() {
        let mut random = Random::new(Seed(9), "runs");
        for _ in 0..300 {
            let (mut runs, mut plain) = (Runs::default(), BTreeSet::new());
            for _ in 0..random.below(20) {
                let first = random.below(40);
                let last = first + random.below(5);
                runs.add(first, last);
                plain.extend(first..=last);
            }
            assert_eq!(runs.count(), plain.len() as u64);
            assert!((0..50).all(|number| runs.contains(number) == plain.contains(&number)));
            let overlaps = (10..=14).any(|number| plain.contains(&number));
            assert_eq!(runs.overlaps(10, 14), overlaps);
            let missing = (3..=30).find(|number| !plain.contains(number));
            assert_eq!(runs.first_missing(&Runs::default(), 3, 30), missing);
            let mut other = Runs::default();
            other.add(5, 20);
            let outside = plain.iter().find(|number| !(5..=20).contains(*number));
            assert_eq!(runs.first_outside(&other).as_ref(), outside);
            other.add_all(&runs);
            assert_eq!(runs.first_outside(&other), None);
            assert!(runs.runs.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }
}
