use core::fmt;

use qsm_net::{IoReport, Strategy, ThreadReport};

/// Grants of a core thread, and why not more. `Display` gives one line for each fact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreReport {
    /// Its sockets.
    pub io: IoReport,
    /// Those on the second network, if it is on two.
    pub second: Option<IoReport>,
    /// Its thread.
    pub thread: ThreadReport,
    /// It never sleeps.
    pub spin: bool,
    /// It was told which CPU to run on.
    pub pinned: bool,
}

impl CoreReport {
    /// The ways of sending and receiving faster: which are in use, and why.
    #[must_use]
    pub fn strategies(&self) -> Vec<Strategy> {
        let mut strategies = self.io.strategies();
        strategies.extend([
            self.pinning(),
            self.realtime(),
            self.short_slices(),
            self.spinning(),
        ]);
        strategies
    }

    fn pinning(&self) -> Strategy {
        let affinity = self.thread.affinity;
        let cpus = affinity.map_or_else(|| "not known".to_owned(), |cpus| cpus.to_string());
        match self.pinned {
            true => Strategy::used("pinned", format!("to CPU {cpus}")),
            false => Strategy::unused("pinned", format!("not asked for; CPUs {cpus}")),
        }
    }

    fn realtime(&self) -> Strategy {
        match self.thread.realtime {
            Some(priority) => Strategy::used("real time", format!("SCHED_FIFO, {priority} of 99")),
            None => Strategy::unused("real time", "not asked for"),
        }
    }

    fn short_slices(&self) -> Strategy {
        let name = "short slices";
        match self.thread.slice {
            Some(slice) if self.thread.has_short_slice() => Strategy::used(
                name,
                format!("{slice:?}; gives way between turns under load"),
            ),
            Some(slice) => Strategy::unused(name, format!("refused; {slice:?}")),
            None if self.thread.realtime.is_some() => Strategy::unused(name, "real time"),
            None => Strategy::unused(name, "not before Linux 6.12; runs until the kernel ends it"),
        }
    }

    fn spinning(&self) -> Strategy {
        match self.spin {
            true => Strategy::used("spinning", "never sleeps"),
            false => Strategy::unused("spinning", "not asked for; sleeps until something comes"),
        }
    }
}

impl fmt::Display for CoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.io)?;
        if let Some(second) = &self.second {
            write!(f, "\nsecond {second}")?;
        }
        let own = self.strategies().split_off(self.io.strategies().len());
        own.iter()
            .try_for_each(|strategy| write!(f, "\n{strategy}"))
    }
}
