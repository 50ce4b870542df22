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

/// CPU seconds of the whole machine since it was started.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CpuSeconds {
    /// Used by programs and the kernel.
    pub(crate) busy: f64,
    /// Wanted by this machine and given to another one by the host that both run on.
    pub(crate) stolen: f64,
}

impl CpuSeconds {
    pub(crate) fn now() -> Self {
        Self::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The share of all CPU time that was stolen from then until now, in so many seconds.
    pub(crate) fn stolen_share(self, then: Self, seconds: f64) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        ((self.stolen - then.stolen) / (cores * seconds)).max(0.0)
    }

    fn parse(text: &str) -> Self {
        let fields = text.lines().next().unwrap_or_default();
        let ticks: Vec<f64> = fields
            .split_whitespace()
            .skip(1)
            .map(|field| field.parse().unwrap_or(0.0))
            .collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; ticks of 10 ms.
        let spent = |at: usize| ticks.get(at).copied().unwrap_or(0.0) / 100.0;
        Self {
            busy: spent(0) + spent(1) + spent(2) + spent(5) + spent(6),
            stolen: spent(7),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_told_apart_from_used_time() {
        let then = CpuSeconds::parse("cpu  100 0 100 900 0 0 0 50 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0");
        let now = CpuSeconds::parse("cpu  150 0 150 950 0 0 0 250 0 0");
        assert!((now.busy - then.busy - 1.0).abs() < 1e-9);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        assert!((now.stolen_share(then, 4.0) - 0.5 / cores).abs() < 1e-9);
    }
}
