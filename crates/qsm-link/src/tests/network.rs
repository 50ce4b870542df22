//! The network: ends with links, a delay, losses, ports that change.

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_handshake::Identity;
use qsm_identity::{Claims, ClusterRoot, NodeKey, Role, Roles, Roster, Serial};
use qsm_wire::{Instant, Random, Seed};

use crate::seal::SEALED;
use crate::{Link, LinkEvent, QuicLink, Settings};

/// One way.
const DELAY: Duration = Duration::from_millis(20);
/// Seconds since 1970 at the beginning.
const EPOCH: u64 = 1_800_000_000;

/// Claims of a token for this name alone, with a role, for an hour.
pub(super) fn claims(name: &str, role: Role) -> Claims {
    let of = |with| {
        if role == with {
            vec!["**".parse().unwrap()]
        } else {
            Vec::new()
        }
    };
    Claims {
        cluster: "plant".to_owned(),
        serial: Serial::random().unwrap(),
        name: name.parse().unwrap(),
        node_key: None,
        roles: Roles::NONE.with(role),
        not_before: EPOCH - 60,
        expires: EPOCH + 3600,
        publish: of(Role::Publish),
        subscribe: of(Role::Subscribe),
    }
}

struct End {
    link: QuicLink,
    seed: [u8; 32],
    settings: Copied,
    outside: SocketAddr,
    cut: bool,
    taken: Vec<String>,
    sent: u64,
}

/// Parts that a link is made of, again.
#[derive(Clone)]
struct Copied {
    token: qsm_identity::Token,
    name: String,
}

#[derive(Clone)]
struct Flight {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

pub(super) struct Network {
    root: ClusterRoot,
    now: Instant,
    ends: Vec<End>,
    flights: BTreeMap<(Instant, u64), Flight>,
    count: u64,
    loss_ppm: u32,
    random: Random,
    sealed: Vec<u8>,
    lives: u64,
}

impl Network {
    pub(super) fn new(loss_ppm: u32) -> Self {
        Self {
            root: ClusterRoot::generate().unwrap(),
            now: Instant(0),
            ends: Vec::new(),
            flights: BTreeMap::new(),
            count: 0,
            loss_ppm,
            random: Random::new(Seed(7), "links"),
            sealed: Vec::new(),
            lives: 0,
        }
    }

    /// Adds an end that has a token of the network's root.
    pub(super) fn add(&mut self, claims: Claims) {
        let key = NodeKey::generate().unwrap();
        let node_key = claims.node_key.or_else(|| Some(key.public()));
        let token = self.root.issue(Claims {
            node_key,
            ..claims.clone()
        });
        self.add_with(&key, token.unwrap(), &claims);
    }

    /// Adds an end with a token of another root.
    pub(super) fn add_of(&mut self, root: &ClusterRoot, claims: Claims) {
        let key = NodeKey::generate().unwrap();
        let token = root.issue(claims.clone()).unwrap();
        self.add_with(&key, token, &claims);
    }

    /// Adds an end whose token is bound to no key.
    pub(super) fn add_unbound(&mut self, claims: Claims) {
        let key = NodeKey::generate().unwrap();
        let token = self.root.issue(claims.clone()).unwrap();
        self.add_with(&key, token, &claims);
    }

    fn add_with(&mut self, key: &NodeKey, token: qsm_identity::Token, claims: &Claims) {
        let seed = *key.seed();
        // Names with patterns are given to the wrong site on purpose.
        let name = match claims.name.is_name() {
            true => claims.name.as_str().to_owned(),
            false => "fra/relay".to_owned(),
        };
        self.add_end(seed, Copied { token, name });
    }

    fn add_end(&mut self, seed: [u8; 32], settings: Copied) {
        let place = u8::try_from(self.ends.len() + 1).unwrap();
        let address = SocketAddr::from(([10, 0, 0, place], 4490));
        let link = self.make(&seed, &settings);
        self.ends.push(End {
            link,
            seed,
            settings,
            outside: address,
            cut: false,
            taken: Vec::new(),
            sent: 0,
        });
    }

    fn make(&mut self, seed: &[u8; 32], settings: &Copied) -> QuicLink {
        self.lives += 1;
        QuicLink::new(Settings {
            identity: Identity::from_seed(seed).unwrap(),
            token: settings.token.clone(),
            name: settings.name.clone(),
            life: self.lives,
            roster: Roster::new("plant", self.root.public()),
            takes_children: true,
            epoch: EPOCH,
        })
        .unwrap()
    }

    /// Another process with an end's key.
    pub(super) fn twin(&mut self, of: usize) -> usize {
        let (seed, settings) = (self.ends[of].seed, self.ends[of].settings.clone());
        self.add_end(seed, settings);
        self.ends.len() - 1
    }

    /// The process is killed, and another one is there at once.
    pub(super) fn restart(&mut self, end: usize) {
        let (seed, settings) = (self.ends[end].seed, self.ends[end].settings.clone());
        self.ends[end].link = self.make(&seed, &settings);
    }

