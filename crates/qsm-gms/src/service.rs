mod admission;
mod detector;
mod hold;
mod sessions;
mod timers;
mod updates;

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use qsm_proto::{Destination, Instant, Outbox, Random, Reason, Seed, Transmit};
use qsm_wire::membership::{FromService, GroupRow, NodeRow, QueryKind};
use qsm_wire::membership::{RegionRow, ToService};
use qsm_wire::{
    Beacon, Body, DecodeError, Header, HeaderTemplate, Incarnation, Kind, NodeId, Origin, Packet,
    Probe, Reset,
};

use self::detector::{Detector, Verdict};
use self::hold::Hold;
use self::sessions::{SessionError, SessionTable, Standing};
use crate::plan::{AddressPlan, SignatureKey};
use crate::registry::{Command, EndCause, Registry};
use crate::{ServiceConfig, ServiceConfigError, ServiceEvent, ServiceStats};

/// How often the service announces itself.
const BEACON_INTERVAL: Duration = Duration::from_secs(1);
/// How soon after a beacon to all the next one follows when somebody asks: those who heard the
/// question do not ask themselves (R-MEM-10).
const BEACON_AGAIN: Duration = Duration::from_millis(50);
/// How long a session may take to say hello.
const GREETING_MAX: Duration = Duration::from_secs(10);
/// Events kept for the runtime; the oldest are dropped.
const EVENTS_MAX: usize = 4096;

/// What the service is doing.
#[derive(Debug)]
enum Phase {
    /// Collecting hellos before the first batch.
    Holding(Hold),
    /// Serving.
    Open,
    /// Yielded to a better service.
    Yielded { to: SocketAddr },
}

/// The membership service as a pure state machine; the module page tells what it does.
#[derive(Debug)]
pub struct Service {
    config: ServiceConfig,
    header: Header,
    phase: Phase,
    registry: Registry,
    clients: SessionTable,
    detector: Detector,
    /// Where a cluster begins to count its lives, if nobody remembers.
    eras: Random,
    batched_at: Option<Instant>,
    beacon_at: Instant,
    /// When all have been sent a beacon last.
    beaconed: Instant,
    /// Services a conflict with which has been reported.
    rivals: BTreeSet<NodeId>,
    /// Nodes of the other family that have been reported.
    foreign_nodes: BTreeSet<NodeId>,
    outbox: Outbox,
    events: VecDeque<ServiceEvent>,
    stats: ServiceStats,
    now: Instant,
}

impl Service {
    /// A service that knows nothing yet.
    ///
    /// # Errors
    /// When the configuration cannot work.
    pub fn new(
        config: ServiceConfig,
        seed: Seed,
        now: Instant,
    ) -> Result<Self, ServiceConfigError> {
        config.check()?;
        // Not counted: a service that starts remembers nothing (R-MEM-3).
        let run = Random::new(seed, "run").bits() & u64::from(u32::MAX);
        let header = HeaderTemplate::new(config.cluster_number()).header(Origin {
            node: config.node,
            incarnation: Incarnation(u32::try_from(run).unwrap_or(0)),
        });
        Ok(Self {
            header,
            phase: Phase::Holding(Hold::default()),
            registry: Registry::new(
                config.limits,
                config.drain_max,
                AddressPlan::new(config.plan, config.cluster_number(), &[config.discovery]),
                SignatureKey::new(&mut Random::new(seed, "signatures")),
            ),
            clients: SessionTable::new(header, config.datagram_bytes, config.limits.nodes),
            detector: Detector::new(&config, Random::new(seed, "probes")),
            eras: Random::new(seed, "eras"),
            batched_at: None,
            beacon_at: now,
            beaconed: now,
            rivals: BTreeSet::new(),
            foreign_nodes: BTreeSet::new(),
            outbox: Outbox::new(),
            events: VecDeque::new(),
            stats: ServiceStats::default(),
            config,
            now,
        })
    }

