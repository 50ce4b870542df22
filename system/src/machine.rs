//! The machine that experiments run on: its own host may take the CPU time that they need.

use std::fs;

use crate::cluster::Failure;

/// Largest part of the CPU time that the machine's host may take.
const STEAL_MAX: f64 = 0.05;
/// Experiments that are made for one that counts.
const TRIES: usize = 4;

/// Makes an experiment until one counts: during which the host of this machine took at most 5 % of
/// the CPU time (steal in `/proc/stat`).
///
/// # Errors
/// The experiment fails, or the host is busy each time.
pub fn counted<T>(mut experiment: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    for _ in 0..TRIES {
        let before = CpuTime::read();
        let outcome = experiment()?;
        let stolen = CpuTime::read().stolen_since(before);
        if stolen <= STEAL_MAX {
            return Ok(outcome);
        }
        eprintln!(
            "not counted: {:.0} % of the CPU time stolen",
            stolen * 100.0
        );
    }
    Err("the host of this machine is busy".into())
}

/// CPU time of the whole machine since it was started, ticks.
#[derive(Debug, Clone, Copy)]
pub struct CpuTime {
    all: f64,
    stolen: f64,
}

impl CpuTime {
    /// CPU time so far.
    #[must_use]
    pub fn read() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let fields = text.lines().next().unwrap_or_default().split_whitespace();
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in user.
        let ticks: Vec<f64> = fields.skip(1).take(8).flat_map(str::parse).collect();
        Self {
            all: ticks.iter().sum(),
            stolen: ticks.get(7).copied().unwrap_or(0.0),
        }
    }

    /// A part of the time since then was the host's for so little that what was measured counts.
    #[must_use]
    pub fn counts_since(self, before: Self) -> bool {
        self.stolen_since(before) <= STEAL_MAX
    }

    fn stolen_since(self, before: Self) -> f64 {
        (self.stolen - before.stolen) / (self.all - before.all).max(1.0)
    }
}
