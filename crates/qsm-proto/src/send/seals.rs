//! What a stream that is sealed knows of its seals.

use std::collections::VecDeque;
use std::sync::Arc;

use qsm_identity::NodeKey;
use qsm_origin::Sealer;

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
        }
    }

    pub(super) fn last_upto(&self, highest: u64) -> u64 {
        let mut last_first = self.written.iter().rev();
        let last = last_first.find(|seal| **seal <= highest);
        last.copied().unwrap_or(self.passed)
    }
}
