//! Figures of experiments, and the bars that they are judged by.

use std::fmt;

use crate::cluster::Failure;
use crate::machine::counted;
use crate::trial::median;

/// Makes an experiment so many times and gathers what it finds; experiments that do not count are made
/// again.
///
/// # Errors
/// The experiment fails, or the machine's host is busy.
pub fn gather(
    runs: usize,
    mut experiment: impl FnMut() -> Result<Vec<Finding>, Failure>,
) -> Result<Vec<Figure>, Failure> {
    let mut figures: Vec<Figure> = Vec::new();
    for _ in 0..runs {
        for finding in counted(&mut experiment)? {
            let known = figures.iter_mut().find(|one| one.what == finding.what);
            match known {
                Some(figure) => figure.values.push(finding.value),
                None => figures.push(Figure::new(finding)),
            }
        }
    }
    Ok(figures)
}

/// A bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// The median is at least this.
    Least(f64),
    /// The median is at most this.
    Most(f64),
    /// The median is between these.
    Within(f64, f64),
    /// It is this in each run.
    Always(f64),
    /// None: it is told.
    Told,
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Least(bound) => write!(f, "at least {bound}"),
            Self::Most(bound) => write!(f, "at most {bound}"),
            Self::Within(least, most) => write!(f, "{least} to {most}"),
            Self::Always(value) => write!(f, "{value} in each"),
            Self::Told => f.write_str("-"),
        }
    }
}

/// A figure of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finding {
    /// Name and unit.
    pub what: &'static str,
    /// The figure.
    pub value: f64,
    /// Its bound.
    pub bar: Bar,
}

impl Finding {
    /// A figure with a bound.
    #[must_use]
    pub fn new(what: &'static str, value: f64, bar: Bar) -> Self {
        Self { what, value, bar }
    }

    /// A count that is to be zero in each run.
    #[must_use]
    pub fn none(what: &'static str, count: u64) -> Self {
        Self::new(what, count as f64, Bar::Always(0.0))
    }
}

/// A figure of several runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Name and unit.
    pub what: &'static str,
    /// Its bound.
    pub bar: Bar,
    /// Value of each run.
    pub values: Vec<f64>,
}

impl Figure {
    fn new(of: Finding) -> Self {
        Self {
            what: of.what,
            bar: of.bar,
            values: vec![of.value],
        }
    }

    /// Their median.
    #[must_use]
    pub fn median(&self) -> f64 {
        median(self.values.iter().copied()).unwrap_or(f64::NAN)
    }

    /// The least and the largest of them.
    #[must_use]
    pub fn spread(&self) -> [f64; 2] {
        let values = || self.values.iter().copied();
        [values().reduce(f64::min), values().reduce(f64::max)].map(|one| one.unwrap_or(f64::NAN))
    }

    /// Its bound is kept; `None`: it has none.
    #[must_use]
    #[expect(clippy::float_cmp, reason = "counts and flags are exact")]
    pub fn is_kept(&self) -> Option<bool> {
        match self.bar {
            Bar::Least(bound) => Some(self.median() >= bound),
            Bar::Most(bound) => Some(self.median() <= bound),
            Bar::Within(least, most) => Some((least..=most).contains(&self.median())),
            Bar::Always(value) => Some(self.values.iter().all(|one| *one == value)),
            Bar::Told => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(bar: Bar, values: &[f64]) -> Figure {
        Figure {
            what: "it",
            bar,
            values: values.to_vec(),
        }
    }

    #[test]
    fn bars_hold_for_the_median_and_exact_ones_for_each_run() {
        let values = [3.0, 1.0, 2.0];
        let kept = |bar| figure(bar, &values).is_kept();
        assert_eq!(kept(Bar::Least(2.0)), Some(true));
        assert_eq!(kept(Bar::Least(2.1)), Some(false));
        assert_eq!(kept(Bar::Most(2.0)), Some(true));
        assert_eq!(kept(Bar::Within(2.0, 2.5)), Some(true));
        assert_eq!(kept(Bar::Within(1.0, 1.5)), Some(false));
        assert_eq!(kept(Bar::Always(2.0)), Some(false));
        assert_eq!(kept(Bar::Told), None);
        assert_eq!(figure(Bar::Told, &values).spread(), [1.0, 3.0]);
        assert_eq!(figure(Bar::Most(1.0), &[]).is_kept(), Some(false));
    }
}
