//! Source, relays and receivers over sockets of this host: two sites behind a relay, receivers that
//! lose packets of their own.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant as Clock};

use qsm_relay::{Event, Kind, Packet, Receiver, Relay, SendError, SessionId, Source, Timing, To};
use qsm_wire::Instant;

const SESSION: SessionId = SessionId {
    source: 9,
    group: 1,
};
const PACKETS: u64 = 2000;
const RECEIVERS: u32 = 8;
/// Time after which the test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn timing() -> Timing {
    let ms = Duration::from_millis(1);
    Timing::new(ms, ms)
}

/// A socket with the time, and what ends it.
struct Port {
    socket: UdpSocket,
    began: Clock,
    stop: Arc<AtomicBool>,
    buffer: Vec<u8>,
}

impl Port {
    fn now(&self) -> Instant {
        Instant(u64::try_from(self.began.elapsed().as_nanos()).unwrap())
    }

    /// Waits for a datagram until the next timer is due, at most; `None` if there is none.
    fn receive(&mut self, due: Option<Instant>) -> Option<(SocketAddr, usize)> {
        let wait = due.map_or(Duration::from_millis(20), |due| due.since(self.now()));
        let wait = wait.clamp(Duration::from_micros(50), Duration::from_millis(20));
        self.socket.set_read_timeout(Some(wait)).unwrap();
        let (length, from) = self.socket.recv_from(&mut self.buffer).ok()?;
        Some((from, length))
    }

    /// A full buffer loses the datagram, as a network does.
    fn send(&self, to: SocketAddr, bytes: &[u8]) {
        self.socket.send_to(bytes, to).ok();
    }

    /// A number that no other port has.
    fn number(&self) -> u64 {
        u64::from(self.socket.local_addr().unwrap().port())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn run_relay(mut port: Port, parent: SocketAddr) -> u64 {
    let mut relay = Relay::new(parent, port.number(), timing());
    let mut out = Vec::new();
    while !port.stopped() {
        if let Some((from, length)) = port.receive(relay.next_timeout()) {
            let bytes = &port.buffer[..length];
            let onward = relay.handle_datagram(port.now(), from, bytes);
            for to in relay.addresses(onward) {
                port.send(to, bytes);
            }
        }
        relay.handle_timeout(port.now());
        while let Some(to) = relay.poll_transmit(&mut out) {
            port.send(to, &out);
        }
    }
    relay.stats().repliers_elected
}

/// Returns the packets that it has got, once the stream has ended.
fn run_receiver(mut port: Port, parent: SocketAddr, lose: u64, done: &mpsc::Sender<Vec<u64>>) {
    let mut receiver = Receiver::new(SESSION, port.number(), timing(), parent, port.now());
    let (mut out, mut got, mut data) = (Vec::new(), Vec::new(), 0);
    while !port.stopped() {
        if let Some((from, length)) = port.receive(receiver.next_timeout()) {
            let bytes = &port.buffer[..length];
            let kind = Packet::decode(bytes).map(|packet| packet.body.kind());
            data += u64::from(kind == Ok(Kind::Data));
            if kind != Ok(Kind::Data) || data % 40 != lose {
                receiver.handle_datagram(port.now(), from, bytes);
            }
        }
        receiver.handle_timeout(port.now());
        while let Some(to) = receiver.poll_transmit(&mut out) {
            port.send(to, &out);
        }
        while let Some(event) = receiver.poll_event() {
            match event {
                Event::Delivered { sequence, payload } => {
                    assert_eq!(payload[..8], sequence.to_le_bytes());
                    got.push(sequence);
                }
                Event::Ended => done.send(got.clone()).unwrap(),
                Event::Joined { first } => assert_eq!(first, 1),
                Event::Lost { .. } => panic!("nothing is lost for good"),
            }
        }
    }
}

fn run_source(mut port: Port) {
    let mut source = Source::new(SESSION, timing(), 512);
    let (mut out, mut sent, mut finished) = (Vec::new(), 0, false);
    while !port.stopped() {
        if let Some((from, length)) = port.receive(source.next_timeout()) {
            source.handle_datagram(port.now(), from, &port.buffer[..length]);
        }
        let now = port.now();
        source.handle_timeout(now);
        // A few at a time, so that buffers of sockets hold them.
        for _ in 0..8 {
            if source.receivers() < RECEIVERS || sent == PACKETS {
                break;
            }
            let mut payload = [7; 600];
            payload[..8].copy_from_slice(&(sent + 1).to_le_bytes());
            match source.send(now, &payload) {
                Ok(sequence) => sent = sequence,
                Err(SendError::WindowFull { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        if sent == PACKETS && !finished {
            source.finish(now);
            finished = true;
        }
        while let Some(to) = source.poll_transmit(&mut out) {
            match to {
                To::Address(address) => port.send(address, &out),
                To::Children(links) => {
                    source.addresses(links).for_each(|to| port.send(to, &out));
                }
            }
        }
    }
}

#[test]
fn two_sites_get_a_stream_over_sockets_whatever_their_receivers_lose() {
    let (began, stop) = (Clock::now(), Arc::new(AtomicBool::new(false)));
    let port = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let (stop, buffer) = (Arc::clone(&stop), vec![0; 2048]);
        let port = Port {
            socket,
            began,
            stop,
            buffer,
        };
        (port, address)
    };
    let (done, results) = mpsc::channel();
    let (source, source_at) = port();
    let (upper, upper_at) = port();
    let mut relays = vec![thread::spawn(move || run_relay(upper, source_at))];
    let mut others = vec![thread::spawn(move || run_source(source))];
    for site in 0..2 {
        let (relay, relay_at) = port();
        relays.push(thread::spawn(move || run_relay(relay, upper_at)));
        for number in 0..u64::from(RECEIVERS) / 2 {
            let (receiver, _) = port();
            let done = done.clone();
            let lose = site * 10 + number;
            others.push(thread::spawn(move || {
                run_receiver(receiver, relay_at, lose, &done);
            }));
        }
    }
    let got: Result<Vec<Vec<u64>>, _> = (0..RECEIVERS)
        .map(|_| results.recv_timeout(PATIENCE))
        .collect();
    stop.store(true, Ordering::Relaxed);
    let elected: u64 = relays.into_iter().map(|relay| relay.join().unwrap()).sum();
    others.into_iter().for_each(|other| other.join().unwrap());
    let all: Vec<u64> = (1..=PACKETS).collect();
    for got in got.expect("all end in time") {
        assert_eq!(got, all);
    }
    assert!(elected > 0, "receivers have repaired for each other");
}
