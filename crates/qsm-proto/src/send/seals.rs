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
    /// How many there have been.
    pub(super) count: u64,
}

impl StreamSeals {
    pub(super) fn new(key: Arc<NodeKey>, sealer: Sealer) -> Self {
        Self {
            key,
            sealer,
            written: VecDeque::new(),
            count: 0,
        }
    }
}
