//! The membership service as a thread of its own, with its own sockets: a node's core is not
//! delayed by it, and the same code serves `qsm gms` and embedding.

use core::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use qsm_gms::{ServiceConfig, ServiceEvent, ServiceStats};
use qsm_net::{Affinity, Family, IoReport, PortCounters, Ports, Waker};
use qsm_proto::{Seed, Transmit};
use qsm_wire::NodeId;
use qsm_wire::membership::{GroupRow, NodeRow, RegionRow};

use crate::error::{CloseReason, RecvError, RequestError, StartError};
use crate::handoff::inbox::Inbox;
use crate::handoff::message::{Capacity, Overflow};
use crate::runtime::clock::Clock;
use crate::runtime::core::random;
use crate::runtime::network::{Channels, Network, plain};
use crate::runtime::settings::check_name;
use crate::runtime::transmit::{Poll, Transmitter};

/// Default port of a membership service that is a program of its own.
pub const SERVICE_PORT: u16 = 4481;
/// How long an answer of the service's thread may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a service that has yielded still shows its nodes the way.
const YIELD_LINGER: Duration = Duration::from_secs(1);
/// Datagrams in one turn, as in a node.
const DATAGRAMS_PER_TURN: usize = 4096;

/// What a membership service knows and has done, at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServiceSnapshot {
    /// What it has done.
    pub stats: ServiceStats,
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
}

/// What a membership service is told at its start.
#[must_use = "a builder does nothing before `start`"]
pub struct ServiceBuilder {
    cluster: String,
    network: Network,
    channels: Channels,
    embedded: bool,
    batch_interval: Option<Duration>,
    affinity: Option<Affinity>,
    on_yield: Option<Box<dyn FnOnce() + Send>>,
}

impl ServiceBuilder {
    fn new() -> Self {
        Self {
            cluster: "default".to_owned(),
            network: Network {
                unicast_port: SERVICE_PORT,
                ..Network::default()
            },
            channels: Channels::default(),
            embedded: false,
            batch_interval: None,
            affinity: None,
            on_yield: None,
        }
    }

    pub(crate) fn embedded(network: &Network, cluster: &str, channels: Channels) -> Self {
        Self {
            cluster: cluster.to_owned(),
            network: Network {
                unicast_port: 0,
                fault: None,
                ..network.clone()
            },
            channels,
            embedded: true,
            ..Self::new()
        }
    }

    /// To be called when an embedded service has given way to another one.
    pub(crate) fn on_yield(mut self, call: impl FnOnce() + Send + 'static) -> Self {
        self.on_yield = Some(Box::new(call));
        self
    }

    /// Where its thread runs; where the calling one does if `None`.
    pub(crate) fn affinity(mut self, affinity: Option<Affinity>) -> Self {
        self.affinity = affinity;
        self
    }

    /// The cluster: `default` if not given.
    pub fn cluster(mut self, cluster: impl Into<String>) -> Self {
        self.cluster = cluster.into();
        self
    }

    /// Name or address of the network interface (`eth0`, `10.0.0.1`, `fd00::1`, `fe80::1%eth0`);
    /// if not given, the most fitting one.
    pub fn interface(mut self, interface: impl Into<String>) -> Self {
        self.network.interfaces = vec![interface.into()];
        self
    }

    /// Two interfaces, on two networks; as [`Builder::interfaces`](crate::Builder::interfaces).
    pub fn interfaces<I>(mut self, interfaces: I) -> Self
    where
        I: IntoIterator<Item: Into<String>>,
    {
        self.network.interfaces = interfaces.into_iter().map(Into::into).collect();
        self
    }

    /// Whether to use IPv4 or IPv6; as [`Builder::family`](crate::Builder::family).
    pub fn family(mut self, family: Family) -> Self {
        self.network.family = Some(family);
        self
    }

    /// Port that nodes reach it at: [`SERVICE_PORT`] if not given; 0 lets the system choose.
    pub fn port(mut self, port: u16) -> Self {
        self.network.unicast_port = port;
        self
    }

    /// Where it announces itself: a multicast address and port, the same on all nodes.
    pub fn discovery(mut self, address: SocketAddr) -> Self {
        self.network.discovery = Some(plain(address));
        self
    }

    /// Port of the multicast addresses that it gives to regions.
    pub fn data_port(mut self, port: u16) -> Self {
        self.channels.port = port;
        self
    }

    /// Range of the multicast addresses that it gives to regions; as
    /// [`Builder::data_range`](crate::Builder::data_range).
    pub fn data_range(mut self, first: IpAddr, prefix: u8) -> Self {
        self.channels.range = Some((first, prefix));
        self
    }

    /// Whether it gives source-specific addresses to regions; as
    /// [`Builder::source_specific`](crate::Builder::source_specific).
    pub fn source_specific(mut self, source_specific: bool) -> Self {
        self.channels.source_specific = source_specific;
        self
    }

