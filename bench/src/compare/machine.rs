//! What the figures were measured on, and how much of it others used meanwhile.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    /// `net.core.rmem_max`, bytes.
    pub(crate) receive_buffer_max: String,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let read = |path: &str| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let processor = read("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .and_then(|rest| rest.split_once(": "))
            .map(|(_, name)| name.to_owned());
        Self {
            processor: processor.unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease"),
            receive_buffer_max: read("/proc/sys/net/core/rmem_max"),
        }
    }
}

/// CPU seconds that the whole machine has used since it was started.
pub(crate) fn busy_seconds() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = fields
        .split_whitespace()
        .skip(1)
        .map(|field| field.parse().unwrap_or(0.0))
        .collect();
    // user, nice, system, idle, iowait, irq, softirq; ticks of 10 ms.
    let busy = |at: usize| ticks.get(at).copied().unwrap_or(0.0);
    (busy(0) + busy(1) + busy(2) + busy(5) + busy(6)) / 100.0
}
