//! Sockets follow their interfaces to other addresses, and the membership service is told, in the same
//! life.

use super::Core;
use crate::event::Event;

impl Core {
    /// Has the sockets follow their interfaces, when the kernel tells of a change or it is time to
    /// try once more.
    pub(super) fn follow_addresses(&mut self) {
        let due = self.addresses.is_due(self.now);
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
        if self.addresses.find() && same {
            let from = self.port.local_addr();
            self.readers.tell(&Event::Moved { from, to: from });
        }
    }
}
