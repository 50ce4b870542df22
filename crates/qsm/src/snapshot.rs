use core::fmt;
use core::ops::AddAssign;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use qsm_net::{IoReport, PortCounters, ThreadReport};
use qsm_proto::Stats;
use qsm_proto::stats::Histogram;
use qsm_wire::{Incarnation, NodeId};

/// What a node is and has done, at one moment. All counters only grow.
///
/// Of a node with several core threads counters are their sums and the longest of their times;
/// who it is, and what its sockets are, is said of the first.
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
    /// Since the node's start.
    pub uptime: Duration,
    /// What the protocol did.
    pub protocol: Stats,
    /// What the sockets did, on both networks together if it is on two.
    pub port: PortCounters,
    /// What the sockets are.
    pub io: IoReport,
    /// What those on the second network are, if it is on two.
    pub second: Option<IoReport>,
    /// What they did, as a part of `port`.
    pub second_port: Option<PortCounters>,
    /// How the core thread runs.
    pub thread: ThreadReport,
    /// Core threads that this is the sum of.
    pub cores: usize,
    /// What the core thread did.
    pub runtime: RuntimeStats,
    /// How long repairs took.
    pub repair: RepairLatency,
    /// What the protocol holds in memory now.
    pub memory: Memory,
    /// Subscriptions and upcalls.
    pub subscriptions: Vec<SubscriptionRow>,
    /// Publishers.
    pub publishers: Vec<PublisherRow>,
    /// What `repair` says in short.
    pub(crate) repairs: Histogram,
}

impl Snapshot {
    /// Of both together; who it is, as before.
    pub(crate) fn add(mut self, other: Self) -> Self {
        self.cores += other.cores;
        self.protocol += other.protocol;
        self.port += other.port;
        if let (Some(second), Some(more)) = (&mut self.second_port, other.second_port) {
            *second += more;
        }
        self.runtime += other.runtime;
        self.repairs.merge(&other.repairs);
        self.repair = RepairLatency::of(&self.repairs);
        self.memory.send_bytes += other.memory.send_bytes;
        self.memory.receive_bytes += other.memory.receive_bytes;
        self.subscriptions.extend(other.subscriptions);
        self.publishers.extend(other.publishers);
        self
    }
}

/// Packets in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Memory {
    /// Of streams sent: not yet sent, or kept until they are safe.
    pub send_bytes: usize,
    /// Of streams received: out of order, or cached for others.
    pub receive_bytes: usize,
}

/// What a core thread has done since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RuntimeStats {
    /// Turns of its loop.
    pub turns: u64,
    /// Turns begun asleep until something came.
    pub sleeps: u64,
    /// Turns begun awake without work: under load more comes soon, and a spinning core never sleeps.
    pub awake: u64,
    /// Turns in which receiving was cut short, for the sake of timers and sending.
    pub receive_cut: u64,
    /// Datagrams handled before others that had come before them, because they were more urgent.
    pub received_first: u64,
    /// Messages taken from publishers' queues.
    pub messages_pushed: u64,
    /// Times that a publisher's thread sent what it had queued itself, while the core thread slept.
    pub sends_lent: u64,
    /// Messages pulled from feeds.
    pub messages_pulled: u64,
    /// Messages of feeds that were not sent because they were too large.
    pub messages_refused: u64,
    /// Times that a publisher or feed had to wait for the send window.
    pub window_full: u64,
    /// Messages put into subscriptions' queues.
    pub messages_queued: u64,
    /// Upcalls made.
    pub upcalls: u64,
    /// Messages dropped because a subscription's queue was full.
    pub slow_consumer_drops: u64,
    /// Messages that no subscription wanted any more, or that came faster than the names of their
    /// groups.
    pub messages_unwanted: u64,
    /// Times that the send buffer was full and sending went on later.
    pub send_blocked: u64,
    /// Trains or datagrams that the system refused to send; the protocol repairs that.
    pub send_failed: u64,
    /// Bytes that wait in publishers' queues now.
    pub queued_bytes: u64,
    /// The latest that a timer ran, after its time (R127).
    pub timer_late_max: Duration,
    /// The longest turn (R125).
    pub turn_max: Duration,
}

/// Of two core threads.
impl AddAssign for RuntimeStats {
    fn add_assign(&mut self, other: Self) {
        self.turns += other.turns;
        self.sleeps += other.sleeps;
        self.awake += other.awake;
        self.receive_cut += other.receive_cut;
        self.received_first += other.received_first;
        self.messages_pushed += other.messages_pushed;
        self.sends_lent += other.sends_lent;
        self.messages_pulled += other.messages_pulled;
        self.messages_refused += other.messages_refused;
        self.window_full += other.window_full;
        self.messages_queued += other.messages_queued;
        self.upcalls += other.upcalls;
        self.slow_consumer_drops += other.slow_consumer_drops;
        self.messages_unwanted += other.messages_unwanted;
        self.send_blocked += other.send_blocked;
        self.send_failed += other.send_failed;
        self.queued_bytes += other.queued_bytes;
        self.timer_late_max = self.timer_late_max.max(other.timer_late_max);
        self.turn_max = self.turn_max.max(other.turn_max);
    }
}

/// How long repairs took, from finding a packet missing to having it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RepairLatency {
    /// Repairs timed.
    pub count: u64,
    /// Half of them took at most this long.
    pub p50: Duration,
    /// 99 of 100.
    pub p99: Duration,
    /// All of them.
    pub max: Duration,
}

impl RepairLatency {
    pub(crate) fn of(repairs: &Histogram) -> Self {
        Self {
            count: repairs.count(),
            p50: repairs.quantile(500),
            p99: repairs.quantile(990),
            max: repairs.quantile(1000),
        }
    }
}

/// A subscription, or upcalls: the part of it that lies on one core thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionRow {
    /// Its groups.
    pub groups: Arc<[Arc<str>]>,
    /// It is served by upcalls, and has no queue.
    pub upcall: bool,
    /// Messages that wait to be read; those of an attached process are not counted.
    pub queued_messages: usize,
    /// Bytes that wait to be read.
    pub queued_bytes: usize,
    /// Messages dropped because the queue was full.
    pub dropped: u64,
}

/// A publisher, or a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublisherRow {
    /// Its group.
    pub group: Arc<str>,
    /// It is a feed, and has no queue.
    pub feed: bool,
    /// Messages that wait to be sent.
    pub queued_messages: usize,
    /// Bytes that wait to be sent.
    pub queued_bytes: usize,
    /// It has a message that the send window has no room for.
    pub blocked: bool,
}

/// One line for each fact, for people.
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
        write!(f, "{}", self.protocol)?;
        let RepairLatency {
            count,
            p50,
            p99,
            max,
        } = self.repair;
        write!(
            f,
            "repairs timed: {count}; p50 {p50:?}, p99 {p99:?}, max {max:?}"
        )
    }
}
