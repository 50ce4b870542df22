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
}

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
    pub(crate) fn measures(&self) -> Option<&Measures> {
        match self {
            Self::Measured(measures) => Some(measures),
            Self::Failed { .. } | Self::Skipped { .. } => None,
        }
    }

    /// One line for the terminal.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Measured(measures) => measures.describe(),
            Self::Failed { reason, .. } => format!("failed: {reason}"),
            Self::Skipped { reason } => format!("skipped: {reason}"),
        }
    }
}

impl Measures {
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
            "{}{}setup {:.1} s, others used {:.2} cores",
            flood.unwrap_or_default(),
            latency.unwrap_or_default(),
            self.setup_seconds,
            self.foreign_cores
        )
    }
}
