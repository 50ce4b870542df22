use core::time::Duration;
use std::net::SocketAddr;

use qsm_wire::{Coverage, HeaderTemplate, NodeId, Parity, SIGNED_TAIL_BYTES, TAIL_BYTES};

use crate::stats::RepairTimes;
use crate::view::Layout;

/// Everything a node can be told at its start. Public fields with defaults; checked by
/// [`Config::check`], which [`crate::Endpoint::new`] calls.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Config {
    /// This node's id; drawn at random by the runtime and kept over its incarnations.
    pub node: NodeId,
    /// A label for people.
    pub name: String,
    /// What it says of itself to the membership service, for lists. `None`: nothing, and nothing of its
    /// rates.
    pub introduction: Option<Introduction>,
    /// The cluster's name; datagrams of other clusters are dropped.
    pub cluster: String,
    /// Where this node receives unicast.
    pub address: SocketAddr,
    /// Where it receives the same on a second network, if it is on two. The runtime sends what is
    /// for the one address to the other as well, and gives each datagram to the endpoint as if it
    /// came from the first.
    pub second: Option<SocketAddr>,
    /// Whether this node multicasts, and listens to multicast. One that does not sends a copy to each
    /// member of a region (R-REACH-6), and has to know the membership service.
    pub multicast: bool,
    /// Whether what this node publishes is delivered to itself, too, where it is a subscriber. Without that
    /// its own full readers do not keep it from publishing.
    pub own_messages: bool,
    /// Where membership services are announced and looked for: a multicast address.
    pub discovery: SocketAddr,
    /// The membership service, if it is known.
    pub service: Option<SocketAddr>,
    /// How regions are cut.
    pub layout: Layout,
    /// Largest datagram, bytes: the interface's MTU less IP and UDP headers, at most 9000.
    pub datagram_bytes: usize,
    /// Whether parities are signed (R-SEC-17), and data packets leave room for that.
    pub signed: bool,
    /// Bytes of the data packets sent that their checksum covers. What others send is checked as
    /// far as they cover it.
    pub coverage: Coverage,
    /// The receive buffer that the kernel granted, bytes: receivers advertise it as credit.
    pub receive_buffer_bytes: usize,
    /// Limits of memory.
    pub limits: Limits,
    /// How losses are found and repaired.
    pub recovery: Recovery,
    /// How fast to send.
    pub pace: Pace,
    /// Times each stream's packets from its first on ([`Endpoint::take_delays`](crate::Endpoint::take_delays)).
    pub times_packets: bool,
}

/// A node's word on itself, for those who read lists (R-MEM-19); longer texts are not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Name of its host, at most 64 bytes.
    pub host: String,
    /// Version of its program, at most 32 bytes.
    pub version: String,
}

/// What a node may hold. Each limit states what happens beyond it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes in the send windows of all streams together; beyond it publishing is refused.
    pub send_bytes: usize,
    /// Bytes of packets kept for repair or order, over all streams, in places of one datagram
    /// each; beyond it the packets farthest ahead are dropped and asked for again later.
    pub receive_bytes: usize,
    /// Bytes kept for members that are away, at most: of own packets beside `send_bytes`; of
    /// received ones within `receive_bytes`, of which they may take half (R-VIEW-13). 0: what is
    /// stable is freed although somebody is away.
    pub retention_bytes: usize,
    /// Sequence numbers a stream may run ahead of what is contiguous; beyond it they are dropped.
    pub ahead_packets: u64,
    /// Streams a node receives at once; packets of further ones are dropped.
    pub streams: usize,
    /// Largest message, bytes.
    pub message_bytes: usize,
    /// Groups a node may be in or publish to.
    pub groups: usize,
}

/// When to ask, whom, and how much repair traffic to allow.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each switches a part of the protocol, by itself"
)]
pub struct Recovery {
    /// The NAK plane of algorithms (b). Off in seed-faithful mode (R-NAK-9).
    pub fast: bool,
    /// Without the fast plane: other partitions are asked only for what all of them hold that
    /// should. Found good for throughput by S2; repairs take a round or two longer.
    pub pull_late: bool,
    /// Shortest age of a gap before it is asked for; the larger of this and a fifth of the RTT.
    pub reorder_guard: Duration,
    /// Shortest time to the first retry of a NAK; the larger of this and 3 RTT.
    pub retry_min: Duration,
    /// Repairs a node may send, in bytes per second, besides an eighth of the bytes of new packets
    /// that it sends and receives.
    pub repair_bytes_per_second: u64,
    /// NAKs and pulls a node may send per second, besides one for every 32 packets that it
    /// receives.
    pub requests_per_second: u64,
    /// How long cachers that do not answer are waited for before a missing packet is asked of its
    /// sender, or, if that is dead, declared lost. Longer than it takes to exclude a dead member.
    pub give_up: Duration,
    /// Members find out whose multicast does not reach them (R-REACH-1). Off in seed-faithful mode.
    pub reach: bool,
    /// Cachers multicast parities where several members miss different packets of a block, and
    /// members keep blocks to use them (R-NAK-15). A part of the fast plane. Off by default: of
    /// packets sent it saves most where losses are many, but each parity comes to everybody.
    pub parity: bool,
    /// Parities of each of its own blocks that a node multicasts unasked, right behind the block
    /// (R-NAK-17); at most [`Recovery::PARITIES_AHEAD_MAX`], and none where it uses no parities. For
    /// networks that lose much and are slow to answer: every member gets so many packets more for
    /// each block, and losses that they make good wait for no request.
    pub parities_ahead: u8,
}

