//! Bytes that a node sends again, as they go to the kernel.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use qsm::{Direction, Hop, Tapped};

/// Interval in which they are summed up (R-NAK-16).
const INTERVAL: Duration = Duration::from_millis(10);

/// Repairs of a node so far.
#[derive(Debug)]
pub(crate) struct Resent {
    /// Bytes that an interval may have.
    limit: u64,
    sums: Mutex<Sums>,
}

/// Bytes of repairs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    /// Those of the last interval, by when they were sent.
    recent: VecDeque<(Instant, u64)>,
    /// Bytes of the last interval.
    sum: u64,
    /// Most bytes in an interval that had more than one repair.
    pub(crate) most: u64,
    /// Bytes that found the limit reached.
    pub(crate) over: u64,
    /// All of them.
    pub(crate) total: u64,
}

impl Sums {
    fn add(&mut self, at: Instant, bytes: u64, limit: u64) {
        while let Some(&(first, size)) = self.recent.front()
            && at.saturating_duration_since(first) >= INTERVAL
        {
            self.recent.pop_front();
            self.sum -= size;
        }
        self.recent.push_back((at, bytes));
        self.sum += bytes;
        self.total += bytes;
        if self.recent.len() > 1 {
            self.most = self.most.max(self.sum);
            let over = if self.sum > limit { bytes } else { 0 };
            self.over += over;
        }
    }
}

impl Resent {
    /// None so far, with this limit.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            sums: Mutex::default(),
        }
    }

    /// A tap that counts them.
    pub(crate) fn tap(self: &Arc<Self>) -> impl Fn(Tapped<'_>) + Send + Sync + 'static {
        let resent = self.clone();
        move |tapped| {
            if tapped.direction == Direction::Sent {
                resent.count(tapped);
            }
        }
    }

    fn count(&self, tapped: Tapped<'_>) {
        let again = |datagram: &&[u8]| Hop::peek(datagram).is_some_and(|hop| !hop.is_first());
        for datagram in tapped.datagrams().filter(again) {
            let bytes = datagram.len() as u64;
            self.lock().add(tapped.at, bytes, self.limit);
        }
    }

    /// Sums of all counts so far.
    pub(crate) fn sums(&self) -> Sums {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
