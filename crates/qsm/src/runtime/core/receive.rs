//! Datagrams of the sockets, given to the protocol in the order of their priority (R121, R122).

use std::io;
use std::time::Instant;

use qsm_net::Datagram;
use qsm_proto::Priority;

use super::{BYTES_LOADED, Core};
use crate::admission::EntryNews;
use crate::error::CloseReason;
use crate::event::Event;
use crate::latency::Stage;
use crate::runtime::tap::{Direction, Tap, Tapped};

const _: () = assert!(qsm_net::CLASSES == Priority::COUNT);

/// Datagrams received in one turn before timers and sending get theirs: about 1 ms at 4 million
/// a second.
const DATAGRAMS_PER_TURN: usize = 4096;
/// Bytes likewise: tokens wait meanwhile, and a sender for what they bring.
const BYTES_PER_TURN: usize = 256 << 10;
/// Datagrams received in one turn that show that more are coming; what comes one by one is seldom
/// found together.
const DATAGRAMS_LOADED: usize = 16;

impl Core {
    pub(super) fn receive(&mut self) -> io::Result<()> {
        let waited = self.attention.look(self.now);
        let (mut datagrams, mut bytes) = (0, 0);
        self.load.cut = false;
        loop {
            let class = |datagram: &[u8]| Priority::of(datagram) as usize;
            let gathered = self.port.gather(BYTES_PER_TURN - bytes, class)?;
            let amount = gathered.amount();
            if amount.datagrams == 0 {
                break;
            }
            self.endpoint.refill();
            let tap = self.tap.as_ref().map(|tap| (tap, Instant::now()));
            for datagram in gathered {
                if let Some((tap, at)) = tap {
                    show(tap, at, &datagram);
                }
                let foreign = self.endpoint.foreign_datagrams();
                self.endpoint.handle_datagram(
                    self.now,
                    datagram.source,
                    lent(&datagram),
                    &mut self.routes,
                );
                if self.endpoint.foreign_datagrams() != foreign
                    && let Some(group) = datagram.group
                {
                    self.endpoint.note_foreign(self.now, group);
                }
            }
            datagrams += amount.datagrams;
            bytes += amount.bytes;
            self.stats.received_first += amount.overtaking;
            if datagrams >= DATAGRAMS_PER_TURN || bytes >= BYTES_PER_TURN {
                self.load.cut = true;
                self.stats.receive_cut += 1;
                break;
            }
        }
        if let Some(waited) = waited.filter(|_| datagrams > 0) {
            self.endpoint.note_wait(self.now, waited);
        }
        if let Some(waited) = self.port.take_waited() {
            self.endpoint.note_sojourn(self.now, waited);
            self.watch(Stage::ReceiveBuffer, waited);
        }
        self.endpoint.set_backlog(self.now, self.load.cut);
        self.load.heavy = datagrams >= DATAGRAMS_LOADED || bytes >= BYTES_LOADED;
        if datagrams > 0 {
            self.sources.unblock();
            self.note_drops();
        }
        Ok(())
    }

    /// Tells of datagrams that were not read for want of a key, or for having none.
    pub(super) fn note_strangers(&mut self) {
        let (refused, sealed) = (self.port.take_refused(), self.endpoint.discarded_sealed());
        if let Some(stranger) = self.strangers.note(self.now, refused, sealed) {
            self.readers.tell(&Event::Stranger(stranger));
        }
    }

    /// Looks what the guard of the sockets has to tell: perhaps that the node may not stay.
    pub(super) fn take_entry_news(&mut self) -> Option<CloseReason> {
        while let Some(news) = self.entry.pop() {
            match news {
                EntryNews::Refused { reason } => return Some(CloseReason::Refused { reason }),
                EntryNews::Untrusted { address } => {
                    if let Some(stranger) = self.strangers.impostor(self.now, address) {
                        self.readers.tell(&Event::Stranger(stranger));
                    }
                }
                EntryNews::ListRefused { reason } => {
                    self.readers.tell(&Event::ListRefused { reason });
                }
            }
        }
        None
    }

    /// Tells the protocol of packets that the kernel dropped: it asks senders to slow down.
    fn note_drops(&mut self) {
        let drops = self.port.kernel_drops();
        if drops > self.load.drops {
            self.endpoint.note_drops(self.now, drops - self.load.drops);
            self.load.drops = drops;
        }
    }
}

/// The same for the protocol.
fn lent<'a>(datagram: &Datagram<'a>) -> qsm_proto::Datagram<'a> {
    match datagram.home {
        Some((buffer, start)) => {
            qsm_proto::Datagram::lent(buffer, start..start + datagram.bytes.len())
        }
        None => datagram.bytes.into(),
    }
}

fn show(tap: &Tap, at: Instant, datagram: &Datagram<'_>) {
    tap.tell(Tapped {
        at,
        direction: Direction::Received,
        peer: datagram.source,
        group: datagram.group,
        bytes: datagram.bytes,
        segment_bytes: datagram.bytes.len(),
    });
}
