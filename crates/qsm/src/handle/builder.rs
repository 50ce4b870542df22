use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use qsm_gms::ServiceHints;
use qsm_proto::view::Layout;
use qsm_proto::{Limits, Pace, Recovery};
use qsm_wire::Coverage;

use super::lookup::ServiceLookup;
use super::service::share_ppm;
use crate::handoff::gate::GateLimits;
use crate::latency::LatencyBudget;
use crate::runtime::network::{ChannelOptions, NetworkOptions, plain};
use crate::runtime::settings::{Embedded, NodeSettings, RecordingSettings};
use crate::runtime::tap::{Tap, Tapped};
use crate::runtime::threads::ThreadOptions;

/// Settings of a node at its start; everything has a default that works.
///
/// ```no_run
/// use qsm::Node;
///
/// let node = Node::builder().name("ticker").interface("eth0").start()?;
/// # Ok::<(), qsm::StartError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing before `start`"]
pub struct Builder {
    pub(crate) settings: NodeSettings,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) lookup: Option<ServiceLookup>,
}

impl Builder {
    /// Default of [`Builder::request_timeout`]: 10 s.
    pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
    /// Default of [`Builder::queue_messages`]: 4,096.
    pub const QUEUE_MESSAGES: usize = 4096;
    /// Default of [`Builder::queue_bytes`]: 4 MiB.
    pub const QUEUE_BYTES: usize = 4 << 20;
    /// Default of [`Builder::queue_bytes_total`]: 64 MiB.
    pub const QUEUE_BYTES_TOTAL: usize = 64 << 20;
    /// Default of [`Builder::record_limit`]: 1 GiB.
    pub const RECORD_LIMIT: u64 = qsm_record::LIMIT_BYTES;

    /// The defaults.
    pub fn new() -> Self {
        let settings = NodeSettings {
            name: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cluster: "default".to_owned(),
            service: None,
            embedded: Embedded::default(),
            network: NetworkOptions::default(),
            channels: ChannelOptions::default(),
            gone_after: None,
            slow_after: None,
            plan_every: None,
            plan_unwanted_ppm: 0,
            plan_common: Some(qsm_gms::PLAN_COMMON),
            hints: ServiceHints::default(),
            revoked: None,
            admin: true,
            datagram_bytes: None,
            coverage: Coverage::Head,
            layout: Layout::default(),
            limits: Limits::default(),
            recovery: Recovery::default(),
            pace: Pace::default(),
            queues: GateLimits {
                messages: Self::QUEUE_MESSAGES,
                bytes: Self::QUEUE_BYTES,
                bytes_total: Self::QUEUE_BYTES_TOTAL,
            },
            request_timeout: Self::REQUEST_TIMEOUT,
            threads: ThreadOptions::default(),
            latency_budget: None,
            own_messages: true,
            tap: None,
            recording: RecordingSettings {
                path: None,
                limit_bytes: Self::RECORD_LIMIT,
            },
        };
        Self {
            settings,
            metrics: None,
            lookup: None,
        }
    }

