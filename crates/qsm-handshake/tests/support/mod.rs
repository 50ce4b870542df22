//! A service and nodes on a network that loses, doubles and reorders, in its own time.

mod word;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use qsm_handshake::{Client, Event, FRAME_BYTES_MAX, Identity, Now, Server};
pub(crate) use word::{SERVICE, UNIX, Word};

pub(crate) const NODE: Word = Word {
    word: b"a node",
    until: u64::MAX,
};
pub(crate) fn server() -> Server<Word> {
    let identity = Identity::generate().unwrap();
    Server::new(&identity, SERVICE.word, NODE).unwrap()
}

pub(crate) fn client(now: Now, credential: &[u8]) -> Client<Word> {
    let identity = Identity::generate().unwrap();
    Client::new(now, &identity, credential, SERVICE).unwrap()
}

/// Faults of a network, of 100 datagrams.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    /// Datagrams take up to so much longer.
    pub(crate) jitter: Duration,
}

#[derive(Debug)]
enum Side {
    Server,
    Client,
}

#[derive(Debug)]
struct Datagram {
    client: SocketAddr,
    to: Side,
    bytes: Vec<u8>,
}

pub(crate) struct Network {
    pub(crate) server: Server<Word>,
    pub(crate) clients: BTreeMap<SocketAddr, Client<Word>>,
    pub(crate) now: Now,
    /// When each client was done.
    pub(crate) done_at: BTreeMap<SocketAddr, Duration>,
    pub(crate) events: Vec<Event<[u8; 32]>>,
    delay: Duration,
    faults: Faults,
    random: u64,
    flying: BTreeMap<(Duration, u64), Datagram>,
    sent: u64,
}

impl Network {
    pub(crate) fn new(delay: Duration, faults: Faults, seed: u64) -> Self {
        let now = Now {
            elapsed: Duration::ZERO,
            unix: UNIX,
        };
        Self {
            server: server(),
            clients: BTreeMap::new(),
            now,
            done_at: BTreeMap::new(),
            events: Vec::new(),
            delay,
            faults,
            random: seed | 1,
            flying: BTreeMap::new(),
            sent: 0,
        }
    }

    pub(crate) fn add(&mut self, from: &str, credential: &[u8]) {
        let client = client(self.now, credential);
        self.clients.insert(from.parse().unwrap(), client);
    }

    fn draw(&mut self, below: u64) -> u64 {
        // Xorshift (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below.max(1)
    }

    fn fly(&mut self, datagram: Datagram) {
        assert!(datagram.bytes.len() <= FRAME_BYTES_MAX);
        self.sent += 1;
        let jitter = u64::try_from(self.faults.jitter.as_micros()).unwrap();
        let at = self.now.elapsed + self.delay + Duration::from_micros(self.draw(jitter));
        self.flying.insert((at, self.sent), datagram);
    }

    fn send(&mut self, datagram: Datagram) {
        if self.draw(100) < self.faults.doubled {
            self.fly(Datagram {
                bytes: datagram.bytes.clone(),
                to: match datagram.to {
                    Side::Server => Side::Server,
                    Side::Client => Side::Client,
                },
                ..datagram
            });
        }
        if self.draw(100) >= self.faults.lost {
            self.fly(datagram);
        }
    }

    fn collect(&mut self) {
        let mut out = Vec::new();
        while let Some((client, bytes)) = self.server.poll_transmit() {
            let to = Side::Client;
            out.push(Datagram { client, to, bytes });
        }
        for (address, client) in &mut self.clients {
            while let Some(bytes) = client.poll_transmit() {
                out.push(Datagram {
                    client: *address,
                    to: Side::Server,
                    bytes,
                });
            }
            if client.outcome().is_some() {
                self.done_at.entry(*address).or_insert(self.now.elapsed);
            }
        }
        for datagram in out {
            self.send(datagram);
        }
        while let Some(event) = self.server.poll_event() {
            self.events.push(event);
        }
    }

    /// Goes on until nothing is left to do.
    pub(crate) fn run(&mut self) {
        self.collect();
        while let Some(next) = self.next() {
            self.now.elapsed = next;
            while let Some(entry) = self.flying.first_entry()
                && entry.key().0 <= next
            {
                let datagram = entry.remove();
                self.deliver(&datagram);
            }
            self.server.tick(self.now);
            for client in self.clients.values_mut() {
                client.tick(self.now);
            }
            self.collect();
        }
    }

    fn next(&self) -> Option<Duration> {
        let flying = self.flying.keys().next().map(|(at, _)| *at);
        let clients = self.clients.values().filter_map(Client::next_tick).min();
        [flying, clients, self.server.next_tick()]
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.max(self.now.elapsed))
    }

    fn deliver(&mut self, datagram: &Datagram) {
        let (now, client) = (self.now, datagram.client);
        match datagram.to {
            Side::Server => self.server.receive(now, client, &datagram.bytes),
            Side::Client => {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.receive(now, &datagram.bytes);
                }
            }
        }
    }
}
