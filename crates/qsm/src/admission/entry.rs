//! A node's guard: it finds services, proves who the node is, and holds the keys of epochs.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use qsm_handshake::{Failure, Identity as Signer, IdentityError as SignerError};
use qsm_identity::{NodeKey, Revocations};
use qsm_net::{Guard, Opened, OwnDatagram, Refusal};
use qsm_seal::{Epoch, EpochOrder, Epochs, KeyId, OpenError, PairKey};
use qsm_wire::{
    AdmissionStage, Header, Kind, NodeId, Origin, SIGNED_TAIL_BYTES, TAG_BYTES, TAIL_BYTES,
    cluster_number, cluster_of, origin_of, sealed_by,
};
use zeroize::Zeroizing;

use super::attempts::{Attempts, Ended};
use super::claim::Claim;
use super::identity::Identity;
use super::introduction;
use super::judge::{ServiceJudge, Serving};
use super::lists::ListParts;
use super::neighbours::{Contact, Neighbours, Who};
use super::orders::Over;
use super::packet::{SEEK_GROWTH, Way, admission, goes_to_one, place, read, refusal, seek};
use super::revocations::CertificateLists;
use super::session::Session;
use super::signatures::{Checks, LastSigned};

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
    /// Lists of revoked certificates cannot be used; those before them stay in force.
    ListRefused { reason: String },
}

/// Guard of a node, or of one who looks.
#[derive(Debug)]
pub(crate) struct Entry {
    entrant: Entrant,
    credential: Vec<u8>,
    cluster: u32,
    header: Header,
    started: Instant,
    epochs: Epochs,
    sessions: Vec<ServiceSession>,
    attempts: Attempts,
    /// Lists of revoked certificates, which may be written anew.
    crl: Option<CertificateLists>,
    held: Vec<OwnDatagram>,
    neighbours: Neighbours,
    signer: Arc<NodeKey>,
    signed: LastSigned,
    checks: Checks,
    own: VecDeque<OwnDatagram>,
    news: Arc<SegQueue<EntryNews>>,
}

