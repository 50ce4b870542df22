use std::collections::{BTreeMap, VecDeque};

use qsm_proto::{Instant, nanoseconds};
use qsm_wire::Origin;

/// How long it took until senders knew that packets were stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    /// Packets.
    pub count: u64,
    /// Of them all, nanoseconds.
    pub sum_ns: u64,
    /// Longest, nanoseconds.
    pub max_ns: u64,
}

impl Latency {
    /// On average, nanoseconds; 0 of nothing.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count).unwrap_or(0)
    }
}

/// Packets that have left and are not known to be stable. Exact for senders that send into one
/// region.
#[derive(Debug, Default)]
pub(crate) struct Stability {
    waiting: BTreeMap<Origin, (u64, VecDeque<(u64, Instant)>)>,
    latency: Latency,
}

impl Stability {
    pub(crate) fn latency(&self) -> Latency {
        self.latency
    }

    /// Packets have left.
    pub(crate) fn sent(&mut self, now: Instant, sender: Origin, packets: u64) {
        let (highest, waiting) = self.waiting.entry(sender).or_default();
        *highest += packets;
        waiting.push_back((*highest, now));
    }

    /// The sender is told that everything up to here is stable.
    pub(crate) fn stable(&mut self, now: Instant, sender: Origin, upto: u64) {
        let Some((_, waiting)) = self.waiting.get_mut(&sender) else {
            return;
        };
        while let Some((_, since)) = waiting.front().copied().filter(|first| first.0 <= upto) {
            waiting.pop_front();
            let took = nanoseconds(now.since(since));
            self.latency.count += 1;
            self.latency.sum_ns += took;
            self.latency.max_ns = self.latency.max_ns.max(took);
        }
    }
}
