use core::ops::AddAssign;
use core::time::Duration;

/// Durations, counted in steps of a quarter of a doubling, from 1 µs to about an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; Self::STEPS],
    sum: Duration,
}

impl Histogram {
    const STEPS: usize = 128;

    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: [0; Self::STEPS],
            sum: Duration::ZERO,
        }
    }

    /// Counts one duration.
    pub fn record(&mut self, duration: Duration) {
        self.record_many(duration, 1);
    }

    /// Counts one duration so many times.
    pub fn record_many(&mut self, duration: Duration, times: u64) {
        let micros = u64::try_from(duration.as_micros())
            .unwrap_or(u64::MAX)
            .max(1);
        let octave = micros.ilog2();
        let quarter = if octave < 2 {
            0
        } else {
            (micros >> (octave - 2)) & 3
        };
        let at = u64::from(octave) * 4 + quarter;
        let at = usize::try_from(at)
            .unwrap_or(Self::STEPS)
            .min(Self::STEPS - 1);
        self.counts[at] += times;
        let factor = u32::try_from(times).unwrap_or(u32::MAX);
        self.sum = self.sum.saturating_add(duration.saturating_mul(factor));
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Number of durations counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all durations.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Number of durations below this power of two in microseconds.
    #[must_use]
    pub fn below(&self, octave: u32) -> u64 {
        let steps = usize::try_from(octave).map_or(Self::STEPS, |octave| octave * 4);
        self.counts.iter().take(steps).sum()
    }

    /// The duration that this share of all (in parts per thousand) did not exceed, rounded up to
    /// the step's end; zero when nothing was counted.
    #[must_use]
    pub fn quantile(&self, permille: u64) -> Duration {
        let rank = (self.count() * permille).div_ceil(1000);
        let mut passed = 0;
        for (at, count) in (0u64..).zip(self.counts) {
            passed += count;
            if passed >= rank && rank > 0 {
                let micros = (4 + at % 4 + 1) << (at / 4);
                return Duration::from_micros(micros.div_ceil(4));
            }
        }
        Duration::ZERO
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl AddAssign for Histogram {
    fn add_assign(&mut self, other: Self) {
        self.merge(&other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_histograms_counted_is_as_if_one_had() {
        let (mut one, mut parts) = (Histogram::new(), [Histogram::new(), Histogram::new()]);
        for micros in 1..=1000 {
            let duration = Duration::from_micros(micros);
            one.record(duration);
            parts[usize::from(micros > 300)].record(duration);
        }
        let [mut sum, more] = parts;
        sum.merge(&more);
        assert_eq!(sum, one);
    }

    #[test]
    fn quantiles_are_within_a_quarter_of_the_truth() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        for (permille, truth) in [(500, 500), (990, 990), (10, 10)] {
            let got = histogram.quantile(permille).as_micros();
            assert!(
                got >= truth && got <= truth * 5 / 4 + 1,
                "{permille}: {got}"
            );
        }
    }
}