    /// Takes a datagram.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        let now = self.advance(now);
        let packet = match Packet::open(datagram) {
            Ok(packet) => packet,
            Err(DecodeError::Damaged) => return self.stats.discard_damaged += 1,
            Err(_) => return self.stats.discard_malformed += 1,
        };
        if packet.header.cluster != self.header.cluster {
            self.stats.discard_cluster += 1;
            return;
        }
        let origin = packet.header.origin;
        let node = origin.node;
        match packet.body {
            Body::Session(frame) => {
                let result = self.clients.handle_frame(now, node, from, &frame);
                self.after_session(now, node, from, frame.head.session, result);
            }
            Body::SessionAck(heard) => {
                let outbox = &mut self.outbox;
                let result = self.clients.handle_heard(now, node, from, heard, outbox);
                self.after_session(now, node, from, heard.session, result);
            }
            Body::ProbeReply(probe) => {
                if probe.subject == origin && self.registry.origin(node) == Some(origin) {
                    self.detector.answered(now, node, probe.nonce);
                }
            }
            Body::Solicit => {
                self.announce(Destination::Node(from));
                self.beacon_at = self.beacon_at.min(self.beaconed.after(BEACON_AGAIN));
            }
            Body::Beacon(beacon) if node != self.config.node => self.meet(node, beacon),
            Body::Beacon(_) => {}
            _ => self.stats.discard_kind += 1,
        }
        self.step(now);
    }

    /// Does what is due; harmless when nothing is.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        self.step(now);
    }

    /// When [`Service::handle_timeout`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let serving = matches!(self.phase, Phase::Open);
        let hold = match &self.phase {
            Phase::Holding(hold) => hold.until(),
            _ => None,
        };
        let yielded = matches!(self.phase, Phase::Yielded { .. });
        [
            hold,
            self.clients.next_timeout(),
            (!yielded).then_some(self.beacon_at),
            self.detector.next_timeout().filter(|_| serving),
            self.registry.next_timeout().filter(|_| serving),
            self.batch_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next datagram to send, until there is none.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit<'_>> {
        let now = self.advance(now);
        if self.outbox.is_empty() {
            self.clients.transmit(now, &mut self.outbox);
        }
        self.outbox.pop()
    }

    /// The next event, until there is none.
    pub fn poll_event(&mut self) -> Option<ServiceEvent> {
        self.events.pop_front()
    }

    /// Counters of the service, its registry and its sessions.
    #[must_use]
    pub fn stats(&self) -> ServiceStats {
        let mut stats = self.stats;
        stats += self.registry.stats;
        stats.message_bytes += self.clients.message_bytes;
        stats
    }

    /// How many nodes, groups, regions and multicast addresses there are.
    #[must_use]
    pub fn counts(&self) -> [usize; 4] {
        self.registry.counts()
    }

    /// The lists that `qsm nodes`, `qsm groups` and `qsm regions` show.
    #[must_use]
    pub fn rows(&self) -> Rows {
        Rows {
            nodes: self.registry.node_rows(),
            groups: self.registry.group_rows(),
            regions: self.registry.region_rows(),
        }
    }

    /// The term it serves in; 0 while it waits for reports.
    #[must_use]
    pub fn term(&self) -> u64 {
        match self.phase {
            Phase::Open => self.registry.term(),
            _ => 0,
        }
    }

    /// Whether it has yielded to another service.
    #[must_use]
    pub fn has_yielded(&self) -> bool {
        matches!(self.phase, Phase::Yielded { .. })
    }

    /// Sessions that are open.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.clients.len()
    }

    /// Frames of open sessions that were sent more than once.
    #[must_use]
    pub fn retransmitted(&self) -> u64 {
        self.clients.retransmitted()
    }

    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    fn event(&mut self, event: ServiceEvent) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Everything that is due, in one place.
    fn step(&mut self, now: Instant) {
        if let Phase::Holding(hold) = &self.phase
            && hold.until().is_some_and(|at| at <= now)
        {
            self.open(now);
        }
        if matches!(self.phase, Phase::Open) {
            if self.registry.next_timeout().is_some_and(|at| at <= now) {
                self.command(now, Command::ExpireDrains);
            }
            while let Some(verdict) = self.detector.poll(now) {
                self.judge(now, verdict);
            }
            if self.batch_at().is_some_and(|at| at <= now) {
                self.command(now, Command::Batch);
            }
        }
        if self.beacon_at <= now && !self.has_yielded() {
            self.beaconed = now;
            self.beacon_at = now.after(BEACON_INTERVAL);
            self.announce(Destination::Group(self.config.discovery));
            self.drop_silent_greetings(now);
        }
        self.clients.transmit(now, &mut self.outbox);
    }

    /// A lone change is applied at once, a burst at the maximum rate (R040).
    fn batch_at(&self) -> Option<Instant> {
        let due = matches!(self.phase, Phase::Open) && self.registry.has_changes();
        let interval = self.config.batch_interval;
        due.then(|| self.batched_at.map_or(self.now, |at| at.after(interval)))
    }

    fn announce(&mut self, to: Destination) {
        if self.has_yielded() {
            return;
        }
        let beacon = self.beacon();
        let header = self.header;
        self.outbox.push(Reason::Membership, to, |out| {
            beacon.encode(&header, out);
        });
    }

    fn beacon(&self) -> Beacon {
        Beacon {
            address: self.config.address,
            second: self.config.second,
            term: self.term(),
            embedded: self.config.embedded,
        }
    }

    /// Another service of this cluster: the lesser one yields if it is embedded (R-MEM-7).
    fn meet(&mut self, node: NodeId, beacon: Beacon) {
        let rank =
            |beacon: &Beacon, node| (!beacon.embedded, beacon.term, core::cmp::Reverse(node));
        let other = rank(&beacon, node);
        let own = rank(&self.beacon(), self.config.node);
        if self.has_yielded() {
            return;
        }
        if !self.config.embedded {
            if self.rivals.len() < EVENTS_MAX && !beacon.embedded && self.rivals.insert(node) {
                let address = beacon.address;
                self.event(ServiceEvent::Conflict { node, address });
            }
            return;
        }
        if other > own {
            let to = beacon.address;
            self.phase = Phase::Yielded { to };
            for node in self.clients.nodes() {
                self.tell(node, &FromService::Redirect { address: to });
            }
            self.event(ServiceEvent::Yielded { to });
        }
    }

    fn after_session(
        &mut self,
        now: Instant,
        node: NodeId,
        from: SocketAddr,
        session: u64,
        result: Result<(), SessionError>,
    ) {
        match result {
            Ok(()) => {}
            Err(SessionError::Ignore) => return,
            Err(SessionError::Full) => {
                self.stats.discard_nodes += 1;
                return;
            }
            Err(SessionError::Reset) => {
                self.stats.resets_sent += 1;
                let header = self.header;
                self.outbox
                    .push(Reason::Membership, Destination::Node(from), |out| {
                        Reset { session }.encode(&header, out);
                    });
                return;
            }
        }
        self.detector.heard(now, node);
        if let Some(batch) = self.clients.poll_confirmed(node) {
            self.command(now, Command::Confirm { node, batch });
        }
        while let Some(bytes) = self.clients.poll_message(node) {
            match ToService::decode(&bytes) {
                Ok(message) => self.take_message(now, node, message),
                Err(_) => self.stats.discard_message += 1,
            }
        }
        if self.clients.is_broken(node) {
            self.stats.sessions_broken += 1;
            self.clients.close(node, &mut self.outbox);
        }
    }

    fn take_message(&mut self, now: Instant, node: NodeId, message: ToService) {
        if let Phase::Yielded { to } = self.phase {
            self.tell(node, &FromService::Redirect { address: to });
            return;
        }
        let admitted = self.clients.standing(node) == Some(Standing::Admitted);
        match message {
            ToService::Hello(hello) if !admitted => self.take_hello(now, node, hello),
            ToService::Goodbye => self.take_goodbye(now, node),
            _ if !admitted => self.stats.discard_message += 1,
            ToService::Enter {
                request,
                role,
                names,
            } => {
                let command = Command::Enter {
                    node,
                    request,
                    role,
                    names,
                };
                self.command(now, command);
            }
            ToService::Exit {
                request,
                role,
                names,
            } => {
                let command = Command::Exit {
                    node,
                    request,
                    role,
                    names,
                };
                self.command(now, command);
            }
            ToService::Drained { region, view } => {
                self.command(now, Command::Drained { node, region, view });
            }
            ToService::Suspect { member } => {
                if self.registry.origin(member.node) == Some(member) {
                    self.detector.suspect(now, member.node);
                }
            }
            ToService::Query { request, kind } => self.answer(node, request, kind),
            _ => self.stats.discard_message += 1,
        }
    }

    fn answer(&mut self, node: NodeId, request: u32, kind: QueryKind) {
        let answer = match kind {
            QueryKind::Nodes => FromService::Nodes {
                request,
                rows: self.registry.node_rows(),
            },
            QueryKind::Groups => FromService::Groups {
                request,
                rows: self.registry.group_rows(),
            },
            QueryKind::Regions => FromService::Regions {
                request,
                rows: self.registry.region_rows(),
            },
        };
        if SessionTable::fits(&answer) {
            self.tell(node, &answer);
        } else {
            let reason = "the list is longer than one message; ask the service's own page for it";
            self.refuse(node, Some(request), reason.to_owned());
        }
    }

    fn take_goodbye(&mut self, now: Instant, node: NodeId) {
        if let Phase::Holding(hold) = &mut self.phase {
            hold.forget(node);
        }
        self.detector.forget(node);
        self.clients.close(node, &mut self.outbox);
        let cause = EndCause::Goodbye;
        self.command(now, Command::End { node, cause });
    }

    fn judge(&mut self, now: Instant, verdict: Verdict) {
        match verdict {
            Verdict::Probe { node, nonce } => {
                let (Some(subject), Some(to)) =
                    (self.registry.origin(node), self.registry.address(node))
                else {
                    return;
                };
                self.stats.probes_sent += 1;
                let header = self.header;
                self.outbox
                    .push(Reason::Membership, Destination::Node(to), |out| {
                        Probe { subject, nonce }.encode(&header, Kind::Probe, out);
                    });
            }
            Verdict::Dead { node } => {
                self.clients.close(node, &mut self.outbox);
                let cause = EndCause::Silence;
                self.command(now, Command::End { node, cause });
            }
        }
    }

    /// Sessions without a hello do not stay for ever.
    fn drop_silent_greetings(&mut self, now: Instant) {
        for node in self.clients.nodes() {
            let waiting = match self.clients.standing(node) {
                Some(Standing::Greeting) => true,
                Some(Standing::Held) => matches!(self.phase, Phase::Holding(_)),
                _ => false,
            };
            let heard = self.clients.heard_at(node).unwrap_or(now);
            if waiting && now >= heard.after(GREETING_MAX) {
                self.clients.close(node, &mut self.outbox);
                if let Phase::Holding(hold) = &mut self.phase {
                    hold.forget(node);
                }
            }
        }
    }
}

/// Everything a service knows, in the form of the lists of queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// By node id.
    pub nodes: Vec<NodeRow>,
    /// By group number.
    pub groups: Vec<GroupRow>,
    /// By region number.
    pub regions: Vec<RegionRow>,
}
