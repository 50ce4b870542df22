//! Reports of the processes of a benchmark: JSON lines on their standard output.

use std::io::{self, Write};

use qsm_console::failure::Failure;
use serde::{Deserialize, Serialize};

use crate::latencies::Latencies;

/// A line of a process to the program or person that started it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BenchReport {
    /// It could begin; said when it is to wait for a line first.
    Ready,
    /// The result of a sender.
    Sent(Box<Sent>),
    /// The result of a receiver.
    Received(Box<Received>),
    /// The result of a sender of bare datagrams: see [`Received::messages`] for what came.
    Blasted {
        /// Datagrams.
        datagrams: u64,
    },
    /// Bare datagrams received, of the seconds between the first and the last.
    Caught {
        /// Datagrams.
        datagrams: u64,
        /// Their bytes.
        bytes: u64,
        /// Seconds.
        seconds: f64,
    },
    /// Half round trips of bare datagrams, nanoseconds and counts.
    Pinged(Latencies),
}

/// The result of a sender.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Messages.
    pub(crate) messages: u64,
    /// From the first until all receivers had everything.
    pub(crate) seconds: f64,
    /// CPU time of the process meanwhile.
    pub(crate) cpu_seconds: f64,
    /// Packets that receivers asked the sender for.
    pub(crate) asked: u64,
    /// Data packets that these messages took, without repairs.
    pub(crate) packets: u64,
    /// Regions with an address of their own,
    pub(crate) regions: usize,
    /// and private ones.
    pub(crate) private_regions: usize,
    /// From when a message was due to the call that sent it.
    pub(crate) late: Latencies,
    /// From that call until its packet was handed to the kernel.
    pub(crate) handing: Latencies,
    /// Half of the way there and back, from when it was due; with `--round-trip`.
    pub(crate) half_round_trip: Latencies,
}

/// The result of a receiver.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Received {
    /// Messages, each verified.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// From the first message to the last.
    pub(crate) seconds: f64,
    /// Messages per second between them.
    pub(crate) messages_per_second: f64,
    /// CPU time of the process between them.
    pub(crate) cpu_seconds: f64,
    /// From when a message was due to its upcall.
    pub(crate) latency: Latencies,
    /// The same of those messages only that had to be repaired.
    pub(crate) repaired: Latencies,
    /// From when a packet was handed to the sender's kernel until it was read from the receiver's.
    pub(crate) network: Latencies,
    /// From then to the upcall of its message.
    pub(crate) delivering: Latencies,
    /// Packets that were missing.
    pub(crate) gaps: u64,
    /// Packets that another receiver repaired.
    pub(crate) by_receivers: u64,
    /// Packets that their sender repaired.
    pub(crate) by_sender: u64,
    /// Packets lost on purpose.
    pub(crate) injected: u64,
    /// Packets dropped by the kernel.
    pub(crate) kernel_drops: u64,
    /// Repairs that were timed, from finding a packet missing to having it: count, median, 99th
    /// percentile and longest, microseconds.
    pub(crate) repairs: [u64; 4],
}

/// Says something to whoever reads standard output.
///
/// # Errors
/// Nobody does.
pub(crate) fn say(said: &BenchReport) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(said)
        .map_err(|error| Failure::failed(error.to_string(), "report it"))?;
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(&line)
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::io("write to stdout", &error))
}

/// Says that it could begin, and waits for a line on standard input.
///
/// # Errors
/// Whoever was to write it has gone.
pub(crate) fn wait_for_start() -> Result<(), Failure> {
    say(&BenchReport::Ready)?;
    let mut line = String::new();
    let read = io::stdin()
        .read_line(&mut line)
        .map_err(|error| Failure::io("read stdin", &error))?;
    match read {
        0 => Err(Failure::failed(
            "stdin ended before there was a line to start on",
            "give it one, or leave out --start-on-input",
        )),
        _ => Ok(()),
    }
}
