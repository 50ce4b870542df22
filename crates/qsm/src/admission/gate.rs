//! A service's guard: it lets nodes in, orders the keys of epochs to them, and shuts out who may not stay.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use qsm_gms::Rights;
use qsm_handshake::{Broken, Event, Identity as Signer, Now, Secrets, Server};
use qsm_identity::{RevocationError, Revocations};
use qsm_net::{Guard, Opened, OwnDatagram, Refusal};
use qsm_seal::{
    Cipher, Epoch, EpochIssuer, EpochOrder, EpochReceipt, KeyId, Leaving, Sealer, Told,
};
use qsm_wire::{
    AdmissionStage, Header, Kind, NodeId, cluster_number, cluster_of, origin_of, sealed_by,
};
use qsm_x509::Anchors;
use zeroize::Zeroizing;

use super::doorman::{Doorman, Guest};
use super::identity::{Identity, unix_now};
use super::introduction;
use super::lists::ListWords;
use super::neighbours::Who;
use super::orders::Over;
use super::packet::{HERE_GROWTH, Way, admission, here, place, read};
use super::peers::{Peer, Peers};
use super::rivals::Rivals;
use super::session::Session;
use super::stats::AdmissionStats;

/// Time after a service's start in which the members of a former one come back, before there is a new epoch: its key
/// must be theirs at once, or some could not read what others send. They begin to look for another service when the
/// former one has been silent for half a second.
const GATHER: Duration = Duration::from_millis(700);
/// The same from the first one on that comes back.
const GATHER_OTHERS: Duration = Duration::from_secs(1);
/// Pause between two looks for who may not stay.
const LOOK: Duration = Duration::from_millis(250);
/// A session in which nothing was heard for so long is over.
const QUIET_MAX: Duration = Duration::from_secs(60);
/// The same of one who only looks.
const QUIET_OBSERVER: Duration = Duration::from_secs(10);
/// Time for which a node that has left is still answered.
const LINGER: Duration = Duration::from_secs(2);
/// Least pause before words that have no receipt are said again.
const REPEAT: Duration = Duration::from_millis(50);
/// Hints to strangers in one [`LOOK`].
const HINTS_MAX: u32 = 256;
/// Members of a cluster so small that all are told of each other before they ask (R-SEC-16).
const INTRODUCED_MAX: usize = 64;
/// News that wait to be read; more are dropped, but for those on members.
const NEWS_MAX: usize = 4096;

/// Way of a node out of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// It said goodbye.
    Orderly,
    /// It was not heard any more.
    Lost,
}

/// An order of the service's thread.
#[derive(Debug)]
pub(crate) enum GateOrder {
    /// A node's life is over.
    Gone { node: NodeId, how: Leaves },
    /// A list of revocations.
    Revoke(Revocations),
    /// Authorities whose certificates are taken, and what they have revoked.
    Trust(Arc<Anchors>),
}

/// News for the service's thread.
#[derive(Debug)]
pub(crate) enum GateNews {
    /// A node is let in, with these rights.
    Admitted {
        node: NodeId,
        rights: Arc<dyn Rights>,
    },
    /// Somebody was refused.
    Refused { from: SocketAddr, reason: String },
    /// A node is shut out.
    Expelled { node: NodeId, reason: String },
    /// A member's session is over.
    Ended { node: NodeId },
    /// A list of revocations was not accepted.
    ListRefused { reason: String },
    /// Counters.
    Counted(AdmissionStats),
}

/// Queues between a gate and the service's thread.
#[derive(Debug, Default)]
pub(crate) struct GateLink {
    pub(crate) orders: SegQueue<GateOrder>,
    pub(crate) news: SegQueue<GateNews>,
}

/// State of a run until its first epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gathers {
    /// Nobody has come back yet; until then all wait.
    Until(Instant),
    /// Somebody has; others are waited for until then.
    Others(Instant),
    /// There is an epoch, or nobody who needs one.
    Done,
}

impl Gathers {
    fn ends(self) -> Option<Instant> {
        match self {
            Self::Until(at) | Self::Others(at) => Some(at),
            Self::Done => None,
        }
    }
}

