//! The membership service as a thread of its own, with its own sockets: a node's core is not
//! delayed by it, and the same code serves `qsm gms` and embedding.

use core::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_queue::SegQueue;
use qsm_admin::{AdminSocket, Answer, Question, RepairLimitState, ServiceState};
use qsm_gms::{Costs, ServiceConfig, ServiceEvent, ServiceHints, ServiceStats};
use qsm_metrics::Object;
use qsm_metrics::prometheus::Page;
use qsm_net::{Affinity, Family, IoReport, PortCounters, Ports, Waker};
use qsm_proto::{Seed, Transmit};
use qsm_wire::NodeId;
use qsm_wire::membership::{GroupRow, NodeRow, RegionRow, RepairLimit};

use crate::admission::{AdmissionStats, GateNews, Leaves};
use crate::error::{CloseReason, RecvError, RequestError, StartError};
use crate::handoff::aside::Item;
use crate::handoff::inbox::Inbox;
use crate::handoff::message::{Capacity, Overflow};
use crate::runtime::clock::Clock;
use crate::runtime::network::{ChannelOptions, NetworkOptions};
use crate::runtime::protection::Protection;
use crate::runtime::random::random;
use crate::runtime::settings::check_name;
use crate::runtime::transmit::{Poll, Transmitter};
use crate::snapshot::write_part;
use crate::stats::ClusterStats;

impl Item for ServiceEvent {}

/// Events that wait to be read; beyond that the oldest are dropped.
pub(crate) const SERVICE_EVENTS: usize = 4096;
/// Time that an answer of the service's thread may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a service that has yielded still shows its nodes the way.
const YIELD_LINGER: Duration = Duration::from_secs(1);
/// Pause before an interface without an address is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Datagrams in one turn, as in a node.
const DATAGRAMS_PER_TURN: usize = 4096;

/// What a membership service knows and has done, at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServiceSnapshot {
    /// Its cluster.
    pub cluster: String,
    /// What it has done.
    pub stats: ServiceStats,
    /// Whom it has admitted, where nodes need tokens.
    pub admission: AdmissionStats,
    /// What its sockets did.
    pub port: PortCounters,
    /// What its sockets are.
    pub io: IoReport,
    /// The nodes of the cluster.
    pub nodes: Vec<NodeRow>,
    /// The groups.
    pub groups: Vec<GroupRow>,
    /// The regions.
    pub regions: Vec<RegionRow>,
    /// The limit of what each node sends again.
    pub repair_limit: RepairLimit,
}

impl ServiceSnapshot {
    /// Size of the cluster.
    #[must_use]
    pub fn size(&self) -> ClusterStats {
        ClusterStats::new(&self.nodes, &self.groups, &self.regions)
    }

    /// Its counters, and those of its sockets, as one JSON object without line breaks.
    #[must_use]
    pub fn to_json(&self) -> String {
        Object::new()
            .metrics("cluster", &self.size())
            .metrics("service", &self.stats)
            .metrics("admission", &self.admission)
            .metrics("port", &self.port)
            .to_string()
    }

    /// The same as text that Prometheus reads.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        self.page().to_string()
    }

    /// The same in the format of OpenMetrics 1.0.
    #[must_use]
    pub fn to_open_metrics(&self) -> String {
        self.page().to_open_metrics()
    }

    /// Adds its metrics to a page, each with these labels beside the cluster.
    ///
    /// # Panics
    /// As [`Page::add`].
    pub fn add_to(&self, page: &mut Page, labels: &[(&str, &str)]) {
        let mut all = vec![("cluster", &*self.cluster)];
        all.extend(labels);
        page.add(&self.size(), &all);
        page.add(&self.stats, &all);
        page.add(&self.admission, &all);
        // Nodes have sockets too.
        page.add_as("service_port", &self.port, &all);
    }

    fn page(&self) -> Page {
        let mut page = Page::new();
        self.add_to(&mut page, &[]);
        page
    }
}

/// One line for each fact, for people; metrics that are not zero.
impl fmt::Display for ServiceSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.io)?;
        write_part(f, "cluster", &self.size())?;
        write_part(f, "service", &self.stats)?;
        write_part(f, "admission", &self.admission)?;
        write_part(f, "port", &self.port)
    }
}

