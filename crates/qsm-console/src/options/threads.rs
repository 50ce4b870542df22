//! The options about core threads.

use std::time::Duration;

use clap::Args;
use qsm::{Builder, CORES_MAX};

/// Number of core threads of a node, and the way they run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Core threads")]
pub struct ThreadOptions {
    /// Core threads, each for its share of the groups; best the same number on all nodes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = cores)]
    pub cores: usize,
    /// Run each core thread on one CPU only: 2,3 or 2-5
    #[arg(long, value_name = "CPUS", value_parser = Cpus::parse)]
    pub pin: Option<Cpus>,
    /// Run core threads before everything else (SCHED_FIFO, 1 to 99; takes a privilege)
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub realtime: Option<u8>,
    /// Let the kernel look at the device's queue so long before it waits for an interrupt
    #[arg(long, value_name = "MICROSECONDS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub busy_poll: Option<u32>,
}

impl ThreadOptions {
    /// A node with core threads as these options say.
    #[must_use = "a builder does nothing before `start`"]
    pub fn apply(&self, builder: Builder) -> Builder {
        let mut builder = builder.cores(self.cores);
        if let Some(Cpus(cpus)) = &self.pin {
            builder = builder.pin(cpus.iter().copied());
        }
        if let Some(priority) = self.realtime {
            builder = builder.realtime(priority);
        }
        builder
    }

    /// How long the kernel is to look at the network device's queue.
    pub(super) fn busy_poll(&self) -> Option<Duration> {
        let micros = self.busy_poll?;
        Some(Duration::from_micros(micros.into()))
    }
}

/// CPUs by number, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpus(pub Vec<usize>);

impl Cpus {
    /// From a command line.
    ///
    /// # Errors
    /// Not such a list.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u16>().ok().map(usize::from);
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(number(first)?..=number(last)?).filter(|range| !range.is_empty())
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let ranges = ranges.ok_or("not CPUs, such as 2,3 or 2-5")?;
        Ok(Self(ranges.into_iter().flatten().collect()))
    }
}

/// A number of core threads.
///
/// # Errors
/// Not one that a node can have.
pub fn cores(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    number
        .filter(|cores| (1..=CORES_MAX).contains(cores))
        .ok_or_else(|| format!("must be between 1 and {CORES_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_listed_in_the_order_of_the_cores() {
        let cpus = |text| Cpus::parse(text).map(|Cpus(cpus)| cpus);
        assert_eq!(cpus("7"), Ok(vec![7]));
        assert_eq!(cpus("4,2-3"), Ok(vec![4, 2, 3]));
        for wrong in ["", "a", "1,", "3-2", "-1", "1-", "70000"] {
            assert!(cpus(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn there_is_a_core_at_least_and_a_bound() {
        assert_eq!(cores("64"), Ok(64));
        assert!(cores("0").is_err() && cores("65").is_err() && cores("x").is_err());
    }
}
