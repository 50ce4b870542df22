//! `qsm-bench quick`: the table.

use std::net::SocketAddr;

use clap::Args;
use lab::Actor;

use crate::Failure;
use crate::children::{numbers, spawn};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How long each measurement sends.
    #[arg(long, default_value_t = 1000)]
    millis: u64,
    /// Measurements of each kind; the table shows their median and extremes.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Numbers of receivers.
    #[arg(long, value_delimiter = ',', default_values_t = [1usize, 2, 4])]
    receivers: Vec<usize>,
    /// Message sizes, bytes.
    #[arg(long, value_delimiter = ',', default_values_t = [100usize, 1000])]
    payloads: Vec<usize>,
    /// How many groups "many" are.
    #[arg(long, default_value_t = 4096)]
    groups: usize,
    /// The interface everything runs on.
    #[arg(long, default_value = "lo")]
    interface: String,
}

/// Messages per second while repairs are timed: below saturation, where queues hide them.
const REPAIR_RATE: u64 = 20_000;

/// One measurement.
#[derive(Debug, Clone, Copy)]
struct Cell {
    payload: usize,
    receivers: usize,
    /// 0: the blaster.
    groups: usize,
}

/// What one measurement gave, per second at the slowest receiver.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    messages_per_second: f64,
    /// CPU seconds per million messages: sender, and receivers on average.
    sender_cpu: f64,
    receiver_cpu: f64,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    println!(
        "thousand messages/s at the slowest receiver on {}, medians of {} runs [min-max], median shares of neighbouring runs; CPU seconds per million messages",
        options.interface, options.runs
    );
    println!(
        "{:>8} {:>3}  {:<26} {:<34} {:<34} {:>8}",
        "payload", "N", "raw blaster", "1 group (of raw)", "many groups (of 1)", "cpu tx/rx"
    );
    let mut worst = f64::INFINITY;
    for &payload in &options.payloads {
        for &receivers in &options.receivers {
            worst = worst.min(row(options, payload, receivers)?);
        }
    }
    println!("worst share of the raw ceiling: {:.0} %", worst * 100.0);
    repair_latency(options)
}

/// Measures one line of the table, the kinds interleaved; returns the share of the ceiling.
fn row(options: &Options, payload: usize, receivers: usize) -> Result<f64, Failure> {
    let kinds = [0, 1, options.groups];
    let mut outcomes: Vec<Vec<Outcome>> = vec![Vec::new(); kinds.len()];
    for _ in 0..options.runs {
        for (groups, outcomes) in kinds.into_iter().zip(&mut outcomes) {
            let cell = Cell {
                payload,
                receivers,
                groups,
            };
            outcomes.push(if groups == 0 {
                blast(options, cell)?
            } else {
                stream(options, cell)?
            });
        }
    }
    // Of runs that followed each other: the machine's moods take minutes.
    let share = |kind: usize, of: usize| {
        let pairs = outcomes[kind].iter().zip(&outcomes[of]);
        middle(pairs.map(|(a, b)| a.messages_per_second / b.messages_per_second))
    };
    let cell = |kind: usize, share: Option<f64>| {
        let rates = outcomes[kind]
            .iter()
            .map(|outcome| outcome.messages_per_second / 1e3);
        let (low, high) = rates.fold((f64::INFINITY, 0.0f64), |(l, h), r| (l.min(r), h.max(r)));
        let middle = median(&outcomes[kind], |outcome| outcome.messages_per_second) / 1e3;
        let share = share
            .map(|share| format!(" {:.0} %", share * 100.0))
            .unwrap_or_default();
        format!("{middle:.0} [{low:.0}-{high:.0}]{share}")
    };
    println!(
        "{payload:>8} {receivers:>3}  {:<26} {:<34} {:<34} {:.2}/{:.2}",
        cell(0, None),
        cell(1, Some(share(1, 0))),
        cell(2, Some(share(2, 1))),
        median(&outcomes[1], |outcome| outcome.sender_cpu),
        median(&outcomes[1], |outcome| outcome.receiver_cpu),
    );
    Ok(share(1, 0))
}