/// Settings of a membership service.
pub(crate) struct ServiceSettings {
    pub(crate) cluster: String,
    pub(crate) network: NetworkOptions,
    pub(crate) channels: ChannelOptions,
    pub(crate) embedded: bool,
    pub(crate) batch_interval: Option<Duration>,
    pub(crate) gone_after: Option<Duration>,
    pub(crate) slow_after: Option<Duration>,
    pub(crate) plan_every: Option<Duration>,
    pub(crate) plan_unwanted_ppm: u32,
    pub(crate) plan_common: Option<u32>,
    pub(crate) plan_costs: Costs,
    pub(crate) hints: ServiceHints,
    pub(crate) repair_limit: RepairLimit,
    /// Operators of this host may ask it.
    pub(crate) admin: bool,
    /// File of the list of revocations, where nodes are admitted by tokens.
    pub(crate) revoked: Option<PathBuf>,
    /// Where its thread runs; where the calling one does if `None`.
    pub(crate) affinity: Option<Affinity>,
    /// To be called when an embedded service has given way to another one.
    pub(crate) on_yield: Option<Box<dyn FnOnce() + Send>>,
    /// To be called when the service goes on at another address.
    pub(crate) on_move: Option<Box<dyn Fn(SocketAddr) + Send>>,
}

impl ServiceSettings {
    /// Of a service within a node's process, on the node's network.
    pub(crate) fn embedded(
        network: &NetworkOptions,
        cluster: &str,
        channels: ChannelOptions,
    ) -> Self {
        Self {
            cluster: cluster.to_owned(),
            network: NetworkOptions {
                unicast_port: Some(0),
                fault: None,
                ..network.clone()
            },
            channels,
            embedded: true,
            batch_interval: None,
            gone_after: None,
            slow_after: None,
            plan_every: None,
            plan_unwanted_ppm: 0,
            plan_common: Some(qsm_gms::PLAN_COMMON),
            plan_costs: Costs::default(),
            hints: ServiceHints::default(),
            repair_limit: RepairLimit::default(),
            admin: true,
            revoked: None,
            affinity: None,
            on_yield: None,
            on_move: None,
        }
    }
}

/// Sets the times that are given.
fn set_times(config: &mut ServiceConfig, settings: &ServiceSettings) {
    if let Some(interval) = settings.batch_interval {
        config.batch_interval = interval;
    }
    if let Some(silence) = settings.gone_after {
        config.gone_after = silence;
    }
    if let Some(time) = settings.slow_after {
        config.slow_after = time;
    }
    if let Some(interval) = settings.plan_every {
        config.plan_interval = interval;
    }
}

/// Configuration of the state machine by these settings and this port.
fn configure(settings: &ServiceSettings, port: &Ports, discovery: SocketAddr) -> ServiceConfig {
    let mut config = ServiceConfig {
        cluster: settings.cluster.clone(),
        second: port.second_addr(),
        discovery,
        embedded: settings.embedded,
        rights_needed: settings.network.identity.is_some(),
        plan_unwanted_ppm: settings.plan_unwanted_ppm,
        plan_common: settings.plan_common,
        plan_costs: settings.plan_costs,
        hints: settings.hints.clone(),
        repair_limit: settings.repair_limit,
        ..ServiceConfig::new(NodeId(random()), port.local_addr())
    };
    config.plan.port = settings.channels.port;
    let family = Family::of(port.local_addr().ip());
    if let Some((first, prefix)) = settings.channels.range_of(family) {
        (config.plan.base, config.plan.prefix) = (first, prefix);
    }
    set_times(&mut config, settings);
    config
}

/// Checks that hints ask for nothing that this network cannot give. Rule R-SEC-34.
pub(crate) fn check_hints(
    hints: &ServiceHints,
    network: &NetworkOptions,
) -> Result<(), StartError> {
    match hints.has_origins() && network.identity.is_none() {
        true => Err(StartError::OriginWithoutTokens),
        false => Ok(()),
    }
}

