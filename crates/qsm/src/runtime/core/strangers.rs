//! Datagrams of this cluster that the node's key does not open, told at once and then rarely.

use std::time::Duration;

use qsm_net::Refusal;
use qsm_proto::Instant;

use super::Core;
use crate::event::{Event, Stranger, StrangerCause};

/// Pause between two words about strangers.
const AGAIN: Duration = Duration::from_secs(10);

/// What has been told.
#[derive(Debug, Default)]
pub(super) struct StrangerLog {
    told: Option<Instant>,
    /// Protected datagrams that came to a node without a key, as far as that was looked at.
    sealed: u64,
}

impl Core {
    /// Tells of datagrams that came in this turn and were not read for want of a key, or for having none.
    pub(super) fn note_strangers(&mut self) {
        let sealed = self.endpoint.discarded_sealed();
        let stranger = match self.port.take_refused() {
            Some(refused) => Stranger {
                from: Some(refused.from),
                cause: match refused.why {
                    Refusal::Plain => StrangerCause::Unprotected,
                    Refusal::OtherKey => StrangerCause::OtherKey,
                    _ => StrangerCause::Forged,
                },
            },
            None if sealed > self.strangers.sealed => Stranger {
                from: None,
                cause: StrangerCause::Protected,
            },
            None => return,
        };
        self.strangers.sealed = sealed;
        let told = self.strangers.told;
        if told.is_none_or(|told| self.now.since(told) >= AGAIN) {
            self.strangers.told = Some(self.now);
            self.readers.tell(&Event::Stranger(stranger));
        }
    }
}
