//! A node's guard: it finds services, proves who the node is, and holds the keys of epochs.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use qsm_handshake::{Failure, Identity as Signer, IdentityError as SignerError};
use qsm_identity::Revocations;
use qsm_net::{Guard, Opened, OwnDatagram, Refusal};
use qsm_seal::{Epoch, EpochOrder, Epochs, KeyId, OpenError, Sealer};
use qsm_wire::{
    AdmissionStage, Header, Kind, NodeId, Origin, cluster_number, cluster_of, origin_of, sealed_by,
};
use zeroize::Zeroizing;

use super::attempts::{Attempts, Ended};
use super::claim::Claim;
use super::identity::Identity;
use super::judge::{ServiceJudge, Serving};
use super::lists::ListParts;
use super::orders::Over;
use super::packet::{SEEK_GROWTH, Way, place, read, refusal, seek};
use super::session::Session;

/// Sessions with services: one, and another while services change.
const SESSIONS_MAX: usize = 4;
/// Packets for a service that wait for a session.
const HELD_MAX: usize = 16;
/// A service that was heard so lately needs no other session, whatever is said of it: it is heard every 200 ms.
const FRESH: Duration = Duration::from_millis(500);
/// News that wait to be read; more are dropped, but for what ends the node.
const NEWS_MAX: usize = 64;

/// Account of who comes in.
#[derive(Debug, Clone)]
pub(crate) struct Entrant {
    pub(crate) cluster: String,
    pub(crate) node: NodeId,
    /// Its name as a member; who only looks has none.
    pub(crate) name: Option<String>,
}

/// News for the node.
#[derive(Debug)]
pub(crate) enum EntryNews {
    /// A service of the cluster does not let this node in, or has shut it out.
    Refused { reason: String },
    /// Somebody at this address says to be a service of the cluster, and is not.
    Untrusted { address: SocketAddr },
}

/// Guard of a node, or of one who looks.
#[derive(Debug)]
pub(crate) struct Entry {
    entrant: Entrant,
    token: Vec<u8>,
    cluster: u32,
    header: Header,
    started: Instant,
    epochs: Epochs,
    sessions: Vec<ServiceSession>,
    attempts: Attempts,
    held: Vec<OwnDatagram>,
    own: VecDeque<OwnDatagram>,
    news: Arc<SegQueue<EntryNews>>,
}

/// A session with one run of a service.
#[derive(Debug)]
struct ServiceSession {
    session: Session,
    /// What the service has proven to be.
    serving: Serving,
    /// The list of revocations that it tells.
    list: ListParts,
    /// The service, once it was heard in the session.
    service: Option<Origin>,
    /// Number of the newest epoch before the first one of this service: those count from there.
    base: Option<u64>,
}

impl Entry {
    /// For a node that starts.
    pub(crate) fn new(
        identity: &Identity,
        entrant: Entrant,
        news: Arc<SegQueue<EntryNews>>,
    ) -> Result<Self, SignerError> {
        let now = Instant::now();
        let judge = ServiceJudge::new(identity, &entrant.cluster);
        let signer = Signer::from_seed(identity.key().seed())?;
        let cluster = cluster_number(&entrant.cluster);
        let header = Header {
            cluster,
            origin: Origin {
                node: entrant.node,
                ..Origin::default()
            },
            ..Header::default()
        };
        Ok(Self {
            entrant,
            token: identity.token().as_bytes().to_vec(),
            cluster,
            header,
            started: now,
            epochs: Epochs::new(),
            sessions: Vec::new(),
            attempts: Attempts::new(now, signer, judge),
            held: Vec::new(),
            own: VecDeque::new(),
            news,
        })
    }

    fn observes(&self) -> bool {
        self.entrant.name.is_none()
    }

    /// True if the service may be spoken to: what comes of it, this node can read.
    fn may_speak(&self) -> bool {
        self.observes() || self.epochs.active().is_some()
    }