/// Opens the sockets and starts the thread.
pub(crate) fn start(settings: ServiceSettings) -> Result<RunningService, StartError> {
    check_name("cluster", &settings.cluster)?;
    check_hints(&settings.hints, &settings.network)?;
    let (network, cluster) = (&settings.network, &settings.cluster);
    let protection = Protection::new(network, cluster, settings.revoked.clone())?;
    let interface = settings.network.choose(None)?;
    let discovery = settings.network.discovery_at(interface.family());
    let second = settings.network.second(interface.family())?;
    let mut port = settings
        .network
        .open(interface, second, &settings.cluster)?;
    protection.guard(&mut port)?;
    let config = configure(&settings, &port, discovery);
    let clock = Clock::start();
    let machine = qsm_gms::Service::new(config.clone(), Seed(random()), clock.now())
        .map_err(StartError::Service)?;
    let capacity = Capacity {
        messages: SERVICE_EVENTS,
        bytes: usize::MAX,
    };
    let shared = Arc::new(ServiceShared {
        stop: AtomicBool::new(false),
        questions: SegQueue::new(),
        orders: SegQueue::new(),
        events: Inbox::new(capacity, Overflow::DropOldest),
        address: Mutex::new(port.local_addr()),
        waker: port.waker(),
    });
    let thread = Thread {
        shared: Arc::clone(&shared),
        clock,
        config,
        machine,
        port,
        transmitter: Transmitter::default(),
        protection,
        on_yield: settings.on_yield,
        on_move: settings.on_move,
        look_at: None,
        ends_at: None,
    };
    let admin = settings.admin.then(|| open_admin(&shared)).flatten();
    let affinity = settings.affinity;
    let thread = thread::Builder::new()
        .name("qsm-service".to_owned())
        .spawn(move || {
            // It serves wherever it runs.
            affinity.map(|affinity| affinity.apply().is_ok());
            thread.run();
        })
        .map_err(|source| StartError::System {
            doing: "start the service's thread",
            source,
        })?;
    Ok(RunningService {
        shared,
        thread: Mutex::new(Some(thread)),
        _admin: admin,
    })
}

/// Opens the local socket that operators ask, if the system gives one. Who asks does not keep the
/// service alive.
fn open_admin(shared: &Arc<ServiceShared>) -> Option<AdminSocket> {
    let shared = Arc::downgrade(shared);
    let answer = move |question| {
        let shared = shared.upgrade().ok_or("the membership service has ended")?;
        match question {
            Question::Service => {}
            Question::LimitRepairs(limit) => shared.limit_repairs(RepairLimit {
                bytes_per_second: limit.bytes_per_second,
                share_ppm: limit.share_ppm,
            }),
            _ => return Err("this is a membership service: ask it for \"service\"".to_owned()),
        }
        let snapshot = shared.snapshot().map_err(|error| error.to_string())?;
        Ok(Answer::Service(ServiceState {
            cluster: snapshot.cluster,
            address: shared.address(),
            nodes: snapshot.nodes.len(),
            repair_limit: RepairLimitState {
                bytes_per_second: snapshot.repair_limit.bytes_per_second,
                share_ppm: snapshot.repair_limit.share_ppm,
            },
        }))
    };
    AdminSocket::open_service(answer).ok()
}

/// A service that runs until it is stopped or dropped.
pub(crate) struct RunningService {
    pub(crate) shared: Arc<ServiceShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    _admin: Option<AdminSocket>,
}

impl RunningService {
    /// Where nodes reach it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.shared.address()
    }

    /// Ends it, at once.
    pub(crate) fn stop(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.waker.wake();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // The thread's panics are the same as its end.
            drop(thread.join());
        }
    }
}

