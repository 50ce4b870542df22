//! `system-node`: a node that obeys lines on its standard input, for the system tests.
//!
//! | line | answer |
//! |---|---|
//! | `subscribe FILE` | `subscribed` when the groups named in the file are joined |
//! | `publish FILE` | `publishing` when they are entered as publisher |
//! | `members` | `members` when each of these groups has the other receivers that the file says |
//! | `send COUNT BYTES` | `sent` when so many messages are accepted, over the groups in turn |
//! | `pace COUNT BYTES RATE` | the same, at so many messages a second |
//! | `flush` | `flushed MILLISECONDS` when all of them are stable everywhere |
//! | `await COUNT` | `got COUNT` when so many messages have been delivered |
//! | `settle` | `settled COUNT` when nothing has been delivered for half a second |
//! | `address` | `address ADDRESS:PORT`: the multicast address of the cluster's first region |
//! | `digest` | `digest NUMBER`: of everything delivered, order within groups included |
//! | `report` | `report NAME=VALUE ...` |
//! | `quit` | none: shuts down |
//!
//! Every delivery is checked: numbers of a sender in a group are consecutive, and the content is
//! that which the number demands. A wrong one ends the process.

mod check;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use check::{Checked, checker, content};
use clap::Parser;
use qsm::{
    ChannelOptions, Embedded, Event, Family, FaultConfig, NetworkOptions, Node, Publisher, Service,
    Upcalls,
};

type Failure = Box<dyn std::error::Error>;

