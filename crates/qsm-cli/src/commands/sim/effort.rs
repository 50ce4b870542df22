//! What a run costs the machine that runs it.

use std::fs;
use std::time::{Duration, Instant};

use qsm_console::figures;
use serde_json::{Value, json};

/// Time and memory that a run has taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    time: Duration,
    virtual_time: Duration,
    /// The most that the process has held; not every system tells.
    memory_bytes: Option<u64>,
}

impl Effort {
    /// From `start` until now, for that much virtual time.
    pub(super) fn since(start: Instant, virtual_time: Duration) -> Self {
        let status = fs::read_to_string("/proc/self/status");
        Self {
            time: start.elapsed(),
            virtual_time,
            memory_bytes: status.ok().as_deref().and_then(memory_peak),
        }
    }

    /// In one line, for people.
    pub(super) fn line(self) -> String {
        let memory = self.memory_bytes.map_or_else(String::new, |bytes| {
            format!(", {} of memory", figures::bytes(bytes))
        });
        format!(
            "took {}: {:.2} virtual seconds per second{memory}\n",
            figures::duration(self.time),
            self.speed(),
        )
    }

    /// For programs.
    pub(super) fn json(self) -> Value {
        json!({
            "seconds": self.time.as_secs_f64(),
            "virtual_seconds_per_second": self.speed(),
            "memory_bytes": self.memory_bytes,
        })
    }

    fn speed(self) -> f64 {
        self.virtual_time.as_secs_f64() / self.time.as_secs_f64().max(1e-9)
    }
}

/// The highest resident memory of a process, bytes, from its `status` as Linux shows it.
fn memory_peak(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let peak = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = peak.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_known_where_the_system_tells() {
        let status = "Name:\tqsm\nVmPeak:\t 9000 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 100 kB\n";
        assert_eq!(memory_peak(status), Some(2 << 20));
        assert_eq!(memory_peak("Name:\tqsm\n"), None);
    }

    #[test]
    fn speed_is_virtual_time_by_time() {
        let effort = Effort {
            time: Duration::from_secs(4),
            virtual_time: Duration::from_secs(6),
            memory_bytes: Some(1_500_000_000),
        };
        let line = "took 4.00 s: 1.50 virtual seconds per second, 1.5 GB of memory\n";
        assert_eq!(effort.line(), line);
    }
}
