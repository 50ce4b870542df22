//! Rules by which a figure is judged. A rule compares a confidence interval with bounds: what lies
//! across a bound is undecided.

use core::ops::RangeInclusive;

use crate::data::Data;
use crate::estimate::Estimate;
use crate::experiment::Figure;
use crate::papers::Mode;
use crate::results::short;

/// No bound below.
pub(crate) const ANY: f64 = f64::NEG_INFINITY;
/// No bound above.
pub(crate) const MORE: f64 = f64::INFINITY;

/// Judgement of a rule; of several rules the last of these holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The whole interval is within the bounds.
    Yes,
    /// A bound lies within the interval, or there is no interval.
    Undecided,
    /// The whole interval is out of bounds.
    No,
}

/// One rule and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Does it hold?
    pub verdict: Verdict,
    /// Finding and expectation, in words.
    pub said: String,
}

/// One figure's results, as its rules see them.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The points of all figures.
    pub data: &'a Data,
    /// The figure.
    pub figure: &'a Figure,
    /// Owners of the curves that the rules look at.
    pub mode: Mode,
}

impl<'a> Seen<'a> {
    /// The other protocol's curves.
    #[must_use]
    pub fn of(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// The mean of a curve at a value.
    #[must_use]
    pub fn at(&self, curve: usize, x: f64) -> Estimate {
        self.at_other(self.figure, curve, x)
    }

    /// The mean of another figure's curve at a value.
    #[must_use]
    pub fn at_other(&self, figure: &Figure, curve: usize, x: f64) -> Estimate {
        let series = self.data.series(figure, self.mode, curve);
        let found = series.iter().find(|point| (point.x - x).abs() < 1e-9);
        found.map_or(Estimate::MISSING, Estimate::of)
    }

    /// The means of a curve at all values.
    fn curve(&self, curve: usize) -> Vec<(f64, Estimate)> {
        let series: &'a [_] = self.data.series(self.figure, self.mode, curve);
        series
            .iter()
            .map(|point| (point.x, Estimate::of(point)))
            .collect()
    }

    /// y at `to` over y at `from` lies within these bounds.
    #[must_use]
    pub fn ratio(&self, curve: usize, from: f64, to: f64, bounds: RangeInclusive<f64>) -> Check {
        let (first, last) = (self.at(curve, from), self.at(curve, to));
        let said = format!(
            "{}: {} at {from}, {} at {to}, ratio",
            self.label(curve),
            short(first.mean()),
            short(last.mean())
        );
        quotient(last, first, &bounds, &said)
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
        let said = format!("{} at {x}:", self.label(curve));
        check(self.at(curve, x), &bounds, &said)
    }

    /// One curve over another at x.
    #[must_use]
    pub fn over(&self, upper: usize, lower: usize, x: f64, bounds: RangeInclusive<f64>) -> Check {
        let ratio = self.at(upper, x) / self.at(lower, x);
        let said = format!("{} over {} at {x}:", self.label(upper), self.label(lower));
        check(ratio, &bounds, &said)
    }

    /// The curve never turns against its direction by more than this share of its range.
    #[must_use]
    pub fn monotone(&self, curve: usize, rising: bool, slack: f64) -> Check {
        let series = self.curve(curve);
        let means = series.iter().map(|(_, y)| y.mean());
        let (low, high) = means.fold((f64::MAX, f64::MIN), |(low, high), y| {
            (low.min(y), high.max(y))
        });
        let range = (high - low).max(f64::MIN_POSITIVE);
        let back = series.windows(2).map(|pair| {
            let step = pair[1].1 - pair[0].1;
            step * (if rising { -1.0 } else { 1.0 } / range)
        });
        let worst = back.max_by(|a, b| a.mean().total_cmp(&b.mean()));
        let worst = worst.filter(|_| series.len() == self.figure.sweep.values.len());
        let worst = worst.unwrap_or(Estimate::MISSING);
        let word = if rising { "rises" } else { "falls" };
        let said = format!(
            "{} {word}; the largest step back as a share of its range:",
            self.label(curve)
        );
        check(worst, &(ANY..=slack), &said)
    }

    /// The largest value of the curve is at an x within these bounds: it exceeds the largest one
    /// elsewhere.
    #[must_use]
    pub fn peak(&self, curve: usize, bounds: RangeInclusive<f64>) -> Check {
        let series = self.curve(curve);
        let best = |inside: bool| {
            let side = series.iter().filter(|(x, _)| bounds.contains(x) == inside);
            side.max_by(|a, b| a.1.mean().total_cmp(&b.1.mean()))
        };
        let (Some((x, here)), Some((other, elsewhere))) = (best(true), best(false)) else {
            return check(Estimate::MISSING, &(1.0..=MORE), self.label(curve));
        };
        let said = format!(
            "{}: the largest between {} and {}, at {x}, over the largest elsewhere, at {other}:",
            self.label(curve),
            bounds.start(),
            bounds.end()
        );
        quotient(*here, *elsewhere, &(1.0..=MORE), &said)
    }

    /// A number computed from the curves lies within these bounds.
    #[must_use]
    pub fn number(&self, name: &str, value: Estimate, bounds: RangeInclusive<f64>) -> Check {
        check(value, &bounds, &format!("{name}:"))
    }

    /// Modern mode's curve over the faithful one's at x.
    #[must_use]
    pub fn against_faithful(&self, curve: usize, x: f64, bounds: RangeInclusive<f64>) -> Check {
        let modern = self.of(Mode::Modern).at(curve, x);
        let faithful = self.of(Mode::Faithful).at(curve, x);
        let said = format!(
            "{} at {x}: {} instead of {}, ratio",
            self.label(curve),
            short(modern.mean()),
            short(faithful.mean())
        );
        quotient(modern, faithful, &bounds, &said)
    }

    fn label(&self, curve: usize) -> &'static str {
        self.figure.curves[curve].label
    }
}

