//! Opening sockets and starting the core threads of a node.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use qsm_net::{Interface, Ports, ThreadReport};
use qsm_proto::{Config, Endpoint, Instant, Introduction, Seed};
use qsm_record::{Journal, Recorded, Setup};
use qsm_wire::NodeId;

use super::addresses::Addresses;
use super::attention::Attention;
use super::budget::BudgetWatch;
use super::loan::CoreLoan;
use super::pending::Pending;
use super::readers::Readers;
use super::routes::Routes;
use super::siblings::Siblings;
use super::slice::Slice;
use super::sources::Sources;
use super::strangers::StrangerLog;
use super::turn::{Pause, sockets_failed};
use super::{About, Core, EntryQueue, Load};
use crate::admission::{Bearer, Entrant, IdentityError};
use crate::error::{CloseReason, StartError};
use crate::handoff::shared::{HandoffLimits, Shared};
use crate::report::CoreReport;
use crate::runtime::clock::{self, Clock};
use crate::runtime::embedding::Embedding;
use crate::runtime::engine::{Engine, Engines};
use crate::runtime::name;
use crate::runtime::random::random;
use crate::runtime::service::check_hints;
use crate::runtime::settings::{Embedded, NodeSettings, check_name};
use crate::runtime::threads::ThreadOptions;
use crate::runtime::transmit::Transmitter;
use crate::shard::CORES_MAX;
use crate::stats::{Memory, RuntimeStats, TimerDelays};

/// What Ethernet carries in one packet.
const ETHERNET_BYTES: usize = 1500;
/// The same for jumbo frames, which every loopback interface carries: there is no switch to ask.
const JUMBO_BYTES: usize = 9000;

pub(crate) fn start(settings: NodeSettings) -> Result<Engines, StartError> {
    let plan = Plan::new(settings)?;
    let ports = plan.ports()?;
    let shared: Vec<_> = ports
        .iter()
        .map(|one| Arc::new(Shared::new(plan.id, plan.limits(), one.port.waker())))
        .collect();
    let threads = &plan.settings.threads;
    let mut seats = Vec::new();
    for (place, opened) in ports.into_iter().enumerate() {
        let core = plan.core(place, opened, &shared)?;
        let loan = Arc::new(CoreLoan::default());
        let lender = Arc::clone(&loan);
        seats.push((
            Seat::take(threads, place, move || run(core, &lender))?,
            loan,
        ));
    }
    // None begins before all can.
    let engine = |(place, ((seat, loan), shared)): (usize, ((Seat, _), _))| Engine {
        shared,
        loan,
        thread: Mutex::new(seat.begin()),
        id: plan.id_of(place),
    };
    let engines = seats.into_iter().zip(shared).enumerate().map(engine);
    Ok(Engines(engines.collect()))
}

pub(crate) fn probe(settings: NodeSettings) -> Result<Vec<CoreReport>, StartError> {
    let plan = Plan::new(settings)?;
    let threads = &plan.settings.threads;
    let report = |(place, opened): (usize, &Opened)| {
        let seat = Seat::take(threads, place, || ())?;
        Ok(CoreReport {
            io: opened.port.report(),
            second: opened.port.second_report(),
            thread: seat.report,
            spin: threads.spin,
            pinned: threads.cpus.is_some(),
        })
    };
    plan.ports()?.iter().enumerate().map(report).collect()
}

/// Sockets of a core, and the news of their guard.
struct Opened {
    port: Ports,
    entry: EntryQueue,
}

/// What the cores of a node have in common, checked.
struct Plan {
    settings: NodeSettings,
    name: String,
    /// Of the first core; those of the others follow.
    id: NodeId,
    interface: Interface,
    second: Option<Interface>,
    discovery: SocketAddr,
}

impl Plan {
    fn new(mut settings: NodeSettings) -> Result<Self, StartError> {
        check_name("cluster", &settings.cluster)?;
        settings.threads.check()?;
        let id = NodeId(random() & !(CORES_MAX as u64 - 1));
        let name = settings.name.clone().unwrap_or_else(name::of_process);
        check_name("node", &name)?;
        check_identity(&mut settings, &name)?;
        check_hints(&settings.hints, &settings.network)?;
        let interface = settings.network.choose(settings.service)?;
        if settings.service.is_none() && !settings.network.discovers(&interface) {
            return Err(StartError::NoService);
        }
        let second = settings.network.second(interface.family())?;
        let discovery = settings.network.discovery_at(interface.family());
        // An embedded service is to choose alike.
        settings.network.family = Some(interface.family());
        settings.network.discovery = Some(discovery);
        let share = settings.pace.node_bytes_per_second;
        settings.pace.node_bytes_per_second = share.div_ceil(settings.threads.cores as u64);
        settings.queues.bytes_total = settings.queues.bytes_total.div_ceil(settings.threads.cores);
        Ok(Self {
            settings,
            name,
            id,
            interface,
            second,
            discovery,
        })
    }