/// Guard of a service.
pub(crate) struct Gate {
    cluster: u32,
    started: Instant,
    server: Server<Doorman>,
    issuer: EpochIssuer,
    peers: Peers,
    rivals: Rivals,
    /// The newest list of revocations.
    list: Option<Arc<Revocations>>,
    /// Members that wait for the first epoch.
    waiting: Vec<NodeId>,
    /// When there is one.
    gathers: Gathers,
    /// Sessions of members that have just got their first key.
    newcomers: BTreeSet<u32>,
    /// Sessions with words that have no receipt.
    talking: BTreeSet<u32>,
    header: Option<Header>,
    /// The service's newest word on where it is.
    beacon: Vec<u8>,
    own: VecDeque<OwnDatagram>,
    link: Arc<GateLink>,
    look_at: Instant,
    repeat_at: Instant,
    hints: u32,
    stats: AdmissionStats,
    told: AdmissionStats,
}

impl Gate {
    /// For one run of a service, whose members' packets are protected by this cipher.
    pub(crate) fn new(
        identity: &Identity,
        cluster: &str,
        cipher: Cipher,
        link: Arc<GateLink>,
    ) -> Result<Self, Broken> {
        let now = Instant::now();
        let failed = |reason: String| Broken { reason };
        let signer = Signer::from_seed(identity.key().seed());
        let signer = signer.map_err(|error| failed(error.to_string()))?;
        let doorman = Doorman::new(cluster, identity);
        let issuer = EpochIssuer::new(Duration::ZERO, cipher, Epoch(1));
        Ok(Self {
            cluster: cluster_number(cluster),
            started: now,
            server: Server::new(&signer, identity.credential(), doorman)?,
            rivals: Rivals::new(now, signer, identity, cluster),
            issuer: issuer.map_err(|error| failed(error.to_string()))?,
            peers: Peers::new(INTRODUCED_MAX),
            newcomers: BTreeSet::new(),
            list: None,
            waiting: Vec::new(),
            gathers: Gathers::Until(now + GATHER),
            talking: BTreeSet::new(),
            header: None,
            beacon: Vec::new(),
            own: VecDeque::new(),
            link,
            look_at: now,
            repeat_at: now,
            hints: 0,
            stats: AdmissionStats::default(),
            told: AdmissionStats::default(),
        })
    }

    /// As in a cluster of many.
    #[cfg(test)]
    pub(super) fn introduce_nobody(&mut self) {
        self.peers = Peers::new(0);
    }

    fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.started)
    }

    fn moment(&self, now: Instant) -> Now {
        Now {
            elapsed: self.elapsed(now),
            unix: unix_now(),
        }
    }

    fn open_plain(&mut self, from: SocketAddr, datagram: &[u8]) -> Result<Opened, Refusal> {
        let (header, frame) = read(datagram).ok_or(Refusal::Plain)?;
        match frame.stage {
            AdmissionStage::Seek => match self.peers.key_at(from) {
                Some(key) => self.greet(key),
                None => self.answer(from, datagram.len()),
            },
            AdmissionStage::Handshake => {
                let now = Instant::now();
                let moment = self.moment(now);
                match qsm_handshake::is_to_client(frame.content) {
                    true => self.rivals.take(now, from, frame.content),
                    false => self.server.receive(moment, from, frame.content),
                }
                self.go_on(now);
            }
            AdmissionStage::Here => self.hear_of(&header, frame.content),
            AdmissionStage::Word => return Err(Refusal::Plain),
        }
        Ok(Opened::Own)
    }

    /// Says where the service is, in no more bytes than came.
    fn answer(&mut self, to: SocketAddr, bytes: usize) {
        let Some(header) = &self.header else { return };
        let answer = here(header, &self.beacon);
        if self.hints < HINTS_MAX && !self.beacon.is_empty() && answer.len() <= bytes {
            self.hints += 1;
            self.own.push_back(OwnDatagram { to, bytes: answer });
        } else {
            self.stats.unanswered += 1;
        }
    }

    /// Somebody says that another service of the cluster is there.
    fn hear_of(&mut self, header: &Header, content: &[u8]) {
        let Some(own) = self.header else { return };
        let address = place(header, content);
        if let Some(address) = address.filter(|_| header.origin.node != own.origin.node) {
            let now = Instant::now();
            self.rivals.hear_of(now, own.origin.node, address);
            self.go_on(now);
        }
    }

    /// Goes on with handshakes, and with what has come of them.
    fn go_on(&mut self, now: Instant) {
        // First, so that nobody hears of its session before it has it.
        if let Some(header) = &self.header {
            while let Some((to, frame)) = self.server.poll_transmit() {
                let bytes = admission(header, AdmissionStage::Handshake, &frame);
                self.own.push_back(OwnDatagram { to, bytes });
            }
            self.stats.rivals += self.rivals.go_on(now, header, &mut self.own);
        }
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Admitted { from, session } => {
                    let secrets = session.secrets;
                    self.let_in(now, from, &secrets, session.grant);
                }
                Event::Refused { from, refused, .. } => {
                    let reason = refused.reason;
                    self.tell(GateNews::Refused { from, reason });
                }
                _ => {}
            }
        }
        while let Some(node) = self.server.admission().take_replaced() {
            let reason = "another node came with its key".to_owned();
            self.forget(now, node, Leaving::Crashed);
            self.link.news.push(GateNews::Expelled { node, reason });
        }
        self.issue(now);
    }

    fn tell(&mut self, news: GateNews) {
        if self.link.news.len() < NEWS_MAX {
            self.link.news.push(news);
        } else if !matches!(news, GateNews::Counted(_)) {
            self.stats.news_dropped += 1;
        }
    }

    /// A node has shown its token and was let in.
    fn let_in(&mut self, now: Instant, from: SocketAddr, secrets: &Secrets, guest: Guest) {
        let (node, observes, resumes) = (guest.node, guest.observes, guest.resumes);
        let again = !observes && self.peers.key_of(node).is_some();
        let rights: Arc<dyn Rights> = Arc::new(guest.clone());
        let added = self.peers.add(Peer {
            guest,
            session: Session::new(now, from, &secrets.to_client, &secrets.to_server),
            keyed: false,
            list: ListWords::default(),
            leaves_at: None,
        });
        let Some(key) = added else { return };
        if observes {
            return self.greet(key);
        }
        self.link.news.push(GateNews::Admitted { node, rights });
        if again {
            // It may lack orders of its former session.
            self.depart(now, node, Leaving::Left);
        }
        if resumes && matches!(self.gathers, Gathers::Until(_)) {
            self.gathers = Gathers::Others(now + GATHER_OTHERS);
        }
        match self.gathers {
            Gathers::Done => self.join(now, node),
            _ => self.waiting.push(node),
        }
    }

    /// Says where the service is to a node that may speak to it.
    fn greet(&mut self, key: u32) {
        if let Some(peer) = self.peers.get_mut(key)
            && !self.beacon.is_empty()
        {
            peer.session.send(&self.beacon, &mut self.own);
        }
    }

    /// A member is to have the key of an epoch to come. Without random numbers that is tried again with the next tick.
    fn join(&mut self, now: Instant, node: NodeId) {
        let elapsed = self.elapsed(now);
        self.issuer.join(elapsed, node).ok();
    }

    /// A member is none any more; its session may go on.
    fn depart(&mut self, now: Instant, node: NodeId, why: Leaving) {
        self.waiting.retain(|other| *other != node);
        let elapsed = self.elapsed(now);
        self.issuer.leave(elapsed, node, why).ok();
    }

    /// A node is no member any more, and its session is over.
    fn forget(&mut self, now: Instant, node: NodeId, why: Leaving) {
        self.depart(now, node, why);
        if let Some(key) = self.peers.key_of(node) {
            self.end(key);
        }
    }

    fn end(&mut self, key: u32) {
        self.talking.remove(&key);
        if let Some(peer) = self.peers.remove(key)
            && !peer.guest.observes
        {
            let node = peer.guest.node;
            self.server.admission().leave(&peer.guest.key, node);
            self.link.news.push(GateNews::Ended { node });
        }
    }

    /// Tells a peer that its session is over, once: who does not hear it finds out by a handshake.
    fn say_over(&mut self, now: Instant, node: NodeId, over: &Over) {
        let Some(header) = self.header else { return };
        if let Some(peer) = self.peers.of_node(node) {
            peer.session.words.say(over.encode());
            peer.session.speak(now, &header, &mut self.own);
        }
    }

    fn expel(&mut self, now: Instant, node: NodeId, reason: String) {
        self.stats.expelled += 1;
        self.say_over(now, node, &Over::Expelled(reason.clone()));
        self.forget(now, node, Leaving::Expelled);
        self.link.news.push(GateNews::Expelled { node, reason });
    }

    /// Orders keys as the issuer says.
    fn issue(&mut self, now: Instant) {
        let elapsed = self.elapsed(now);
        self.issuer.tick(elapsed).ok();
        let mut ordered = BTreeSet::new();
        while let Some(Told { node, order }) = self.issuer.poll_order() {
            ordered.extend(self.order(now, node, &order));
        }
        while self.issuer.poll_silent().is_some() {
            self.stats.silent += 1;
        }
        let newcomers = core::mem::take(&mut self.newcomers);
        ordered.append(&mut self.peers.introduce(&newcomers));
        // The first one has no members.
        self.stats.epochs = self.issuer.active().0 - 1;
        self.speak(now, &ordered);
        self.talking.extend(ordered);
        self.count();
    }

    /// Queues an order for a node. Returns the key of its session.
    fn order(&mut self, now: Instant, node: NodeId, order: &EpochOrder) -> Option<u32> {
        let key = self.peers.key_of(node)?;
        let peer = self.peers.get_mut(key)?;
        if !peer.session.words.say(order.encode()) {
            // It does not answer: it is to begin anew.
            self.forget(now, node, Leaving::Crashed);
            return None;
        }
        if matches!(order, EpochOrder::Activate { .. }) && !peer.keyed {
            peer.keyed = true;
            self.newcomers.insert(key);
            if let Some(list) = &self.list {
                peer.list.begin(Arc::clone(list));
            }
            self.greet(key);
        }
        Some(key)
    }

    /// Says what is to be said in these sessions.
    fn speak(&mut self, now: Instant, keys: &BTreeSet<u32>) {
        let Some(header) = self.header else { return };
        for key in keys {
            if let Some(peer) = self.peers.get_mut(*key) {
                self.stats.list_parts += u64::from(peer.go_on_with_list());
                peer.session.speak(now, &header, &mut self.own);
            }
        }
    }

    /// Repeats what has no receipt.
    fn repeat(&mut self, now: Instant) {
        self.repeat_at = now + REPEAT;
        let keys = core::mem::take(&mut self.talking);
        self.speak(now, &keys);
        let peers = &mut self.peers;
        let talks = keys.into_iter().filter(|key| {
            let peer = peers.get_mut(*key);
            peer.is_some_and(|peer| peer.session.words.due().is_some())
        });
        self.talking.extend(talks);
    }

    fn count(&mut self) {
        let counted = self.server.counters();
        self.stats = AdmissionStats {
            begun: counted.begun,
            admitted: counted.admitted,
            refused: counted.refused,
            broken: counted.broken,
            expired: counted.expired,
            denied: counted.denied,
            sessions: self.peers.len() as u64,
            ..self.stats
        };
        if self.stats != self.told && self.link.news.len() < NEWS_MAX {
            self.told = self.stats;
            self.tell(GateNews::Counted(self.stats));
        }
    }

    fn open_session(
        &mut self,
        from: SocketAddr,
        key: u32,
        datagram: &mut [u8],
    ) -> Result<Opened, Refusal> {
        let Some(peer) = self.peers.get_mut(key) else {
            if Way::of(datagram) == Way::Service {
                // Of a session with a former run, perhaps.
                self.answer(from, datagram.len());
            }
            return Err(Refusal::Unkeyed);
        };
        let maker = origin_of(datagram).ok_or(Refusal::Forged)?;
        if maker.node != peer.guest.node {
            return Err(Refusal::Forged);
        }
        let now = Instant::now();
        let length = peer.session.open(now, datagram)?;
        let (node, guest_key) = (peer.guest.node, peer.guest.key);
        let (observes, may_speak) = (peer.guest.observes, peer.may_speak());
        if peer.session.address != from {
            self.peers.relocate(key, from);
        }
        if !observes {
            self.server.admission().heard(now, &guest_key);
        }
        match (Way::of(datagram), Kind::peek(datagram)) {
            (Way::Admission, _) => {
                self.take_word(now, key, node, &datagram[..length]);
                Ok(Opened::Own)
            }
            (Way::Service, Some(Kind::ListQuery | Kind::GroupQuery)) if may_speak => {
                Ok(Opened::Datagram(length))
            }
            (Way::Service, _) if may_speak && !observes => Ok(Opened::Datagram(length)),
            // It has no key yet; it says so again.
            (Way::Service, _) if !observes => Ok(Opened::Own),
            _ => Err(Refusal::Forged),
        }
    }

    fn take_word(&mut self, now: Instant, key: u32, node: NodeId, packet: &[u8]) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let Some((_, frame)) = read(packet) else {
            return;
        };
        let word = peer.session.words.take(frame.content);
        let receipt = word.and_then(EpochReceipt::decode);
        let who = word.and_then(Who::decode);
        if let Some(receipt) = receipt {
            let elapsed = self.elapsed(now);
            self.issuer.take(elapsed, node, receipt).ok();
        }
        if let Some(Who(other)) = who {
            self.introduce(key, other);
        }
        self.speak(now, &BTreeSet::from([key]));
        self.issue(now);
    }

    /// Tells a member who another one is. Of who is not in nothing is told; it is asked for again.
    fn introduce(&mut self, key: u32, node: NodeId) {
        let told = self
            .peers
            .of_node(node)
            .and_then(|peer| peer.introduction());
        if let Some(told) = told
            && let Some(peer) = self.peers.get_mut(key)
            && !peer.guest.observes
        {
            let word = introduction::encode(&[told]);
            // Who takes none of its words begins anew by the issuer's.
            if peer.session.words.say(Zeroizing::new(word)) {
                self.talking.insert(key);
            }
        }
    }

    /// Looks who may not stay.
    fn look(&mut self, now: Instant) {
        self.look_at = now + LOOK;
        self.hints = 0;
        for outcast in self.server.admission().outcasts() {
            self.expel(now, outcast.node, outcast.reason);
        }
        let over = self.peers.keys_where(|peer| {
            let quiet = match peer.guest.observes {
                true => QUIET_OBSERVER,
                false => QUIET_MAX,
            };
            let left = peer.leaves_at.is_some_and(|at| at <= now);
            left || now >= peer.session.heard_at + quiet
        });
        for key in over {
            let guest = self.peers.get_mut(key).map(|peer| peer.guest.clone());
            if let Some(guest) = guest.filter(|guest| !guest.observes) {
                self.depart(now, guest.node, Leaving::Crashed);
            }
            self.end(key);
        }
    }

    fn obey(&mut self, now: Instant, order: GateOrder) {
        match order {
            GateOrder::Gone { node, how } => match how {
                Leaves::Orderly => {
                    self.depart(now, node, Leaving::Left);
                    if let Some(peer) = self.peers.of_node(node) {
                        peer.leaves_at = Some(now + LINGER);
                        let guest = &peer.guest;
                        self.server.admission().leave(&guest.key, guest.node);
                    }
                }
                Leaves::Lost => {
                    self.say_over(now, node, &Over::Again);
                    self.forget(now, node, Leaving::Crashed);
                }
            },
            GateOrder::Revoke(list) => {
                if let Err(error) = self.revoke(now, list) {
                    let reason = error.to_string();
                    self.tell(GateNews::ListRefused { reason });
                }
                self.look_at = now;
            }
            GateOrder::Trust(anchors) => {
                self.server.admission().trust(&anchors);
                self.rivals.trust(anchors);
                self.look_at = now;
            }
        }
    }

    /// Takes a list of revocations, and tells members of it: they judge services by it (R-SEC-12).
    fn revoke(&mut self, now: Instant, list: Revocations) -> Result<(), RevocationError> {
        if !self.server.admission().update(list.clone())? {
            return Ok(());
        }
        let list = Arc::new(list);
        self.rivals.learn(Arc::clone(&list))?;
        let members = self.peers.keys_where(|peer| peer.keyed);
        for key in &members {
            if let Some(peer) = self.peers.get_mut(*key) {
                peer.list.begin(Arc::clone(&list));
            }
        }
        self.list = Some(list);
        let members = BTreeSet::from_iter(members);
        self.speak(now, &members);
        self.talking.extend(members);
        Ok(())
    }
}