/// A session with one run of a service.
#[derive(Debug)]
struct ServiceSession {
    session: Session,
    /// Account of the service, as its token has it.
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
        let pair_key = PairKey::generate(entrant.node).map_err(|_| SignerError::Random)?;
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
            credential: identity.credential().to_vec(),
            cluster,
            header,
            started: now,
            epochs: Epochs::new(),
            sessions: Vec::new(),
            attempts: Attempts::new(now, signer, judge),
            crl: identity.lists(),
            held: Vec::new(),
            neighbours: Neighbours::new(pair_key),
            signer: Arc::clone(identity.key()),
            signed: LastSigned::default(),
            checks: Checks::new(now),
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
            credential: &self.credential,
            observes: self.observes(),
            resumes: self.epochs.active().is_some(),
            pair_key: (!self.observes()).then(|| self.neighbours.own.public()),
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
            Way::Members | Way::Signed | Way::Member => Err(Refusal::Forged),
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
        } else if let Some(members) = introduction::decode(word) {
            for member in members {
                self.neighbours.learn(now, &member);
                self.release_to(member.node);
            }
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
        if self.attempts.learn(Arc::new(list)).unwrap_or(false) {
            self.leave_revoked();
        }
    }

    /// Takes lists of revoked certificates when they are others than before.
    fn look_at_lists(&mut self) {
        match self.crl.as_mut().and_then(CertificateLists::poll) {
            Some(Ok(anchors)) => {
                self.attempts.trust(anchors);
                self.leave_revoked();
            }
            Some(Err(reason)) => self.tell(EntryNews::ListRefused { reason }),
            None => {}
        }
    }

    /// Ends the sessions with services that are revoked, and says so.
    fn leave_revoked(&mut self) {
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
        if let EpochOrder::Offer { key, .. } = &order
            && let Err(error) = key.cipher().check()
        {
            let reason = error.to_string();
            return self.tell(EntryNews::Refused { reason });
        }
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

    fn open_epoch(
        &mut self,
        from: SocketAddr,
        key: KeyId,
        datagram: &mut [u8],
    ) -> Result<Opened, Refusal> {
        let way = Way::of(datagram);
        if way == Way::Signed {
            return self.open_signed(from, datagram);
        }
        if !matches!(way, Way::Members | Way::Admission) {
            // Its sessions and pairs alone have the keys for these; who has the epoch's is no service, and not the
            // member that it names.
            return Err(match self.epochs.knows(key) {
                true => Refusal::Forged,
                false => Refusal::Unkeyed,
            });
        }
        let length = self.epochs.open(datagram).map_err(of_epoch)?;
        match way {
            Way::Admission => self.meet(from, &datagram[..length]),
            _ => Ok(Opened::Datagram(length)),
        }
    }

    /// Opens what a member has signed for all. Rules R-SEC-17, R-SEC-18.
    fn open_signed(&mut self, from: SocketAddr, datagram: &mut [u8]) -> Result<Opened, Refusal> {
        let packet = self.epochs.open_signed(datagram).map_err(of_epoch)?;
        let (now, maker) = (Instant::now(), packet.maker());
        if maker == self.entrant.node {
            // Multicast comes back to who sends it, on its own host.
            return Ok(Opened::Own);
        }
        let Some(key) = self.neighbours.signer(maker) else {
            self.ask_keys(now, maker);
            return Err(Refusal::Unkeyed);
        };
        if !self.checks.allow(now, maker, from) {
            return Err(Refusal::Unchecked);
        }
        let length = self.epochs.prove(&packet, &key, datagram);
        let length = length.map_err(refusal)?;
        self.checks.believe(now, maker, from);
        // A token that does not call all to a round goes to one.
        match Way::of_plain(&datagram[..length]) {
            Way::Signed => Ok(Opened::Datagram(length)),
            _ => Err(Refusal::Forged),
        }
    }

    /// Opens what a member has sealed for this one alone. Rule R-SEC-15.
    fn open_pair(&mut self, from: SocketAddr, datagram: &mut [u8]) -> Result<Opened, Refusal> {
        let maker = origin_of(datagram).ok_or(Refusal::Forged)?.node;
        // It asks first who this node is: the key is on its way, and it repeats what it says.
        let peer = self.neighbours.peer(maker).ok_or(Refusal::Unkeyed)?;
        let own = &self.neighbours.own;
        let length = self.epochs.open_from(own, &peer, datagram);
        let length = length.map_err(refusal)?;
        if !matches!(
            Way::of_plain(&datagram[..length]),
            Way::Member | Way::Signed
        ) {
            return Err(Refusal::Forged);
        }
        self.neighbours.heard(Instant::now(), from, maker);
        Ok(Opened::Datagram(length))
    }

    /// A member asks who this node is, or answers. Rule R-SEC-16.
    fn meet(&mut self, from: SocketAddr, packet: &[u8]) -> Result<Opened, Refusal> {
        let Some((header, frame)) = read(packet) else {
            return Err(Refusal::Forged);
        };
        let contact = Contact::decode(frame.content).ok_or(Refusal::Forged)?;
        let (now, other) = (Instant::now(), header.origin.node);
        match contact {
            Contact::Asks(random) => {
                self.say(from, Contact::Answers(random));
                self.ask_keys(now, other);
            }
            Contact::Answers(random) => {
                if self.neighbours.answered(now, other, random).is_some() {
                    self.ask_keys(now, other);
                    self.release_to(other);
                }
            }
        }
        Ok(Opened::Own)
    }

    fn say(&mut self, to: SocketAddr, contact: Contact) {
        let packet = admission(&self.header, AdmissionStage::Word, &contact.encode());
        let mut bytes = Vec::new();
        if self.epochs.seal(&packet, &mut bytes).is_ok() {
            self.own.push_back(OwnDatagram { to, bytes });
        }
    }

    /// Asks the service for the keys of a member, if they are not known.
    fn ask_keys(&mut self, now: Instant, node: NodeId) {
        if self.neighbours.asks_keys(now, node)
            && let Some(one) = self.sessions.last_mut()
            && one.session.words.say(Zeroizing::new(Who(node).encode()))
        {
            one.session.speak(now, &self.header, &mut self.own);
        }
    }

    /// Sends what has waited for a member, if its key is known.
    fn release_to(&mut self, node: NodeId) {
        let Some(peer) = self.neighbours.peer(node) else {
            return;
        };
        for mut held in self.neighbours.take_held(node) {
            let plain = core::mem::take(&mut held.bytes);
            let own = &self.neighbours.own;
            let sealed = self.epochs.seal_to(own, &peer, &plain, &mut held.bytes);
            if sealed.is_ok() {
                self.own.push_back(held);
            }
        }
    }

    /// Seals a packet for one member, or holds it until it is known who that is.
    fn seal_for_member(&mut self, to: SocketAddr, datagram: &[u8], sealed: &mut Vec<u8>) -> bool {
        if self.epochs.active().is_none() {
            return false;
        }
        let now = Instant::now();
        if let Some(question) = self.neighbours.question(now, to) {
            self.note_maker(datagram);
            self.say(to, question);
        }
        if let Some(peer) = self.neighbours.at(to) {
            let own = &self.neighbours.own;
            return self.epochs.seal_to(own, &peer, datagram, sealed).is_ok();
        }
        self.neighbours.hold(to, datagram);
        if let Some(node) = self.neighbours.node_at(to) {
            self.ask_keys(now, node);
        }
        false
    }

    /// Seals a packet for all, signed. Rule R-SEC-17.
    fn seal_for_all(&mut self, to: SocketAddr, datagram: &[u8], sealed: &mut Vec<u8>) -> bool {
        if self.signed.copy(to, datagram, sealed) {
            return true;
        }
        let begin = sealed.len();
        let result = self.epochs.seal_signed(&self.signer, datagram, sealed);
        if result.is_ok() {
            self.signed.note(to, datagram, &sealed[begin..]);
        }
        result.is_ok()
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
    fn growth(&self, to: SocketAddr, datagram: &[u8]) -> usize {
        match Kind::peek(datagram) {
            Some(Kind::Solicit) => SEEK_GROWTH,
            Some(Kind::Data) => TAG_BYTES,
            _ if Way::of_plain(datagram) == Way::Signed && !goes_to_one(to, datagram) => {
                SIGNED_TAIL_BYTES
            }
            _ => TAIL_BYTES,
        }
    }

    fn seal(&mut self, to: SocketAddr, datagram: &[u8], sealed: &mut Vec<u8>) -> bool {
        match Way::of_plain(datagram) {
            Way::Member => self.seal_for_member(to, datagram, sealed),
            Way::Signed if goes_to_one(to, datagram) => self.seal_for_member(to, datagram, sealed),
            Way::Signed => self.seal_for_all(to, datagram, sealed),
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
            None if self.epochs.pairs_by(key) => self.open_pair(from, datagram),
            None => self.open_epoch(from, key, datagram),
        }
    }

    fn poll_transmit(&mut self) -> Option<OwnDatagram> {
        self.own.pop_front()
    }

    fn due(&self) -> Option<Instant> {
        let sessions = self.sessions.iter();
        let words = sessions.filter_map(|one| one.session.words.due());
        let epochs = self.epochs.next_tick().map(|at| self.started + at);
        let lists = self.crl.as_ref().map(|lists| Instant::now() + lists.due());
        let own = words.chain(self.attempts.due()).chain(epochs);
        own.chain(lists).min()
    }

    fn tick(&mut self, now: Instant) {
        self.epochs
            .tick(now.saturating_duration_since(self.started));
        self.attempts.tick(now);
        self.look_at_lists();
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

/// Reason for which the key of an epoch does not open a packet: keys change.
fn of_epoch(error: OpenError) -> Refusal {
    match error {
        OpenError::OtherKey(_) => Refusal::Unkeyed,
        other => refusal(other),
    }
}

#[cfg(test)]
mod tests;
