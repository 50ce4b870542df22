use core::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use qsm_gms::{Costs, ServiceEvent, ServiceHints};
use qsm_net::DatagramCost;
use qsm_wire::membership::RepairLimit;

use crate::error::{RecvError, RequestError, StartError};
use crate::runtime::network::{ChannelOptions, NetworkOptions};
use crate::runtime::service::{
    RunningService, SERVICE_EVENTS, ServiceSettings, ServiceSnapshot, start,
};

/// Default port of a membership service that is a program of its own: 4481.
pub const SERVICE_PORT: u16 = 4481;

/// Settings of a membership service at its start.
#[must_use = "a builder does nothing before `start`"]
pub struct ServiceBuilder {
    settings: ServiceSettings,
}

impl ServiceBuilder {
    fn new() -> Self {
        let settings = ServiceSettings {
            cluster: "default".to_owned(),
            network: NetworkOptions::default(),
            channels: ChannelOptions::default(),
            embedded: false,
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
        };
        Self { settings }
    }

    /// The cluster: `default` if not given.
    pub fn cluster(mut self, cluster: impl Into<String>) -> Self {
        self.settings.cluster = cluster.into();
        self
    }

    /// Sockets: interfaces, addresses, and the port that nodes reach it at
    /// ([`NetworkOptions::unicast_port`]; [`SERVICE_PORT`] if not given).
    pub fn network(mut self, network: NetworkOptions) -> Self {
        self.settings.network = network;
        self
    }

    /// The network interface, all else of the network as it is: short for
    /// [`NetworkOptions::interface`].
    pub fn interface(mut self, interface: impl Into<String>) -> Self {
        self.settings.network.interfaces = vec![interface.into()];
        self
    }

    /// Multicast addresses that it gives to regions.
    pub fn channels(mut self, channels: ChannelOptions) -> Self {
        self.settings.channels = channels;
        self
    }

    /// Shortest time between two changes of views: longer puts more changes into one.
    pub fn batch_interval(mut self, interval: Duration) -> Self {
        self.settings.batch_interval = Some(interval);
        self
    }

    /// Silence after which a node is excluded; 30 seconds if not given. Before that it is away: its
    /// regions do not wait for it, and what it misses is kept for it
    /// ([`Event::Away`](crate::Event::Away)). A node whose process has ended is excluded at once, if
    /// its host says so. With 0 nobody is away, and who answers no probe is excluded, as after a
    /// second of standing still.
    ///
    /// All services of a cluster should have the same.
    pub fn gone_after(mut self, silence: Duration) -> Self {
        self.settings.gone_after = Some(silence);
        self
    }

    /// Time, all in all, for which publishers wait for a node that reads as fast as it can while the
    /// others have time to spare; 10 seconds if not given. After that it is away
    /// ([`AwayReason::Slow`](crate::AwayReason::Slow)) until it has caught up. With 0, or with
    /// [`ServiceBuilder::gone_after`] 0, they wait for ever.
    pub fn slow_after(mut self, time: Duration) -> Self {
        self.settings.slow_after = Some(time);
        self
    }

    /// Least time between two plans of which groups of a few nodes go to each of these alone; 10
    /// seconds if not given. Plans are made when nodes have entered or left groups. With 0 there are
    /// none, and only a group of one node does not divide that node from others.
    pub fn plan_every(mut self, interval: Duration) -> Self {
        self.settings.plan_every = Some(interval);
        self
    }

    /// Share of the deliveries in a region, 0 to 1, that its members may not want and drop: nodes
    /// with similar groups then share a region where that costs less, by the same plans. Each group
    /// counts as having as many messages, since rates are not known. 0 if not given: regions are of
    /// nodes with the same groups, but for those of a few nodes. What is beyond 0 and 1 counts as these.
    pub fn plan_unwanted(mut self, share: f64) -> Self {
        self.settings.plan_unwanted_ppm = share_ppm(share);
        self
    }

    /// Packets a second that a region for what several others have in common has to save (R-VIEW-17).
    /// Groups that many nodes have, whatever else these receive, then take one packet for a message, by
    /// the same plans; they follow what publishers send. 10 if not given. `None`: there are no such
    /// regions.
    pub fn plan_common(mut self, packets: Option<u32>) -> Self {
        self.settings.plan_common = packets;
        self
    }