    fn tell(&self, news: EntryNews) {
        // Of who is not trusted the node tells rarely anyway.
        if matches!(news, EntryNews::Refused { .. }) || self.news.len() < NEWS_MAX {
            self.news.push(news);
        }
    }

    fn begin(&mut self, now: Instant, address: SocketAddr) {
        let claim = Claim {
            node: self.entrant.node,
            name: self.entrant.name.as_deref().unwrap_or_default(),
            token: &self.token,
            observes: self.observes(),
            resumes: self.epochs.active().is_some(),
        };
        self.attempts.begin(now, address, &claim.encode());
        self.go_on(now);
    }

    /// Goes on with handshakes, and with what has come of them.
    fn go_on(&mut self, now: Instant) {
        self.attempts.speak(&self.header, &mut self.own);
        while let Some(Ended { address, result }) = self.attempts.poll_ended(now) {
            match result {
                Ok(met) => {
                    let (says, hears) = (&met.secrets.to_server, &met.secrets.to_client);
                    self.sessions.retain(|one| one.session.address != address);
                    if self.sessions.len() >= SESSIONS_MAX {
                        self.sessions.remove(0);
                    }
                    self.sessions.push(ServiceSession {
                        session: Session::new(now, address, says, hears),
                        serving: met.grant,
                        list: ListParts::default(),
                        service: None,
                        base: None,
                    });
                    self.release(address);
                }
                Err(Failure::Unanswered { .. }) => {}
                Err(Failure::Refused(refused)) => {
                    let reason = refused.reason;
                    self.tell(EntryNews::Refused { reason });
                }
                Err(_) => self.tell(EntryNews::Untrusted { address }),
            }
        }
    }

    /// Sends what has waited for a session with the service there.
    fn release(&mut self, address: SocketAddr) {
        if !self.may_speak() {
            return;
        }
        let Some(one) = self
            .sessions
            .iter_mut()
            .rev()
            .find(|one| one.session.address == address)
        else {
            return;
        };
        for held in self.held.extract_if(.., |held| held.to == address) {
            one.session.send(&held.bytes, &mut self.own);
        }
    }

    /// Somebody says that a service is there. A handshake shows whether it is one.
    fn hear_of(&mut self, now: Instant, header: &Header, content: &[u8]) {
        let Some(address) = place(header, content) else {
            return;
        };
        let fresh = |one: &ServiceSession| {
            let here = one.session.address == address || one.service == Some(header.origin);
            here && now < one.session.heard_at + FRESH
        };
        if !self.sessions.iter().any(fresh) {
            self.begin(now, address);
        }
    }

    fn open_plain(&mut self, from: SocketAddr, datagram: &[u8]) -> Result<Opened, Refusal> {
        let (header, frame) = read(datagram).ok_or(Refusal::Plain)?;
        let now = Instant::now();
        match frame.stage {
            AdmissionStage::Here => self.hear_of(now, &header, frame.content),
            AdmissionStage::Handshake => {
                self.attempts.take(now, from, frame.content);
                self.go_on(now);
            }
            // Of another node.
            AdmissionStage::Seek => {}
            AdmissionStage::Word => return Err(Refusal::Plain),
        }
        Ok(Opened::Own)
    }

    fn open_session(&mut self, at: usize, datagram: &mut [u8]) -> Result<Opened, Refusal> {
        let now = Instant::now();
        let one = &mut self.sessions[at];
        let maker = origin_of(datagram).ok_or(Refusal::Forged)?;
        if one.service.is_some_and(|service| service != maker) {
            return Err(Refusal::Forged);
        }
        let length = one.session.open(now, datagram)?;
        one.service = Some(maker);
        match Way::of(datagram) {
            Way::Members => Err(Refusal::Forged),
            Way::Announcement | Way::Service => Ok(Opened::Datagram(length)),
            Way::Admission => {
                let word = match read(&datagram[..length]) {
                    Some((_, frame)) if frame.stage == AdmissionStage::Word => {
                        let word = one.session.words.take(frame.content);
                        word.map(|word| Zeroizing::new(word.to_vec()))
                    }
                    _ => return Err(Refusal::Forged),
                };
                if let Some(word) = word {
                    self.obey(now, at, &word);
                }
                if let Some(one) = self.sessions.get_mut(at) {
                    one.session.speak(now, &self.header, &mut self.own);
                }
                Ok(Opened::Own)
            }
        }
    }

