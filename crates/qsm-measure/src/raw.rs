//! The same sockets without the protocol, to compare with: a blaster of full datagrams, which
//! nobody numbers or repairs, and a ping-pong. What the blaster sends is nobody's concern, or
//! messages that are written and checked as Quicksilver's are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use qsm::{DISCOVERY_V4, DISCOVERY_V6, Family};
use qsm_console::failure::Failure;
use qsm_console::options::Cpus;
use qsm_console::options::NetworkOptions;
use qsm_console::stop::Stop;
use qsm_net::{Interface, Port, PortConfig, SendError, SendFailure, choose_interface, pin_to_cpu};

use crate::clock::nanos;
use crate::latencies::Latencies;
use crate::message::{Kind, Noise, PLAIN_BYTES};
use crate::options::LoadOptions;
use crate::pace::{Pace, wait_until};
use crate::report::{BenchReport, say, wait_for_start};

/// After it was told to stop, a receiver that hears nothing for this long has everything.
const SILENCE: Duration = Duration::from_millis(100);

/// How long a pong may take before its ping counts as lost, and is sent again.
const PONG: Duration = Duration::from_millis(200);

/// Pings lost in a row that mean that nobody answers.
const LOST_MAX: u32 = 20;

/// How long to send when that is not told.
const BLAST: Duration = Duration::from_secs(1);

/// A train: as much as the kernel takes at once.
const TRAIN_BYTES: usize = 64_000;

/// Datagrams of a train, at most.
const TRAIN_MAX: usize = 64;

/// What a frame of Ethernet holds, and what loopback takes well, IP and UDP headers included: as
/// much as a node's packets (`Builder::datagram_bytes`).
const ETHERNET_BYTES: usize = 1500;
const LOOPBACK_BYTES: usize = 9000;

/// The flag for datagrams of messages that are written and checked.
pub(crate) const CHECKED: &str = "checked";

/// The number of a ping.
const INDEX_BYTES: usize = 8;

/// Pings go to the discovery address at the port of the data, pongs to the next address.
fn addresses(network: &NetworkOptions, family: Family) -> (SocketAddr, SocketAddr) {
    let discovery = network.discovery.unwrap_or(match family {
        Family::V4 => DISCOVERY_V4,
        Family::V6 => DISCOVERY_V6,
    });
    let next: IpAddr = match discovery.ip() {
        IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip).wrapping_add(1)).into(),
        IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip).wrapping_add(1)).into(),
    };
    let port = network.data_port;
    (
        SocketAddr::new(discovery.ip(), port),
        SocketAddr::new(next, port),
    )
}

/// Arguments of the hidden `qsm bench raw`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RawArgs {
    /// What it does.
    #[command(subcommand)]
    role: Role,
}

/// What a process without the protocol does.
#[derive(Debug, Clone, Subcommand)]
enum Role {
    /// Sends full datagrams
    Blast(StreamArgs),
    /// Receives them
    Catch(StreamArgs),
    /// Sends datagrams and waits for each to come back
    Ping(PingArgs),
    /// Sends them back
    Pong(RoleArgs),
}

#[derive(Debug, Clone, Args)]
struct RoleArgs {
    /// Run on the first of these CPUs only, since it has one thread
    #[arg(long, value_parser = Cpus::parse)]
    pin: Option<Cpus>,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    network: NetworkOptions,
}

#[derive(Debug, Clone, Args)]
struct StreamArgs {
    /// Write and check messages of the payload's length
    #[arg(long = CHECKED)]
    checked: bool,
    #[command(flatten)]
    all: RoleArgs,
}

#[derive(Debug, Clone, Args)]
struct PingArgs {
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    #[command(flatten)]
    all: RoleArgs,
}

/// Runs the command.
///
/// # Errors
/// The sockets fail, or nobody answers.
pub(crate) fn run(args: &RawArgs) -> Result<(), Failure> {
    match &args.role {
        Role::Blast(args) => blast(args),
        Role::Catch(args) => catch(args),
        Role::Ping(args) => ping(args),
        Role::Pong(args) => pong(args),
    }
}

