use core::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_metrics::prometheus::Page;
use qsm_metrics::{Metrics, Object, quoted};
use qsm_net::{IoReport, PortCounters, ThreadReport};
use qsm_proto::{Stats, Times};
use qsm_wire::{Incarnation, NodeId};

use crate::stats::{
    LatencyStats, Memory, PublisherStats, RuntimeStats, SubscriptionStats, TimerStats,
};

/// State and counters of a node at one moment. All counters only grow.
///
/// Of a node with several core threads counters are their sums and the longest of their times;
/// who it is, and what its sockets are, is said of the first.
///
/// `Display` has a line for each fact and for each metric that is not zero,
/// [`Snapshot::to_json`] and [`Snapshot::to_prometheus`] have everything for programs. All names
/// are listed in `docs/operate/metrics.md`.
///
/// ```no_run
/// # fn example(node: &qsm::Node) -> Result<(), qsm::RequestError> {
/// let now = node.stats()?;
/// println!("{} messages wait for receivers", now.protocol.pending_messages);
/// println!("99 of 100 repairs took at most {:?}", now.times.repair.quantile(990));
/// println!("timers ran at most {:?} late of late", now.timers.late_recent_max);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot {
    /// The node's id.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Its cluster.
    pub cluster: String,
    /// Where it receives unicast.
    pub address: SocketAddr,
    /// Its life; `None` before the membership service admitted it.
    pub incarnation: Option<Incarnation>,
    /// The membership service it uses, if it answers.
    pub service: Option<SocketAddr>,
    /// Counters of the protocol.
    pub protocol: Stats,
    /// Times that it measured: repairs, time to stability, token hops and rounds.
    pub times: Times,
    /// Counters of the sockets, on both networks together if it is on two.
    pub port: PortCounters,
    /// The sockets.
    pub io: IoReport,
    /// Those on the second network, if it is on two.
    pub second: Option<IoReport>,
    /// Their counters, as a part of `port`.
    pub second_port: Option<PortCounters>,
    /// The core thread's CPU and class.
    pub thread: ThreadReport,
    /// Core threads that this is the sum of.
    pub cores: usize,
    /// Counters of the core thread.
    pub runtime: RuntimeStats,
    /// Delays with which the core thread ran timers.
    pub timers: TimerStats,
    /// Stages beside their shares of the latency budget; all zero without one.
    pub latency: LatencyStats,
    /// Memory that the protocol holds now.
    pub memory: Memory,
    /// Subscriptions and upcalls.
    pub subscriptions: Vec<SubscriptionRow>,
    /// Publishers.
    pub publishers: Vec<PublisherRow>,
}

impl Snapshot {
    /// Of both together; who it is, as before.
    pub(crate) fn add(mut self, other: Self) -> Self {
        self.cores += other.cores;
        self.protocol += other.protocol;
        self.times += other.times;
        self.port += other.port;
        if let (Some(second), Some(more)) = (&mut self.second_port, other.second_port) {
            *second += more;
        }
        self.runtime += other.runtime;
        self.timers += other.timers;
        self.latency += other.latency;
        self.memory += other.memory;
        self.subscriptions.extend(other.subscriptions);
        self.publishers.extend(other.publishers);
        self
    }

    /// Everything as one JSON object, without line breaks. Metrics are objects named as the
    /// fields of the snapshot, and each metric in them as its field; times are in seconds.
    #[must_use]
    pub fn to_json(&self) -> String {
        let optional =
            |text: Option<String>| text.map_or_else(|| "null".to_owned(), |t| quoted(&t));
        let mut object = Object::new()
            .text("node", &format!("{:x}", self.node.0))
            .text("name", &self.name)
            .text("cluster", &self.cluster)
            .text("address", &self.address.to_string())
            .count("incarnation", self.incarnation.unwrap_or_default().0.into())
            .json("service", &optional(self.service.map(|at| at.to_string())))
            .count("cores", self.cores as u64);
        for (name, metrics) in self.metrics() {
            object = object.metrics(name, metrics);
        }
        object
            .list(
                "subscriptions",
                self.subscriptions.iter().map(SubscriptionRow::json),
            )
            .list("publishers", self.publishers.iter().map(PublisherRow::json))
            .to_string()
    }

    /// All metrics as text that Prometheus reads, labelled with cluster and node name. Those of
    /// subscriptions and publishers are sums over all of them.
    #[must_use]
    pub fn to_prometheus(&self) -> String {
        let mut page = Page::new();
        self.add_to(&mut page, &[]);
        page.to_string()
    }

