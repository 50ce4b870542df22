//! Results of the runs.

use std::collections::BTreeMap;

use qsm_sim::probe::Measured;

use crate::estimate::student;
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
    /// Runs that have a value here.
    pub runs: usize,
    /// Of how many: where something has not happened in a run, it has none.
    pub of_runs: usize,
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
            let found = Point {
                of_runs: runs.len(),
                ..point(*x, &samples)
            };
            Some(found).filter(|point| point.runs > 0)
        });
        points.collect()
    }
}

fn point(x: f64, samples: &[f64]) -> Point {
    let runs = samples.len();
    let count = runs.max(1) as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let spread = samples.iter().map(|y| (y - mean).powi(2)).sum::<f64>();
    let ci = if runs > 1 {
        student(count - 1.0) * (spread / (count - 1.0) / count).sqrt()
    } else {
        0.0
    };
    Point {
        x,
        mean,
        ci,
        runs,
        of_runs: runs,
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
    } else if size >= 0.001 {
        let decimals = (2.0 - size.log10().floor()).clamp(0.0, 5.0);
        format!("{value:.*}", decimals as usize)
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
    fn numbers_have_three_digits() {
        let said = [0.0, 0.004_567, 0.9718, 1.0, 4.567, 45.67, 456.7, 1e-5].map(short);
        let expected = [
            "0", "0.00457", "0.972", "1.00", "4.57", "45.7", "457", "1.0e-5",
        ];
        assert_eq!(said, expected);
    }
}
