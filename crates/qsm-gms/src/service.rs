mod admission;
mod allowance;
mod arrivals;
mod batches;
mod classes;
mod deafness;
mod decisions;
mod descriptions;
mod detector;
mod enquiries;
mod expulsion;
mod foreign;
mod heartbeats;
mod hold;
mod lists;
mod planning;
mod profiles;
mod requests;
mod rights;
mod rivals;
mod schedule;
mod sessions;
mod strains;
mod suspicions;
mod timers;
mod traffic;
mod updates;

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_proto::{DamageLog, Instant, Outbox, Random, Seed, Transmit};
use qsm_wire::membership::{GroupRow, NodeRow, RegionRow, RepairLimit};
use qsm_wire::{Beacon, Header, HeaderTemplate, Incarnation, NodeId, Origin};

use self::allowance::Allowance;
use self::deafness::Deafness;
use self::descriptions::Descriptions;
use self::detector::Detector;
use self::foreign::Foreign;
use self::hold::Hold;
use self::lists::Lists;
use self::planning::Planning;
use self::profiles::Profiles;
pub use self::rights::Rights;
use self::rights::RightsTable;
use self::sessions::SessionTable;
use self::strains::Strains;
use self::suspicions::Suspicions;
use self::traffic::Traffic;
use crate::plan::{AddressPlan, SignatureKey};
use crate::registry::{Command, Registry};
use crate::{ServiceConfig, ServiceConfigError, ServiceEvent, ServiceStats};

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
    Yielded {
        to: SocketAddr,
        /// Its last beacon.
        farewell: Beacon,
    },
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
    suspicions: Suspicions,
    deafness: Deafness,
    foreign: Foreign,
    damage: DamageLog,
    strains: Strains,
    profiles: Profiles,
    descriptions: Descriptions,
    rights: RightsTable,
    traffic: Traffic,
    /// Nodes that were shut out for being slow, and have not come back.
    slow_expelled: BTreeSet<NodeId>,
    planning: Planning,
    /// For those who only look.
    lists: Lists,
    accounts: Allowance,
    started: Instant,
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
        let mut service = Self {
            header,
            phase: Phase::Holding(Hold::default()),
            registry: Registry::new(
                config.limits,
                config.drain_max,
                config.gone_after,
                AddressPlan::new(config.plan, config.cluster_number(), &[config.discovery]),
                SignatureKey::new(&mut Random::new(seed, "signatures")),
                Arc::new(config.hints.clone()),
            ),
            clients: SessionTable::new(header, config.datagram_bytes, config.limits.nodes),
            detector: Detector::new(&config, Random::new(seed, "probes")),
            suspicions: Suspicions::default(),
            deafness: Deafness::default(),
            foreign: Foreign::default(),
            damage: DamageLog::default(),
            strains: Strains::default(),
            profiles: Profiles::default(),
            descriptions: Descriptions::default(),
            rights: RightsTable::new(config.rights_needed),
            traffic: Traffic::default(),
            slow_expelled: BTreeSet::new(),
            planning: Planning::new(&config, Random::new(seed, "plans")),
            lists: Lists::default(),
            accounts: Allowance::of_accounts(),
            started: now,
            eras: Random::new(seed, "eras"),
            batched_at: None,
            beacon_at: now,
            beaconed: now,
            rivals: BTreeSet::new(),
            foreign_nodes: BTreeSet::new(),
            outbox: Outbox::new(),
            events: VecDeque::new(),
            stats: ServiceStats {
                plan_packet_ns: config.plan_costs.packet.into(),
                plan_unwanted_ns: config.plan_costs.unwanted.into(),
                ..ServiceStats::default()
            },
            config,
            now,
        };
        let first = service.config.repair_limit;
        service.registry.begin_with_repair_limit(first);
        Ok(service)
    }

    /// Limits what each node sends again, from the next batch on: all nodes are told, and each that comes
    /// (R-NAK-16). A service that takes over, or begins again, hears of it from the nodes.
    pub fn limit_repairs(&mut self, now: Instant, limit: RepairLimit) {
        let now = self.advance(now);
        self.command(now, Command::LimitRepairs(limit));
    }

    /// The limit of what each node sends again.
    #[must_use]
    pub fn repair_limit(&self) -> RepairLimit {
        self.registry.repair_limit()
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
            nodes: self.node_rows(),
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
