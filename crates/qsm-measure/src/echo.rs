//! The way back: what a receiver with `--echo` returns to the sender.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use qsm::{Node, Upcalls};
use qsm_console::failure::Failure;
use qsm_console::stop::Stop;

use crate::clock::nanos;
use crate::latencies::Latencies;
use crate::message::{Noise, Stamp};
use crate::names;
use crate::pace::Pace;

/// How often it is looked whether all have come back.
const LOOK: Duration = Duration::from_millis(20);

/// The echoes of one sender's messages.
pub(crate) struct Echoes {
    back: Arc<Mutex<Back>>,
    _upcalls: Upcalls,
}

impl Echoes {
    /// Listens for echoes of this node's messages to so many groups.
    ///
    /// # Errors
    /// The node has ended, or there is no membership service.
    pub(crate) fn new(node: &Node, groups: u32) -> Result<Self, Failure> {
        let back = Back {
            noise: Noise::new(0),
            salts: (0..groups as usize)
                .map(|group| Noise::salt(node.id(), group))
                .collect(),
            next: vec![1; groups as usize],
            count: 0,
            pace: None,
            half: Latencies::new(),
            fault: None,
        };
        let back = Arc::new(Mutex::new(back));
        let shared = Arc::clone(&back);
        let tag = node.stats()?.address.port();
        let upcalls = node.group(names::ECHO).subscribe_with(move |delivery| {
            // One that is lost is missed in the count.
            if let Some(message) = delivery.message() {
                lock(&shared).take(message.bytes, tag);
            }
        })?;
        Ok(Self {
            back,
            _upcalls: upcalls,
        })
    }

    /// From now on messages are sent at this pace.
    pub(crate) fn begin(&self, pace: Pace) {
        lock(&self.back).pace = Some(pace);
    }

    /// Waits until so many have come back.
    ///
    /// # Errors
    /// They do not, or changed.
    pub(crate) fn wait(
        &self,
        total: u64,
        patience: Duration,
        stop: &Stop,
    ) -> Result<Latencies, Failure> {
        let deadline = Instant::now() + patience;
        loop {
            let back = lock(&self.back);
            if let Some(fault) = &back.fault {
                return Err(Failure::failed(
                    format!("an echo is wrong: {fault}"),
                    "let one receiver only run with --echo; otherwise it is worth a report",
                ));
            }
            if back.count == total {
                return Ok(back.half.clone());
            }
            if stop.is_asked() || Instant::now() >= deadline {
                return Err(Failure::failed(
                    format!("{} of {total} messages came back", back.count),
                    "start one receiver with --echo, or give a longer --patience",
                ));
            }
            drop(back);
            thread::sleep(LOOK);
        }
    }
}

/// What has come back.
struct Back {
    noise: Noise,
    /// Of this sender's groups.
    salts: Vec<u64>,
    /// The number in each group whose echo is next.
    next: Vec<u64>,
    count: u64,
    pace: Option<Pace>,
    half: Latencies,
    fault: Option<String>,
}

impl Back {
    fn take(&mut self, bytes: &[u8], tag: u16) {
        let now = Instant::now();
        if self.fault.is_some() {
            return;
        }
        match self.due(bytes, tag) {
            Some(due) => {
                let there_and_back = now.saturating_duration_since(due);
                self.half.record(nanos(there_and_back) / 2);
                self.count += 1;
            }
            None => self.fault = Some(format!("after {} right ones", self.count)),
        }
    }

    /// When the message was due, if it is the next one of its group and as it was sent.
    fn due(&mut self, bytes: &[u8], tag: u16) -> Option<Instant> {
        let id = Stamp::read(bytes)?.id;
        let index = Stamp::index(id);
        let groups = self.next.len() as u64;
        let (group, number) = ((index % groups) as usize, index / groups + 1);
        if Stamp::tag(id) != tag || self.next[group] != number {
            return None;
        }
        self.noise.read(bytes, self.salts[group], number)?;
        self.next[group] += 1;
        Some(self.pace?.due(index))
    }
}

fn lock(back: &Mutex<Back>) -> MutexGuard<'_, Back> {
    back.lock().unwrap_or_else(PoisonError::into_inner)
}
