//! Rates of receiving in each language, in turn: `make figures-bindings`.

mod programs;
mod receiver;
mod report;
mod runtime;
mod stalls;
mod trial;

use clap::Args;
use qsm::{Embedded, Node, Pull};

use crate::Failure;

use programs::{PATIENCE, PAYLOAD, Programs, Said};
pub(crate) use receiver::{ReceiveOptions, receive};
use report::{Point, Report};
pub(crate) use runtime::{Options as RuntimeOptions, run as runtime};
pub(crate) use stalls::{
    EngineOptions as StallsEngineOptions, Options as StallsOptions,
    ReadOptions as StallsReadOptions, engine as stalls_engine, read as stalls_read, run as stalls,
};
use trial::kept;

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    programs: Programs,
    /// Times that every receiver has its turn.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Only these receivers.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

const ZEROMQ: &str = "tcp://127.0.0.1:45678";

/// Receivers, the first of which the others are compared with.
const RECEIVERS: [&str; 9] = [
    "rust",
    "c",
    "java",
    "java-native",
    "java-foreign",
    "python-numpy",
    "python-batches",
    "python-loop",
    "pyzmq-loop",
];

/// Those that need a JDK 22 or later.
const LATER: [&str; 2] = ["java-native", "java-foreign"];

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let wanted = |name: &&str| {
        let only = &options.only;
        let there = only.is_empty() && (options.programs.has_later_java() || !LATER.contains(name));
        *name == RECEIVERS[0] || there || only.iter().any(|one| one == name)
    };
    let receivers: Vec<_> = RECEIVERS.into_iter().filter(wanted).collect();
    let mut report = Report::default();
    for round in 0..options.rounds {
        for name in &receivers {
            let kept = kept(name, options.programs.busy, || measure(options, name))?;
            eprintln!("round {round}: {name}: {}", kept.value);
            report.add(name, kept.value);
            report.thrown_away += kept.thrown_away;
        }
    }
    println!("{report}");
    Ok(())
}

fn measure(options: &Options, name: &str) -> Result<Point, Failure> {
    let programs = &options.programs;
    if name == "pyzmq-loop" {
        let mut sender = programs.sender(ZEROMQ, PAYLOAD)?;
        let mut receiver = programs.receiver(name, ZEROMQ, 1)?;
        let said = Said::of(&receiver);
        sender.kill();
        receiver.kill();
        return Ok(Point::of(said?));
    }
    let cluster = format!("bindings-{}", std::process::id());
    let node = Node::builder()
        .cluster(&cluster)
        .interface("lo")
        .embedded_service(Embedded::Always)
        .start()?;
    let publisher = node.publisher("rate")?;
    let mut receiver = programs.receiver(name, &cluster, 1)?;
    publisher.wait_for_members(1, PATIENCE)?;
    let feed = publisher.feed(|message: &mut Vec<u8>| {
        message.resize(PAYLOAD, 1);
        Pull::Message
    })?;
    let said = Said::of(&receiver);
    drop(feed);
    receiver.kill();
    Ok(Point::of(said?))
}
