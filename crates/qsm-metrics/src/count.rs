use core::sync::atomic::{AtomicU64, Ordering};

/// A counter that several threads add to. It orders nothing else between them.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds so many.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Counted so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
