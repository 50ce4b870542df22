//! The end of a node: it says goodbye once its messages are stable, or after a while.

use crate::Instant;

/// How long a closing node waits for its messages to become stable.
const CLOSE_PATIENCE: core::time::Duration = core::time::Duration::from_secs(10);

/// How long it waits until senders know what it has received from them (R-MEM-14). A few rounds of tokens; more
/// only where other receivers hang.
const RECEIPT_PATIENCE: core::time::Duration = core::time::Duration::from_millis(500);

/// Stages of a node's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Closing {
    /// It goes on.
    #[default]
    No,
    /// It waits for its messages until then.
    Waiting {
        /// For receipts of what it has published,
        until: Instant,
        /// and for others to have its own.
        receipts_until: Instant,
    },
    /// It has said goodbye.
    Said,
}

impl Closing {
    /// Begins to close; `false`: it has begun before.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let first = *self == Self::No;
        if first {
            *self = Self::Waiting {
                until: now.after(CLOSE_PATIENCE),
                receipts_until: now.after(RECEIPT_PATIENCE),
            };
        }
        first
    }

    /// True if it is time to say goodbye; `stable`: all that was published has been received by all;
    /// `receipted`: senders know what this node has received from them.
    pub(crate) fn is_due(&mut self, now: Instant, stable: bool, receipted: bool) -> bool {
        let due = match *self {
            Self::Waiting {
                until,
                receipts_until,
            } => now >= until || stable && (receipted || now >= receipts_until),
            Self::No | Self::Said => false,
        };
        if due {
            *self = Self::Said;
        }
        due
    }

    /// When it waits no longer for something.
    pub(crate) fn timeout(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Waiting { receipts_until, .. } if now < receipts_until => Some(receipts_until),
            Self::Waiting { until, .. } => Some(until),
            Self::No | Self::Said => None,
        }
    }
}
