//! The machines of the papers, as costs, and the two protocols that run on them.
//!
//! Every constant has one source. What a paper does not give is inferred from one of its
//! observations, which is named, and then kept for all others; some are chosen so that one
//! experiment comes out.
//!
//! | constant | value | source |
//! |---|---|---|
//! | [`S2`] making and sending a message | 30 + 70 µs | 9850 packets/s at one node (S2 §3.2, fig. 9) |
//! | [`S0`] making and sending a message | 32 + 55 µs | rates of 8000 messages/s are reached (S0 fig. 32-35) |
//! | copying | 7.5 µs per KiB, twice | 12-14 % of the sender's time (S0 §5.1) |
//! | receiving and delivering | 45 + 5 µs | receivers half idle at the sender's maximum (S0 fig. 12) |
//! | [`S2`] a forwarded packet | one packet more to send and one more to receive: its acknowledgement | "all control traffic is handled by a reliable TCP-like unicast protocol" (S2 §2.3.3), "ordinary unicast ACKs" (S2 §3.3). Not in [`S0`]: ten receivers would then lose 13 % where its fig. 25 has 2-3 % |
//! | control packets: receive, send, decide on a token | 400, 300, 500 µs | 2 ms from receiver to receiver (S0 §5.5) |
//! | [`S0`] acting on a number in an ACK | 5 ms | five tokens a second instead of one free 30 % of what is pending, which is 3 % of the throughput (10 MB or 500 ms for 5 %), and yet bring less than 1 %: four more ACKs a second take 2 % (S0 §5.1) |
//! | waking a sleeping thread | 400 µs | part of these 2 ms; context switches at low rates (S0 §5.4) |
//! | order, quanta | S2: as they came, 100 ms; S0: control first, forwarded packets too, 50 ms | S2 §2.5; S0 §4, §5.3 |
//! | heap kept per byte of a pending message | 3 | memory grows nearly three times as fast as pending messages (S0 §5.1, fig. 16) |
//! | pause per collection | 4 ms per MiB alive | timers of idle receivers, 3 MiB alive, are late by 12-14 ms at most (S0 §5.3, fig. 30) |
//! | collection every | 20 MiB allocated | 10 MB more cost 5 % of the throughput (S0 §5.1) |
//! | heap per group at the sender | 12 KiB | "with thousands of groups, these add up to tens of megabytes" (S0 §5.5) |
//! | socket | 3100 packets | a node that sleeps 0.5 s in 5 s loses 2-3 % (S0 §5.3, fig. 25) |
//! | stalls of S2's nodes | 170 ms every 10 s, exponential | "easily disturbed by scheduling" (S2 §2.4); fraction repaired × 2.5 rounds = some ms (S2 §3.9) |
//! | µ_min | 3000 packets/s, 1000 for E13 | the lowest rate that S2 shows (§3.8, fig. 17) |
//! | λ | 0.025 | not given, "low" (S2 §2.4): with it 71 nodes lose some of the rate (S2 fig. 9), and start-up takes minutes (S2 §3.8) |

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::view::Layout;
use qsm_proto::{Config, Limits, Seed};
use qsm_sim::NetworkOptions;
use qsm_sim::cost::{CostModel, HeapModel, Order};
use qsm_sim::probe::{ClusterOptions, Disturbance};
use qsm_wire::NodeId;

/// Which protocol runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// As the papers print it.
    Faithful,
    /// As it is by default.
    Modern,
}

impl Mode {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Faithful, Self::Modern];

    /// As it is called in tables and plots.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Faithful => "seed-faithful",
            Self::Modern => "modern",
        }
    }
}

/// A paper's machines and messages.
#[derive(Debug, Clone, Copy)]
pub struct Machines {
    costs: CostModel,
    /// Bytes that the application gives for one message.
    message_bytes: usize,
    /// Bytes of a datagram with one message.
    packet_bytes: usize,
    /// The sender's rate follows the receivers' (S2 §2.4); otherwise only the window limits it.
    rate_control: bool,
    /// Other partitions are asked only for what all their members hold (R082); S0 does not say so.
    pull_late: bool,
    stalls: Option<Disturbance>,
}

/// µ_min, packets per second.
const RATE_MIN: u32 = 3000;
/// Packets that a socket holds.
pub(crate) const SOCKET_PACKETS: usize = 3100;
/// Bytes before a message in a datagram that holds only it.
const PACKET_HEAD_BYTES: usize = qsm_wire::DATA_HEADER_BYTES + qsm_wire::CHUNK_HEADER_BYTES;

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const HEAP: HeapModel = HeapModel {
    base_bytes: 3 << 20,
    kept_percent: 300,
    allocated_percent: 300,
    group_bytes: 12 << 10,
    collect_every_bytes: 20 << 20,
    pause_per_mib: Duration::from_millis(4),
};