/// How long a command may wait for others before it is an error.
const PATIENCE: Duration = Duration::from_secs(60);
/// Silence after which nothing more is expected.
const SILENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long)]
    interface: Vec<String>,
    #[arg(long)]
    cluster: String,
    #[arg(long)]
    service: SocketAddr,
    /// Give source-specific addresses to regions.
    #[arg(long)]
    source_specific: bool,
    /// Be the membership service instead of a node.
    #[arg(long)]
    serve: bool,
    #[arg(long, default_value_t = 0)]
    loss_ppm: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = if arguments.serve {
        serve(&arguments)
    } else {
        act(&arguments)
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("system-node: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let network = NetworkOptions::new()
        .interfaces(&arguments.interface)
        .family(Family::of(arguments.service.ip()))
        .unicast_port(arguments.service.port());
    let channels = ChannelOptions::new().source_specific(arguments.source_specific);
    let service = Service::builder()
        .cluster(&arguments.cluster)
        .network(network)
        .channels(channels)
        .start()?;
    println!("serving {}", service.address());
    while hear()? != "quit" {}
    Ok(())
}

fn act(arguments: &Arguments) -> Result<(), Failure> {
    let mut network = NetworkOptions::new().interfaces(&arguments.interface);
    if arguments.loss_ppm > 0 {
        network = network.fault(FaultConfig {
            seed: arguments.seed,
            loss_ppm: arguments.loss_ppm,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            ..FaultConfig::default()
        });
    }
    let node = Node::builder()
        .cluster(&arguments.cluster)
        .network(network)
        .service(arguments.service)
        .embedded_service(Embedded::Never)
        .start()?;
    let mut actor = Actor {
        node,
        checked: Arc::new(Checked::default()),
        upcalls: Vec::new(),
        publishers: Vec::new(),
        members: Vec::new(),
        sent: 0,
    };
    let events = actor.node.events();
    std::thread::spawn(move || events.for_each(|event| log(&event)));
    actor.node.wait_admitted(PATIENCE)?;
    println!("ready");
    loop {
        let line = hear()?;
        if line == "quit" {
            actor.node.shutdown(PATIENCE)?;
            return Ok(());
        }
        println!("{}", actor.obey(&line)?);
    }
}

/// Says on standard error what happens to the node, for a test that fails.
fn log(event: &Event) {
    if !matches!(event, Event::RegionView { .. }) {
        eprintln!("[{}] {event:?}", std::process::id());
    }
}

struct Actor {
    node: Node,
    checked: Arc<Checked>,
    upcalls: Vec<Upcalls>,
    publishers: Vec<Publisher>,
    /// Receivers that each group shall have, besides this node.
    members: Vec<u32>,
    sent: u64,
}

impl Actor {
    fn obey(&mut self, line: &str) -> Result<String, Failure> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| -> Result<u64, Failure> {
            Ok(words.get(at).ok_or("a number is missing")?.parse()?)
        };
        Ok(match *words.first().ok_or("an empty line")? {
            "subscribe" => {
                let upcall = checker(self.checked.clone());
                self.upcalls
                    .push(self.node.groups(names(words[1])?).subscribe_with(upcall)?);
                "subscribed".to_owned()
            }
            "publish" => {
                self.publishers = self.node.groups(names(words[1])?).publishers()?;
                self.members = members(words[1])?;
                "publishing".to_owned()
            }
            "members" => {
                for (publisher, count) in self.publishers.iter().zip(&self.members) {
                    publisher.wait_for_members(*count, PATIENCE)?;
                }
                "members".to_owned()
            }
            "send" => self.send(number(1)?, usize::try_from(number(2)?)?)?,
            "pace" => self.pace(number(1)?, usize::try_from(number(2)?)?, number(3)?)?,
            "flush" => {
                let start = Instant::now();
                self.node.flush(PATIENCE)?;
                format!("flushed {}", start.elapsed().as_millis())
            }
            "await" => self.wait_for(number(1)?)?,
            "settle" => self.settle(),
            "address" => {
                let regions = self.node.list_regions()?;
                let region = regions.first().ok_or("there is no region")?;
                format!("address {}", region.address)
            }
            "digest" => format!("digest {}", self.checked.digest()),
            "report" => self.report()?,
            other => return Err(format!("unknown command {other}").into()),
        })
    }

    fn send(&mut self, count: u64, bytes: usize) -> Result<String, Failure> {
        let groups = self.publishers.len() as u64;
        let mut message = Vec::new();
        for _ in 0..count {
            let publisher = &self.publishers[usize::try_from(self.sent % groups)?];
            content(
                publisher.group(),
                self.sent / groups + 1,
                bytes,
                &mut message,
            );
            publisher.send(&message)?;
            self.sent += 1;
        }
        Ok("sent".to_owned())
    }

    fn pace(&mut self, count: u64, bytes: usize, rate: u64) -> Result<String, Failure> {
        let start = Instant::now();
        for sent in 0..count {
            let due = start + Duration::from_micros(sent * 1_000_000 / rate.max(1));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.send(1, bytes)?;
        }
        Ok("sent".to_owned())
    }

    fn wait_for(&self, count: u64) -> Result<String, Failure> {
        let deadline = Instant::now() + PATIENCE;
        while self.checked.messages.load(Ordering::Acquire) < count {
            if Instant::now() > deadline {
                let got = self.checked.messages.load(Ordering::Acquire);
                return Err(format!("{got} of {count} messages within {PATIENCE:?}").into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(format!("got {count}"))
    }

    fn settle(&self) -> String {
        let read = || self.checked.messages.load(Ordering::Acquire);
        let mut before = read();
        loop {
            std::thread::sleep(SILENCE);
            let now = read();
            if now == before {
                return format!("settled {now}");
            }
            before = now;
        }
    }

    fn report(&self) -> Result<String, Failure> {
        let snapshot = self.node.stats()?;
        let mut line = String::from("report");
        for row in snapshot.protocol.rows() {
            line += &format!(" {}={}", row.metric.name, row.number());
        }
        line += &format!(
            " by_multicast={} by_second={} incarnation={} delivered={} send_bytes={} receive_bytes={} repair_p50_us={} peers={}",
            snapshot.port.multicast.datagrams,
            snapshot
                .second_port
                .map_or(0, |port| port.multicast.datagrams),
            snapshot.incarnation.map_or(0, |life| life.0),
            self.checked.messages.load(Ordering::Acquire),
            snapshot.memory.send_bytes,
            snapshot.memory.receive_bytes,
            snapshot.times.repair.quantile(500).as_micros(),
            snapshot.protocol.peers,
        );
        Ok(line)
    }
}

/// First words of the file's lines: group names.
fn names(path: &str) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect())
}

/// Second words of the file's lines: numbers of receivers.
fn members(path: &str) -> Result<Vec<u32>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let counts = text
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap_or("0").parse());
    Ok(counts.collect::<Result<_, _>>()?)
}

fn hear() -> Result<String, Failure> {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line)? == 0 {
        return Err("the director has gone".into());
    }
    Ok(line.trim().to_owned())
}
