use core::time::Duration;
use std::collections::BTreeSet;

use qsm_wire::{MemberIndex, StreamId};

use crate::Instant;

/// Who a repair went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairRecipient {
    /// One member.
    One(MemberIndex),
    /// The whole region.
    All,
}

/// Repairs made a moment ago, so that the same request that comes twice (from two sides, or
/// repeated while the repair is on its way) is answered once, and so that the third requester
/// of a packet makes it a multicast.
///
/// Two generations of a set, each one round trip old: an entry lives for one to two of them.
/// Rule R-NAK-6.
#[derive(Debug)]
pub struct RecentRepairs {
    young: BTreeSet<(StreamId, u64, RepairRecipient)>,
    old: BTreeSet<(StreamId, u64, RepairRecipient)>,
    turned: Instant,
}

impl RecentRepairs {
    /// Most entries of a generation; beyond it repairs are answered without this memory.
    pub const MAX: usize = 8192;

    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            young: BTreeSet::new(),
            old: BTreeSet::new(),
            turned: Instant(0),
        }
    }

    /// Forgets what is older than `age`.
    pub fn turn(&mut self, now: Instant, age: Duration) {
        let passed = now.since(self.turned);
        if passed < age {
            return;
        }
        core::mem::swap(&mut self.old, &mut self.young);
        self.young.clear();
        if passed >= age * 2 {
            self.old.clear();
        }
        self.turned = now;
    }

    /// Whether the recipient has been served, alone or with everybody.
    #[must_use]
    pub fn served(&self, stream: StreamId, sequence: u64, recipient: RepairRecipient) -> bool {
        [recipient, RepairRecipient::All]
            .into_iter()
            .any(|recipient| {
                let key = (stream, sequence, recipient);
                self.young.contains(&key) || self.old.contains(&key)
            })
    }

    /// How many single members have been served.
    #[must_use]
    pub fn singles(&self, stream: StreamId, sequence: u64) -> usize {
        let all = (stream, sequence, RepairRecipient::One(MemberIndex(0)))
            ..(stream, sequence, RepairRecipient::All);
        self.young.range(all.clone()).count() + self.old.range(all).count()
    }

    /// The recipient is being served now.
    pub fn note(&mut self, stream: StreamId, sequence: u64, recipient: RepairRecipient) {
        if self.young.len() < Self::MAX {
            self.young.insert((stream, sequence, recipient));
        }
    }
}

impl Default for RecentRepairs {
    fn default() -> Self {
        Self::new()
    }
}