    /// Hops that its announcements may take.
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.network.ttl = ttl;
        self
    }

    /// Shortest time between two changes of views: longer puts more changes into one.
    pub fn batch_interval(mut self, interval: Duration) -> Self {
        self.batch_interval = Some(interval);
        self
    }

    /// Opens the sockets and starts the thread.
    ///
    /// # Errors
    /// [`StartError`], whose text says what to do.
    pub fn start(self) -> Result<Service, StartError> {
        check_name("cluster", &self.cluster)?;
        let interface = self.network.interface(None)?;
        let discovery = self.network.discovery(interface.family());
        let second = self.network.second(interface.family())?;
        let port = self.network.open(interface, second)?;
        let mut config = ServiceConfig {
            cluster: self.cluster.clone(),
            second: port.second_addr(),
            discovery,
            embedded: self.embedded,
            ..ServiceConfig::new(NodeId(random()), port.local_addr())
        };
        config.plan.port = self.channels.port;
        let family = Family::of(port.local_addr().ip());
        if let Some((first, prefix)) = self.channels.range(family) {
            (config.plan.base, config.plan.prefix) = (first, prefix);
        }
        if let Some(interval) = self.batch_interval {
            config.batch_interval = interval;
        }
        let clock = Clock::start();
        let machine = qsm_gms::Service::new(config, Seed(random()), clock.now())
            .map_err(StartError::Service)?;
        let capacity = Capacity {
            messages: Service::EVENTS,
            bytes: usize::MAX,
        };
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            questions: SegQueue::new(),
            events: Inbox::new(capacity, Overflow::DropOldest),
            waker: port.waker(),
        });
        let address = port.local_addr();
        let thread = Thread {
            shared: Arc::clone(&shared),
            clock,
            machine,
            port,
            transmitter: Transmitter::default(),
            on_yield: self.on_yield,
            ends_at: None,
        };
        let affinity = self.affinity;
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
        Ok(Service {
            shared,
            address,
            thread: Mutex::new(Some(thread)),
        })
    }
}

impl fmt::Debug for ServiceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBuilder")
            .field("cluster", &self.cluster)
            .field("network", &self.network)
            .finish_non_exhaustive()
    }
}

/// A membership service in a thread of its own: it knows which nodes are in which groups, and
/// gives the groups' regions their views and addresses. Messages do not pass through it.
///
/// ```no_run
/// use qsm::Service;
///
/// let service = Service::builder().interface("eth0").start()?;
/// println!("nodes reach it at {}", service.address());
/// while let Ok(event) = service.next_event() {
///     println!("{event:?}");
/// }
/// # Ok::<(), qsm::StartError>(())
/// ```
///
/// When it ends, the nodes go on with what they know; a service started later takes them up as
/// they are. Dropping it ends it.
pub struct Service {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Service {
    /// Events that wait to be read; beyond that the oldest are dropped.
    pub const EVENTS: usize = 4096;

    /// Begins to describe a service.
    pub fn builder() -> ServiceBuilder {
        ServiceBuilder::new()
    }

    /// Where nodes reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it knows and has done.
    ///
    /// # Errors
    /// [`RequestError`]: it has ended.
    pub fn snapshot(&self) -> Result<ServiceSnapshot, RequestError> {
        let (reply, answer) = sync_channel(1);
        self.shared.questions.push(reply);
        self.shared.waker.wake();
        // The thread drops all questions at its end; one that came later is dropped here.
        if self.shared.events.is_over() {
            while self.shared.questions.pop().is_some() {}
        }
        answer.recv_timeout(ANSWER_TIMEOUT).map_err(|_| {
            let reason = self.shared.events.closed().cloned();
            match reason {
                Some(RecvError::Closed(reason)) => RequestError::Closed(reason),
                _ => RequestError::Timeout {
                    doing: "asking the service's thread",
                    after: ANSWER_TIMEOUT,
                },
            }
        })
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// [`RecvError::Closed`] when it has ended and all events were read.
    pub fn next_event(&self) -> Result<ServiceEvent, RecvError> {
        loop {
            if let Some(event) = self.shared.events.recv(None)? {
                return Ok(event);
            }
        }
    }

    /// Waits for the next event at most this long; `None` when none came.
    ///
    /// # Errors
    /// As [`Service::next_event`].
    pub fn next_event_timeout(&self, timeout: Duration) -> Result<Option<ServiceEvent>, RecvError> {
        self.shared.events.recv(Instant::now().checked_add(timeout))
    }

    /// Ends it, at once. Dropping it does the same.
    pub fn shutdown(&self) {
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

impl Drop for Service {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

struct Shared {
    stop: AtomicBool,
    questions: SegQueue<SyncSender<ServiceSnapshot>>,
    events: Inbox<ServiceEvent>,
    waker: Waker,
}

struct Thread {
    shared: Arc<Shared>,
    clock: Clock,
    machine: qsm_gms::Service,
    port: Ports,
    transmitter: Transmitter,
    on_yield: Option<Box<dyn FnOnce() + Send>>,
    /// Set when it has yielded.
    ends_at: Option<qsm_proto::Instant>,
}

impl Poll for qsm_gms::Service {
    fn poll(&mut self, now: qsm_proto::Instant) -> Option<Transmit<'_>> {
        self.poll_transmit(now)
    }
}

/// Tells the end also when the thread panics.
struct Ending<'a>(&'a Shared);

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
            for datagram in self.port.datagrams() {
                let from = datagram.source;
                self.machine.handle_datagram(now, from, datagram.bytes);
            }
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
            .min();
        let left = due.map(|due| due.since(self.clock.now()));
        self.port.wait(left).map(|_| ())
    }

    fn take_events(&mut self, now: qsm_proto::Instant) {
        while let Some(event) = self.machine.poll_event() {
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
            self.shared.events.offer(0, || event);
            self.shared.events.wake();
        }
    }

    fn answer(&mut self) {
        while let Some(reply) = self.shared.questions.pop() {
            self.port.refresh_drops();
            let rows = self.machine.rows();
            let snapshot = ServiceSnapshot {
                stats: self.machine.stats(),
                port: self.port.counters(),
                io: self.port.report(),
                nodes: rows.nodes,
                groups: rows.groups,
                regions: rows.regions,
            };
            // The one who asked may have given up.
            drop(reply.try_send(snapshot));
        }
    }
}
