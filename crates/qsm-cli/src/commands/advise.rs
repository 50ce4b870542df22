//! `qsm advise`: equations for planning, with units and sources.

mod rate;

use clap::{Args, Subcommand};
use qsm_advise::calculators as calculate;
use qsm_advise::{Advice, AdviceError, BitRate, Bytes, Count, Frequency, Metres, Seconds, Share};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;

use self::rate::{Flow, RateArgs};

/// Arguments of `qsm advise`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm advise buffer --rate 1Gbit/s --pause 50ms      the receive buffer that survives a pause"
    "qsm advise delay --buffer 32M --rate 1Gbit/s       the pause that a receive buffer survives"
    "qsm advise coalescing --interrupts 8000/s          latency that a network card adds"
    "qsm advise budget --total 2ms --part cpu=1ms --part network=120us"
    "qsm advise buffer --rate 1Gbit/s --pause 50ms --json"
    "qsm advise buffer --node desk --pause 50ms        at the rate that a node of this host receives now"
))]
pub(crate) struct AdviseArgs {
    /// What to calculate.
    #[command(subcommand)]
    command: Calculator,
    /// Write JSON: one object, with values in base units
    #[arg(long, global = true)]
    json: bool,
}

/// The calculators.
#[derive(Debug, Clone, Subcommand)]
enum Calculator {
    /// Receive buffer that survives a pause of the receiver
    Buffer(BufferArgs),
    /// Longest time in a full receive buffer: the pause that it survives
    Delay(DelayArgs),
    /// Memory of all receive buffers of a host
    Memory(MemoryArgs),
    /// Memory to keep what a receiver misses while it is away
    Retention(RetentionArgs),
    /// Time to put a packet on the wire
    Serialization(SerializationArgs),
    /// Time that a signal takes for a distance
    Propagation(PropagationArgs),
    /// Wait behind other packets in a queue
    Queue(QueueArgs),
    /// Latency that a network card adds by interrupting seldom
    Coalescing(CoalescingArgs),
    /// Time that a network card's receive ring survives, and its memory
    Ring(RingArgs),
    /// Messages to a packet, and the latency of waiting for them
    Batching(BatchingArgs),
    /// Latency of a message whose packet was lost
    Repair(RepairArgs),
    /// Bandwidth that repairs take, beside a limit
    RepairRate(RepairRateArgs),
    /// Share of its packets that TCP holds back to restore their order
    TcpOrder(TcpOrderArgs),
    /// Parts of a latency budget, and what is left
    Budget(BudgetArgs),
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise buffer --rate 500Mbit/s --pause 20ms"))]
struct BufferArgs {
    /// Rate of what is received.
    #[command(flatten)]
    rate: RateArgs,
    /// Longest time for which the receiver does not read: 50ms
    #[arg(long, value_name = "TIME")]
    pause: Seconds,
    /// Bytes of buffer for each byte of data; 1 for systems that count data alone
    #[arg(long, value_name = "NUMBER", default_value = "2")]
    overhead: Count,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise delay --buffer 32M --rate 1Gbit/s"))]
struct DelayArgs {
    /// Size of the buffer: 32M, 8388608
    #[arg(long, value_name = "BYTES")]
    buffer: Bytes,
    /// Rate of what is received.
    #[command(flatten)]
    rate: RateArgs,
    /// Bytes of buffer for each byte of data; 1 for systems that count data alone
    #[arg(long, value_name = "NUMBER", default_value = "2")]
    overhead: Count,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise memory --buffer 32MB --receivers 10"))]
struct MemoryArgs {
    /// Size of each buffer: 32M
    #[arg(long, value_name = "BYTES")]
    buffer: Bytes,
    /// Programs of the host that receive
    #[arg(long, value_name = "N")]
    receivers: Count,
    /// Sockets of each
    #[arg(long, value_name = "N", default_value = "1")]
    sockets: Count,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise retention --rate 80Mbit/s --away 30s"))]
struct RetentionArgs {
    /// Rate of what is sent.
    #[command(flatten)]
    rate: RateArgs,
    /// Longest time for which a receiver may be away: 30s
    #[arg(long, value_name = "TIME")]
    away: Seconds,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise serialization --packet 1500 --rate 100Mbit/s --hops 3"))]
struct SerializationArgs {
    /// Length of the packet
    #[arg(long, value_name = "BYTES", default_value = "1500")]
    packet: Bytes,
    /// Rate of the line: 1Gbit/s
    #[arg(long)]
    rate: BitRate,
    /// Times that the packet is put on a line: one, and one for each switch that stores it
    #[arg(long, value_name = "N", default_value = "1")]
    hops: Count,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise propagation --distance 3000km"))]
struct PropagationArgs {
    /// Length of the way: 3000km, 100m
    #[arg(long)]
    distance: Metres,
    /// Speed in the medium, as a share of that of light
    #[arg(long, value_name = "PERCENT", default_value = "60%")]
    speed: Share,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise queue --queued 54kB --rate 1Gbit/s"))]
struct QueueArgs {
    /// Bytes in front: 36 packets of 1500 are 54kB
    #[arg(long, value_name = "BYTES")]
    queued: Bytes,
    /// Rate of the interface: 1Gbit/s
    #[arg(long)]
    rate: BitRate,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise coalescing --interrupts 8000/s --packets 80000/s"))]
struct CoalescingArgs {
    /// Most interrupts of the card: 8000/s
    #[arg(long, value_name = "RATE")]
    interrupts: Frequency,
    /// Packets that arrive: 80000/s
    #[arg(long, value_name = "RATE")]
    packets: Option<Frequency>,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise ring --descriptors 2048 --packets 80000/s"))]
struct RingArgs {
    /// Receive descriptors, as `ethtool -g` shows them
    #[arg(long, value_name = "N")]
    descriptors: Count,
    /// Packets that arrive: 80000/s
    #[arg(long, value_name = "RATE")]
    packets: Frequency,
    /// Memory of a descriptor
    #[arg(long, value_name = "BYTES", default_value = "2048")]
    descriptor: Bytes,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise batching --message 100 --messages 10000/s --wait 1ms"))]
struct BatchingArgs {
    /// Length of a message
    #[arg(long, value_name = "BYTES")]
    message: Bytes,
    /// Messages a second: 10000/s
    #[arg(long, value_name = "RATE")]
    messages: Frequency,
    /// Longest time for which a message waits for others: 1ms
    #[arg(long, value_name = "TIME")]
    wait: Seconds,
    /// Room for messages in a packet
    #[arg(long, value_name = "BYTES", default_value = "1400")]
    packet: Bytes,
    /// Headers of a packet on the wire
    #[arg(long, value_name = "BYTES", default_value = "110")]
    headers: Bytes,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise repair --detection 1ms --round-trip 200us --give-up 50ms"))]
struct RepairArgs {
    /// Time from the loss to the request: 1ms
    #[arg(long, value_name = "TIME")]
    detection: Seconds,
    /// Time to whom is asked, and back: 200us
    #[arg(long, value_name = "TIME")]
    round_trip: Seconds,
    /// Time after which the application is told that the message is lost: 50ms
    #[arg(long, value_name = "TIME")]
    give_up: Option<Seconds>,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise repair-rate --rate 100Mbit/s --loss 1% --receivers 20"))]
struct RepairRateArgs {
    /// Rate of what is sent.
    #[command(flatten)]
    rate: RateArgs,
    /// Packets that each receiver loses: 1%
    #[arg(long, value_name = "PERCENT")]
    loss: Share,
    /// Receivers that lose
    #[arg(long, value_name = "N")]
    receivers: Count,
    /// Share of the rate that repairs may take
    #[arg(long, value_name = "PERCENT", default_value = "25%")]
    limit: Share,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise tcp-order --received 2854 --out-of-order 172"))]
struct TcpOrderArgs {
    /// TcpInSegs of `nstat -az`
    #[arg(long, value_name = "N")]
    received: Count,
    /// TcpExtTCPOFOQueue of `nstat -az`
    #[arg(long, value_name = "N")]
    out_of_order: Count,
}

#[derive(Debug, Clone, Args)]
#[command(before_help = examples!("qsm advise budget --total 2ms --part cpu=1ms --part network=120us"))]
struct BudgetArgs {
    /// The latency that a message may have: 2ms
    #[arg(long, value_name = "TIME")]
    total: Seconds,
    /// A source of latency, and what it may take: network=120us
    #[arg(long = "part", value_name = "NAME=TIME", required = true)]
    parts: Vec<calculate::Part>,
}

/// Runs the command.
///
/// # Errors
/// An input makes no sense, or the output cannot be written.
pub(crate) fn run(args: &AdviseArgs) -> Result<(), Failure> {
    let advice = args.command.advice()?;
    let advice = advice.map_err(|error| Failure::usage(error.cause, error.remedy))?;
    let text = match args.json {
        true => format!("{}\n", advice.to_json()),
        false => advice.to_string(),
    };
    output::write(text)
}

impl Calculator {
    fn advice(&self) -> Result<Result<Advice, AdviceError>, Failure> {
        Ok(match self {
            Self::Buffer(on) => {
                calculate::buffer(on.rate.of(Flow::Received)?, on.pause, on.overhead)
            }
            Self::Delay(on) => {
                calculate::delay(on.buffer, on.rate.of(Flow::Received)?, on.overhead)
            }
            Self::Memory(on) => calculate::memory(on.buffer, on.receivers, on.sockets),
            Self::Retention(on) => calculate::retention(on.rate.of(Flow::Sent)?, on.away),
            Self::Serialization(on) => calculate::serialization(on.packet, on.rate, on.hops),
            Self::Propagation(on) => calculate::propagation(on.distance, on.speed),
            Self::Queue(on) => calculate::queue(on.queued, on.rate),
            Self::Coalescing(on) => calculate::coalescing(on.interrupts, on.packets),
            Self::Ring(on) => calculate::ring(on.descriptors, on.packets, on.descriptor),
            Self::Batching(on) => {
                calculate::batching(on.message, on.messages, on.wait, on.packet, on.headers)
            }
            Self::Repair(on) => calculate::repair(on.detection, on.round_trip, on.give_up),
            Self::RepairRate(on) => {
                calculate::repair_rate(on.rate.of(Flow::Sent)?, on.loss, on.receivers, on.limit)
            }
            Self::TcpOrder(on) => calculate::tcp_order(on.received, on.out_of_order),
            Self::Budget(on) => calculate::budget(on.total, &on.parts),
        })
    }
}
