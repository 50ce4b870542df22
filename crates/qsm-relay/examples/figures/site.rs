//! A relay with receivers, whose packets are made up.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Duration;

use qsm_relay::{
    Body, Data, Join, Joined, Links, Missing, Nack, Packet, Relay, Report, SessionId, Timing,
};
use qsm_wire::Instant;

pub(crate) const SESSION: SessionId = SessionId {
    source: 1,
    group: 0xefc0_0001,
};

/// The relay, and the time there.
pub(crate) struct Site {
    pub(crate) relay: Relay,
    pub(crate) now: Instant,
    pub(crate) parent: SocketAddr,
    receivers: Vec<SocketAddr>,
    pub(crate) timing: Timing,
    out: Vec<u8>,
}

impl Site {
    /// A relay with so many receivers, all of which have joined.
    pub(crate) fn new(receivers: usize) -> Self {
        let ms = Duration::from_millis(1);
        let timing = Timing::new(ms, ms * 10);
        let parent = SocketAddr::from(([10, 0, 0, 1], 4500));
        let address = |number: usize| {
            let port = 1024 + u16::try_from(number).unwrap_or(0);
            SocketAddr::from(([10, 0, 1, 1], port))
        };
        let mut site = Self {
            relay: Relay::new(parent, 99, timing),
            now: Instant(0),
            parent,
            receivers: (0..receivers).map(address).collect(),
            timing,
            out: Vec::new(),
        };
        for receiver in site.receivers.clone() {
            let number = u64::from(receiver.port());
            site.give(receiver, &packet(Body::Join(Join::new(number))));
        }
        let joined = Joined {
            first: 1,
            highest: 0,
            known: false,
            rated: false,
            parity: false,
        };
        site.give(parent, &packet(Body::Joined(joined)));
        site.acknowledge(0);
        site
    }

    pub(crate) fn receiver(&self, place: usize) -> SocketAddr {
        self.receivers[place]
    }

    /// Gives a datagram, and does with what comes out as a driver does but for sending it.
    #[inline(never)]
    pub(crate) fn give(&mut self, from: SocketAddr, bytes: &[u8]) -> Links {
        let onward = self.relay.handle_datagram(self.now, from, bytes);
        for address in self.relay.addresses(onward) {
            black_box(address);
        }
        while let Some(address) = self.relay.poll_transmit(&mut self.out) {
            black_box((address, &self.out));
        }
        onward.children
    }

    /// The timers that are due.
    #[inline(never)]
    pub(crate) fn time_out(&mut self) {
        self.relay.handle_timeout(self.now);
        while let Some(address) = self.relay.poll_transmit(&mut self.out) {
            black_box((address, &self.out));
        }
    }

    pub(crate) fn pass(&mut self, duration: Duration) {
        self.now = self.now.after(duration);
    }

    /// All receivers have everything up to here.
    pub(crate) fn acknowledge(&mut self, upto: u64) {
        let ack = packet(Body::Ack(report(upto)));
        for receiver in self.receivers.clone() {
            self.give(receiver, &ack);
        }
    }
}

fn report(upto: u64) -> Report {
    Report {
        // A child without a number is known by its address.
        child: 0,
        first: 1,
        upto,
        receivers: 1,
    }
}

pub(crate) fn packet(body: Body<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let session = SESSION;
    Packet { session, body }.encode(&mut bytes);
    bytes
}

pub(crate) fn data(sequence: u64, payload: &[u8], again: bool) -> Vec<u8> {
    let data = Data {
        sequence,
        released: sequence.saturating_sub(1000).min(sequence - 1),
        payload,
    };
    packet(if again {
        Body::Repair(data)
    } else {
        Body::Data(data)
    })
}

pub(crate) fn nack(sequence: u64) -> Vec<u8> {
    let missing = Missing::one(sequence);
    let report = report(sequence - 1);
    packet(Body::Nack(Nack { report, missing }))
}