/// Token interval, rate control and windows.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Shortest time between two tokens of a leader. Seed-faithful mode: 1 s.
    pub token_min: Duration,
    /// Longest time between tokens while a stream is open.
    pub token_max: Duration,
    /// One token visits one partition after the other (S2 §2.3.2) instead of all rings
    /// rotating at once, and waits for a member that does not answer instead of passing it over.
    /// Seed-faithful mode; a round then takes time in proportion to the region.
    pub rings_in_turn: bool,
    /// Tokens and ACKs also say how far the cachers of each partition have got, so that a sender
    /// forgets packets behind a gap. Off in both modes: it is for S0's experiments, which
    /// found it harmful.
    pub partition_feedback: bool,
    /// How many times the credit a sender may have sent beyond what is stable (R-RATE-4), at least
    /// 1: what has arrived behind a gap must be kept, but waits in nobody's buffer. Seed-faithful
    /// mode: 1, S0 bounds what is not acknowledged (S0 §5.1).
    pub kept_factor: usize,
    /// S2 equations 1-4 as printed instead of "receivers object only when they lose".
    pub faithful_rate: bool,
    /// Interval Δ of the receive rate's samples; ten of them are averaged.
    pub rate_interval: Duration,
    /// Growth λ of equation 2, in parts per thousand.
    pub growth_permille: u32,
    /// µ_min: the rate below which no sender is pushed, packets per second.
    pub rate_min_packets: u32,
    /// Upper bound on the rate, packets per second; `u32::MAX` for none.
    pub rate_max_packets: u32,
    /// Upper bound on all that the node sends, over all its regions, copies among it; bytes per
    /// second, 0 for none (R-RATE-13). Repairs and control go first and are never held by it.
    pub node_bytes_per_second: u64,
    /// From the last packet of a stream to the first heartbeat: long enough for the next packet
    /// of a busy stream, short enough to repair a lost tail within 10 ms. Seed-faithful mode: 1 s,
    /// the token tells how far a stream goes.
    pub heartbeat_min: Duration,
    /// Time that datagrams may wait at a receiver all the time before it grants less credit
    /// (R-RATE-9). Zero: it always grants as much as its buffer takes, as in seed-faithful mode. The
    /// runtime has to say how long they have waited.
    pub queue_target: Duration,
    /// Longest a message waits for others to fill its packet. Zero: it leaves as soon as
    /// the core has nothing more urgent.
    pub batch_delay: Duration,
}