    /// A label for people, at most [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX) bytes; if not given, the
    /// names of host and program and the number of the process: `desk-7/ticker/4021`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// The program's version, which lists show ([`About::version`](crate::About)): that of this library
    /// if not given. More than 32 bytes are cut off.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.settings.version = version.into();
        self
    }

    /// The cluster, at most [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX) bytes: `default` if not given. Clusters do not see
    /// each other.
    pub fn cluster(mut self, cluster: impl Into<String>) -> Self {
        self.settings.cluster = cluster.into();
        self
    }

    /// Sockets: interfaces, addresses, buffers. An embedded service has the same network.
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

    /// Multicast addresses that an embedded service gives to regions.
    pub fn channels(mut self, channels: ChannelOptions) -> Self {
        self.settings.channels = channels;
        self
    }

    /// Silence after which an embedded service excludes a node, as
    /// [`ServiceBuilder::gone_after`](crate::ServiceBuilder::gone_after).
    pub fn gone_after(mut self, silence: Duration) -> Self {
        self.settings.gone_after = Some(silence);
        self
    }

    /// Time for which publishers wait for a node that is slower than the others, if this node embeds
    /// the service, as [`ServiceBuilder::slow_after`](crate::ServiceBuilder::slow_after).
    pub fn slow_after(mut self, time: Duration) -> Self {
        self.settings.slow_after = Some(time);
        self
    }

    /// Least time between two plans of private regions, if this node embeds the service, as
    /// [`ServiceBuilder::plan_every`](crate::ServiceBuilder::plan_every).
    pub fn plan_every(mut self, interval: Duration) -> Self {
        self.settings.plan_every = Some(interval);
        self
    }

    /// Share of the deliveries in a region that its members may not want, if this node embeds the
    /// service, as [`ServiceBuilder::plan_unwanted`](crate::ServiceBuilder::plan_unwanted).
    pub fn plan_unwanted(mut self, share: f64) -> Self {
        self.settings.plan_unwanted_ppm = share_ppm(share);
        self
    }

    /// Packets a second that a region for what several others have in common has to save, if this node
    /// embeds the service, as [`ServiceBuilder::plan_common`](crate::ServiceBuilder::plan_common).
    pub fn plan_common(mut self, packets: Option<u32>) -> Self {
        self.settings.plan_common = packets;
        self
    }

    /// Hints on which nodes share regions, and which groups have channels of their own, if this node
    /// embeds the service, as [`ServiceBuilder::hints`](crate::ServiceBuilder::hints). All nodes that
    /// may embed it need the same.
    pub fn hints(mut self, hints: ServiceHints) -> Self {
        self.settings.hints = hints;
        self
    }

    /// File of the list of revocations, if this node has an identity and embeds the service, as
    /// [`ServiceBuilder::revocations`](crate::ServiceBuilder::revocations). All nodes that may embed it need the same:
    /// a service without it lets in who was revoked.
    pub fn revocations(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.revoked = Some(path.into());
        self
    }

    /// Where the membership service is. If not given, it is looked for by multicast.
    pub fn service(mut self, address: SocketAddr) -> Self {
        self.settings.service = Some(plain(address));
        self
    }

    /// Where the membership service may be, if it is not at [`Builder::service`] any more: asked on a
    /// thread of its own while the service is silent, every two seconds, with another of the addresses
    /// tried each time. Without effect where no address is given, since the service is looked for by
    /// multicast then.
    ///
    /// ```no_run
    /// use std::net::ToSocketAddrs;
    ///
    /// use qsm::Node;
    ///
    /// // The service may start again on another host, where the name leads then.
    /// let name = "gms.example:4481";
    /// let places = move || name.to_socket_addrs().map_or(Vec::new(), Iterator::collect);
    /// let first = places().first().copied().ok_or("gms.example has no address")?;
    /// let node = Node::builder().service(first).service_lookup(places).start()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn service_lookup(
        mut self,
        lookup: impl Fn() -> Vec<SocketAddr> + Send + Sync + 'static,
    ) -> Self {
        self.lookup = Some(ServiceLookup::new(lookup));
        self
    }

    /// When to run a membership service in this process. Without effect when
    /// [`Builder::service`] is given, except for [`Embedded::Always`], which then is an
    /// additional one. A node with an identity ([`NetworkOptions::identity`]) runs one only if its token has the
    /// role of a service; without it, the node does not start with [`Embedded::Always`].
    pub fn embedded_service(mut self, embedded: Embedded) -> Self {
        self.settings.embedded = embedded;
        self
    }

    /// Largest datagram sent, in bytes, without IP and UDP headers; if not given, 1472, which is
    /// what Ethernet carries (IPv6: 1452; on loopback 7500 more), or what the interface carries if
    /// that is less.
    /// More needs jumbo frames on the whole path.
    pub fn datagram_bytes(mut self, bytes: usize) -> Self {
        self.settings.datagram_bytes = Some(bytes);
        self
    }

    /// Lets the checksum of each packet sent cover the messages as well; if not given, it covers the
    /// header of a data packet, and everything else that is sent. With it, a message that was
    /// damaged in the network is repaired like one that was lost; without it, UDP's checksum is what
    /// guards the content. Receivers check what there is. It costs a pass over each packet at the
    /// sender and at each receiver.
    pub fn payload_checksums(mut self, on: bool) -> Self {
        self.settings.coverage = if on { Coverage::Whole } else { Coverage::Head };
        self
    }

    /// Layout of regions; must be the same on all nodes of the cluster.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.settings.layout = layout;
        self
    }

    /// Limits of memory, for each core thread.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Bytes kept for members that are away ([`Event::Away`](crate::Event::Away)), for each core
    /// thread: of what this node sends, beside its send windows, and as much again of what it
    /// receives, of which it takes at most half of [`Limits::receive_bytes`]. 64 MiB if not given.
    /// The oldest goes first when more is sent meanwhile, so a member that is away for `t` seconds
    /// loses nothing while the region sends less than this divided by `t`. With 0 nothing is kept.
    ///
    /// A field of [`Builder::limits`], which sets it as well.
    pub fn retention_bytes(mut self, bytes: usize) -> Self {
        self.settings.limits.retention_bytes = bytes;
        self
    }

    /// Settings of finding and repairing losses.
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.settings.recovery = recovery;
        self
    }

    /// Settings of the rate of sending.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.settings.pace = pace;
        self
    }

    /// Most bytes that the node sends in a second, over all its groups, with headers, copies by unicast
    /// and what it sends again; 0, as without it: there is no limit. New messages wait for it; repairs
    /// and control go first and wait for nothing. Core threads have equal shares. R-RATE-13.
    ///
    /// A field of [`Builder::pace`], which sets it as well.
    pub fn send_limit(mut self, bytes_per_second: u64) -> Self {
        self.settings.pace.node_bytes_per_second = bytes_per_second;
        self
    }

    /// Most messages that wait in the queue of one publisher; beyond it `send` waits.
    pub fn queue_messages(mut self, messages: usize) -> Self {
        self.settings.queues.messages = messages.max(1);
        self
    }

    /// Most bytes that wait in the queue of one publisher. A larger message is accepted when the
    /// queue is empty.
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.settings.queues.bytes = bytes;
        self
    }

    /// Most bytes that wait in the queues of all publishers together; each core thread has its
    /// share of this.
    pub fn queue_bytes_total(mut self, bytes: usize) -> Self {
        self.settings.queues.bytes_total = bytes;
        self
    }

    /// Longest time of requests to the membership service: subscribing, leaving, queries.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = timeout;
        self
    }

    /// Number of core threads, 1 to [`CORES_MAX`](crate::CORES_MAX); 1 if not given.
    ///
    /// Each has sockets and protocol state of its own, and the groups whose names fall to it
    /// ([`Node::core_of`](crate::Node::core_of)); nothing is shared, so that several do several times as much where the
    /// groups' traffic is spread well. To the cluster each is a node of its own: see
    /// [`Node::list_nodes`](crate::Node::list_nodes), [`Node::ids`](crate::Node::ids), [`Node::core_stats`](crate::Node::core_stats). Within a group nothing changes, the
    /// order of messages included; a group cannot have more than one core.
    ///
    /// Give all nodes that have groups in common the same number. It works with any, but regions
    /// are nodes with the same groups: a node with one core and another with two have none in
    /// common, and a message to both is sent twice.
    pub fn cores(mut self, cores: usize) -> Self {
        self.settings.threads.cores = cores;
        self
    }

    /// Never sleep: core threads look for work without pause. Shortest latency (4 to 6 µs
    /// instead of 24 to 38), at the price of a whole CPU for each. With fewer CPUs they take turns
    /// (7 µs with three on two CPUs), if the kernel grants short slices ([`ThreadReport::slice`](crate::ThreadReport::slice)).
    pub fn spin(mut self, spin: bool) -> Self {
        self.settings.threads.spin = spin;
        self
    }

    /// Runs each core thread on one CPU only: the first on the first of these, and so on.
    /// There must be as many as cores.
    pub fn pin(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.settings.threads.cpus = Some(cpus.into_iter().collect());
        self
    }

    /// Puts the core threads into the real-time class `SCHED_FIFO` with this priority, 1 to 99:
    /// they run before everything of normal class on their CPU. It takes a privilege,
    /// without which the node does not start.
    ///
    /// Together with [`Builder::spin`] the CPU is lost for everything else: pin to one that is kept
    /// free.
    pub fn realtime(mut self, priority: u8) -> Self {
        self.settings.threads.realtime = Some(priority);
        self
    }

    /// Serves the node's metrics by HTTP at this address, in the format of OpenMetrics:
    /// `http://ADDRESS/metrics`, each core thread of several by its name. With port 0 the system
    /// chooses one ([`Node::metrics_address`](crate::Node::metrics_address)). Four threads do so, which
    /// sleep while nobody asks; nothing is counted for it beside what is counted anyway.
    ///
    /// Whoever reaches the address may read: choose one of loopback (`127.0.0.1`), or of a network
    /// for operators. What else a program has to say can be served by an
    /// [`Exporter`](crate::Exporter) of its own.
    pub fn metrics(mut self, address: SocketAddr) -> Self {
        self.metrics = Some(address);
        self
    }

    /// Lets programs of the same user, and of root, ask the running node by a local socket, as
    /// `qsm explain` does, and its service, if it embeds one, as `qsm repair` does; on by default. One
    /// thread answers for each, and sleeps while nobody asks.
    /// The socket has a name in Linux's abstract namespace
    /// ([`Node::admin_socket`](crate::Node::admin_socket)); where the system gives none, the node
    /// runs without.
    pub fn admin(mut self, admin: bool) -> Self {
        self.settings.admin = admin;
        self
    }

    /// Whether what this node publishes is delivered to its own subscriptions, too: so it is if not given.
    /// For programs that publish what they have read elsewhere, and read what others publish. A queue
    /// of their own that is full ([`Overflow::Hold`](crate::Overflow::Hold)) then does not keep them from
    /// publishing.
    ///
    /// Other nodes are not concerned, of the same process or not. Processes that are attached to this node
    /// publish by it, and get nothing of each other then.
    ///
    /// ```
    /// # let builder = qsm::Node::builder()
    /// #   .cluster(format!("doc-own-messages-{}", std::process::id()))
    /// #   .embedded_service(qsm::Embedded::Always)
    /// #   .interface("lo");
    /// let node = builder.own_messages(false).start()?;
    /// let news = node.subscribe(["news"])?;
    /// node.publisher("news")?.send(b"for others")?;
    /// # node.flush(std::time::Duration::from_secs(5))?;
    /// assert_eq!(news.try_recv()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn own_messages(mut self, delivered: bool) -> Self {
        self.settings.own_messages = delivered;
        self
    }

    /// Watches how long each stage of a message's way takes at this node, and says which takes longer
    /// than its share: by [`Event::OverBudget`](crate::Event::OverBudget) and in
    /// [`LatencyStats`](crate::LatencyStats). Not watched if not given.
    ///
    /// Each publisher then reads the clock for one message at a time, and the core thread looks at its
    /// streams and queues once in a millisecond at most; it wakes when a message has waited for
    /// its reader for as long as it may. Upcalls and attached processes have no queue that is watched, and
    /// of the network nobody knows ([`Stage::Network`](crate::Stage::Network)).
    pub fn latency_budget(mut self, budget: LatencyBudget) -> Self {
        self.settings.latency_budget = Some(budget);
        self
    }

    /// Shows every datagram that this node sends or receives to `tap`, with the time at which it
    /// crossed the border to the kernel: for measurements and captures. What an injected fault
    /// drops is not shown, nor what an embedded service sends and receives.
    ///
    /// It runs on the core threads, and for a message that is sent to a node that sleeps on the
    /// publisher's. It must be as short as an upcall; without it, nothing is timed. A panic ends the
    /// node, on whatever thread.
    pub fn tap(mut self, tap: impl Fn(Tapped<'_>) + Send + Sync + 'static) -> Self {
        self.settings.tap = Some(Tap::new(tap));
        self
    }

    /// Records everything that the protocol is given, from the node's start on, to this file, which
    /// is overwritten: datagrams, messages published, requests and the time. `qsm sim replay` gives
    /// it to a fresh state machine, which then does the same, byte for byte. The file has all
    /// messages in it, and is readable for this user only.
    ///
    /// A node with several cores ([`Builder::cores`]) writes one file for each, all but the first
    /// with the core's number behind the name: `FILE.2`. A thread writes it; the node never waits
    /// for the disk. If that is too slow or full, or [`Builder::record_limit`] is reached, recording
    /// stops, the node goes on, and [`Event::RecordingStopped`](crate::Event::RecordingStopped)
    /// says why. A process that is killed loses the last quarter of a second of the file, or what
    /// was received since the last turn of a node that sleeps.
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.recording.path = Some(path.into());
        self
    }

    /// Most bytes of each file that [`Builder::record`] writes.
    pub fn record_limit(mut self, bytes: u64) -> Self {
        self.settings.recording.limit_bytes = bytes;
        self
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}
