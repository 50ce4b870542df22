//! What the runs have shown, and statements about it.

use core::ops::RangeInclusive;
use std::collections::BTreeMap;

use qsm_sim::probe::Measured;

use crate::experiment::Figure;
use crate::papers::Mode;

/// All runs so far: (sweep, mode, index of the value) to one entry per seed.
#[derive(Debug, Default)]
pub struct Results {
    runs: BTreeMap<(&'static str, Mode, usize), BTreeMap<u64, Measured>>,
    /// Virtual seconds, and processor seconds spent on them.
    pub virtual_seconds: f64,
    /// Processor seconds spent.
    pub seconds: f64,
    /// Processor seconds spent on each sweep.
    pub seconds_of: BTreeMap<&'static str, f64>,
    /// Inputs that nodes have handled.
    pub inputs: u64,
    /// Runs that broke something, with what.
    pub failures: Vec<String>,
}

/// A mean with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The varied quantity.
    pub x: f64,
    /// The mean over all seeds.
    pub mean: f64,
    /// Half the width of the interval.
    pub ci: f64,
    /// How many runs.
    pub runs: usize,
}

/// One rule and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// It holds.
    pub passed: bool,
    /// What was found and what was expected.
    pub said: String,
}

impl Results {
    /// Adds a run.
    pub fn add(
        &mut self,
        sweep: &'static str,
        mode: Mode,
        at: usize,
        seed: u64,
        measured: Measured,
    ) {
        self.inputs += measured.inputs;
        let runs = self.runs.entry((sweep, mode, at)).or_default();
        runs.insert(seed, measured);
    }

    /// The points of a curve of a figure that have been run.
    #[must_use]
    pub fn series(&self, figure: &Figure, mode: Mode, curve: usize) -> Vec<Point> {
        let of = figure.curves[curve].of;
        let values = figure.sweep.values.iter().enumerate();
        let points = values.filter_map(|(at, x)| {
            let runs = self.runs.get(&(figure.sweep.name, mode, at))?;
            let samples: Vec<f64> = runs.values().map(of).filter(|y| y.is_finite()).collect();
            Some(point(*x, &samples)).filter(|point| point.runs > 0)
        });
        points.collect()
    }

    /// The first run of one point.
    #[must_use]
    pub fn run(&self, figure: &Figure, mode: Mode, at: usize) -> Option<&Measured> {
        self.runs
            .get(&(figure.sweep.name, mode, at))?
            .values()
            .next()
    }
}

/// Student's t for 95 % and so many degrees of freedom.
fn student(freedom: usize) -> f64 {
    const T: [f64; 9] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
    ];
    T.get(freedom.wrapping_sub(1)).copied().unwrap_or(1.96)
}

fn point(x: f64, samples: &[f64]) -> Point {
    let runs = samples.len();
    let count = runs.max(1) as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let spread = samples.iter().map(|y| (y - mean).powi(2)).sum::<f64>();
    let ci = if runs > 1 {
        student(runs - 1) * (spread / (count - 1.0) / count).sqrt()
    } else {
        0.0
    };
    Point { x, mean, ci, runs }
}

/// One figure's results, as its rules see them.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// All results.
    pub results: &'a Results,
    /// The figure.
    pub figure: &'a Figure,
    /// Whose curves the rules look at.
    pub mode: Mode,
}

