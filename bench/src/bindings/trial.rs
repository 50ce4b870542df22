//! Runs that count: those in which others had little of the CPUs.

use std::time::Instant;

use crate::Failure;
use crate::compare::CpuSeconds;

/// A run in which others had more of the CPUs is thrown away.
const STOLEN_MAX: f64 = 0.05;
/// Runs that are thrown away, at most, for each that is kept.
const TRIES: usize = 10;

/// Measures until a run has not lost too much of the CPUs to others, or counts whatever there is if the machine is busy.
pub(super) fn kept<T>(
    name: &str,
    busy: bool,
    mut measure: impl FnMut() -> Result<T, Failure>,
) -> Result<Kept<T>, Failure> {
    for thrown_away in 0..TRIES {
        let (then, start) = (CpuSeconds::now(), Instant::now());
        let value = measure()?;
        let stolen = CpuSeconds::now().stolen_share(then, start.elapsed().as_secs_f64());
        if busy || stolen <= STOLEN_MAX {
            return Ok(Kept { value, thrown_away });
        }
    }
    Err(format!("{name}: others have more than 5 % of the CPUs").into())
}

/// A run that counts.
pub(super) struct Kept<T> {
    pub(super) value: T,
    /// Runs before it that do not.
    pub(super) thrown_away: usize,
}