    /// Carries out a word of a service.
    fn obey(&mut self, now: Instant, at: usize, word: &[u8]) {
        if let Some(order) = EpochOrder::decode(word) {
            self.follow(now, at, order);
        } else if let Some(over) = Over::decode(word) {
            // What was said before is receipted by the end itself.
            self.sessions.remove(at);
            if let Over::Expelled(reason) = over {
                self.tell(EntryNews::Refused { reason });
            }
        } else if let Some(list) = self.sessions[at].list.take(word) {
            self.learn(list);
        }
    }

    /// Takes a list of revocations of a service. One that is no newer, or not the root's, changes nothing. A service that
    /// is in it is none any more.
    fn learn(&mut self, list: Revocations) {
        if !self.attempts.learn(Arc::new(list)).unwrap_or(false) {
            return;
        }
        let attempts = &self.attempts;
        let revoked = self
            .sessions
            .extract_if(.., |one| !attempts.trusts(&one.serving));
        let revoked: Vec<SocketAddr> = revoked.map(|one| one.session.address).collect();
        for address in revoked {
            self.tell(EntryNews::Untrusted { address });
        }
    }

    /// Takes an order about an epoch. Each run of a service counts its own, from the newest one that is held.
    fn follow(&mut self, now: Instant, at: usize, order: EpochOrder) {
        let newest = self.epochs.held().last().map_or(0, |epoch| epoch.0);
        let one = &mut self.sessions[at];
        let base = *one.base.get_or_insert(newest);
        let here = |epoch: Epoch| Epoch(epoch.0.saturating_add(base));
        let order = match order {
            EpochOrder::Offer { epoch, key } => EpochOrder::Offer {
                epoch: here(epoch),
                key,
            },
            EpochOrder::Ratchet { epoch, of } => EpochOrder::Ratchet {
                epoch: here(epoch),
                of: here(of),
            },
            EpochOrder::Activate { epoch } => EpochOrder::Activate { epoch: here(epoch) },
        };
        let elapsed = now.saturating_duration_since(self.started);
        if let Some(mut receipt) = self.epochs.take(elapsed, order) {
            receipt.epoch.0 -= base;
            one.session.words.say(Zeroizing::new(receipt.encode()));
        }
        if let Some(active) = self.epochs.active() {
            // Views say nothing of epochs: what was sealed in a former one has its time.
            self.epochs.drained(active);
        }
        let address = one.session.address;
        self.release(address);
    }

    fn open_epoch(&mut self, key: KeyId, datagram: &mut [u8]) -> Result<Opened, Refusal> {
        if Way::of(datagram) != Way::Members {
            // Its sessions alone have the keys for these; who has the epoch's is no service.
            return Err(match self.epochs.knows(key) {
                true => Refusal::Forged,
                false => Refusal::Unkeyed,
            });
        }
        let length = self.epochs.open(datagram).map_err(|error| match error {
            OpenError::OtherKey(_) => Refusal::Unkeyed,
            other => refusal(other),
        })?;
        Ok(Opened::Datagram(length))
    }

    /// Seals a packet for a service, or holds it until there is a session.
    fn seal_for_service(&mut self, to: SocketAddr, datagram: &[u8], sealed: &mut Vec<u8>) -> bool {
        let may_speak = self.may_speak();
        let mut sessions = self.sessions.iter_mut().rev();
        let session = sessions.find(|one| one.session.address == to);
        match session {
            Some(one) if may_speak => return one.session.seal(datagram, sealed),
            Some(_) => {}
            None => self.begin(Instant::now(), to),
        }
        if self.held.len() >= HELD_MAX {
            self.held.remove(0);
        }
        let bytes = datagram.to_vec();
        self.held.push(OwnDatagram { to, bytes });
        false
    }
}