    /// CPU time of what the same plans weigh: that of a typical server if not given. `qsm gms` gives what
    /// it has measured on its machine ([`measure_plan_costs`](crate::measure_plan_costs)). An
    /// embedded service has that of a typical server.
    ///
    /// ```no_run
    /// use qsm::{Service, measure_plan_costs};
    ///
    /// let service = Service::builder().plan_costs(measure_plan_costs()?).start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn plan_costs(mut self, costs: Costs) -> Self {
        self.settings.plan_costs = costs;
        self
    }

    /// Hints of the designer, which go before plans and hold from the first batch of a node on
    /// (R-VIEW-18): security domains, nodes that share no region or one whatever it costs, and groups with
    /// a channel of their own. Nodes and groups are named by names, and need not be there yet.
    ///
    /// ```no_run
    /// use qsm::{HintList, Service};
    ///
    /// let hints = HintList::new()
    ///     .domain("red", ["epsilon", "zeta"])
    ///     .apart(["gamma", "delta"])
    ///     .finish()?;
    /// let service = Service::builder().hints(hints).start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// All services of a cluster should have the same, those that nodes embed included: one that takes
    /// over without hints puts nodes together that these divide.
    pub fn hints(mut self, hints: ServiceHints) -> Self {
        self.settings.hints = hints;
        self
    }

    /// Limit of what each node sends again, in every interval of 10 ms (R-NAK-16); none if not given.
    /// [`Service::limit_repairs`] changes it. What the cluster's nodes have been told before
    /// goes before this: a service that takes over, or begins again, hears of it from them.
    pub fn repair_limit(mut self, limit: RepairLimit) -> Self {
        self.settings.repair_limit = limit;
        self
    }

    /// Lets operators ask the service and limit repairs by a local socket, which its user and root may
    /// use (`qsm repair`). On by default.
    pub fn admin(mut self, admin: bool) -> Self {
        self.settings.admin = admin;
        self
    }

    /// File of the list of revocations, as `qsm token revoke` writes it, for a service with an identity
    /// ([`NetworkOptions::identity`]). It is read again within a second of each change; who is revoked is shut out.
    pub fn revocations(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.revoked = Some(path.into());
        self
    }

    /// Opens the sockets and starts the thread.
    ///
    /// # Errors
    /// [`StartError`], whose text says what to do.
    pub fn start(mut self) -> Result<Service, StartError> {
        let network = &mut self.settings.network;
        network.unicast_port.get_or_insert(SERVICE_PORT);
        let running = start(self.settings)?;
        Ok(Service { running })
    }
}

/// Measures what plans weigh on this machine, over loopback: CPU time of a packet sent and of one that is not
/// wanted, in 5 ms on a usual machine; the other costs follow. Values that no server has become the nearest that
/// one may have ([`PlanCosts::of_packets`](crate::PlanCosts::of_packets)).
///
/// # Errors
/// There is no loopback interface, or nothing passes by it. `PlanCosts::default()` are the costs of a typical server.
pub fn measure_plan_costs() -> io::Result<Costs> {
    let cost = DatagramCost::measure()?;
    let nanos = |time: Duration| u32::try_from(time.as_nanos()).unwrap_or(u32::MAX);
    Ok(Costs::of_packets(nanos(cost.sent), nanos(cost.received)))
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
/// ```
/// use std::time::Duration;
/// use qsm::{NetworkOptions, Node, Service};
///
/// # let cluster = format!("doc-service-{}", std::process::id());
/// let network = NetworkOptions::new().interface("lo").unicast_port(0);
/// let service = Service::builder()
/// #   .cluster(&cluster)
///     .network(network)
///     .start()?;
/// println!("nodes reach it at {}", service.address());
///
/// let node = Node::builder()
/// #   .cluster(&cluster)
///     .interface("lo")
///     .service(service.address())
///     .start()?;
/// node.wait_admitted(Duration::from_secs(10))?;
/// println!("{:?}", service.next_event()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
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

    /// Where nodes reach it. If its interface gets another address it goes on there, as a service
    /// that starts without memory: nodes find it by multicast and report what they know.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// Its knowledge and its counters.
    ///
    /// # Errors
    /// [`RequestError`]: it has ended.
    pub fn snapshot(&self) -> Result<ServiceSnapshot, RequestError> {
        self.running.shared.snapshot()
    }

    /// Limits what each node sends again, in every interval of 10 ms (R-NAK-16): all nodes are told with
    /// the next batch, and each that comes. It replaces the limit before.
    ///
    /// ```
    /// # use qsm::{NetworkOptions, RepairLimit, Service};
    /// # let network = NetworkOptions::new().interface("lo").unicast_port(0);
    /// # let cluster = format!("doc-limit-{}", std::process::id());
    /// # let service = Service::builder().cluster(cluster).network(network).start()?;
    /// let five_percent = RepairLimit { share_ppm: 50_000, ..RepairLimit::default() };
    /// service.limit_repairs(five_percent);
    /// assert_eq!(service.snapshot()?.repair_limit, five_percent);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limit_repairs(&self, limit: RepairLimit) {
        self.running.shared.limit_repairs(limit);
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
            .field("address", &self.running.address())
            .finish_non_exhaustive()
    }
}

/// A share in parts of a million.
pub(super) fn share_ppm(share: f64) -> u32 {
    // Between 0 and a million; what is no number is 0.
    (share.clamp(0.0, 1.0) * 1e6).round() as u32
}
