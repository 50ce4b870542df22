//! Links with a connection of QUIC each. Rules R-RELAY-22 to R-RELAY-25.

use core::num::NonZeroUsize;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant as Clock;

use aws_lc_rs::rand;
use bytes::BytesMut;
use noq_proto::{
    ClientConfig, ConnectionError, ConnectionEvent, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    Event, FourTuple, Incoming, StreamEvent, StreamId,
};
use qsm_wire::Instant;

use crate::hello::Hello;
use crate::link::{Events, Link, LinkEvent, Received, Wrapped};
use crate::parent::Parent;
use crate::peer::{Open, Peer, Said};
use crate::plain::QUIC_BIT;
use crate::seal::{OpenError, Opener, SEALED, SPEAK};
use crate::settings::{LinkError, Settings, Shown, endpoint};
use crate::stats::LinkStats;
use crate::{LINKS_MAX, SAID_IN};

/// Children that have not shown a token yet; from the second number on addresses are proven first.
const OPENING_MAX: usize = 64;
const OPENING_UNPROVEN: usize = 16;
/// A child with the same key that was heard within this time lives.
const ALIVE: Duration = Duration::from_millis(1500);
/// Interval in which tokens' ends are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Datagrams that ask others to speak, in each such time.
const ASKED_MAX: u32 = 128;
/// Datagrams of connections that wait to be sent; QUIC sends again what does not fit.
const WAITING_MAX: usize = 1024;
/// Characters of another end's reason that are told.
const REASON_MAX: usize = 300;
/// Codes of connections that end: in order, by a refusal, or since another one has taken its place.
const ENDED: u32 = 0;
const REFUSED: u32 = 1;
const REPLACED: u32 = 2;

/// Links whose ends have shown each other tokens, and whose packets are encrypted and authenticated.
#[derive(Debug)]
pub struct QuicLink {
    settings: Settings,
    client: ClientConfig,
    endpoint: Endpoint,
    peers: BTreeMap<usize, Peer>,
    /// By this end's numbers of links.
    by_number: BTreeMap<u32, usize>,
    /// Open ones; a former address stays until another link has it.
    by_address: BTreeMap<SocketAddr, usize>,
    parents: Vec<Parent>,
    waiting: VecDeque<Datagram>,
    events: Events,
    stats: LinkStats,
    /// The clock at `Instant(0)`.
    zero: Clock,
    look: Instant,
    asked: u32,
}

#[derive(Debug)]
struct Datagram {
    to: SocketAddr,
    bytes: Vec<u8>,
}

impl QuicLink {
    /// Links at a port that is opened now.
    ///
    /// # Errors
    /// [`LinkError`]: TLS or QUIC cannot be set up.
    pub fn new(settings: Settings) -> Result<Self, LinkError> {
        let (client, server) = (settings.client()?, settings.server()?);
        Ok(Self {
            settings,
            client,
            endpoint: Endpoint::new(Arc::new(endpoint()), server, false),
            peers: BTreeMap::new(),
            by_number: BTreeMap::new(),
            by_address: BTreeMap::new(),
            parents: Vec::new(),
            waiting: VecDeque::new(),
            events: Events::default(),
            stats: LinkStats::default(),
            zero: Clock::now(),
            look: Instant(0),
            asked: 0,
        })
    }

    /// As QUIC has the time.
    fn clock(&self, now: Instant) -> Clock {
        self.zero + Duration::from_nanos(now.0)
    }

    fn time(&self, clock: Clock) -> Instant {
        Instant(0).after(clock.saturating_duration_since(self.zero))
    }

    /// Seconds since 1970.
    fn unix(&self, now: Instant) -> u64 {
        self.settings.epoch.saturating_add(now.0 / 1_000_000_000)
    }

