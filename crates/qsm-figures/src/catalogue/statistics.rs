//! Figures of the samples of a run.

/// The mean; 0 of nothing.
pub(super) fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// Standard deviation over mean.
pub(super) fn variability(samples: &[f64]) -> f64 {
    let mean = mean(samples);
    let squares: Vec<f64> = samples.iter().map(|y| (y - mean).powi(2)).collect();
    self::mean(&squares).sqrt() / mean
}

/// The value that this share of the samples does not exceed.
pub(super) fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (share * sorted.len() as f64) as usize;
    sorted
        .get(at.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}