    pub(super) fn connect(&mut self, child: usize, parent: usize) {
        let address = self.ends[parent].outside;
        self.ends[child].link.connect(self.now, address);
    }

    pub(super) fn address(&self, end: usize) -> SocketAddr {
        self.ends[end].outside
    }

    pub(super) fn link(&self, end: usize) -> &QuicLink {
        &self.ends[end].link
    }

    pub(super) fn taken(&mut self, end: usize) -> Vec<String> {
        core::mem::take(&mut self.ends[end].taken)
    }

    pub(super) fn sent(&self, end: usize) -> u64 {
        self.ends[end].sent
    }

    pub(super) fn last_sealed(&self) -> Vec<u8> {
        self.sealed.clone()
    }

    pub(super) fn events(&mut self, end: usize) -> Vec<LinkEvent> {
        core::iter::from_fn(|| self.ends[end].link.poll_event()).collect()
    }

    /// Its translator gives it another port from now on.
    pub(super) fn translate(&mut self, end: usize, port: u16) {
        self.ends[end].outside.set_port(port);
    }

    /// Nothing passes to it or from it.
    pub(super) fn cut(&mut self, end: usize, cut: bool) {
        self.ends[end].cut = cut;
    }

    pub(super) fn leave(&mut self, end: usize) {
        self.ends[end].link.close(self.now);
        self.flush(end);
    }

    pub(super) fn send(&mut self, end: usize, to: SocketAddr, packet: &[u8]) {
        let mut out = Vec::new();
        let wrapped = self.ends[end].link.wrap(self.now, to, packet, &mut out);
        if let Some(wrapped) = wrapped {
            let (to, bytes) = (wrapped.to, wrapped.bytes.to_vec());
            assert!(bytes.windows(packet.len()).all(|part| part != packet));
            self.sealed.clone_from(&bytes);
            self.fly(end, to, bytes);
        }
    }

    fn fly(&mut self, end: usize, to: SocketAddr, bytes: Vec<u8>) {
        let from = self.ends[end].outside;
        self.ends[end].sent += 1;
        if !self.ends[end].cut && !self.random.chance_ppm(self.loss_ppm) {
            self.inject(from, to, &bytes);
        }
    }

    pub(super) fn inject(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.count += 1;
        let bytes = bytes.to_vec();
        let due = self.now.after(DELAY);
        self.flights
            .insert((due, self.count), Flight { from, to, bytes });
    }

    fn flush(&mut self, end: usize) {
        let mut out = Vec::new();
        while let Some(to) = self.ends[end].link.poll_transmit(&mut out) {
            let first = out.first().copied().unwrap_or_default();
            assert!(
                first & 0x40 != 0 || first >= SEALED,
                "told apart by one bit"
            );
            self.fly(end, to, out.clone());
        }
    }

    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now.after(time);
        let mut turns = 0;
        loop {
            turns += 1;
            assert!(turns < 100_000, "the network stands still at {}", self.now);
            (0..self.ends.len()).for_each(|end| self.flush(end));
            let timers = self.ends.iter().filter_map(|end| end.link.next_timeout());
            let flight = self.flights.keys().next().map(|(due, _)| *due);
            let Some(next) = timers.chain(flight).min().filter(|next| *next <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.flights.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let flight = entry.remove();
                self.deliver(flight);
            }
            let now = self.now;
            self.ends
                .iter_mut()
                .for_each(|end| end.link.handle_timeout(now));
        }
    }

    fn deliver(&mut self, mut flight: Flight) {
        let to = |end: &&mut End| end.outside == flight.to && !end.cut;
        let Some(end) = self.ends.iter_mut().find(to) else {
            return;
        };
        let received = end.link.receive(self.now, flight.from, &mut flight.bytes);
        if let Some(received) = received {
            let packet = &flight.bytes[received.at];
            end.taken.push(String::from_utf8_lossy(packet).into_owned());
        }
    }
}

pub(super) fn is_up(event: &LinkEvent) -> bool {
    matches!(event, LinkEvent::Up { .. })
}

pub(super) fn is_down(event: &LinkEvent) -> bool {
    matches!(event, LinkEvent::Down { .. })
}

pub(super) fn is_failed(event: &LinkEvent) -> bool {
    matches!(event, LinkEvent::Failed { .. })
}

pub(super) fn is_refused(event: &LinkEvent) -> bool {
    matches!(event, LinkEvent::Refused { .. })
}

pub(super) fn name_of(event: &LinkEvent) -> String {
    match event {
        LinkEvent::Up { name, .. } | LinkEvent::Down { name, .. } => name.clone(),
        _ => String::new(),
    }
}

/// Names in events of a kind.
pub(super) fn named(
    network: &mut Network,
    end: usize,
    kind: fn(&LinkEvent) -> bool,
) -> Vec<String> {
    let events = network.events(end);
    events
        .iter()
        .filter(|event| kind(event))
        .map(name_of)
        .collect()
}
