use core::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use qsm_gms::ServiceEvent;
use qsm_net::Family;

use crate::error::{RecvError, RequestError, StartError};
use crate::runtime::network::{Channels, Network, plain};
use crate::runtime::service::{
    RunningService, SERVICE_EVENTS, ServiceSettings, ServiceSnapshot, start,
};

/// Default port of a membership service that is a program of its own.
pub const SERVICE_PORT: u16 = 4481;
/// How long an answer of the service's thread may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What a membership service is told at its start.
#[must_use = "a builder does nothing before `start`"]
pub struct ServiceBuilder {
    settings: ServiceSettings,
}

impl ServiceBuilder {
    fn new() -> Self {
        let settings = ServiceSettings {
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
        };
        Self { settings }
    }

    /// The cluster: `default` if not given.
    pub fn cluster(mut self, cluster: impl Into<String>) -> Self {
        self.settings.cluster = cluster.into();
        self
    }

    /// Name or address of the network interface (`eth0`, `10.0.0.1`, `fd00::1`, `fe80::1%eth0`);
    /// if not given, the most fitting one.
    pub fn interface(mut self, interface: impl Into<String>) -> Self {
        self.settings.network.interfaces = vec![interface.into()];
        self
    }

    /// Two interfaces, on two networks; as [`Builder::interfaces`](crate::Builder::interfaces).
    pub fn interfaces<I>(mut self, interfaces: I) -> Self
    where
        I: IntoIterator<Item: Into<String>>,
    {
        self.settings.network.interfaces = interfaces.into_iter().map(Into::into).collect();
        self
    }

    /// Whether to use IPv4 or IPv6; as [`Builder::family`](crate::Builder::family).
    pub fn family(mut self, family: Family) -> Self {
        self.settings.network.family = Some(family);
        self
    }

    /// Port that nodes reach it at: [`SERVICE_PORT`] if not given; 0 lets the system choose.
    pub fn port(mut self, port: u16) -> Self {
        self.settings.network.unicast_port = port;
        self
    }

    /// Where it announces itself: a multicast address and port, the same on all nodes.
    pub fn discovery(mut self, address: SocketAddr) -> Self {
        self.settings.network.discovery = Some(plain(address));
        self
    }

    /// Port of the multicast addresses that it gives to regions.
    pub fn data_port(mut self, port: u16) -> Self {
        self.settings.channels.port = port;
        self
    }

    /// Range of the multicast addresses that it gives to regions; as
    /// [`Builder::data_range`](crate::Builder::data_range).
    pub fn data_range(mut self, first: IpAddr, prefix: u8) -> Self {
        self.settings.channels.range = Some((first, prefix));
        self
    }

    /// Whether it gives source-specific addresses to regions; as
    /// [`Builder::source_specific`](crate::Builder::source_specific).
    pub fn source_specific(mut self, source_specific: bool) -> Self {
        self.settings.channels.source_specific = source_specific;
        self
    }

    /// Hops that its announcements may take.
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.settings.network.ttl = ttl;
        self
    }

    /// Shortest time between two changes of views: longer puts more changes into one.
    pub fn batch_interval(mut self, interval: Duration) -> Self {
        self.settings.batch_interval = Some(interval);
        self
    }

    /// Opens the sockets and starts the thread.
    ///
    /// # Errors
    /// [`StartError`], whose text says what to do.
    pub fn start(self) -> Result<Service, StartError> {
        let running = start(self.settings)?;
        Ok(Service { running })
    }
}

impl fmt::Debug for ServiceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceBuilder")
            .field("cluster", &self.settings.cluster)
            .field("network", &self.settings.network)
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
    running: RunningService,
}

impl Service {
    /// Events that wait to be read; beyond that the oldest are dropped.
    pub const EVENTS: usize = SERVICE_EVENTS;

    /// Begins to describe a service.
    pub fn builder() -> ServiceBuilder {
        ServiceBuilder::new()
    }

    /// Where nodes reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// What it knows and has done.
    ///
    /// # Errors
    /// [`RequestError`]: it has ended.
    pub fn snapshot(&self) -> Result<ServiceSnapshot, RequestError> {
        let (reply, answer) = sync_channel(1);
        self.running.shared.questions.push(reply);
        self.running.shared.waker.wake();
        // The thread drops all questions at its end; one that came later is dropped here.
        if self.running.shared.events.is_over() {
            while self.running.shared.questions.pop().is_some() {}
        }
        answer.recv_timeout(ANSWER_TIMEOUT).map_err(|_| {
            let reason = self.running.shared.events.closed().cloned();
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
            if let Some(event) = self.running.shared.events.recv(None)? {
                return Ok(event);
            }
        }
    }

    /// Waits for the next event at most this long; `None` when none came.
    ///
    /// # Errors
    /// As [`Service::next_event`].
    pub fn next_event_timeout(&self, timeout: Duration) -> Result<Option<ServiceEvent>, RecvError> {
        self.running
            .shared
            .events
            .recv(Instant::now().checked_add(timeout))
    }

    /// Ends it, at once. Dropping it does the same.
    pub fn shutdown(&self) {
        self.running.stop();
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("address", &self.running.address)
            .finish_non_exhaustive()
    }
}
