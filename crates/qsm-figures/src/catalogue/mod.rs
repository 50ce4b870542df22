//! All experiments: what is run, what is drawn, and by which rules it is judged.

mod added;
mod control;
mod feedback;
mod layouts;
mod overlap;
mod s0;
mod s2;

use crate::experiment::Figure;

/// Every experiment, in the order of its number.
#[must_use]
pub fn all() -> Vec<&'static Figure> {
    let mut figures: Vec<&'static Figure> = s2::FIGURES
        .iter()
        .chain(s0::FIGURES)
        .chain(added::FIGURES)
        .chain(feedback::FIGURES)
        .chain(layouts::FIGURES)
        .chain(control::FIGURES)
        .collect();
    figures.sort_by_key(|figure| figure.id);
    figures
}

/// The experiment with this number, and those that belong to it (`E18`, `E18b`); empty if there
/// is none.
#[must_use]
pub fn find(id: &str) -> Vec<&'static Figure> {
    let belongs = |figure: &&'static Figure| {
        let rest = figure.id.strip_prefix(id);
        rest.is_some_and(|rest| rest.chars().all(char::is_alphabetic))
    };
    all().into_iter().filter(belongs).collect()
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// Standard deviation over mean.
fn variability(samples: &[f64]) -> f64 {
    let mean = mean(samples);
    let squares: Vec<f64> = samples.iter().map(|y| (y - mean).powi(2)).collect();
    self::mean(&squares).sqrt() / mean
}

/// The value that this share of the samples does not exceed.
fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (share * sorted.len() as f64) as usize;
    sorted
        .get(at.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}
