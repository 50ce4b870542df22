//! What goes wrong in a cluster that is measured.

use core::time::Duration;

/// Something that goes wrong, most of it again and again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Disturbance {
    /// Each node stands still from time to time; both times are drawn from an exponential
    /// distribution with this mean.
    Stalls {
        /// Mean time between two stalls of a node.
        every: Duration,
        /// Mean length of a stall.
        length: Duration,
    },
    /// One node sleeps at equal intervals.
    Sleep {
        /// Which.
        node: usize,
        /// From the beginning of one sleep to that of the next.
        every: Duration,
        /// How long.
        length: Duration,
    },
    /// One node loses whatever arrives, at equal intervals.
    Deaf {
        /// Which.
        node: usize,
        /// From the beginning of one such time to that of the next.
        every: Duration,
        /// How long.
        length: Duration,
    },
    /// All work of one node takes longer for some time.
    Slow {
        /// Which.
        node: usize,
        /// From then on.
        from: Duration,
        /// For so long.
        length: Duration,
        /// So many times as long.
        times: u32,
    },
    /// A sender that publishes nothing before.
    Joins {
        /// Which.
        node: usize,
        /// From then on.
        from: Duration,
    },
    /// A sender that publishes at equal intervals only, and nothing between them.
    Bursts {
        /// Which.
        node: usize,
        /// From then on.
        from: Duration,
        /// From the beginning of one burst to that of the next.
        every: Duration,
        /// Time for which it lasts.
        length: Duration,
    },
}

impl Disturbance {
    /// Tells whether this sender publishes nothing at first because of it.
    pub(super) fn silences(&self, sender: usize) -> bool {
        match self {
            Self::Joins { node, .. } | Self::Bursts { node, .. } => *node == sender,
            _ => false,
        }
    }
}