fn median(outcomes: &[Outcome], value: impl Fn(&Outcome) -> f64) -> f64 {
    middle(outcomes.iter().map(value))
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn blast(options: &Options, cell: Cell) -> Result<Outcome, Failure> {
    let group = SocketAddr::from(([239, 255, 83, 1], free_port()?));
    let common = |role: &str| {
        [
            role,
            "--interface",
            &options.interface,
            "--group",
            &group.to_string(),
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let mut receivers = (0..cell.receivers)
        .map(|_| spawn(&common("blast-receive")))
        .collect::<Result<Vec<_>, _>>()?;
    let mut arguments = common("blast-send");
    arguments.extend(["--payload".into(), cell.payload.to_string()]);
    arguments.extend(["--millis".into(), options.millis.to_string()]);
    let mut sender = spawn(&arguments)?;
    for actor in receivers.iter().chain([&sender]) {
        actor.expect("ready")?;
    }
    sender.tell("go")?;
    let sent = numbers(&sender, "sent")?;
    let mut received = Vec::new();
    for receiver in &mut receivers {
        receiver.tell("stop")?;
        received.push(numbers(receiver, "received")?);
    }
    Ok(outcome(&sent, &received))
}

fn stream(options: &Options, cell: Cell) -> Result<Outcome, Failure> {
    let port = free_port()?;
    let mut sender = spawn(&stream_sender(options, cell, port, 0))?;
    sender.expect("ready")?;
    let mut receivers = (0..cell.receivers)
        .map(|_| spawn(&stream_common("stream-receive", options, cell, port)))
        .collect::<Result<Vec<_>, _>>()?;
    let (sent, received) = play(&mut sender, &mut receivers)?;
    Ok(outcome(&sent, &received))
}

/// Lets a sender and its receivers, all started, run to the end.
fn play(sender: &mut Actor, receivers: &mut [Actor]) -> Result<(Vec<u64>, Vec<Vec<u64>>), Failure> {
    for receiver in receivers.iter() {
        receiver.expect("ready")?;
    }
    sender.tell("join")?;
    sender.expect("joined")?;
    sender.tell("go")?;
    let sent = numbers(sender, "sent")?;
    let mut received = Vec::new();
    for receiver in receivers.iter_mut() {
        receiver.tell(&sent[0].to_string())?;
        received.push(numbers(receiver, "received")?);
    }
    for actor in receivers.iter_mut().chain([sender]) {
        actor.tell("end")?;
    }
    Ok((sent, received))
}

fn stream_common(role: &str, options: &Options, cell: Cell, port: u16) -> Vec<String> {
    let (port, groups) = (port.to_string(), cell.groups.to_string());
    [
        role,
        "--interface",
        &options.interface,
        "--port",
        &port,
        "--groups",
        &groups,
    ]
    .map(str::to_owned)
    .to_vec()
}

fn stream_sender(options: &Options, cell: Cell, port: u16, rate: u64) -> Vec<String> {
    let mut arguments = stream_common("stream-send", options, cell, port);
    for (name, value) in [
        ("--payload", cell.payload.to_string()),
        ("--millis", options.millis.to_string()),
        ("--receivers", cell.receivers.to_string()),
        ("--rate", rate.to_string()),
    ] {
        arguments.extend([name.to_owned(), value]);
    }
    arguments
}

/// `sent`: messages, nanoseconds, CPU microseconds; `received` alike, one for each receiver.
fn outcome(sent: &[u64], received: &[Vec<u64>]) -> Outcome {
    let rate = |numbers: &Vec<u64>| numbers[0] as f64 * 1e9 / numbers[1].max(1) as f64;
    let cpu = |numbers: &[u64]| numbers[2] as f64 / numbers[0].max(1) as f64;
    Outcome {
        messages_per_second: received.iter().map(rate).fold(f64::INFINITY, f64::min),
        sender_cpu: cpu(sent),
        receiver_cpu: received.iter().map(|numbers| cpu(numbers)).sum::<f64>()
            / received.len().max(1) as f64,
    }
}

/// 1 % independent loss at each of four receivers, at [`REPAIR_RATE`].
fn repair_latency(options: &Options) -> Result<(), Failure> {
    let port = free_port()?;
    let cell = Cell {
        payload: 1000,
        receivers: 4,
        groups: 64,
    };
    let mut sender = spawn(&stream_sender(options, cell, port, REPAIR_RATE))?;
    sender.expect("ready")?;
    let mut receivers = (1..=cell.receivers)
        .map(|seed| {
            let mut arguments = stream_common("stream-receive", options, cell, port);
            arguments.extend(["--loss-ppm".into(), "10000".into()]);
            arguments.extend(["--seed".into(), seed.to_string()]);
            spawn(&arguments)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let (sent, received) = play(&mut sender, &mut receivers)?;
    println!(
        "1 % loss at each of 4 receivers, {} messages at {REPAIR_RATE}/s:",
        sent[0]
    );
    for (receiver, numbers) in (1..).zip(&received) {
        println!(
            "  receiver {receiver}: {} packets missed, repaired in {} µs (median), {} µs (p99)",
            numbers[3], numbers[4], numbers[5]
        );
    }
    println!("  packets asked of the sender: {}", sent[3]);
    Ok(())
}

/// A port that nobody uses now, with free ones after it as likely as not.
fn free_port() -> Result<u16, Failure> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    Ok(socket.local_addr()?.port() & !7)
}