    /// The same in the format of OpenMetrics 1.0.
    #[must_use]
    pub fn to_open_metrics(&self) -> String {
        let mut page = Page::new();
        self.add_to(&mut page, &[]);
        page.to_open_metrics()
    }

    /// Adds its metrics to a page for Prometheus, each with these labels beside cluster and node
    /// name. One page may have several nodes, or the core threads of one
    /// ([`Node::core_stats`](crate::Node::core_stats)), which have names of their own.
    ///
    /// # Panics
    /// As [`Page::add`].
    pub fn add_to(&self, page: &mut Page, labels: &[(&str, &str)]) {
        let mut all = vec![("cluster", &*self.cluster), ("node", &*self.name)];
        all.extend(labels);
        for (name, metrics) in self.metrics() {
            match name {
                // Its group is that of the sum over both networks.
                "second_port" => page.add_as(name, metrics, &all),
                _ => page.add(metrics, &all),
            }
        }
        let mut subscriptions = SubscriptionStats::default();
        self.subscriptions
            .iter()
            .for_each(|row| subscriptions += row.stats);
        page.add(&subscriptions, &all);
        let mut publishers = PublisherStats::default();
        self.publishers
            .iter()
            .for_each(|row| publishers += row.stats);
        page.add(&publishers, &all);
    }

    /// All metrics but those of single subscriptions and publishers, by the names of their fields.
    fn metrics(&self) -> Vec<(&'static str, &dyn Metrics)> {
        let mut all: Vec<(&str, &dyn Metrics)> = vec![
            ("protocol", &self.protocol),
            ("times", &self.times),
            ("runtime", &self.runtime),
            ("timers", &self.timers),
            ("latency", &self.latency),
            ("memory", &self.memory),
            ("port", &self.port),
        ];
        if let Some(second) = &self.second_port {
            all.push(("second_port", second));
        }
        all
    }
}

/// A subscription, or upcalls: the part of it that lies on one core thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionRow {
    /// Its groups.
    pub groups: Arc<[Arc<str>]>,
    /// The process that reads it, if that is attached to the node, and not the node's own.
    pub process: Option<u32>,
    /// It is served by upcalls, and has no queue.
    pub upcall: bool,
    /// Its queue.
    pub stats: SubscriptionStats,
}

impl SubscriptionRow {
    fn json(&self) -> String {
        let object = Object::new().list("groups", self.groups.iter().map(|name| quoted(name)));
        let process = self.process.map(|process| process.to_string());
        let object = object.json("process", process.as_deref().unwrap_or("null"));
        let object = object.json("upcall", &self.upcall.to_string());
        object.metrics("stats", &self.stats).to_string()
    }
}

/// A publisher, or a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublisherRow {
    /// Its group.
    pub group: Arc<str>,
    /// It is a feed, and has no queue.
    pub feed: bool,
    /// Its queue.
    pub stats: PublisherStats,
}

impl PublisherRow {
    fn json(&self) -> String {
        let object = Object::new().text("group", &self.group);
        let object = object.json("feed", &self.feed.to_string());
        object.metrics("stats", &self.stats).to_string()
    }
}

/// One line for each fact, for people; metrics that are not zero, part by part.
impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "node {:x} {:?} of cluster {:?}",
            self.node.0, self.name, self.cluster
        )?;
        if self.cores > 1 {
            writeln!(f, "core threads: {}; of the first:", self.cores)?;
        }
        writeln!(f, "{}", self.io)?;
        if let Some(second) = &self.second {
            writeln!(f, "second {second}")?;
        }
        match self.service {
            Some(address) => writeln!(f, "membership service: {address}")?,
            None => writeln!(f, "membership service: none")?,
        }
        for (name, metrics) in self.metrics() {
            write_part(f, &name.replace('_', " "), metrics)?;
        }
        Ok(())
    }
}

/// Lines of the metrics that are not zero under a title, if there are any.
pub(crate) fn write_part(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    metrics: &dyn Metrics,
) -> fmt::Result {
    let mut title = format!("{title}:\n");
    for row in qsm_metrics::rows(metrics)
        .iter()
        .filter(|row| !row.is_zero())
    {
        writeln!(f, "{title}{row}")?;
        title.clear();
    }
    Ok(())
}