impl Drop for RunningService {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What those who hold the service and its thread share.
pub(crate) struct ServiceShared {
    stop: AtomicBool,
    questions: SegQueue<SyncSender<ServiceSnapshot>>,
    /// Limits of repairs that are to hold, the newest last; carried out before questions are answered.
    orders: SegQueue<RepairLimit>,
    pub(crate) events: Inbox<ServiceEvent>,
    address: Mutex<SocketAddr>,
    pub(crate) waker: Waker,
}

impl ServiceShared {
    fn address(&self) -> SocketAddr {
        let address = self.address.lock();
        *address.unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits what each node sends again.
    pub(crate) fn limit_repairs(&self, limit: RepairLimit) {
        self.orders.push(limit);
        self.waker.wake();
    }

    /// The service's knowledge and its counters.
    pub(crate) fn snapshot(&self) -> Result<ServiceSnapshot, RequestError> {
        let (reply, answer) = sync_channel(1);
        self.questions.push(reply);
        self.waker.wake();
        // The thread drops all questions at its end; one that came later is dropped here.
        if self.events.is_over() {
            while self.questions.pop().is_some() {}
        }
        answer
            .recv_timeout(ANSWER_TIMEOUT)
            .map_err(|_| match self.events.closed().cloned() {
                Some(RecvError::Closed(reason)) => RequestError::Closed(reason),
                _ => RequestError::Timeout {
                    doing: "asking the service's thread",
                    after: ANSWER_TIMEOUT,
                    outstanding: None,
                },
            })
    }
}

struct Thread {
    shared: Arc<ServiceShared>,
    clock: Clock,
    config: ServiceConfig,
    machine: qsm_gms::Service,
    port: Ports,
    transmitter: Transmitter,
    protection: Protection,
    on_yield: Option<Box<dyn FnOnce() + Send>>,
    on_move: Option<Box<dyn Fn(SocketAddr) + Send>>,
    /// When an interface that has no address is to be looked at again.
    look_at: Option<qsm_proto::Instant>,
    /// Set when it has yielded.
    ends_at: Option<qsm_proto::Instant>,
}

impl Poll for qsm_gms::Service {
    fn poll(&mut self, now: qsm_proto::Instant) -> Option<Transmit<'_>> {
        self.poll_transmit(now)
    }
}

/// Tells the end also when the thread panics.
struct Ending<'a>(&'a ServiceShared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let reason = if thread::panicking() {
            let message = "the membership service's thread panicked".to_owned();
            CloseReason::Panicked { message }
        } else {
            CloseReason::ShutDown
        };
        self.0.events.close(RecvError::Closed(reason));
        while self.0.questions.pop().is_some() {}
    }
}