/// A configuration that cannot work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// `datagram_bytes` is below 512 or above 16,000.
    DatagramBytes {
        /// What was given.
        got: usize,
    },
    /// R is above [`crate::view::REPLICATION_MAX`].
    Replication {
        /// What was given.
        got: usize,
    },
    /// `recovery.parities_ahead` is above [`Recovery::PARITIES_AHEAD_MAX`].
    ParitiesAhead {
        /// The given number.
        got: u8,
    },
    /// A limit is too small to hold one datagram, one message or one stream.
    Limit {
        /// Which field.
        name: &'static str,
    },
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::DatagramBytes { got } => {
                write!(f, "datagram size {got} is not between 512 and 16000 bytes")
            }
            Self::Replication { got } => write!(
                f,
                "replication factor {got} is above {}",
                crate::view::REPLICATION_MAX
            ),
            Self::ParitiesAhead { got } => write!(
                f,
                "{got} parities ahead are more than {}",
                Recovery::PARITIES_AHEAD_MAX
            ),
            Self::Limit { name } => write!(f, "limit {name} is too small"),
        }
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    /// The defaults of requirements section 22 for a node at this address.
    #[must_use]
    pub fn new(node: NodeId, address: SocketAddr) -> Self {
        Self {
            node,
            name: format!("{:x}", node.0),
            introduction: None,
            cluster: "default".to_owned(),
            address,
            second: None,
            discovery: SocketAddr::from(([239, 192, 83, 77], 4483)),
            service: None,
            multicast: true,
            own_messages: true,
            layout: Layout::default(),
            datagram_bytes: 1472,
            signed: false,
            coverage: Coverage::default(),
            receive_buffer_bytes: 212_992,
            limits: Limits::default(),
            recovery: Recovery::default(),
            pace: Pace::default(),
            times_packets: false,
        }
    }

    /// Longest parity, bytes. Rule R-SEC-5.
    pub(crate) fn parity_bytes(&self) -> usize {
        let free_bytes = match self.signed {
            true => SIGNED_TAIL_BYTES,
            false => TAIL_BYTES,
        };
        self.datagram_bytes.saturating_sub(free_bytes)
    }

    /// The papers' protocol: no fast plane, one token a second that visits all partitions in turn,
    /// equations as printed.
    #[must_use]
    pub fn seed_faithful(mut self) -> Self {
        self.recovery.fast = false;
        self.recovery.pull_late = true;
        self.recovery.reach = false;
        self.recovery.parity = false;
        self.recovery.parities_ahead = 0;
        self.layout.replication = 5;
        self.layout.block_packets = 1;
        self.pace = Pace {
            token_min: Duration::from_secs(1),
            token_max: Duration::from_secs(1),
            rings_in_turn: true,
            kept_factor: 1,
            faithful_rate: true,
            rate_interval: Duration::from_secs(1),
            heartbeat_min: Duration::from_secs(1),
            queue_target: Duration::ZERO,
            ..self.pace
        };
        self
    }

    /// Whether a node can work with this.
    ///
    /// # Errors
    /// The first field that is out of bounds.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(512..=16_000).contains(&self.datagram_bytes) {
            return Err(ConfigError::DatagramBytes {
                got: self.datagram_bytes,
            });
        }
        if self.recovery.fast && self.layout.replication > crate::view::REPLICATION_MAX {
            return Err(ConfigError::Replication {
                got: self.layout.replication,
            });
        }
        if self.recovery.parities_ahead > Recovery::PARITIES_AHEAD_MAX {
            return Err(ConfigError::ParitiesAhead {
                got: self.recovery.parities_ahead,
            });
        }
        let least = [
            ("send_bytes", self.limits.send_bytes, 1 << 17),
            ("receive_bytes", self.limits.receive_bytes, 1 << 17),
            ("streams", self.limits.streams, 1),
            ("message_bytes", self.limits.message_bytes, 1),
            ("groups", self.limits.groups, 1),
        ];
        match least.into_iter().find(|(_, value, least)| value < least) {
            Some((name, ..)) => Err(ConfigError::Limit { name }),
            None => Ok(()),
        }
    }

    /// The number that stands for the cluster's name in every header (FNV-1a).
    #[must_use]
    pub fn cluster_number(&self) -> u32 {
        qsm_wire::cluster_number(&self.cluster)
    }

    /// The header of each of this node's packets, but for its life.
    #[must_use]
    pub fn header_template(&self) -> HeaderTemplate {
        HeaderTemplate::new(self.cluster_number())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            send_bytes: 64 << 20,
            receive_bytes: 128 << 20,
            retention_bytes: 64 << 20,
            ahead_packets: 1 << 16,
            streams: 1024,
            message_bytes: 16 << 20,
            groups: 1 << 17,
        }
    }
}

impl Recovery {
    /// Most parities that a node sends unasked for each block: the other half are the cachers'.
    pub const PARITIES_AHEAD_MAX: u8 = Parity::ROWS_MAX / 2;

    /// Age of a gap before it is asked for, if repairs and overtaken packets take that long.
    pub(crate) fn guard(&self, times: &RepairTimes) -> Duration {
        let least = self.reorder_guard.max(times.round_trip() / 5);
        least.max(times.disorder())
    }

    /// Returns whether parities are made and used.
    pub(crate) fn uses_parity(&self) -> bool {
        self.fast && self.parity
    }

    /// Parities that are sent unasked for each block. Rule R-NAK-17.
    #[must_use]
    pub fn parities_ahead(&self) -> u8 {
        match self.uses_parity() {
            true => self.parities_ahead,
            false => 0,
        }
    }

    /// Time to the first retry of a request, if repairs take that long.
    pub(crate) fn retry(&self, times: &RepairTimes) -> Duration {
        self.retry_min.max(times.patience() * 3)
    }
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            fast: true,
            pull_late: false,
            reorder_guard: Duration::from_micros(100),
            retry_min: Duration::from_millis(2),
            repair_bytes_per_second: 64 << 20,
            requests_per_second: 10_000,
            give_up: Duration::from_secs(2),
            reach: true,
            parity: false,
            parities_ahead: 0,
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            token_min: Duration::from_millis(5),
            token_max: Duration::from_secs(1),
            rings_in_turn: false,
            partition_feedback: false,
            kept_factor: 4,
            faithful_rate: false,
            rate_interval: Duration::from_millis(10),
            growth_permille: 100,
            rate_min_packets: 100,
            rate_max_packets: u32::MAX,
            node_bytes_per_second: 0,
            heartbeat_min: Duration::from_millis(2),
            queue_target: Duration::from_millis(1),
            batch_delay: Duration::ZERO,
        }
    }
}
