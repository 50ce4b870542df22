//! What one system did in one cell, once.

use serde::{Deserialize, Serialize};

use super::cell::Cell;

/// One result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) system: String,
    pub(crate) cell: Cell,
    pub(crate) run: usize,
    pub(crate) outcome: Outcome,
}

/// How it went.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// Every message came to every receiver, once, in order, undamaged.
    Measured(Measures),
    /// It was tried.
    Failed {
        reason: String,
        /// Share of the messages that came, if it went that far.
        delivered: Option<f64>,
    },
    /// It was not tried.
    Skipped { reason: String },
    /// The machine's host took this share of all CPU time meanwhile: it does not count.
    Stolen { share: f64 },
}

/// Figures of a run in which nothing was missed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measures {
    /// From the start of the processes until every receiver hears every sender, seconds.
    pub(crate) setup_seconds: f64,
    pub(crate) flood: Option<Flood>,
    pub(crate) latency: Option<Latency>,
    /// Cores that anything but this benchmark used meanwhile.
    pub(crate) foreign_cores: f64,
    /// Share of all CPU time that the machine's host took meanwhile; `None` in runs of before it was
    /// noted.
    #[serde(default)]
    pub(crate) stolen: Option<f64>,
}

/// Share of stolen CPU time beyond which a run does not count.
const STOLEN_MAX: f64 = 0.05;

/// The highest rate.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Flood {
    /// Of all senders together, from the first send until the slowest receiver had everything.
    pub(crate) messages_per_second: f64,
    /// CPU seconds of all senders per million messages sent.
    pub(crate) sender_cpu: f64,
    /// CPU seconds of a receiver, on average, per million messages that it got.
    pub(crate) receiver_cpu: f64,
    /// Share of what was sent that came to the slowest receiver; 1 but for the blaster.
    pub(crate) delivered: f64,
}

/// From when a message was due at the sender until it was checked, microseconds; each the worst
/// of the receivers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
    /// Cores that all processes used.
    pub(crate) cores: f64,
}

impl Outcome {
    /// Measured, if the host has left the machine its CPUs.
    pub(crate) fn of(measures: Measures) -> Self {
        match measures.stolen {
            Some(share) if share > STOLEN_MAX => Self::Stolen { share },
            _ => Self::Measured(measures),
        }
    }

    pub(crate) fn measures(&self) -> Option<&Measures> {
        match self {
            Self::Measured(measures) => Some(measures),
            Self::Failed { .. } | Self::Skipped { .. } | Self::Stolen { .. } => None,
        }
    }

    /// One line for the terminal.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Measured(measures) => measures.describe(),
            Self::Failed { reason, .. } => format!("failed: {reason}"),
            Self::Skipped { reason } => format!("skipped: {reason}"),
            Self::Stolen { share } => format!(
                "does not count: the host took {:.0} % of the CPU time",
                share * 100.0
            ),
        }
    }
}

impl Measures {
    /// Of another phase of the run; the worst one counts.
    pub(crate) fn note_stolen(&mut self, share: f64) {
        self.stolen = Some(self.stolen.unwrap_or_default().max(share));
    }

    fn describe(&self) -> String {
        let flood = self.flood.map(|flood| {
            format!(
                "{:.1} k/s, CPU s/M {:.2} sender {:.2} receiver; ",
                flood.messages_per_second / 1e3,
                flood.sender_cpu,
                flood.receiver_cpu
            )
        });
        let latency = self.latency.map(|latency| {
            format!(
                "p50 {:.0} p99 {:.0} p99.9 {:.0} max {:.0} us, {:.2} cores; ",
                latency.p50_us, latency.p99_us, latency.p999_us, latency.max_us, latency.cores
            )
        });
        format!(
            "{}{}setup {:.1} s, others used {:.2} cores, the host took {:.1} %",
            flood.unwrap_or_default(),
            latency.unwrap_or_default(),
            self.setup_seconds,
            self.foreign_cores,
            self.stolen.unwrap_or_default() * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(stolen: f64) -> Outcome {
        Outcome::of(Measures {
            setup_seconds: 1.0,
            flood: None,
            latency: None,
            foreign_cores: 0.0,
            stolen: Some(stolen),
        })
    }

    #[test]
    fn a_run_whose_cpu_time_was_stolen_does_not_count() {
        assert!(with(0.04).measures().is_some());
        assert!(with(0.06).measures().is_none());
        assert!(with(0.06).describe().contains("6 %"));
    }
}
