//! The CPU of each core thread, with `--pin`.

use crate::options::LocalOptions;

/// Work of a sender, in receivers: 1.5 to 2 by measurement, with one to eight of them.
const SENDER: u32 = 2;

/// CPUs of all processes of a run, for each of their core threads; none without `--pin`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuAssignment {
    senders: Vec<Vec<usize>>,
    receivers: Vec<Vec<usize>>,
}

impl CpuAssignment {
    /// Spreads all core threads over these CPUs, so that each has about as much to do.
    #[must_use]
    pub(crate) fn spread(cpus: impl Iterator<Item = usize>, local: &LocalOptions) -> Self {
        let mut cpus: Vec<(u32, usize)> = cpus.map(|cpu| (0, cpu)).collect();
        let mut least_loaded = |work| {
            let least = cpus.iter_mut().min()?;
            least.0 += work;
            Some(least.1)
        };
        let mut take = |processes: u16, work| -> Vec<Vec<usize>> {
            let mut one = || {
                (0..local.cores)
                    .filter_map(|_| least_loaded(work))
                    .collect()
            };
            (0..processes).map(|_| one()).collect()
        };
        // Processes with most to do come first.
        let senders = take(local.senders, SENDER);
        let receivers = take(local.receivers, 1);
        Self { senders, receivers }
    }

    /// The option of a sender's process.
    #[must_use]
    pub(crate) fn sender(&self, index: u16) -> Option<String> {
        option(&self.senders, index)
    }

    /// The option of a receiver's process.
    #[must_use]
    pub(crate) fn receiver(&self, index: u16) -> Option<String> {
        option(&self.receivers, index)
    }
}

fn option(cpus: &[Vec<usize>], index: u16) -> Option<String> {
    let cpus: Vec<String> = cpus
        .get(usize::from(index))?
        .iter()
        .map(usize::to_string)
        .collect();
    Some(format!("--pin={}", cpus.join(",")))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        local: LocalOptions,
    }

    fn spread(cpus: usize, options: &str) -> CpuAssignment {
        let words = ["qsm"].into_iter().chain(options.split_whitespace());
        CpuAssignment::spread(0..cpus, &Line::parse_from(words).local)
    }

    #[test]
    fn senders_and_receivers_are_spread_by_what_they_have_to_do() {
        let receivers = |options| spread(2, options).receivers.concat();
        assert_eq!(receivers("--receivers 2"), [1, 1], "apart from the sender");
        assert_eq!(receivers("--receivers 4"), [1, 1, 0, 1]);
        assert_eq!(receivers("--receivers 3 --senders 2"), [0, 1, 0]);
        let many = spread(16, "--receivers 8").receivers.concat();
        assert_eq!(many, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn each_core_thread_has_a_cpu() {
        let cpus = spread(8, "--receivers 2 --cores 2");
        assert_eq!(cpus.sender(0).as_deref(), Some("--pin=0,1"));
        assert_eq!(cpus.receiver(1).as_deref(), Some("--pin=4,5"));
        assert_eq!(cpus.receiver(2), None);
        assert_eq!(CpuAssignment::default().sender(0), None);
    }
}
