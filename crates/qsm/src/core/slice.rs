use std::thread;

use qsm_net::{SHORT_SLICE, ThreadReport};
use qsm_proto::Instant;

/// A core thread's time on its CPU. The kernel ends it only with a tick of its clock, milliseconds
/// after the slice is over, and tokens, repairs and receivers on the same host wait so long; so the
/// core gives its CPU away itself, between two turns.
#[derive(Debug, Default)]
pub(super) struct Slice {
    /// It loses no more by that than such a slice.
    short: bool,
    began: Instant,
}

impl Slice {
    /// Of the calling thread.
    pub(super) fn current() -> Self {
        Self {
            short: ThreadReport::current().has_short_slice(),
            ..Self::default()
        }
    }

    /// It has slept, or given its CPU away, until now.
    pub(super) fn begin(&mut self, now: Instant) {
        self.began = now;
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.since(self.began) >= SHORT_SLICE
    }

    /// Lets others run who wait for this CPU, if there are any.
    pub(super) fn give_away(&self) {
        if self.short {
            thread::yield_now();
        }
    }
}
