//! Rates of receiving in each language, in turn: `make figures-bindings`.

mod receiver;
mod report;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use lab::Actor;
use qsm::{Embedded, Node, Pull};

use crate::Failure;
use crate::compare::CpuSeconds;

pub(crate) use receiver::{ReceiveOptions, receive};
use report::{Point, Report};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Folder of `bench/peers/bindings/build.sh`.
    #[arg(long)]
    from: PathBuf,
    /// Interpreter with numpy and pyzmq.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Times that every receiver has its turn.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Milliseconds that are measured; a third as many are warm-up before.
    #[arg(long, default_value_t = 3000)]
    millis: u64,
    /// Only these receivers.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// Bytes of a message.
const PAYLOAD: usize = 100;
/// A run in which others had more of the CPUs is thrown away.
const STOLEN_MAX: f64 = 0.05;
/// Runs that are thrown away, at most, for each that is kept.
const TRIES: usize = 10;
const PATIENCE: Duration = Duration::from_secs(60);
const ZEROMQ: &str = "tcp://127.0.0.1:45678";

/// Receivers, the first of which the others are compared with.
const RECEIVERS: [&str; 7] = [
    "rust",
    "c",
    "java",
    "python-numpy",
    "python-batches",
    "python-loop",
    "pyzmq-loop",
];

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let wanted = |name: &&str| {
        let only = &options.only;
        *name == RECEIVERS[0] || only.is_empty() || only.iter().any(|one| one == name)
    };
    let receivers: Vec<_> = RECEIVERS.into_iter().filter(wanted).collect();
    let mut report = Report::default();
    for round in 0..options.rounds {
        for name in &receivers {
            let point = kept(options, name, &mut report)?;
            eprintln!("round {round}: {name}: {point}");
            report.add(name, point);
        }
    }
    println!("{report}");
    Ok(())
}

/// Measures until a run has not lost too much of the CPUs to others.
fn kept(options: &Options, name: &str, report: &mut Report) -> Result<Point, Failure> {
    for _ in 0..TRIES {
        let (then, start) = (CpuSeconds::now(), Instant::now());
        let point = measure(options, name)?;
        let stolen = CpuSeconds::now().stolen_share(then, start.elapsed().as_secs_f64());
        if stolen <= STOLEN_MAX {
            return Ok(point);
        }
        report.thrown_away += 1;
    }
    Err(format!("{name}: others have more than 5 % of the CPUs").into())
}

fn command(options: &Options, name: &str, place: &str) -> Result<Command, Failure> {
    let from = std::path::absolute(&options.from)?;
    let how = name.rsplit('-').next().unwrap_or(name);
    let mut command = match name {
        "rust" => {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("bindings-receive");
            command
        }
        "c" => Command::new(from.join("receive-c")),
        "java" => {
            let mut command = Command::new("java");
            command
                .arg(format!("-Dqsm.library.path={}", from.display()))
                .arg("-cp")
                .arg(from.join("classes"))
                .arg("Receive");
            command
        }
        _ => {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/bindings/receive.py");
            let mut command = Command::new(&options.python);
            command.env("PYTHONPATH", &from).arg(script);
            command.arg(if name == "pyzmq-loop" { "zeromq" } else { how });
            command
        }
    };
    command
        .arg(place)
        .arg((options.millis / 3).to_string())
        .arg(options.millis.to_string());
    Ok(command)
}

fn measure(options: &Options, name: &str) -> Result<Point, Failure> {
    if name == "pyzmq-loop" {
        let mut sender = Command::new(options.from.join("send-zeromq"));
        sender.args([ZEROMQ, &PAYLOAD.to_string()]);
        let mut sender = Actor::start("the sender".to_owned(), sender, PATIENCE)?;
        sender.expect("ready")?;
        let mut receiver =
            Actor::start(name.to_owned(), command(options, name, ZEROMQ)?, PATIENCE)?;
        receiver.expect("ready")?;
        let point = watch(&receiver);
        sender.kill();
        receiver.kill();
        return point;
    }
    let cluster = format!("bindings-{}", std::process::id());
    let node = Node::builder()
        .cluster(&cluster)
        .interface("lo")
        .embedded_service(Embedded::Always)
        .start()?;
    let publisher = node.publisher("rate")?;
    let mut receiver = Actor::start(name.to_owned(), command(options, name, &cluster)?, PATIENCE)?;
    receiver.expect("ready")?;
    publisher.wait_for_members(1, PATIENCE)?;
    let feed = publisher.feed(|message: &mut Vec<u8>| {
        message.resize(PAYLOAD, 1);
        Pull::Message
    })?;
    let point = watch(&receiver);
    drop(feed);
    receiver.kill();
    point
}

/// The receiver's count, and the CPU time that its process took meanwhile.
fn watch(receiver: &Actor) -> Result<Point, Failure> {
    receiver.expect("warm")?;
    let then = cpu_ticks(receiver.pid())?;
    let said = receiver.expect("rate")?;
    let ticks = cpu_ticks(receiver.pid())? - then;
    let numbers: Vec<f64> = said
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let [messages, nanoseconds] = numbers[..] else {
        return Err(format!("{said:?} is no rate").into());
    };
    Ok(Point {
        per_second: messages * 1e9 / nanoseconds,
        cpu_nanos: ticks as f64 * 1e7 / messages,
    })
}

/// CPU time of a process, hundredths of a second.
fn cpu_ticks(process: u32) -> Result<u64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // Behind the name, which may have anything in it: user and system time are 14 and 15.
    let (_, fields) = stat.rsplit_once(") ").ok_or("no such process")?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || -> Result<u64, Failure> { Ok(fields.next().ok_or("no time")?.parse()?) };
    Ok(next()? + next()?)
}
