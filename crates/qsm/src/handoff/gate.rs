//! Limits of what waits in publishers' queues, and those who wait for room.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::handoff::sleepers::Sleepers;

/// Limits of publishers' queues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GateLimits {
    /// For each publisher.
    pub(crate) messages: usize,
    /// For each publisher.
    pub(crate) bytes: usize,
    /// For all publishers of the core together.
    pub(crate) bytes_total: usize,
}

/// Who may queue a message now, and who waits until he may.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(super) limits: GateLimits,
    pub(super) bytes_total: AtomicUsize,
    pub(crate) sleepers: Sleepers,
}

impl Gate {
    pub(crate) fn new(limits: GateLimits) -> Self {
        Self {
            limits,
            bytes_total: AtomicUsize::new(0),
            sleepers: Sleepers::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes_total.load(Ordering::Relaxed)
    }
}

/// Adds if the sum stays within the limit; anything fits when there is nothing yet.
pub(super) fn admit(sum: &AtomicUsize, more: usize, max: usize) -> bool {
    let add = |old: usize| (old == 0 || old + more <= max).then_some(old + more);
    sum.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add)
        .is_ok()
}
