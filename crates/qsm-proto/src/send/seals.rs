//! What a stream that is sealed knows of its seals.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use qsm_identity::NodeKey;
use qsm_origin::Sealer;

use crate::Instant;

/// Time without its acknowledgement after which the oldest seal is sent again.
const AGAIN: Duration = Duration::from_secs(1);
/// Most times that it doubles: up to 4 s.
const AGAIN_DOUBLINGS: u8 = 2;

/// Seals of one stream.
#[derive(Debug)]
pub(super) struct StreamSeals {
    pub(super) key: Arc<NodeKey>,
    pub(super) sealer: Sealer,
    /// Numbers of those that not everybody is known to have.
    pub(super) written: VecDeque<u64>,
    /// The last one that everybody has, or the last of a time before.
    pub(super) passed: u64,
    /// The first packet that no seal is for, until a seal has said so.
    pub(super) unsealed: Option<u64>,
    /// Number of them so far.
    pub(super) count: u64,
    /// When the oldest of `written` is sent again; [`Instant::NEVER`]: there is none.
    pub(super) again: Instant,
    /// Times that it has been.
    repeats: u8,
}

/// Remains of seals that are over.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SealedPast {
    /// Number of the last one; 0: there was none.
    pub(super) upto: u64,
    /// Number of them.
    pub(super) count: u64,
}

impl StreamSeals {
    /// Seals of a stream that goes on after packet `highest`, and had its last seal before.
    pub(super) fn new(key: Arc<NodeKey>, sealer: Sealer, highest: u64, past: SealedPast) -> Self {
        let unsealed = past.upto < highest;
        Self {
            key,
            sealer,
            written: VecDeque::new(),
            passed: past.upto,
            unsealed: unsealed.then_some(past.upto + 1),
            count: past.count,
            again: Instant::NEVER,
            repeats: 0,
        }
    }

    /// A seal has been written with this number.
    pub(super) fn note_written(&mut self, now: Instant, sequence: u64) {
        self.written.push_back(sequence);
        self.count += 1;
        if self.again == Instant::NEVER {
            self.wait_for_oldest(now);
        }
    }

    /// Everybody has what there is up to here, or is not waited for.
    pub(super) fn note_passed(&mut self, now: Instant, upto: u64) {
        let before = self.written.len();
        while let Some(seal) = self.written.front().copied()
            && seal <= upto
        {
            self.passed = seal;
            self.written.pop_front();
        }
        if self.written.len() < before {
            self.wait_for_oldest(now);
        }
    }

    /// Nobody waits for a seal any more.
    pub(super) fn forget_written(&mut self) {
        self.passed = self.last_upto(u64::MAX);
        self.written.clear();
        self.again = Instant::NEVER;
    }

    fn wait_for_oldest(&mut self, now: Instant) {
        self.repeats = 0;
        self.again = match self.written.is_empty() {
            true => Instant::NEVER,
            false => now.after(AGAIN),
        };
    }

    /// Number of the seal that is to be sent again now. Rule R-SEC-30.
    pub(super) fn take_again(&mut self, now: Instant) -> Option<u64> {
        if self.again > now {
            return None;
        }
        self.repeats = (self.repeats + 1).min(AGAIN_DOUBLINGS);
        self.again = now.after(AGAIN * (1 << self.repeats));
        self.written.front().copied()
    }

    pub(super) fn last_upto(&self, highest: u64) -> u64 {
        let mut last_first = self.written.iter().rev();
        let last = last_first.find(|seal| **seal <= highest);
        last.copied().unwrap_or(self.passed)
    }
}
