//! How the core threads of a node run: how many, where, and before whom.

use qsm_net::{Affinity, ThreadReport, ask_short_slice, pin_to_cpu, set_realtime};

use crate::error::StartError;
use crate::shard::CORES_MAX;

/// What a node is told of its core threads.
#[derive(Debug, Clone)]
pub(crate) struct ThreadOptions {
    pub(crate) cores: usize,
    pub(crate) spin: bool,
    /// Of each core thread, one.
    pub(crate) cpus: Option<Vec<usize>>,
    /// Priority.
    pub(crate) realtime: Option<u8>,
}

impl Default for ThreadOptions {
    fn default() -> Self {
        Self {
            cores: 1,
            spin: false,
            cpus: None,
            realtime: None,
        }
    }
}

impl ThreadOptions {
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let cores = self.cores;
        if !(1..=CORES_MAX).contains(&cores) {
            return Err(StartError::Cores { cores });
        }
        match self.cpus.as_ref().map(Vec::len) {
            Some(cpus) if cpus != cores => Err(StartError::Cpus { cpus, cores }),
            _ => Ok(()),
        }
    }

    /// Makes the calling thread the core thread in this place.
    pub(crate) fn apply(&self, core: usize) -> Result<ThreadReport, StartError> {
        if let Some(cpu) = self.cpus.as_ref().and_then(|cpus| cpus.get(core)) {
            pin_to_cpu(*cpu)?;
        }
        match self.realtime {
            Some(priority) => set_realtime(priority)?,
            None => ask_short_slice(),
        }
        Ok(ThreadReport::current())
    }

    /// Where threads are to run that a pinned core thread starts: where this one may, not beside
    /// the core on its CPU.
    pub(crate) fn affinity_of_others(&self) -> Option<Affinity> {
        self.cpus.as_ref()?;
        Affinity::current().ok()
    }
}