impl Guard for Entry {
    fn growth(&self, _to: SocketAddr, datagram: &[u8]) -> usize {
        match Kind::peek(datagram) {
            Some(Kind::Solicit) => SEEK_GROWTH,
            _ => Sealer::growth(datagram),
        }
    }

    fn seal(&mut self, to: SocketAddr, datagram: &[u8], sealed: &mut Vec<u8>) -> bool {
        match Way::of(datagram) {
            Way::Members => self.epochs.seal(datagram, sealed).is_ok(),
            Way::Announcement => {
                self.note_maker(datagram);
                sealed.extend_from_slice(&seek(&self.header));
                Kind::peek(datagram) == Some(Kind::Solicit)
            }
            Way::Service => {
                self.note_maker(datagram);
                self.seal_for_service(to, datagram, sealed)
            }
            Way::Admission => false,
        }
    }

    fn open(&mut self, from: SocketAddr, datagram: &mut [u8]) -> Result<Opened, Refusal> {
        if cluster_of(datagram).is_some_and(|cluster| cluster != self.cluster) {
            return Err(Refusal::OtherCluster);
        }
        let Some(key) = sealed_by(datagram).map(KeyId) else {
            return self.open_plain(from, datagram);
        };
        let mut sessions = self.sessions.iter();
        match sessions.position(|one| one.session.key() == key) {
            Some(at) => self.open_session(at, datagram),
            None => self.open_epoch(key, datagram),
        }
    }

    fn poll_transmit(&mut self) -> Option<OwnDatagram> {
        self.own.pop_front()
    }

    fn due(&self) -> Option<Instant> {
        let sessions = self.sessions.iter();
        let words = sessions.filter_map(|one| one.session.words.due());
        let epochs = self.epochs.next_tick().map(|at| self.started + at);
        words.chain(self.attempts.due()).chain(epochs).min()
    }

    fn tick(&mut self, now: Instant) {
        self.epochs
            .tick(now.saturating_duration_since(self.started));
        self.attempts.tick(now);
        for one in &mut self.sessions {
            one.session.speak(now, &self.header, &mut self.own);
        }
        self.go_on(now);
    }
}

impl Entry {
    /// Packets of the guard's own are made in the node's present life.
    fn note_maker(&mut self, datagram: &[u8]) {
        if let Some(origin) = origin_of(datagram) {
            self.header.origin = origin;
        }
    }
}

#[cfg(test)]
mod tests {
    use qsm_identity::{
        Claims, ClusterRoot, NodeKey, NodePublic, RevokedParts, Role, Roles, Serial,
    };
    use qsm_wire::{
        Beacon, ChannelId, Coverage, DataHeader, Frame, FrameHead, HOP_AT, Incarnation, ViewNumber,
        seal,
    };

    use super::super::gate::{Gate, GateLink, GateNews, GateOrder, Leaves};
    use super::super::identity::unix_now;
    use super::*;

    const CLUSTER: &str = "plant";
    const SERVICE: NodeId = NodeId(1000);
    /// Each core thread has a number of its own; these are of the first ones of two nodes.
    const ONE: NodeId = NodeId(64);
    const TWO: NodeId = NodeId(128);

    fn identity(root: &ClusterRoot, role: Role) -> Identity {
        let key = NodeKey::generate().unwrap();
        let now = unix_now();
        let all = || vec!["**".parse().unwrap()];
        let claims = Claims {
            cluster: CLUSTER.to_owned(),
            serial: Serial::random().unwrap(),
            name: "**".parse().unwrap(),
            node_key: Some(key.public()),
            roles: Roles::NONE.with(role),
            not_before: now,
            expires: now + 600,
            publish: Vec::new(),
            subscribe: if role == Role::Subscribe {
                all()
            } else {
                Vec::new()
            },
        };
        let token = root.issue(claims).unwrap();
        Identity::new(key, token, root.public())
    }