impl Seen<'_> {
    /// The other protocol's curves.
    #[must_use]
    pub fn of(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// The mean of a curve at a value that was run; not a number if it was not.
    #[must_use]
    pub fn at(&self, curve: usize, x: f64) -> f64 {
        self.at_other(self.figure, curve, x)
    }

    /// y at `to` over y at `from` lies within these bounds.
    #[must_use]
    pub fn ratio(&self, curve: usize, from: f64, to: f64, bounds: RangeInclusive<f64>) -> Check {
        let (first, last) = (self.at(curve, from), self.at(curve, to));
        let ratio = last / first;
        let said = format!(
            "{}: {} at {from}, {} at {to}, ratio {ratio:.2}",
            self.figure.curves[curve].label,
            short(first),
            short(last)
        );
        check(ratio, &bounds, &said)
    }

    /// From the first value to the last.
    #[must_use]
    pub fn ends(&self, curve: usize, bounds: RangeInclusive<f64>) -> Check {
        let values = self.figure.sweep.values;
        let (first, last) = (values.first().copied(), values.last().copied());
        let (first, last) = (first.unwrap_or(f64::NAN), last.unwrap_or(f64::NAN));
        self.ratio(curve, first, last, bounds)
    }

    /// y at x lies within these bounds.
    #[must_use]
    pub fn value(&self, curve: usize, x: f64, bounds: RangeInclusive<f64>) -> Check {
        let y = self.at(curve, x);
        let said = format!("{} at {x}: {}", self.figure.curves[curve].label, short(y));
        check(y, &bounds, &said)
    }

    /// One curve over another at x.
    #[must_use]
    pub fn over(&self, upper: usize, lower: usize, x: f64, bounds: RangeInclusive<f64>) -> Check {
        let ratio = self.at(upper, x) / self.at(lower, x);
        let said = format!(
            "{} over {} at {x}: {ratio:.2}",
            self.figure.curves[upper].label, self.figure.curves[lower].label
        );
        check(ratio, &bounds, &said)
    }

    /// The curve never turns against its direction by more than this share of its range.
    #[must_use]
    pub fn monotone(&self, curve: usize, rising: bool, slack: f64) -> Check {
        let series = self.results.series(self.figure, self.mode, curve);
        let means = series.iter().map(|point| point.mean);
        let (low, high) = means.fold((f64::MAX, f64::MIN), |(low, high), y| {
            (low.min(y), high.max(y))
        });
        let mut worst: f64 = 0.0;
        for pair in series.windows(2) {
            let step = pair[1].mean - pair[0].mean;
            worst = worst.max(if rising { -step } else { step });
        }
        let share = worst / (high - low).max(f64::MIN_POSITIVE);
        let word = if rising { "rises" } else { "falls" };
        let said = format!(
            "{} {word}; the largest step back is {:.0} % of its range",
            self.figure.curves[curve].label,
            share * 100.0
        );
        let complete = series.len() == self.figure.sweep.values.len();
        let share = if complete { share } else { f64::NAN };
        check(share, &(0.0..=slack), &said)
    }

    /// Where the curve has its largest value.
    #[must_use]
    pub fn peak(&self, curve: usize, bounds: RangeInclusive<f64>) -> Check {
        let series = self.results.series(self.figure, self.mode, curve);
        let best = series.iter().max_by(|a, b| a.mean.total_cmp(&b.mean));
        let x = best.map_or(f64::NAN, |point| point.x);
        let said = format!("{} is largest at {x}", self.figure.curves[curve].label);
        check(x, &bounds, &said)
    }

    /// The mean of another figure's curve at a value.
    #[must_use]
    pub fn at_other(&self, figure: &Figure, curve: usize, x: f64) -> f64 {
        let series = self.results.series(figure, self.mode, curve);
        let found = series.iter().find(|point| (point.x - x).abs() < 1e-9);
        found.map_or(f64::NAN, |point| point.mean)
    }

    /// A number computed from the curves lies within these bounds.
    #[must_use]
    pub fn number(&self, name: &str, value: f64, bounds: RangeInclusive<f64>) -> Check {
        check(value, &bounds, &format!("{name}: {}", short(value)))
    }

    /// Modern mode's curve over the faithful one's at x.
    #[must_use]
    pub fn against_faithful(&self, curve: usize, x: f64, bounds: RangeInclusive<f64>) -> Check {
        let modern = self.of(Mode::Modern).at(curve, x);
        let faithful = self.of(Mode::Faithful).at(curve, x);
        let said = format!(
            "{} at {x}: {} instead of {}",
            self.figure.curves[curve].label,
            short(modern),
            short(faithful)
        );
        check(modern / faithful, &bounds, &said)
    }
}

/// No bound below.
pub(crate) const ANY: f64 = f64::NEG_INFINITY;
/// No bound above.
pub(crate) const MORE: f64 = f64::INFINITY;

fn check(value: f64, bounds: &RangeInclusive<f64>, said: &str) -> Check {
    let passed = bounds.contains(&value);
    let expected = match (bounds.start().is_finite(), bounds.end().is_finite()) {
        (true, true) => format!("{} to {}", short(*bounds.start()), short(*bounds.end())),
        (true, false) => format!("at least {}", short(*bounds.start())),
        _ => format!("at most {}", short(*bounds.end())),
    };
    Check {
        passed,
        said: format!("{said} (rule: {expected})"),
    }
}

/// Three significant digits.
#[must_use]
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "not run".to_owned()
    } else if size >= 100.0 || size == 0.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else if size >= 0.001 {
        format!("{value:.4}")
    } else {
        format!("{value:.1e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_intervals_are_students() {
        let point = point(1.0, &[9.0, 10.0, 11.0]);
        assert!((point.mean - 10.0).abs() < 1e-9);
        // t(2) = 4.303, standard deviation 1, root of three.
        assert!((point.ci - 4.303 / 3f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_run_passes_no_rule() {
        assert!(!check(f64::NAN, &(ANY..=1.0), "x").passed);
        assert!(check(0.5, &(ANY..=1.0), "x").passed);
        assert!(!check(1.5, &(ANY..=1.0), "x").passed);
    }
}
