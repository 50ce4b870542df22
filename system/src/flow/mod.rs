//! Trials of flow between hosts: receivers that cannot follow, subscriptions that want different
//! things, senders that have more to send than receivers read.

pub mod modes;
pub mod overload;
pub mod paces;
pub mod saturation;

use std::path::Path;

use crate::cluster::{Cluster, Failure};
use crate::machine::counted;
use crate::trial::{Outcome, compare, median};

use self::modes::Modes;
use self::overload::Overload;
use self::paces::PaceTrial;
use self::saturation::Saturation;

/// An experiment with figures that are judged.
#[derive(Debug, Clone)]
pub enum Case {
    /// A receiver of eight that cannot follow.
    Pace(PaceTrial),
    /// A group with four subscriptions that want different things.
    Modes(Modes),
    /// Senders that have twice as much to send as receivers read.
    Overload(Overload),
    /// A sender that has more to send than receivers read, with and without short queues.
    Saturation(Saturation),
}

impl Case {
    /// The trial that it is part of.
    #[must_use]
    pub fn trial(&self) -> &'static str {
        match self {
            Self::Pace(_) => "paces",
            Self::Modes(_) => "modes",
            Self::Overload(_) => "overload",
            Self::Saturation(_) => "saturation",
        }
    }

    /// Its name within the trial.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Pace(of) => of.name(),
            Self::Modes(of) => of.name(),
            Self::Overload(of) => of.name(),
            Self::Saturation(of) => of.name(),
        }
    }

    /// Runs it so many times with this program `system-node`; trials that do not count are made again.
    ///
    /// # Errors
    /// A process fails, or the machine's host is busy.
    pub fn run(&self, program: &Path, runs: usize) -> Result<Vec<Figure>, Failure> {
        let mut figures: Vec<Figure> = Vec::new();
        for _ in 0..runs {
            for finding in counted(|| self.run_once(program))? {
                let known = figures.iter_mut().find(|one| one.what == finding.what);
                match known {
                    Some(figure) => figure.values.push(finding.value),
                    None => figures.push(Figure::new(finding)),
                }
            }
        }
        Ok(figures)
    }

    fn run_once(&self, program: &Path) -> Result<Vec<Finding>, Failure> {
        match self {
            Self::Pace(of) => of.run(program),
            Self::Modes(of) => of.run(program),
            Self::Overload(of) => of.run(program),
            Self::Saturation(of) => of.run(program),
        }
    }
}

/// A bound of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// The median is at least this.
    Least(f64),
    /// The median is at most this.
    Most(f64),
    /// It is this in each run.
    Always(f64),
    /// None: it is told.
    Told,
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
            Bar::Always(value) => Some(self.values.iter().all(|one| *one == value)),
            Bar::Told => None,
        }
    }
}

/// Ends publishing and all processes; returns what was lost, and what is missing without a word.
fn end(mut cluster: Cluster) -> Result<[Finding; 2], Failure> {
    let mut outcome = Outcome::default();
    compare(&mut cluster, &mut outcome)?;
    cluster.quit()?;
    Ok([
        Finding::none("messages told to be lost", outcome.lost),
        Finding::none("missing without a word", outcome.untold),
    ])
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
        assert_eq!(kept(Bar::Always(2.0)), Some(false));
        assert_eq!(kept(Bar::Told), None);
        assert_eq!(figure(Bar::Told, &values).spread(), [1.0, 3.0]);
        assert_eq!(figure(Bar::Most(1.0), &[]).is_kept(), Some(false));
    }
}
