use std::collections::BTreeMap;

use crate::engine::Capture;

/// Load of one host: shares of time, and means over the measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostLoad {
    /// Share of time busy.
    pub cpu: f64,
    /// Share of time in garbage collection.
    pub collecting: f64,
    /// Share of time moving bytes.
    pub copying: f64,
    /// Share of time making messages.
    pub publishing: f64,
    /// Live heap, MiB: mean of the samples.
    pub heap_mib: f64,
    /// Live heap, MiB: the largest sample.
    pub heap_peak_mib: f64,
    /// Lateness of timers, ms.
    pub late_ms: f64,
    /// The latest timer of each sampling interval, ms, on average.
    pub late_max_ms: f64,
    /// Share of the data packets that were dropped at arrival.
    pub loss: f64,
    /// Share that was dropped while the host ran, not while it stood still.
    pub loss_awake: f64,
}

/// Findings of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Messages published per second, all senders together.
    pub rate: f64,
    /// The same, for each sampling interval.
    pub rates: Vec<f64>,
    /// Data packets sent per second, each sender, for each sampling interval.
    pub sent: Vec<Vec<f64>>,
    /// Share of the data packets that sockets dropped, all nodes, for each sampling interval.
    pub losses: Vec<f64>,
    /// Data packets sent per second, all senders together.
    pub packets: f64,
    /// Messages delivered per second and receiver.
    pub delivered: f64,
    /// Duration of a token round, ms: samples.
    pub rounds_ms: Vec<f64>,
    /// Rounds per second.
    pub round_rate: f64,
    /// From the end of one round to the end of the next at the first region's leader, ms.
    pub round_gaps_ms: Vec<f64>,
    /// From one receiver's passing the token on to the next one's, ms; only where one token visits
    /// all nodes in turn.
    pub hops_ms: Vec<f64>,
    /// The same, to a sender's passing it on.
    pub sender_hops_ms: Vec<f64>,
    /// From one completed round to the next as the first sender hears of it, ms.
    pub ack_gaps_ms: Vec<f64>,
    /// From sending to the news that everybody has it, ms.
    pub stable_ms: f64,
    /// From sending to the news that the cachers have it, ms.
    pub cached_ms: f64,
    /// Packets in flight, that is sent and not acknowledged, at the first sender: samples.
    pub pending: Vec<f64>,
    /// From publishing to delivery, ms.
    pub latency_ms: f64,
    /// Messages of the first sender that each receiver got in a second with which nothing is wrong, on
    /// average.
    pub others_delivered: f64,
    /// From publishing such a message to its delivery, ms: 99 of 100 take no longer.
    pub others_p99_ms: f64,
    /// From finding a packet missing to having it, ms.
    pub repair_ms: f64,
    /// The same since the start of the run, ms: 99 of 100 took no longer, to a quarter of an octave.
    pub repair_p99_ms: f64,
    /// Missing packets per packet received.
    pub missing: f64,
    /// The first sender.
    pub sender: HostLoad,
    /// The others, on average.
    pub receivers: HostLoad,
    /// The node that is disturbed, or the last one that does not send.
    pub watched: HostLoad,
    /// Packets that passed the first sender's network interface.
    pub sender_packets: Capture,
    /// Counters of the first sender.
    pub sender_stats: BTreeMap<&'static str, f64>,
    /// Counters summed over all nodes.
    pub stats: BTreeMap<&'static str, f64>,
    /// Inputs handled by all nodes.
    pub inputs: u64,
}

impl Measured {
    /// A counter of the first sender.
    #[must_use]
    pub fn at_sender(&self, name: &str) -> f64 {
        self.sender_stats.get(name).copied().unwrap_or(0.0)
    }

    /// A counter summed over all nodes.
    #[must_use]
    pub fn total(&self, name: &str) -> f64 {
        self.stats.get(name).copied().unwrap_or(0.0)
    }
}
