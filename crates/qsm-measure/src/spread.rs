//! What several runs gave: the median, the least and the most.

use serde::Serialize;

/// Of the same quantity in several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// In the middle; of an even number, the mean of the two there.
    pub(crate) median: f64,
    /// The least.
    pub(crate) min: f64,
    /// The most.
    pub(crate) max: f64,
}

impl Spread {
    /// `None` of nothing.
    #[must_use]
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { median, min, max })
    }

    /// `median [min-max]`, each as told; of a single run just the one.
    #[must_use]
    pub(crate) fn show(&self, number: impl Fn(f64) -> String) -> String {
        let median = number(self.median);
        if self.min.total_cmp(&self.max).is_eq() {
            return median;
        }
        format!("{median} [{}-{}]", number(self.min), number(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let of = |values: &[f64]| Spread::of(values.iter().copied()).map(|spread| spread.median);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0, 9.0, 1.0]), Some(3.0));
        assert_eq!(of(&[4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }

    #[test]
    fn a_single_run_has_no_spread_to_show() {
        let whole = |number: f64| format!("{number:.0}");
        let show = |values: &[f64]| Spread::of(values.iter().copied()).unwrap().show(whole);
        assert_eq!(show(&[2.0]), "2");
        assert_eq!(show(&[2.0, 1.0, 4.0]), "2 [1-4]");
    }
}
