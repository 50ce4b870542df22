//! Latencies: a histogram that keeps the rare ones, and travels between processes as JSON.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Digits that are kept of each value: it is recorded within a thousandth.
const DIGITS: u8 = 3;

/// The quantiles that are shown, in millionths, and how they are called.
pub(crate) const QUANTILES: [(u32, &str); 5] = [
    (500_000, "p50"),
    (900_000, "p90"),
    (990_000, "p99"),
    (999_000, "p99.9"),
    (999_900, "p99.99"),
];

/// Durations in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    /// None yet.
    #[must_use]
    pub(crate) fn new() -> Self {
        let histogram = Histogram::new(DIGITS);
        // Fails only for more than five digits.
        Self(histogram.unwrap_or_else(|error| unreachable!("{error}")))
    }

    /// Adds one.
    pub(crate) fn record(&mut self, nanos: u64) {
        self.record_many(nanos, 1);
    }

    fn record_many(&mut self, nanos: u64, count: u64) {
        // It grows as needed, which fails only where addresses are too short for its memory.
        if self.0.record_n(nanos, count).is_err() {
            self.0.saturating_record_n(nanos, count);
        }
    }

    /// Adds those of another.
    pub(crate) fn merge(&mut self, other: &Self) {
        for value in other.0.iter_recorded() {
            let (nanos, count) = (
                value.value_iterated_to(),
                value.count_since_last_iteration(),
            );
            self.record_many(nanos, count);
        }
    }

    /// How many.
    #[must_use]
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The shortest that is not exceeded by this many millionths of all; `None` when there are too
    /// few to say: a quantile that at most one value lies beyond is that value, not a quantile.
    #[must_use]
    pub(crate) fn quantile(&self, millionths: u32) -> Option<u64> {
        let beyond = u64::from(1_000_000 - millionths) * self.count() / 1_000_000;
        (beyond >= 1).then(|| self.0.value_at_quantile(f64::from(millionths) / 1e6))
    }

    /// The longest.
    #[must_use]
    pub(crate) fn max(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.0.max())
    }

    /// The mean.
    #[must_use]
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.0.mean())
    }

    /// Points of the percentile curve: how many values lie beyond, as one in so many, and the
    /// latency there.
    pub(crate) fn curve(&self) -> impl Iterator<Item = (f64, f64)> {
        let count = self.count();
        let mut before = 0;
        self.0.iter_recorded().map(move |value| {
            let beyond = count - before;
            before += value.count_since_last_iteration();
            let one_in = count as f64 / beyond as f64;
            (one_in, value.value_iterated_to() as f64)
        })
    }
}

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = self.0.iter_recorded();
        serializer.collect_seq(values.map(|value| {
            (
                value.value_iterated_to(),
                value.count_since_last_iteration(),
            )
        }))
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut latencies = Self::new();
        for (nanos, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            latencies.record_many(nanos, count);
        }
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(end: u64) -> Latencies {
        let mut latencies = Latencies::new();
        (1..=end).for_each(|value| latencies.record(value * 1000));
        latencies
    }

    #[test]
    fn quantiles_are_within_a_thousandth_and_survive_the_journey() {
        let json = serde_json::to_string(&up_to(1000)).unwrap();
        let latencies: Latencies = serde_json::from_str(&json).unwrap();
        assert_eq!(latencies.count(), 1000);
        for (millionths, exact) in [(500_000, 500_000), (990_000, 990_000)] {
            let value = latencies.quantile(millionths).unwrap();
            assert!(value.abs_diff(exact) <= exact / 1000, "{value} {exact}");
        }
    }

    #[test]
    fn a_quantile_that_too_few_values_lie_beyond_is_not_told() {
        assert_eq!(up_to(0).quantile(500_000), None);
        assert_eq!(up_to(999).quantile(999_000), None);
        assert!(up_to(1000).quantile(999_000).is_some());
        assert!(up_to(1000).quantile(999_900).is_none());
    }

    #[test]
    fn merging_adds_counts() {
        let mut all = up_to(10);
        all.merge(&up_to(20));
        assert_eq!(all.count(), 30);
        assert!(all.max().unwrap().abs_diff(20_000) <= 20);
    }

    #[test]
    fn the_curve_rises_to_the_last_value() {
        let curve: Vec<_> = up_to(4).curve().collect();
        let one_in: Vec<f64> = curve.iter().map(|point| point.0).collect();
        assert_eq!(one_in, [1.0, 4.0 / 3.0, 2.0, 4.0]);
    }
}