    fn put(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(Datagram { to, bytes });
        }
    }

    /// Asks who has sent what cannot be opened, or from elsewhere, to speak on the connection. Shorter
    /// than what it answers. Rule R-RELAY-24.
    fn ask(&mut self, to: SocketAddr) {
        if self.asked < ASKED_MAX {
            self.asked += 1;
            self.put(to, vec![SPEAK]);
        }
    }

    fn receive_sealed(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Option<Received> {
        let number = Opener::link_of(datagram)?;
        let peer = self
            .by_number
            .get(&number)
            .and_then(|handle| self.peers.get_mut(handle));
        let Some(peer) = peer else {
            self.stats.forged += 1;
            self.ask(from);
            return None;
        };
        // One that has not shown its token, or whose token is not known here yet.
        let open = peer.open.as_mut()?;
        match open.opener.open(datagram) {
            Ok(at) => {
                peer.hear(now);
                let (remote, is_parent) = (peer.remote, peer.is_parent);
                self.stats.opened_packets += 1;
                if from != remote {
                    self.stats.strayed += 1;
                    if !is_parent {
                        self.ask(from);
                    }
                }
                Some(Received { from: remote, at })
            }
            Err(OpenError::Replayed) => {
                self.stats.replayed += 1;
                None
            }
            Err(OpenError::Forged) => {
                self.stats.forged += 1;
                self.ask(from);
                None
            }
        }
    }

    fn receive_quic(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        let clock = self.clock(now);
        let mut buffer = Vec::new();
        let (path, data) = (FourTuple::new(from, None), BytesMut::from(datagram));
        let event = self.endpoint.handle(clock, path, None, data, &mut buffer);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => self.give(now, handle, event),
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, incoming),
            Some(DatagramEvent::Response(transmit)) => self.put(transmit.destination, buffer),
            None => {}
        }
    }

    fn give(&mut self, now: Instant, handle: ConnectionHandle, event: ConnectionEvent) {
        if let Some(peer) = self.peers.get_mut(&handle.0) {
            peer.connection.handle_event(event);
            self.drive(now, handle.0);
        }
    }

    /// A child connects. Rules R-RELAY-22, R-RELAY-25.
    fn accept(&mut self, now: Instant, incoming: Incoming) {
        let clock = self.clock(now);
        let mut buffer = Vec::new();
        let opening = self
            .peers
            .values()
            .filter(|peer| peer.open.is_none())
            .count();
        if self.peers.len() >= LINKS_MAX || opening >= OPENING_MAX {
            self.stats.refused += 1;
            let address = incoming.remote_address();
            let cause =
                format!("{LINKS_MAX} links, or {OPENING_MAX} that begin, are as many as may be");
            self.events.refuse(now, address, cause);
            let transmit = self.endpoint.refuse(incoming, &mut buffer);
            self.put(transmit.destination, buffer);
            return;
        }
        if opening >= OPENING_UNPROVEN && !incoming.remote_address_validated() {
            match self.endpoint.retry(incoming, &mut buffer) {
                Ok(transmit) => self.put(transmit.destination, buffer),
                Err(error) => self.endpoint.ignore(error.into_incoming()),
            }
            return;
        }
        match self.endpoint.accept(incoming, clock, &mut buffer, None) {
            Ok((handle, connection)) => self.add(now, handle, Peer::new(connection, 0, now)),
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.put(transmit.destination, buffer);
                }
            }
        }
    }

    fn add(&mut self, now: Instant, handle: ConnectionHandle, mut peer: Peer) {
        let mut number = [0; 4];
        // A number of zeros is as good as another: it only must not be one that there is.
        rand::fill(&mut number).unwrap_or_default();
        peer.number = u32::from_le_bytes(number);
        while self.by_number.contains_key(&peer.number) {
            peer.number = peer.number.wrapping_add(1);
        }
        self.by_number.insert(peer.number, handle.0);
        self.peers.insert(handle.0, peer);
        self.drive(now, handle.0);
    }

    /// Connects to the parent in this place, unless that is done.
    fn connect_parent(&mut self, now: Instant, place: usize) {
        let clock = self.clock(now);
        let parent = self.parents.get_mut(place);
        let Some(parent) = parent.filter(|parent| parent.handle.is_none()) else {
            return;
        };
        let (address, config) = (parent.address, self.client.clone());
        match self.endpoint.connect(clock, config, address, "relay") {
            Ok((handle, connection)) => {
                parent.handle = Some(handle.0);
                self.add(now, handle, Peer::new(connection, 0, now));
            }
            Err(error) => {
                parent.lost(now, None);
                let cause = error.to_string();
                self.events.push(LinkEvent::Failed { address, cause });
            }
        }
    }

    /// Carries out all that a connection has to say.
    fn drive(&mut self, now: Instant, handle: usize) {
        let clock = self.clock(now);
        let mut drained = false;
        loop {
            let Some(peer) = self.peers.get_mut(&handle) else {
                return;
            };
            if let Some(event) = peer.connection.poll_endpoint_events() {
                drained |= event.is_drained();
                let back = self.endpoint.handle_event(ConnectionHandle(handle), event);
                back.into_iter()
                    .for_each(|back| peer.connection.handle_event(back));
            } else if let Some(event) = peer.connection.poll() {
                self.happened(now, handle, event);
            } else {
                break;
            }
        }
        if drained {
            // It has said why before, behind the word to the endpoint.
            self.peers.remove(&handle);
            return;
        }
        self.follow(handle);
        let Some(peer) = self.peers.get_mut(&handle) else {
            return;
        };
        let mut sent = Vec::new();
        loop {
            let mut bytes = Vec::new();
            let next = peer
                .connection
                .poll_transmit(clock, NonZeroUsize::MIN, &mut bytes);
            let Some(transmit) = next else {
                break;
            };
            sent.push(Datagram {
                to: transmit.destination,
                bytes,
            });
        }
        sent.into_iter()
            .for_each(|datagram| self.put(datagram.to, datagram.bytes));
    }

    fn happened(&mut self, now: Instant, handle: usize, event: Event) {
        let Some(peer) = self.peers.get_mut(&handle) else {
            return;
        };
        match event {
            Event::Connected if !peer.is_parent => {
                let stream = peer.connection.streams().open(Dir::Bi);
                if let Some(stream) = stream {
                    peer.stream = Some(stream);
                    self.say(handle, stream);
                }
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                if let Some(stream) = peer.connection.streams().accept(Dir::Bi) {
                    peer.stream = Some(stream);
                    self.read(now, handle, stream);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read(now, handle, id),
            Event::ConnectionLost { reason } => {
                let cause = match reason {
                    ConnectionError::ApplicationClosed(close) => {
                        let reason = String::from_utf8_lossy(&close.reason);
                        let reason: String = reason.chars().take(REASON_MAX).collect();
                        format!("the other end says: {reason}")
                    }
                    ConnectionError::TimedOut => "nothing was heard of it any more".to_owned(),
                    other => other.to_string(),
                };
                self.lose(now, handle, cause);
            }
            _ => {}
        }
    }

    fn say(&mut self, handle: usize, stream: StreamId) -> bool {
        let Some(peer) = self.peers.get_mut(&handle) else {
            return false;
        };
        let hello = Hello {
            link: peer.number,
            life: self.settings.life,
            name: self.settings.name.clone(),
            token: self.settings.token.as_bytes().to_vec(),
        };
        peer.say(stream, &hello)
    }

    fn read(&mut self, now: Instant, handle: usize, stream: StreamId) {
        let Some(peer) = self.peers.get_mut(&handle) else {
            return;
        };
        if peer.closed || peer.open.is_some() || peer.stream != Some(stream) {
            return;
        }
        match peer.read(stream) {
            Said::Part => {}
            Said::Nonsense => self.refuse(now, handle, "what it says is no hello".to_owned()),
            Said::Whole(hello) => match self.admit(now, handle, &hello) {
                Ok(open) => self.judged(handle, stream, open),
                Err(cause) => self.refuse(now, handle, cause),
            },
            Said::Accepted => {
                let judged = peer.judged.take();
                judged.into_iter().for_each(|open| self.open(handle, open));
            }
        }
    }

    /// Judges a peer by its hello.
    fn admit(&mut self, now: Instant, handle: usize, hello: &Hello) -> Result<Open, String> {
        let keyless = || "it has shown no key".to_owned();
        let peer = self.peers.get(&handle).ok_or_else(keyless)?;
        let key = peer.key().ok_or_else(keyless)?;
        let shown = Shown {
            key,
            token: &hello.token,
            name: &hello.name,
            is_parent: peer.is_parent,
        };
        let grant = self.settings.admit(&shown, self.unix(now))?;
        let keys = peer.keys(hello.link, now);
        let (sealer, opener) = keys.ok_or("the connection exports no keys")?;
        self.replace(now, handle, &shown, hello.life)?;
        Ok(Open {
            name: hello.name.clone(),
            key,
            life: hello.life,
            expires: grant.expires(),
            since: now,
            sealer,
            opener,
        })
    }

    /// A child that comes again takes the place of its former link.
    fn replace(
        &mut self,
        now: Instant,
        handle: usize,
        shown: &Shown<'_>,
        life: u64,
    ) -> Result<(), String> {
        let same = self.peers.iter().find_map(|(other, peer)| {
            let open = peer.open.as_ref()?;
            let same = *other != handle && !peer.is_parent && open.key == shown.key;
            same.then_some((*other, open.life == life || now.since(peer.heard) >= ALIVE))
        });
        match same {
            Some((_, false)) if !shown.is_parent => Err(format!(
                "two processes have the key of {:?}: another one is connected with it; give each a key                  of its own",
                shown.name
            )),
            Some((other, true)) if !shown.is_parent => {
                let cause = "it has connected again".to_owned();
                self.shut(
                    now,
                    other,
                    Ending {
                        code: REPLACED,
                        cause,
                    },
                );
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Goes on with a peer whose token is in order: a parent judges this end then, a child is let in.
    fn judged(&mut self, handle: usize, stream: StreamId, open: Open) {
        let Some(peer) = self.peers.get_mut(&handle) else {
            return;
        };
        if peer.is_parent {
            peer.judged = Some(open);
            self.say(handle, stream);
        } else {
            peer.accept(stream);
            self.open(handle, open);
        }
    }

    fn open(&mut self, handle: usize, open: Open) {
        let name = open.name.clone();
        let Some(peer) = self.peers.get_mut(&handle) else {
            return;
        };
        peer.open = Some(open);
        let (address, is_parent) = (peer.remote, peer.is_parent);
        self.by_address.insert(address, handle);
        self.stats.opened += 1;
        self.stats.open += 1;
        self.events.push(LinkEvent::Up {
            address,
            name,
            is_parent,
        });
    }

    fn refuse(&mut self, now: Instant, handle: usize, cause: String) {
        self.stats.refused += 1;
        if let Some(peer) = self.peers.get(&handle) {
            self.events.refuse(now, peer.remote, cause.clone());
        }
        self.shut(
            now,
            handle,
            Ending {
                code: REFUSED,
                cause,
            },
        );
    }

    /// Ends a link from here.
    fn shut(&mut self, now: Instant, handle: usize, ending: Ending) {
        let clock = self.clock(now);
        if let Some(peer) = self.peers.get_mut(&handle) {
            peer.close(clock, ending.code, &ending.cause);
        }
        self.lose(now, handle, ending.cause);
        self.transmit_last(now, handle);
    }

    /// Sends what a connection says at its end. Its other events need nothing any more.
    fn transmit_last(&mut self, now: Instant, handle: usize) {
        let clock = self.clock(now);
        let mut bytes = Vec::new();
        let Some(peer) = self.peers.get_mut(&handle) else {
            return;
        };
        let last = peer
            .connection
            .poll_transmit(clock, NonZeroUsize::MIN, &mut bytes);
        if let Some(transmit) = last {
            self.put(transmit.destination, bytes);
        }
    }

    /// The link is gone; its connection may stay for a while.
    fn lose(&mut self, now: Instant, handle: usize, cause: String) {
        let Some(peer) = self.peers.get_mut(&handle) else {
            return;
        };
        // What this end has refused it has told already.
        let told = core::mem::replace(&mut peer.closed, true);
        let (address, open) = (peer.remote, peer.open.take());
        let number = peer.number;
        self.by_number.remove(&number);
        self.by_address.retain(|_, other| *other != handle);
        let since = open.as_ref().map(|open| open.since);
        let mut parents = self.parents.iter_mut();
        let parent = parents.find(|parent| parent.handle == Some(handle));
        let is_parent = parent.is_some();
        if let Some(parent) = parent {
            parent.lost(now, since);
        }
        if let Some(open) = open {
            self.stats.lost += 1;
            self.stats.open -= 1;
            let name = open.name;
            self.events.push(LinkEvent::Down {
                address,
                name,
                cause,
            });
        } else if is_parent {
            self.events.push(LinkEvent::Failed { address, cause });
        } else if !told {
            self.events.refuse(now, address, cause);
        }
    }

    /// Goes by the address that the connection has proven.
    fn follow(&mut self, handle: usize) {
        let Some(peer) = self.peers.get_mut(&handle) else {
            return;
        };
        let Some(to) = peer.moved() else {
            return;
        };
        let from = core::mem::replace(&mut peer.remote, to);
        let older = peer.former.replace(from);
        let Some(open) = &peer.open else {
            return;
        };
        let name = open.name.clone();
        // The former address still means this link, until somebody else has it; not the one before.
        if let Some(older) = older.filter(|older| self.by_address.get(older) == Some(&handle)) {
            self.by_address.remove(&older);
        }
        self.by_address.insert(to, handle);
        self.stats.moved += 1;
        self.events.push(LinkEvent::Moved { name, from, to });
    }

    /// Once a second: tokens that have ended, and connections that say nothing.
    fn look(&mut self, now: Instant) {
        self.look = now.after(LOOK);
        self.asked = 0;
        let unix = self.unix(now);
        let patience = |handle: usize| {
            let mut parents = self.parents.iter();
            let parent = parents.find(|parent| parent.handle == Some(handle));
            parent.map_or(SAID_IN, |parent| parent.patience)
        };
        let late = |handle: usize, peer: &Peer| match &peer.open {
            Some(open) if open.expires <= unix => Some("its token has expired"),
            None if peer.is_parent && now.since(peer.began) >= patience(handle) => {
                Some("it does not answer, or has shown no token in time")
            }
            None if now.since(peer.began) >= SAID_IN => Some("it has shown no token in time"),
            _ => None,
        };
        let ending: Vec<(usize, &str)> = self
            .peers
            .iter()
            .filter(|(_, peer)| !peer.closed)
            .filter_map(|(handle, peer)| late(*handle, peer).map(|cause| (*handle, cause)))
            .collect();
        for (handle, cause) in ending {
            let cause = cause.to_owned();
            match self
                .peers
                .get(&handle)
                .is_some_and(|peer| peer.is_parent && peer.open.is_none())
            {
                true => self.shut(now, handle, Ending { code: ENDED, cause }),
                false => self.refuse(now, handle, cause),
            }
        }
    }
}

/// Why a link is ended from here.
struct Ending {
    code: u32,
    cause: String,
}

impl Link for QuicLink {
    fn connect(&mut self, now: Instant, parent: SocketAddr) {
        self.parents.push(Parent::new(parent, now));
        self.connect_parent(now, self.parents.len() - 1);
    }

    fn receive(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) -> Option<Received> {
        match datagram.first() {
            Some(&SEALED) => self.receive_sealed(now, from, datagram),
            Some(&SPEAK) => {
                let parent = self.parents.iter().find(|parent| parent.address == from);
                let handle = parent.and_then(|parent| parent.handle);
                if let Some(peer) = handle.and_then(|handle| self.peers.get_mut(&handle)) {
                    peer.doubt(now);
                    handle
                        .into_iter()
                        .for_each(|handle| self.drive(now, handle));
                }
                None
            }
            Some(first) if first & QUIC_BIT != 0 => {
                self.receive_quic(now, from, datagram);
                None
            }
            _ => {
                self.stats.mismatched += 1;
                self.events.mismatch(now, from);
                None
            }
        }
    }

    fn wrap<'a>(
        &mut self,
        now: Instant,
        to: SocketAddr,
        packet: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Option<Wrapped<'a>> {
        let handle = self.by_address.get(&to);
        let peer = handle.and_then(|handle| self.peers.get_mut(handle));
        let remote = peer.as_ref().map(|peer| peer.remote);
        let open = peer.and_then(|peer| peer.open.as_mut());
        match open
            .map(|open| open.sealer.seal(now, packet, out))
            .zip(remote)
        {
            Some((true, to)) => {
                self.stats.sealed += 1;
                Some(Wrapped { to, bytes: out })
            }
            _ => {
                self.stats.unlinked += 1;
                None
            }
        }
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>) -> Option<SocketAddr> {
        let datagram = self.waiting.pop_front()?;
        *out = datagram.bytes;
        Some(datagram.to)
    }

    fn next_timeout(&self) -> Option<Instant> {
        let connections = self.peers.values().flat_map(|peer| {
            let clock = peer.connection.poll_timeout();
            [clock.map(|clock| self.time(clock)), peer.doubted_until()]
        });
        let parents = self.parents.iter().map(Parent::next_due);
        let look = (self.asked > 0 || !self.peers.is_empty()).then_some(self.look);
        connections.chain(parents).chain([look]).flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now >= self.look {
            self.look(now);
        }
        let clock = self.clock(now);
        let handles: Vec<usize> = self.peers.keys().copied().collect();
        for handle in handles {
            let Some(peer) = self.peers.get_mut(&handle) else {
                continue;
            };
            if peer.is_forgotten(now) {
                let cause = "the parent does not know the link any more".to_owned();
                self.shut(now, handle, Ending { code: ENDED, cause });
                continue;
            }
            if peer
                .connection
                .poll_timeout()
                .is_some_and(|due| due <= clock)
            {
                peer.connection.handle_timeout(clock);
                self.drive(now, handle);
            }
        }
        for place in 0..self.parents.len() {
            let due = self.parents[place].next_due();
            if due.is_some_and(|due| due <= now) {
                self.connect_parent(now, place);
            }
        }
    }

    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop()
    }

    fn is_protected(&self) -> bool {
        true
    }

    fn stats(&self) -> LinkStats {
        self.stats
    }

    fn close(&mut self, now: Instant) {
        self.parents.clear();
        let handles: Vec<usize> = self.peers.keys().copied().collect();
        for handle in handles {
            let cause = "it has ended".to_owned();
            self.shut(now, handle, Ending { code: ENDED, cause });
        }
        // Who ends knows it.
        self.events = Events::default();
    }
}