    fn header(node: NodeId) -> Header {
        Header {
            cluster: cluster_number(CLUSTER),
            origin: Origin {
                node,
                incarnation: Incarnation(1),
            },
            ..Header::default()
        }
    }

    fn address(node: NodeId) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], u16::try_from(node.0).unwrap()))
    }

    fn frame(node: NodeId) -> Vec<u8> {
        let head = FrameHead {
            session: 1,
            number: 1,
            heard_upto: 0,
            more: false,
        };
        let mut packet = Vec::new();
        let content = b"hello";
        Frame { head, content }.encode(&header(node), &mut packet);
        seal(&mut packet, Coverage::Whole);
        packet
    }

    fn data(node: NodeId) -> Vec<u8> {
        let head = DataHeader {
            channel: ChannelId(9),
            view: ViewNumber(1),
            sequence: 1,
            view_age: 0,
        };
        let mut packet = Vec::new();
        head.encode(&header(node), &mut packet);
        packet.extend_from_slice(&[0; 9]);
        seal(&mut packet, Coverage::Head);
        packet
    }

    fn beacon() -> Vec<u8> {
        let beacon = Beacon {
            address: address(SERVICE),
            second: None,
            term: 1,
            embedded: false,
        };
        let mut packet = Vec::new();
        beacon.encode(&header(SERVICE), &mut packet);
        seal(&mut packet, Coverage::Whole);
        packet
    }

    /// A service and nodes, whose guards hear each other without loss.
    struct Room {
        gate: Gate,
        link: Arc<GateLink>,
        /// Key of the service.
        service: NodePublic,
        entries: Vec<(NodeId, Entry)>,
        now: Instant,
        /// Nodes that were given something, but for what is the guards' own.
        given: Vec<NodeId>,
    }

    impl Room {
        fn new(root: &ClusterRoot, nodes: &[NodeId]) -> Self {
            let link = Arc::<GateLink>::default();
            let service = identity(root, Role::Service);
            let gate = Gate::new(&service, CLUSTER, Arc::clone(&link)).unwrap();
            let entries = nodes.iter().map(|&node| {
                let entrant = Entrant {
                    cluster: CLUSTER.to_owned(),
                    node,
                    name: Some(format!("node-{}", node.0)),
                };
                let identity = identity(root, Role::Subscribe);
                (
                    node,
                    Entry::new(&identity, entrant, Arc::default()).unwrap(),
                )
            });
            let entries = entries.collect();
            Self {
                gate,
                link,
                service: service.public(),
                entries,
                now: Instant::now(),
                given: Vec::new(),
            }
        }

        /// The service tells all where it is.
        fn announce(&mut self) {
            let mut here = Vec::new();
            let group = SocketAddr::from(([239, 1, 1, 1], 1));
            assert!(self.gate.seal(group, &beacon(), &mut here));
            for (_, entry) in &mut self.entries {
                let opened = entry.open(address(SERVICE), &mut here.clone());
                assert_eq!(opened, Ok(Opened::Own));
            }
        }

        /// Carries what guards say until they are silent.
        fn carry(&mut self) {
            while self.carry_to_service() | self.carry_to_nodes() {}
        }

        fn carry_to_service(&mut self) -> bool {
            let mut carried = false;
            for (node, entry) in &mut self.entries {
                while let Some(mut own) = entry.poll_transmit() {
                    carried = true;
                    self.gate.open(address(*node), &mut own.bytes).ok();
                }
            }
            carried
        }

        fn carry_to_nodes(&mut self) -> bool {
            let mut carried = false;
            while let Some(mut own) = self.gate.poll_transmit() {
                carried = true;
                let mut entries = self.entries.iter_mut();
                let Some((node, entry)) = entries.find(|(node, _)| address(*node) == own.to) else {
                    continue;
                };
                let opened = entry.open(address(SERVICE), &mut own.bytes);
                if matches!(opened, Ok(Opened::Datagram(_))) {
                    self.given.push(*node);
                }
            }
            carried
        }

        /// Until all have a key.
        fn settle(&mut self) {
            self.announce();
            self.carry();
            for _ in 0..10 {
                self.now += Duration::from_millis(200);
                self.gate.tick(self.now);
                self.carry();
            }
            assert!(
                self.entries
                    .iter()
                    .all(|(_, entry)| entry.epochs.active().is_some())
            );
        }

        fn for_service(&mut self, at: usize, packet: &[u8]) -> Option<Vec<u8>> {
            let mut sealed = Vec::new();
            let entry = &mut self.entries[at].1;
            entry
                .seal(address(SERVICE), packet, &mut sealed)
                .then_some(sealed)
        }

        /// Reads the gate's news: true if a session has ended.
        fn has_ended(&self) -> bool {
            let mut news = std::iter::from_fn(|| self.link.news.pop());
            news.any(|news| matches!(news, GateNews::Ended { .. }))
        }
    }

    // Rule R-SEC-13: its rights are its own until then.
    #[test]
    fn the_session_of_who_has_left_ends_later_and_is_told_of() {
        let root = ClusterRoot::generate().unwrap();
        let mut room = Room::new(&root, &[ONE]);
        room.settle();
        let (node, how) = (ONE, Leaves::Orderly);
        room.link.orders.push(GateOrder::Gone { node, how });
        room.gate.tick(room.now);
        assert!(!room.has_ended());
        let mut sealed = room.for_service(0, &frame(node)).unwrap();
        assert!(room.gate.open(address(node), &mut sealed).is_ok());
        room.gate.tick(room.now + Duration::from_secs(3));
        assert!(room.has_ended());
    }

    // Rules R-SEC-12, R-SEC-14.
    #[test]
    fn what_a_node_says_waits_until_it_has_a_key() {
        let root = ClusterRoot::generate().unwrap();
        let mut room = Room::new(&root, &[ONE, TWO]);
        room.announce();
        assert_eq!(room.for_service(0, &frame(ONE)), None);
        room.carry();
        assert!(room.given.is_empty() && room.entries[0].1.epochs.active().is_none());
        room.settle();
        // The service has told them where it is, sealed.
        assert_eq!(room.given.len(), 2);
        assert!(room.entries[0].1.held.is_empty());
        let mut sealed = room.for_service(0, &frame(ONE)).unwrap();
        let opened = room.gate.open(address(ONE), &mut sealed);
        assert_eq!(opened, Ok(Opened::Datagram(frame(ONE).len())));

        let mut packet = Vec::new();
        let [(_, one), (_, other)] = &mut room.entries[..] else {
            panic!("there are two");
        };
        assert!(one.seal(address(TWO), &data(ONE), &mut packet));
        let opened = other.open(address(ONE), &mut packet);
        assert_eq!(opened, Ok(Opened::Datagram(data(ONE).len())));
    }

    // Rules R-SEC-1, R-SEC-13.
    #[test]
    fn members_cannot_speak_for_the_service_nor_in_sessions_of_others() {
        let root = ClusterRoot::generate().unwrap();
        let mut room = Room::new(&root, &[ONE, TWO]);
        room.settle();
        let from = address(TWO);
        // As the service, by the key that all members have.
        for posed in [frame(SERVICE), beacon()] {
            let mut sealed = Vec::new();
            room.entries[1].1.epochs.seal(&posed, &mut sealed).unwrap();
            let entry = &mut room.entries[0].1;
            assert_eq!(entry.open(from, &mut sealed), Err(Refusal::Forged));
        }
        // In another's name, in its own session.
        let mut sealed = room.for_service(1, &frame(TWO)).unwrap();
        sealed[8] = 64;
        let opened = room.gate.open(from, &mut sealed);
        assert_eq!(opened, Err(Refusal::Forged));
        // In clear, and again as it was.
        let entry = &mut room.entries[0].1;
        assert_eq!(entry.open(from, &mut beacon()), Err(Refusal::Plain));
        let mut sealed = room.for_service(0, &frame(ONE)).unwrap();
        let mut again = sealed.clone();
        let from = address(ONE);
        assert!(room.gate.open(from, &mut sealed).is_ok());
        assert_eq!(room.gate.open(from, &mut again), Err(Refusal::Replayed));
    }

    // Rule R-SEC-12.
    #[test]
    fn nodes_hear_of_revocations_from_their_service_and_leave_one_that_is_among_them() {
        let root = ClusterRoot::generate().unwrap();
        let mut room = Room::new(&root, &[ONE, TWO]);
        room.settle();
        let revoke = |number, keys| RevokedParts {
            cluster: CLUSTER.to_owned(),
            number,
            serials: (1..=500).map(Serial).collect(),
            keys,
        };
        let tell = |room: &mut Room, parts| {
            let list = root.revoke(parts).unwrap();
            room.link.orders.push(GateOrder::Revoke(list));
            room.gate.tick(room.now);
            room.carry();
        };
        tell(&mut room, revoke(1, Vec::new()));
        let trusted = |room: &Room| -> Vec<usize> {
            let entries = room.entries.iter();
            entries.map(|(_, entry)| entry.sessions.len()).collect()
        };
        assert_eq!(trusted(&room), [1, 1]);
        // Its own, in the second of several parts.
        let key = room.service;
        tell(&mut room, revoke(2, vec![key]));
        assert_eq!(trusted(&room), [0, 0]);
        // Nobody shakes hands with it again.
        room.announce();
        room.carry();
        assert_eq!(trusted(&room), [0, 0]);
        for (_, entry) in &room.entries {
            let news = std::iter::from_fn(|| entry.news.pop());
            let untrusted = news.filter(|news| matches!(news, EntryNews::Untrusted { .. }));
            assert_eq!(untrusted.count(), 2);
        }
    }

    /// The packet with each byte changed, cut at each length, and with more behind it.
    fn changed(packet: &[u8]) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        // The hop is anybody's to change.
        for at in (0..packet.len()).filter(|at| *at != HOP_AT) {
            for bit in 0..8 {
                let mut changed = packet.to_vec();
                changed[at] ^= 1 << bit;
                all.push(changed);
            }
            all.push(packet[..at].to_vec());
        }
        all.push([packet, &[0]].concat());
        all
    }

    // Rules R-SEC-1, R-SEC-2.
    #[test]
    fn no_changed_packet_of_a_session_or_an_epoch_is_believed() {
        let root = ClusterRoot::generate().unwrap();
        let mut room = Room::new(&root, &[ONE, TWO]);
        room.settle();
        let mut to_service = room.for_service(0, &frame(ONE)).unwrap();
        for mut packet in changed(&to_service) {
            assert!(room.gate.open(address(ONE), &mut packet).is_err());
        }
        assert!(room.gate.open(address(ONE), &mut to_service).is_ok());

        let (mut to_node, mut to_member) = (Vec::new(), Vec::new());
        assert!(room.gate.seal(address(ONE), &beacon(), &mut to_node));
        let two = &mut room.entries[1].1;
        assert!(two.seal(address(ONE), &data(TWO), &mut to_member));
        for (from, sealed) in [(SERVICE, to_node), (TWO, to_member)] {
            let one = &mut room.entries[0].1;
            for mut packet in changed(&sealed) {
                assert!(one.open(address(from), &mut packet).is_err());
            }
            let opened = one.open(address(from), &mut sealed.clone());
            assert!(matches!(opened, Ok(Opened::Datagram(_))));
        }
    }
}
