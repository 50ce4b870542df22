//! Means of a few runs, what is computed from them, and how sure it is.

use core::ops::{Add, Div, Mul, RangeInclusive, Sub};

use crate::results::Point;

/// A mean of runs, or a number computed from such means, with its uncertainty. Errors are
/// propagated to first order, degrees of freedom by Welch and Satterthwaite; the means that go
/// into one number are taken as independent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    mean: f64,
    /// Of the mean; infinite when a single run says nothing about it.
    variance: f64,
    /// Degrees of freedom; infinite for what is exact.
    freedom: f64,
}

/// Student's t for 95 % and so many degrees of freedom, rounded down.
pub(crate) fn student(freedom: f64) -> f64 {
    const T: [f64; 9] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
    ];
    let whole = freedom.floor().max(1.0);
    // Beyond the table: at most 0.01 too large.
    T.get(whole as usize - 1)
        .copied()
        .unwrap_or(1.96 + 2.7 / whole)
}

impl Estimate {
    /// Estimate of something that was not run.
    pub const MISSING: Self = Self {
        mean: f64::NAN,
        variance: f64::INFINITY,
        freedom: 1.0,
    };

    /// A number that no chance is in.
    #[must_use]
    pub fn exact(mean: f64) -> Self {
        Self {
            mean,
            variance: 0.0,
            freedom: f64::INFINITY,
        }
    }

    /// A point's mean. One run alone, or a point at which only some of the runs have a value, has
    /// no interval.
    #[must_use]
    pub fn of(point: &Point) -> Self {
        if point.runs < 2 || point.runs < point.of_runs {
            return Self {
                mean: point.mean,
                ..Self::MISSING
            };
        }
        let freedom = point.runs as f64 - 1.0;
        Self {
            mean: point.mean,
            variance: (point.ci / student(freedom)).powi(2),
            freedom,
        }
    }

    /// The best guess.
    #[must_use]
    pub fn mean(self) -> f64 {
        self.mean
    }

    /// Half the width of the 95 % confidence interval.
    #[must_use]
    pub fn half_width(self) -> f64 {
        if self.variance.is_finite() && self.mean.is_finite() {
            student(self.freedom) * self.variance.sqrt()
        } else {
            f64::INFINITY
        }
    }

    /// The 95 % confidence interval.
    #[must_use]
    pub fn interval(self) -> RangeInclusive<f64> {
        let half = self.half_width();
        if half.is_finite() {
            self.mean - half..=self.mean + half
        } else {
            f64::NEG_INFINITY..=f64::INFINITY
        }
    }

    /// Zero cannot be told from it.
    fn may_be_nothing(self) -> bool {
        self.interval().contains(&0.0)
    }
}

impl Add for Estimate {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let mean = self.mean + other.mean;
        let variance = self.variance + other.variance;
        if !variance.is_finite() {
            return Self {
                mean,
                ..Self::MISSING
            };
        }
        let doubt = self.variance.powi(2) / self.freedom + other.variance.powi(2) / other.freedom;
        let freedom = if doubt > 0.0 {
            variance.powi(2) / doubt
        } else {
            f64::INFINITY
        };
        Self {
            mean,
            variance,
            freedom,
        }
    }
}

impl Sub for Estimate {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + other * -1.0
    }
}

impl Div for Estimate {
    type Output = Self;

    /// By something that may be nothing there is no result to rely on.
    fn div(self, other: Self) -> Self {
        let mean = self.mean / other.mean;
        let error = if other.may_be_nothing() {
            Self::MISSING
        } else {
            self * other.mean.recip() + other * (mean / other.mean)
        };
        Self { mean, ..error }
    }
}

impl Mul<f64> for Estimate {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            variance: self.variance * factor.powi(2),
            freedom: self.freedom,
        }
    }
}

impl Sub<f64> for Estimate {
    type Output = Self;

    fn sub(self, number: f64) -> Self {
        self - Self::exact(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mean: f64, ci: f64, runs: usize) -> Estimate {
        Estimate::of(&Point {
            x: 0.0,
            mean,
            ci,
            runs,
            of_runs: runs,
        })
    }

    #[test]
    fn a_mean_keeps_its_interval() {
        let mean = of(10.0, 2.5, 3);
        assert!((mean.half_width() - 2.5).abs() < 1e-9);
        assert_eq!(of(10.0, 0.0, 3).interval(), 10.0..=10.0);
    }

    #[test]
    fn one_run_or_a_part_of_the_runs_says_nothing() {
        assert!(of(10.0, 0.0, 1).half_width().is_infinite());
        let part = Point {
            x: 0.0,
            mean: 1.0,
            ci: 0.1,
            runs: 2,
            of_runs: 3,
        };
        assert!(Estimate::of(&part).half_width().is_infinite());
        assert!(
            (of(1.0, 0.0, 1) / of(2.0, 0.1, 3))
                .half_width()
                .is_infinite()
        );
    }

    #[test]
    fn errors_are_propagated() {
        // Two means with standard errors of 1 and four degrees of freedom each: together eight.
        let (one, other) = (of(10.0, student(4.0), 5), of(5.0, student(4.0), 5));
        let expected = student(8.0) * 2f64.sqrt();
        assert!(((one - other).half_width() - expected).abs() < 1e-9);
        assert!(((one + other).half_width() - expected).abs() < 1e-9);
        let ratio = one / other;
        // 2 (1/10 + 1/5) in quadrature; the denominator's error counts most.
        let error = 2.0 * (0.01f64 + 0.04).sqrt();
        assert!((ratio.mean() - 2.0).abs() < 1e-9);
        assert!(ratio.half_width() > student(8.0) * error);
        assert!(ratio.half_width() < student(4.0) * error);
        assert!(((one * 3.0).half_width() - 3.0 * one.half_width()).abs() < 1e-9);
    }

    #[test]
    fn what_is_divided_by_something_that_may_be_nothing_is_unknown() {
        assert!(
            (of(1.0, 0.1, 3) / of(0.97, 1.39, 3))
                .half_width()
                .is_infinite()
        );
        assert!(
            (of(1.0, 0.1, 3) / of(0.0, 0.0, 3))
                .half_width()
                .is_infinite()
        );
        assert_eq!((of(0.0, 0.0, 3) / of(2.0, 0.0, 3)).interval(), 0.0..=0.0);
    }

    #[test]
    fn students_values_fall_beyond_the_table() {
        assert!((student(2.9) - 4.303).abs() < 1e-9);
        assert!((student(10.0) - 2.228).abs() < 0.01);
        assert!((student(30.0) - 2.042).abs() < 0.01);
        assert!((student(f64::INFINITY) - 1.96).abs() < 1e-9);
    }
}