fn open(args: &RoleArgs) -> Result<(Port, Interface), Failure> {
    if let Some(cpu) = args.pin.as_ref().and_then(|Cpus(cpus)| cpus.first()) {
        pin_to_cpu(*cpu).map_err(|error| system(&error))?;
    }
    let network = &args.network;
    let family = network.ipv6.then_some(Family::V6);
    let found = choose_interface(network.interface.first().map(String::as_str), family);
    let (interface, _) = found.map_err(|error| system(&error))?;
    let port = Port::open(PortConfig::new(interface.clone())).map_err(|error| system(&error))?;
    Ok((port, interface))
}

fn usual_bytes(interface: &Interface) -> usize {
    let frame = match interface.loopback {
        true => LOOPBACK_BYTES,
        false => ETHERNET_BYTES,
    };
    frame - interface.family().header_bytes()
}

fn system(error: &impl ToString) -> Failure {
    Failure::failed(error.to_string(), "see the system's message")
}

fn io(error: &std::io::Error) -> Failure {
    Failure::io("use a socket", error)
}

/// Ends the calling loop by waking its port when standard input does.
fn wake_at_end_of_input(port: &Port) {
    let waker = port.waker();
    thread::spawn(move || {
        let mut line = String::new();
        // A line or the end: either means that it is over.
        drop(std::io::stdin().read_line(&mut line));
        waker.wake();
    });
}

/// Messages as Quicksilver's senders write and its receivers check them, in datagrams of their own.
struct Messages {
    noise: Noise,
    bytes: usize,
    sent: u64,
}

impl Messages {
    /// Of this length, but whole in a datagram of so many bytes.
    fn new(payload: usize, usual: usize) -> Self {
        let bytes = payload.clamp(PLAIN_BYTES, usual);
        Self {
            noise: Noise::new(bytes),
            bytes,
            sent: 0,
        }
    }

    /// Fills a train with the next ones.
    fn write(&mut self, train: &mut Vec<u8>) {
        let length = train.len();
        train.clear();
        while train.len() < length {
            self.sent += 1;
            self.noise.write_plain(train, 0, self.sent, self.bytes);
        }
    }

    /// Whether a datagram holds nothing but whole messages.
    fn are_in(&mut self, datagram: &[u8]) -> bool {
        datagram.chunks(self.bytes).all(|message| {
            let number = message.first_chunk().map(|word| u64::from_le_bytes(*word));
            number.is_some_and(|number| self.noise.read(message, 0, number) == Some(Kind::Plain))
        })
    }
}

fn blast(args: &StreamArgs) -> Result<(), Failure> {
    let StreamArgs { checked, all } = args;
    let (mut port, interface) = open(all)?;
    let (to, _) = addresses(&all.network, interface.family());
    let usual = usual_bytes(&interface);
    let mut messages = checked.then(|| Messages::new(all.load.payload, usual));
    let datagram = match &messages {
        Some(messages) => usual / messages.bytes * messages.bytes,
        None => usual,
    };
    let count = (TRAIN_BYTES / datagram).clamp(1, TRAIN_MAX);
    let mut train = vec![7; datagram * count];
    wait_for_start()?;
    let until = Instant::now() + all.load.lasts().unwrap_or(BLAST);
    let mut datagrams = 0;
    while Instant::now() < until {
        if let Some(messages) = &mut messages {
            messages.write(&mut train);
        }
        match port.send(to, &train, datagram) {
            Ok(_) => datagrams += count as u64,
            Err(SendError::WouldBlock { sent }) => {
                datagrams += sent.datagrams as u64;
                port.wait(Some(Duration::from_millis(1)))
                    .map_err(|error| io(&error))?;
            }
            Err(SendError::Failed {
                failure: SendFailure::NoBuffers,
                sent,
                ..
            }) => datagrams += sent.datagrams as u64,
            Err(error) => return Err(system(&error)),
        }
    }
    say(&BenchReport::Blasted { datagrams })
}

