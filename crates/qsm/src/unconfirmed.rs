//! Messages that not all receivers are known to have, by their numbers.

use core::fmt;
use std::sync::Arc;

use qsm_wire::Incarnation;

/// Ranges that a text names; the rest is counted.
pub(crate) const RANGES_SHOWN: usize = 16;

/// Messages of one group that a node accepted in one of its lives and that not all receivers are
/// known to have. Some or all of them may have arrived at some or all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unconfirmed {
    /// The group's name; empty if the node has left it.
    pub group: Arc<str>,
    /// The life that they were accepted in, and that numbers them.
    pub incarnation: Incarnation,
    /// Number of the first message.
    pub first: u64,
    /// Number of the last message.
    pub last: u64,
}

impl Unconfirmed {
    /// Number of messages.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.last.saturating_sub(self.first) + 1
    }
}

impl fmt::Display for Unconfirmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            incarnation,
            first,
            last,
        } = self;
        write!(f, "group {group} {first}..={last} of life {incarnation}")
    }
}
