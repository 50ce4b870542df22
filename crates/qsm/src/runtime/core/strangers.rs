//! Datagrams of this cluster that the node's key does not open, told at once and then rarely (R-SEC-1).

use std::net::SocketAddr;
use std::time::Duration;

use qsm_net::{Refusal, Refused};
use qsm_proto::Instant;

use crate::event::{Stranger, StrangerCause};

/// Pause between two words about strangers.
const AGAIN: Duration = Duration::from_secs(10);

/// Memory of what has been told.
#[derive(Debug, Default)]
pub(super) struct StrangerLog {
    told: Option<Instant>,
    impostor_told: Option<Instant>,
    /// Protected datagrams that came to a node without a key, as far as that was looked at.
    sealed: u64,
}

impl StrangerLog {
    /// Notes the latest datagram that was refused, if there is one, and how many a node without a key has dropped because
    /// one protects them. `Some`: this is to be told now.
    pub(super) fn note(
        &mut self,
        now: Instant,
        refused: Option<Refused>,
        sealed: u64,
    ) -> Option<Stranger> {
        let stranger = match refused {
            Some(refused) => Stranger {
                from: Some(refused.from),
                cause: match refused.why {
                    Refusal::Plain => StrangerCause::Unprotected,
                    Refusal::OtherKey => StrangerCause::OtherKey,
                    _ => StrangerCause::Forged,
                },
            },
            None if sealed > self.sealed => Stranger {
                from: None,
                cause: StrangerCause::Protected,
            },
            None => return None,
        };
        self.sealed = sealed;
        is_due(&mut self.told, now).then_some(stranger)
    }

    /// Somebody at this address says to be a service of the cluster. `Some`: this is to be told now.
    pub(super) fn impostor(&mut self, now: Instant, from: SocketAddr) -> Option<Stranger> {
        is_due(&mut self.impostor_told, now).then_some(Stranger {
            from: Some(from),
            cause: StrangerCause::Impostor,
        })
    }
}

/// Tells whether this is to be told now, and notes it.
fn is_due(told: &mut Option<Instant>, now: Instant) -> bool {
    let due = told.is_none_or(|told| now.since(told) >= AGAIN);
    if due {
        *told = Some(now);
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_told_at_once_and_then_every_ten_seconds() {
        let mut log = StrangerLog::default();
        let from = SocketAddr::from(([10, 0, 0, 1], 7));
        let plain = Refused {
            from,
            why: Refusal::Plain,
        };
        let second = |second: u64| Instant(second * 1_000_000_000);
        assert_eq!(log.note(second(1), None, 0), None);
        let told = log.note(second(1), Some(plain), 0).unwrap();
        assert_eq!(told.from, Some(from));
        assert_eq!(told.cause, StrangerCause::Unprotected);
        assert_eq!(log.note(second(10), Some(plain), 0), None);
        let told = log.note(second(11), None, 1).unwrap();
        assert_eq!(told.cause, StrangerCause::Protected);
        // Nothing new.
        assert_eq!(log.note(second(40), None, 1), None);
    }
}
