//! The end of a node: it says goodbye once its messages are stable, or after a while.

use crate::Instant;

/// How long a closing node waits for its messages to become stable.
const CLOSE_PATIENCE: core::time::Duration = core::time::Duration::from_secs(10);

/// Stages of a node's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Closing {
    /// It goes on.
    #[default]
    No,
    /// It waits for its messages until then.
    Waiting(Instant),
    /// It has said goodbye.
    Said,
}

impl Closing {
    /// Begins to close; `false`: it has begun before.
    pub(crate) fn begin(&mut self, now: Instant) -> bool {
        let first = *self == Self::No;
        if first {
            *self = Self::Waiting(now.after(CLOSE_PATIENCE));
        }
        first
    }

    /// True if it is time to say goodbye; `stable`: all that was published has been received by all.
    pub(crate) fn is_due(&mut self, now: Instant, stable: bool) -> bool {
        let due = matches!(*self, Self::Waiting(until) if stable || now >= until);
        if due {
            *self = Self::Said;
        }
        due
    }

    /// When it waits no longer.
    pub(crate) fn timeout(self) -> Option<Instant> {
        match self {
            Self::Waiting(until) => Some(until),
            Self::No | Self::Said => None,
        }
    }
}