/// S0's: Pentium III 1.3 GHz, 100 Mbit/s, .NET 2.0, messages of 1000 bytes.
pub const S0: Machines = Machines {
    costs: CostModel {
        receive: micros(45),
        receive_control: micros(400),
        token: micros(500),
        ack_value: Duration::from_millis(5),
        send: micros(55),
        forwarded_acknowledged: false,
        send_control: micros(300),
        publish: micros(32),
        deliver: micros(5),
        timer: micros(20),
        copy_per_kib: Duration::from_nanos(7500),
        copies: 2,
        wake: micros(400),
        io_quantum: Duration::from_millis(50),
        output_first: Duration::ZERO,
        order: Order::ControlFirst,
        told_of_drops: false,
        heap: Some(HEAP),
        weight: 1,
    },
    message_bytes: 1000,
    packet_bytes: 1000 + PACKET_HEAD_BYTES,
    rate_control: false,
    pull_late: false,
    stalls: None,
};

/// S2's: the same processors, an earlier version of QSM, messages of a few integers.
pub const S2: Machines = Machines {
    costs: CostModel {
        ack_value: Duration::ZERO,
        send: micros(70),
        publish: micros(30),
        forwarded_acknowledged: true,
        io_quantum: Duration::from_millis(100),
        order: Order::Arrival,
        ..S0.costs
    },
    message_bytes: 12,
    packet_bytes: 12 + PACKET_HEAD_BYTES,
    rate_control: true,
    pull_late: true,
    stalls: Some(Disturbance::Stalls {
        every: Duration::from_secs(10),
        length: Duration::from_millis(170),
    }),
};

impl Machines {
    /// One region of that many nodes, the last of which publishes to one group as fast as it
    /// can. Each simulated packet stands for `weight`.
    #[must_use]
    pub fn cluster(&self, mode: Mode, nodes: usize, weight: u32) -> ClusterOptions {
        let config = Config::new(NodeId(0), ([127, 0, 0, 1], 1).into());
        let config = match mode {
            Mode::Faithful => config.seed_faithful(),
            Mode::Modern => config,
        };
        let mut recovery = config.recovery;
        recovery.pull_late &= self.pull_late;
        let mut pace = config.pace;
        pace.growth_permille = 25;
        pace.rate_min_packets = (RATE_MIN / weight).max(1);
        pace.heartbeat_min *= weight;
        // A packet stands for several, and a turn of these hosts takes longer than the target.
        pace.queue_target = Duration::ZERO;
        if mode == Mode::Faithful {
            pace.faithful_rate = self.rate_control;
        } else {
            pace.token_min = Duration::from_millis(500);
        }
        let packets = (SOCKET_PACKETS / weight as usize).max(8);
        ClusterOptions {
            seed: Seed(0),
            nodes,
            regions: 1,
            groups: 1,
            senders: vec![nodes - 1],
            message_bytes: self.message_bytes,
            layout: Layout { ..config.layout },
            recovery,
            pace,
            limits: Limits {
                streams: 64,
                ..Limits::default()
            },
            credit_bytes: 1 << 30,
            costs: self.costs(mode, weight),
            network: self.network(packets, weight),
            minimum_rate: 0,
            away: Vec::new(),
            every: BTreeMap::new(),
            disturbances: self.stalls.into_iter().collect(),
            warmup: Duration::from_secs(10),
            duration: Duration::from_secs(20),
            // Not in step with the tokens.
            sample: Duration::from_millis(970),
        }
    }

    /// Modern nodes run on the same machines. What they do without: managed memory, and with it
    /// collections and what it takes to free thousands of messages one by one at an ACK; the
    /// paper's order of events; and acknowledgements of repairs.
    fn costs(&self, mode: Mode, weight: u32) -> CostModel {
        let costs = CostModel {
            weight,
            ..self.costs
        };
        match mode {
            Mode::Faithful => costs,
            Mode::Modern => CostModel {
                heap: None,
                ack_value: Duration::ZERO,
                forwarded_acknowledged: false,
                order: Order::ByKind,
                io_quantum: micros(200),
                ..costs
            },
        }
    }

    fn network(&self, packets: usize, weight: u32) -> NetworkOptions {
        NetworkOptions {
            delay: micros(50),
            jitter: micros(20),
            receive_buffer_bytes: packets * self.packet_bytes,
            uplink_bits_per_second: 100_000_000 / u64::from(weight.max(1)),
            ..NetworkOptions::PERFECT
        }
    }
}