fn check(value: Estimate, bounds: &RangeInclusive<f64>, said: &str) -> Check {
    let (low, high) = (*bounds.start(), *bounds.end());
    let sides = [(low, value - low), (high, Estimate::exact(high) - value)];
    Check {
        verdict: verdict(sides),
        said: said_of(value, bounds, said),
    }
}

/// A quotient of means that cannot be negative is within its bounds where `upper - bound · lower`
/// has the right sign, which is certain or not even if `lower` may be nothing (Fieller).
fn quotient(upper: Estimate, lower: Estimate, bounds: &RangeInclusive<f64>, said: &str) -> Check {
    let (low, high) = (*bounds.start(), *bounds.end());
    let sides = [(low, upper - lower * low), (high, lower * high - upper)];
    let known = lower.mean() > 0.0;
    Check {
        verdict: if known {
            verdict(sides)
        } else {
            Verdict::Undecided
        },
        said: said_of(upper / lower, bounds, said),
    }
}

/// From what is left to each bound, which must not be negative. What has no bound holds.
fn verdict(sides: [(f64, Estimate); 2]) -> Verdict {
    let sides = sides.into_iter().filter(|(bound, _)| bound.is_finite());
    let judged = sides.map(|(_, left)| match left.interval() {
        _ if !left.half_width().is_finite() => Verdict::Undecided,
        interval if *interval.start() >= 0.0 => Verdict::Yes,
        interval if *interval.end() < 0.0 => Verdict::No,
        _ => Verdict::Undecided,
    });
    judged.max().unwrap_or(Verdict::Undecided)
}

fn said_of(value: Estimate, bounds: &RangeInclusive<f64>, said: &str) -> String {
    let (low, high) = (*bounds.start(), *bounds.end());
    let expected = match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{} to {}", short(low), short(high)),
        (true, false) => format!("at least {}", short(low)),
        _ => format!("at most {}", short(high)),
    };
    format!("{said} {} (rule: {expected})", with_interval(value))
}

/// A number and half the width of its interval.
pub(crate) fn with_interval(value: Estimate) -> String {
    let half = value.half_width();
    if !value.mean().is_finite() {
        "not run".to_owned()
    } else if half.is_finite() {
        format!("{} ± {}", short(value.mean()), short(half))
    } else {
        format!("{}, no interval", short(value.mean()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Point;

    fn mean(mean: f64, ci: f64) -> Estimate {
        Estimate::of(&Point {
            x: 0.0,
            mean,
            ci,
            runs: 3,
            of_runs: 3,
        })
    }

    #[test]
    fn what_lies_across_a_bound_is_undecided() {
        let judged = |value| check(value, &(0.5..=1.0), "x").verdict;
        assert_eq!(judged(mean(0.75, 0.2)), Verdict::Yes);
        assert_eq!(judged(mean(0.75, 0.3)), Verdict::Undecided);
        assert_eq!(judged(mean(1.2, 0.3)), Verdict::Undecided);
        assert_eq!(judged(mean(1.4, 0.3)), Verdict::No);
        assert_eq!(judged(Estimate::exact(1.0)), Verdict::Yes);
    }

    #[test]
    fn a_quotient_may_be_decided_though_it_has_no_interval() {
        let judged = |upper, lower| quotient(upper, lower, &(0.0..=0.5), "x").verdict;
        assert_eq!(judged(mean(0.0, 0.0), mean(1.0, 1.0)), Verdict::Yes);
        assert_eq!(judged(mean(9.0, 0.1), mean(1.0, 1.5)), Verdict::No);
        assert_eq!(judged(mean(0.4, 0.1), mean(1.0, 1.5)), Verdict::Undecided);
        assert_eq!(judged(mean(0.4, 0.01), mean(1.0, 0.01)), Verdict::Yes);
    }

    #[test]
    fn what_was_not_run_or_has_no_interval_passes_no_rule() {
        let judged = |value| check(value, &(ANY..=1.0), "x").verdict;
        assert_eq!(judged(Estimate::MISSING), Verdict::Undecided);
        assert_eq!(judged(mean(0.5, 0.1) / mean(0.0, 0.0)), Verdict::Undecided);
        let judged = |upper, lower| quotient(upper, lower, &(ANY..=1.0), "x").verdict;
        assert_eq!(judged(mean(0.5, 0.1), mean(0.0, 0.0)), Verdict::Undecided);
        assert_eq!(
            judged(Estimate::MISSING, mean(1.0, 0.1)),
            Verdict::Undecided
        );
        let said = check(Estimate::MISSING, &(ANY..=1.0), "x:").said;
        assert_eq!(said, "x: not run (rule: at most 1.00)");
    }
}