impl core::fmt::Debug for Gate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Gate")
            .field("server", &self.server)
            .field("active", &self.issuer.active())
            .field("peers", &self.peers.len())
            .finish_non_exhaustive()
    }
}

impl Guard for Gate {
    fn growth(&self, to: SocketAddr, datagram: &[u8]) -> usize {
        match Kind::peek(datagram) {
            Some(Kind::Beacon) if self.peers.key_at(to).is_none() => HERE_GROWTH,
            _ => Sealer::growth(datagram),
        }
    }

    fn seal(&mut self, to: SocketAddr, datagram: &[u8], sealed: &mut Vec<u8>) -> bool {
        let Some(origin) = origin_of(datagram) else {
            return false;
        };
        let header = Header {
            cluster: self.cluster,
            origin,
            ..Header::default()
        };
        self.header = Some(header);
        let key = self.peers.key_at(to);
        match (Way::of(datagram), Kind::peek(datagram)) {
            (Way::Announcement, Some(Kind::Beacon)) => {
                self.beacon = datagram.to_vec();
                if key.is_none() {
                    sealed.extend_from_slice(&here(&header, datagram));
                    return true;
                }
            }
            (Way::Service, _) => {}
            _ => return false,
        }
        let peer = key.and_then(|key| self.peers.get_mut(key));
        peer.is_some_and(|peer| peer.session.seal(datagram, sealed))
    }

