use core::time::Duration;

use qsm_proto::{Random, Seed, nanoseconds};

/// Where a run's parameters come from.
pub(super) struct Dice(Random);

impl Dice {
    pub(super) fn new(seed: Seed) -> Self {
        Self(Random::new(seed, "swarm"))
    }

    /// For what was added to the draw later: the rest is as it was.
    pub(super) fn of(seed: Seed, name: &str) -> Self {
        Self(Random::new(seed, name))
    }

    pub(super) fn number(&mut self, bound: u32) -> u32 {
        u32::try_from(self.0.below(u64::from(bound))).unwrap_or(0)
    }

    pub(super) fn range(&mut self, least: usize, most: usize) -> usize {
        let span = most.saturating_sub(least) as u64 + 1;
        least + usize::try_from(self.0.below(span)).unwrap_or(0)
    }

    pub(super) fn one_in(&mut self, chances: u64) -> bool {
        self.0.below(chances) == 0
    }

    pub(super) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let last = choices.len() - 1;
        &choices[self.range(0, last)]
    }

    /// All hosts, on two sides at random.
    pub(super) fn sides(&mut self, nodes: usize) -> (Vec<usize>, Vec<usize>) {
        (0..=nodes).partition(|_| self.one_in(2))
    }

    pub(super) fn moment(&mut self, below: Duration) -> Duration {
        Duration::from_nanos(self.0.below(nanoseconds(below)))
    }
}