impl Thread {
    fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let _ending = Ending(&shared);
        while !shared.stop.load(Ordering::SeqCst) {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    let cause = format!("sockets of the membership service failed: {error}");
                    shared
                        .events
                        .close(RecvError::Closed(CloseReason::Io { cause }));
                    break;
                }
            }
        }
    }

    /// False when it has ended.
    fn turn(&mut self) -> io::Result<bool> {
        self.wait()?;
        let now = self.clock.now();
        let mut datagrams = 0;
        loop {
            let received = self.port.receive()?;
            if received == 0 || datagrams >= DATAGRAMS_PER_TURN {
                break;
            }
            datagrams += received;
            self.take_news(now);
            for datagram in self.port.datagrams() {
                let from = datagram.source;
                self.machine.handle_datagram(now, from, datagram.bytes);
            }
        }
        self.take_news(now);
        self.follow_addresses(now)?;
        // A process that is gone while its host lives: nobody has to wait for it.
        while let Some(address) = self.port.take_refusal() {
            self.machine.handle_unreachable(now, address);
        }
        while let Some(limit) = self.shared.orders.pop() {
            // It begins anew with it at another address.
            self.config.repair_limit = limit;
            self.machine.limit_repairs(now, limit);
        }
        self.machine.handle_timeout(now);
        self.transmitter.run(now, &mut self.machine, &mut self.port);
        self.take_events(now);
        self.answer();
        Ok(self.ends_at.is_none_or(|end| now < end))
    }

    fn wait(&mut self) -> io::Result<()> {
        if self.transmitter.has_more() && self.port.writable() {
            return Ok(());
        }
        let due = self
            .machine
            .next_timeout()
            .into_iter()
            .chain(self.ends_at)
            .chain(self.look_at)
            .min();
        let left = due.map(|due| due.since(self.clock.now()));
        let guards = self.port.due().into_iter().chain(self.protection.due());
        let left = left.into_iter().chain(guards).min();
        self.port.wait(left).map(|_| ())
    }

    /// Has the sockets follow their interfaces. At another address it begins anew, without memory:
    /// nodes hear its Beacon there, and report what they know (R-MEM-6).
    fn follow_addresses(&mut self, now: qsm_proto::Instant) -> io::Result<()> {
        if !self.port.take_change() && self.look_at.is_none_or(|at| now < at) {
            return Ok(());
        }
        let followed = self.port.follow_addresses();
        self.look_at = followed.is_err().then(|| now.after(LOOK_AGAIN));
        let (address, second) = (self.port.local_addr(), self.port.second_addr());
        if (address, second) == (self.config.address, self.config.second) {
            return Ok(());
        }
        self.config = ServiceConfig {
            node: NodeId(random()),
            address,
            second,
            ..self.config.clone()
        };
        // It was valid at the former address, which was of the same family.
        if let Ok(machine) = qsm_gms::Service::new(self.config.clone(), Seed(random()), now) {
            self.machine = machine;
            // Another maker of packets.
            if let Err(error) = self.protection.guard(&mut self.port) {
                return Err(io::Error::other(error.to_string()));
            }
        }
        *self
            .shared
            .address
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = address;
        if let Some(call) = &self.on_move {
            call(address);
        }
        Ok(())
    }

    /// Has the state machine know what the guard of the sockets has found.
    fn take_news(&mut self, now: qsm_proto::Instant) {
        while let Some(news) = self.protection.poll() {
            match news {
                GateNews::Admitted { node, rights } => self.machine.set_rights(node, rights),
                GateNews::Expelled { node, reason } => {
                    self.machine.expel(now, node);
                    self.tell(ServiceEvent::Expelled { node, reason });
                }
                // Its rights are those of its life, which another session may go on with.
                GateNews::Ended { node } if self.machine.has_life(node) => {}
                GateNews::Ended { node } => self.machine.forget_rights(node),
                GateNews::Refused { from, reason } => {
                    self.tell(ServiceEvent::NotAdmitted {
                        address: from,
                        reason,
                    });
                }
                GateNews::ListRefused { reason } => {
                    self.tell(ServiceEvent::ListRefused { reason });
                }
                GateNews::Counted(_) => {}
            }
        }
    }

    /// Tells the guard who is gone.
    fn note_gone(&mut self, event: &ServiceEvent) {
        match event {
            // Its session goes on for a while, and so do its rights.
            ServiceEvent::Left { origin } => self.protection.gone(origin.node, Leaves::Orderly),
            // One that came back in another life is here.
            ServiceEvent::Excluded { origin } if !self.machine.has_life(origin.node) => {
                self.machine.forget_rights(origin.node);
                self.protection.gone(origin.node, Leaves::Lost);
            }
            _ => {}
        }
    }

    fn tell(&self, event: ServiceEvent) {
        self.shared.events.offer(0, || event);
        self.shared.events.wake();
    }

    fn take_events(&mut self, now: qsm_proto::Instant) {
        while let Some(event) = self.machine.poll_event() {
            self.note_gone(&event);
            if let ServiceEvent::SecondAddress { address, second } = event {
                self.port.learn(address, second);
                continue;
            }
            if let ServiceEvent::Yielded { .. } = event {
                self.ends_at = Some(now.after(YIELD_LINGER));
                if let Some(call) = self.on_yield.take() {
                    call();
                }
            }
            self.tell(event);
        }
    }

    fn answer(&mut self) {
        while let Some(reply) = self.shared.questions.pop() {
            self.port.refresh_drops();
            let rows = self.machine.rows();
            let snapshot = ServiceSnapshot {
                cluster: self.config.cluster.clone(),
                stats: self.machine.stats(),
                admission: self.protection.stats(),
                port: self.port.counters(),
                io: self.port.report(),
                nodes: rows.nodes,
                groups: rows.groups,
                regions: rows.regions,
                repair_limit: self.machine.repair_limit(),
            };
            // The one who asked may have given up.
            drop(reply.try_send(snapshot));
        }
    }
}