    fn open(&mut self, from: SocketAddr, datagram: &mut [u8]) -> Result<Opened, Refusal> {
        if cluster_of(datagram).is_some_and(|cluster| cluster != self.cluster) {
            return Err(Refusal::OtherCluster);
        }
        match sealed_by(datagram) {
            None => self.open_plain(from, datagram),
            Some(key) => match self.rivals.open(Instant::now(), KeyId(key), datagram) {
                Some(opened) => opened,
                None => self.open_session(from, key, datagram),
            },
        }
    }

    fn poll_transmit(&mut self) -> Option<OwnDatagram> {
        self.own.pop_front()
    }

    fn due(&self) -> Option<Instant> {
        if !self.link.orders.is_empty() {
            return Some(self.started);
        }
        let gathered = self.gathers.ends();
        let handshakes = self.server.next_tick().map(|at| self.started + at);
        let epochs = self.issuer.next_tick().map(|at| self.started + at);
        let talks = !self.talking.is_empty();
        let others = [
            Some(self.look_at),
            gathered,
            talks.then_some(self.repeat_at),
        ];
        let others = others.into_iter().flatten();
        let rivals = self.rivals.due();
        others.chain(handshakes).chain(epochs).chain(rivals).min()
    }

    fn tick(&mut self, now: Instant) {
        while let Some(order) = self.link.orders.pop() {
            self.obey(now, order);
        }
        let moment = self.moment(now);
        self.server.tick(moment);
        self.rivals.tick(now);
        if self.gathers.ends().is_some_and(|at| at <= now) {
            self.gathers = Gathers::Done;
            for node in core::mem::take(&mut self.waiting) {
                self.join(now, node);
            }
        }
        if now >= self.look_at {
            self.look(now);
        }
        if now >= self.repeat_at {
            self.repeat(now);
        }
        self.go_on(now);
    }
}
