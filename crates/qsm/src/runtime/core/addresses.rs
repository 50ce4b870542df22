//! The addresses of a core, which may change under it, or be gone for a while. The sockets follow
//! their interface, and the membership service is told in the same life.

use std::time::Duration;

use qsm_proto::Instant;

use super::Core;
use crate::event::Event;

/// Pause before the interface is looked at again although the kernel tells of no change, and time
/// after which an address that is not there is spoken of.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What is known of an address that is not there.
#[derive(Default)]
pub(super) struct Addresses {
    /// When to look again.
    due: Option<Instant>,
    missing_since: Option<Instant>,
    /// The application knows.
    told: bool,
}

impl Addresses {
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// It is not there. `true`: that is to be told now.
    fn miss(&mut self, now: Instant) -> bool {
        self.due = Some(now.after(LOOK_AGAIN));
        let since = *self.missing_since.get_or_insert(now);
        let tell = !self.told && now.since(since) >= LOOK_AGAIN;
        self.told |= tell;
        tell
    }
}

impl Core {
    /// Has the sockets follow their interfaces, when the kernel tells of a change or it is time to
    /// try once more.
    pub(super) fn follow_addresses(&mut self) {
        let due = self.addresses.due.is_some_and(|due| due <= self.now);
        if !self.port.take_change() && !due {
            return;
        }
        let former = [Some(self.port.local_addr()), self.port.second_addr()];
        let followed = self.port.follow_addresses();
        let now = [Some(self.port.local_addr()), self.port.second_addr()];
        if now != former {
            let (address, second) = (self.port.local_addr(), self.port.second_addr());
            self.endpoint.move_to(self.now, address, second);
        }
        let moves = former.into_iter().zip(now).filter(|(from, to)| from != to);
        let moves = moves.filter_map(|(from, to)| {
            let (from, to) = from.zip(to)?;
            Some(Event::Moved { from, to })
        });
        moves.for_each(|event| self.readers.tell(&event));
        match followed {
            Ok(()) => self.end_missing(now == former),
            Err(error) if self.addresses.miss(self.now) => {
                let reason = error.to_string();
                self.readers.tell(&Event::AddressLost { reason });
            }
            Err(_) => {}
        }
    }

    fn end_missing(&mut self, same: bool) {
        let told = core::mem::take(&mut self.addresses).told;
        if told && same {
            let from = self.port.local_addr();
            self.readers.tell(&Event::Moved { from, to: from });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_gone_for_a_moment_is_not_spoken_of() {
        let at = |milliseconds| Instant(0).after(Duration::from_millis(milliseconds));
        let mut addresses = Addresses::default();
        assert!(!addresses.miss(at(0)));
        assert!(!addresses.miss(at(900)));
        assert!(addresses.miss(at(1000)));
        assert_eq!(addresses.next_timeout(), Some(at(2000)));
        assert!(!addresses.miss(at(5000)), "it is said once");
    }
}
