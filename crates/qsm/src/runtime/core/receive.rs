//! Datagrams of the sockets, gathered and given to the protocol in the order of their priority.

use std::io;

use qsm_proto::Datagram;

use super::arrivals::Amount;
use super::{BYTES_LOADED, Core};
use crate::runtime::tap::{Direction, Tapped};

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
        let (mut datagrams, mut bytes) = (0, 0);
        self.load.cut = false;
        loop {
            let amount = self.gather(BYTES_PER_TURN - bytes)?;
            if amount.datagrams == 0 {
                break;
            }
            self.handle_arrivals();
            datagrams += amount.datagrams;
            bytes += amount.bytes;
            if datagrams >= DATAGRAMS_PER_TURN || bytes >= BYTES_PER_TURN {
                self.load.cut = true;
                self.stats.receive_cut += 1;
                break;
            }
        }
        self.endpoint.set_backlog(self.load.cut);
        self.load.heavy = datagrams >= DATAGRAMS_LOADED || bytes >= BYTES_LOADED;
        if datagrams > 0 {
            self.sources.unblock();
            self.note_drops();
        }
        Ok(())
    }

    /// Tells the protocol of packets that the kernel dropped: it asks senders to slow down.
    fn note_drops(&mut self) {
        let drops = self.port.kernel_drops();
        if drops > self.load.drops {
            self.endpoint.note_drops(self.now, drops - self.load.drops);
            self.load.drops = drops;
        }
    }

    /// Reads what waits in the sockets until nothing is known to wait, the port has no room, or
    /// there are `bytes_max`; so what comes alone is handled at once.
    fn gather(&mut self, bytes_max: usize) -> io::Result<Amount> {
        let mut amount = Amount::default();
        self.arrivals.clear();
        let mut received = self.port.receive()?;
        while received > 0 {
            amount.datagrams += received;
            for (place, datagram) in self.port.placed() {
                amount.bytes += datagram.bytes.len();
                self.arrivals.add(place, datagram.bytes);
            }
            if !self.port.has_more() || amount.bytes >= bytes_max {
                break;
            }
            received = self.port.receive_more()?;
        }
        Ok(amount)
    }

    /// Gives what has been gathered to the protocol.
    fn handle_arrivals(&mut self) {
        let tap = self.tap.as_ref();
        let tap = tap.map(|tap| (tap, std::time::Instant::now()));
        for place in self.arrivals.in_order() {
            let datagram = self.port.datagram(place);
            let from = datagram.source;
            if let Some((tap, at)) = tap {
                tap.tell(Tapped {
                    at,
                    direction: Direction::Received,
                    peer: from,
                    group: datagram.group,
                    bytes: datagram.bytes,
                    segment_bytes: datagram.bytes.len(),
                });
            }
            let datagram = match datagram.home {
                Some((buffer, start)) => {
                    Datagram::lent(buffer, start..start + datagram.bytes.len())
                }
                None => datagram.bytes.into(),
            };
            self.endpoint
                .handle_datagram(self.now, from, datagram, &mut self.routes);
            self.routes.settle(&self.endpoint);
        }
    }
}