    fn id_of(&self, place: usize) -> NodeId {
        NodeId(self.id.0 + place as u64)
    }

    fn name_of(&self, place: usize) -> Result<String, StartError> {
        match place {
            0 => Ok(self.name.clone()),
            _ => {
                let name = format!("{}/{}", self.name, place + 1);
                check_name("node", &name)?;
                Ok(name)
            }
        }
    }

    /// What a core accepts.
    fn limits(&self) -> HandoffLimits {
        HandoffLimits {
            queues: self.settings.queues,
            message_bytes: self.settings.limits.message_bytes,
            request_timeout: self.settings.request_timeout,
        }
    }

    /// One for each core.
    fn ports(&self) -> Result<Vec<Opened>, StartError> {
        let open = |place| {
            let network = self.settings.network.of_core(place)?;
            let cluster = &self.settings.cluster;
            let mut port = network.open(self.interface.clone(), self.second.clone(), cluster)?;
            let entrant = Entrant {
                cluster: cluster.clone(),
                node: self.id_of(place),
                name: Some(self.name_of(place)?),
            };
            let entry = network.guard(&mut port, entrant)?;
            Ok(Opened { port, entry })
        };
        (0..self.settings.threads.cores).map(open).collect()
    }

    /// The core in this place, among all.
    fn core(&self, place: usize, opened: Opened, all: &[Arc<Shared>]) -> Result<Core, StartError> {
        let clock = Clock::start();
        let now = clock.now();
        let Opened { port, entry } = opened;
        let config = self.config(place, &port)?;
        let about = About {
            name: config.name.clone(),
            cluster: self.settings.cluster.clone(),
            service: None,
            life: None,
        };
        let (endpoint, recording) = self.endpoint(place, config, now)?;
        let NodeSettings {
            threads, network, ..
        } = &self.settings;
        Ok(Core {
            shared: Arc::clone(&all[place]),
            clock,
            now,
            done: now,
            attention: Attention::new(now),
            slice: Slice::new(threads.spin),
            endpoint,
            port,
            addresses: Addresses::default(),
            routes: Routes::default(),
            sources: Sources::timed(self.settings.latency_budget.is_some()),
            pending: Pending::default(),
            readers: Readers::default(),
            transmitter: Transmitter::new(self.settings.tap.clone()),
            tap: self.settings.tap.clone(),
            about,
            recording,
            embedding: Embedding::new(&self.settings, &self.interface),
            siblings: Siblings::new(all, place),
            closing: None,
            stats: RuntimeStats::default(),
            timers: TimerDelays::default(),
            memory: Memory::default(),
            load: Load::default(),
            budget: self.settings.latency_budget.map(BudgetWatch::new),
            strangers: StrangerLog::default(),
            entry,
            lendable: threads.realtime.is_none() && network.busy_poll.is_none(),
            asleep_until: None,
            broken: None,
        })
    }

    /// The state machine of the core in this place, and the file that it is recorded to.
    fn endpoint(
        &self,
        place: usize,
        config: Config,
        now: Instant,
    ) -> Result<(Recorded, Option<PathBuf>), StartError> {
        let seed = Seed(random());
        let mut endpoint = Endpoint::new(config.clone(), seed, now)?;
        if let Some(identity) = &self.settings.network.identity {
            endpoint.sign_by(Arc::clone(identity.key()));
        }
        let Some(options) = self.settings.recording.of_core(place) else {
            return Ok((Recorded::new(endpoint, None), None));
        };
        let setup = Setup {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            wall_clock: clock::wall(),
            config,
            seed,
            start: now,
        };
        let journal = Journal::open(&options, &setup)?;
        Ok((Recorded::new(endpoint, Some(journal)), Some(options.path)))
    }