fn catch(args: &StreamArgs) -> Result<(), Failure> {
    let StreamArgs { checked, all } = args;
    let (mut port, interface) = open(all)?;
    let (group, _) = addresses(&all.network, interface.family());
    let usual = usual_bytes(&interface);
    let mut messages = checked.then(|| Messages::new(all.load.payload, usual));
    port.join(group).map_err(|error| system(&error))?;
    wait_for_start()?;
    wake_at_end_of_input(&port);
    let (mut datagrams, mut bytes, mut stopped) = (0, 0, false);
    let mut times: Option<(Instant, Instant)> = None;
    loop {
        let ready = port.wait(Some(SILENCE)).map_err(|error| io(&error))?;
        stopped |= ready.woken;
        if stopped && !ready.readable {
            break;
        }
        while port.receive().map_err(|error| io(&error))? > 0 {
            for datagram in port.datagrams() {
                datagrams += 1;
                bytes += datagram.bytes.len() as u64;
                if let Some(messages) = &mut messages
                    && !messages.are_in(datagram.bytes)
                {
                    return Err(Failure::failed(
                        "a datagram is not what was sent",
                        "see whether another benchmark uses this port",
                    ));
                }
            }
            let now = Instant::now();
            times = Some((times.map_or(now, |(first, _)| first), now));
        }
    }
    let seconds = times.map_or(0.0, |(first, last)| (last - first).as_secs_f64());
    say(&BenchReport::Caught {
        datagrams,
        bytes,
        seconds,
    })
}

fn pong(args: &RoleArgs) -> Result<(), Failure> {
    let (mut port, interface) = open(args)?;
    let (pings, pongs) = addresses(&args.network, interface.family());
    port.join(pings).map_err(|error| system(&error))?;
    wait_for_start()?;
    wake_at_end_of_input(&port);
    let mut ping = Vec::new();
    loop {
        if wait(&mut port, None, args.load.spin)? == Waited::Woken {
            return Ok(());
        }
        while port.receive().map_err(|error| io(&error))? > 0 {
            // One at a time is on its way.
            ping.clear();
            for datagram in port.datagrams() {
                ping.clear();
                ping.extend_from_slice(datagram.bytes);
            }
            port.send(pongs, &ping, ping.len())
                .map_err(|error| system(&error))?;
        }
    }
}

/// Closed loop, but on time: a ping that is held up by the one before is timed from when it was
/// due.
fn ping(args: &PingArgs) -> Result<(), Failure> {
    let load = &args.all.load;
    let stop = Stop::on_signals()?;
    let (mut port, interface) = open(&args.all)?;
    let (pings, pongs) = addresses(&args.all.network, interface.family());
    port.join(pongs).map_err(|error| system(&error))?;
    wait_for_start()?;
    let pace = Pace::new(Instant::now(), args.rate);
    let total = match (load.messages, load.lasts()) {
        (Some(messages), _) => messages,
        (None, lasts) => pace.messages_in(lasts.unwrap_or_default()).max(1),
    };
    let mut half = Latencies::new();
    // A longer one would be cut up by IP, which is another measurement.
    let bytes = load.payload.clamp(INDEX_BYTES, usual_bytes(&interface));
    let mut message = vec![7; bytes];
    for index in 0..total {
        let due = pace.due(index);
        if !wait_until(due, load.spin, &stop) {
            return Err(Failure::failed("interrupted", "let it run to its end"));
        }
        message[..INDEX_BYTES].copy_from_slice(&index.to_le_bytes());
        let mut lost = 0;
        loop {
            port.send(pings, &message, message.len())
                .map_err(|error| system(&error))?;
            if answer(&mut port, &message, load.spin)? {
                break;
            }
            lost += 1;
            if lost == LOST_MAX {
                return Err(Failure::failed(
                    "nobody answers",
                    "see whether multicast passes between the hosts",
                ));
            }
        }
        half.record(nanos(due.elapsed()) / 2);
    }
    say(&BenchReport::Pinged(half))
}

fn answer(port: &mut Port, message: &[u8], spin: bool) -> Result<bool, Failure> {
    let deadline = Instant::now() + PONG;
    while Instant::now() < deadline {
        wait(port, Some(deadline), spin)?;
        while port.receive().map_err(|error| io(&error))? > 0 {
            if port.datagrams().any(|datagram| datagram.bytes == message) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[derive(Debug, PartialEq, Eq)]
enum Waited {
    /// Look whether something has come.
    Look,
    /// It is over.
    Woken,
}

fn wait(port: &mut Port, deadline: Option<Instant>, spin: bool) -> Result<Waited, Failure> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let left = if spin { Some(Duration::ZERO) } else { left };
    let ready = port.wait(left).map_err(|error| io(&error))?;
    Ok(if ready.woken {
        Waited::Woken
    } else {
        Waited::Look
    })
}