    fn config(&self, place: usize, port: &Ports) -> Result<Config, StartError> {
        let (settings, interface) = (&self.settings, &self.interface);
        let second = self.second.as_ref().map_or(u32::MAX, |second| second.mtu);
        let mtu = usize::try_from(interface.mtu.min(second)).unwrap_or(usize::MAX);
        let usual = if interface.loopback {
            JUMBO_BYTES
        } else {
            ETHERNET_BYTES
        };
        let headers = interface.family().header_bytes();
        let fits = mtu.min(usual).saturating_sub(headers);
        Ok(Config {
            name: self.name_of(place)?,
            introduction: Some(Introduction {
                host: name::host(),
                version: name::version(&settings.version),
            }),
            cluster: settings.cluster.clone(),
            second: port.second_addr(),
            multicast: settings.network.multicasts(interface),
            own_messages: settings.own_messages,
            discovery: self.discovery,
            service: settings.service,
            layout: settings.layout,
            datagram_bytes: settings.datagram_bytes.unwrap_or(fits),
            signed: settings.network.identity.is_some(),
            coverage: settings.coverage,
            receive_buffer_bytes: port.receive_buffer_granted(),
            limits: settings.limits,
            recovery: settings.recovery,
            pace: settings.pace,
            times_packets: settings.latency_budget.is_some(),
            ..Config::new(self.id_of(place), port.local_addr())
        })
    }
}

/// Checks the identity of a node, if it has one: it must be good for this name. The node runs a membership service, with
/// the same identity, only if its token is one of a service too (R-SEC-13).
fn check_identity(settings: &mut NodeSettings, name: &str) -> Result<(), StartError> {
    settings.network.check_protection()?;
    let Some(identity) = &settings.network.identity else {
        return check_no_list(settings);
    };
    let checked = identity.check(&settings.cluster, Bearer::Node(name));
    checked.map_err(StartError::Identity)?;
    match identity.check(&settings.cluster, Bearer::Service) {
        Err(error) if settings.embedded == Embedded::Always => Err(StartError::Identity(error)),
        Err(_) => {
            settings.embedded = Embedded::Never;
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// A list of revocations says nothing without tokens.
fn check_no_list(settings: &NodeSettings) -> Result<(), StartError> {
    if settings.revoked.is_none() {
        return Ok(());
    }
    let cause = "there is a list of revocations, and the node has no identity";
    let remedy = "give the node an identity, or leave the list out";
    let error = IdentityError::new(cause.to_owned(), remedy);
    Err(StartError::Identity(error))
}

/// A core thread that runs where and as it should, and waits for its beginning. Dropped before
/// that, it ends.
struct Seat {
    report: ThreadReport,
    begin: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Seat {
    fn take(
        options: &ThreadOptions,
        place: usize,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<Self, StartError> {
        let (ready, settled) = sync_channel(1);
        let (begin, begun) = sync_channel(1);
        let options = options.clone();
        let thread = move || {
            // The one who waits for this drops the other end if it is an error.
            drop(ready.send(options.apply(place)));
            if begun.recv().is_ok() {
                body();
            }
        };
        let system = |source| StartError::System {
            doing: "start a core thread",
            source,
        };
        let thread = thread::Builder::new()
            .name("qsm-core".to_owned())
            .spawn(thread)
            .map_err(system)?;
        let error = match settled.recv() {
            Ok(Ok(report)) => {
                return Ok(Self {
                    report,
                    begin: Some(begin),
                    thread: Some(thread),
                });
            }
            Ok(Err(error)) => error,
            Err(gone) => system(std::io::Error::other(gone)),
        };
        // So that its sockets are closed when this returns.
        drop(begin);
        drop(thread.join());
        Err(error)
    }

    /// Lets it begin.
    fn begin(mut self) -> Option<JoinHandle<()>> {
        if let Some(begin) = self.begin.take() {
            // It waits for this as long as it is.
            begin.send(()).ok();
        }
        self.thread.take()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.begin = None;
        if let Some(thread) = self.thread.take() {
            // It has done nothing, and has nothing to tell.
            drop(thread.join());
        }
    }
}

fn run(core: Core, loan: &CoreLoan) {
    let mut core = Box::new(core);
    core.slice.look();
    let shared = Arc::clone(&core.shared);
    let sleeper = core.port.sleeper();
    shared.started();
    core.embed_at_start();
    let reason = loop {
        // Upcalls and feeds are the application's code. After a panic nothing of the protocol runs
        // again; the handles are told, and the state is only dropped.
        match catch_unwind(AssertUnwindSafe(|| core.run())) {
            Ok(Pause::Sleep(left)) => {
                loan.lend(core);
                let slept = sleeper.sleep(left);
                core = loan.take_back();
                if let Err(error) = slept {
                    core.broken.get_or_insert_with(|| sockets_failed(&error));
                }
            }
            Ok(Pause::End(reason)) => break reason,
            Err(panic) => break CloseReason::panicked(&*panic),
        }
    };
    let finished = catch_unwind(AssertUnwindSafe(|| core.finish(reason.clone())));
    if finished.is_err() {
        shared.finish(reason.clone(), None);
    }
    core.siblings.end(&reason);
}
