//! `system-node`: a node that obeys lines on its standard input, for the system tests.
//!
//! | line | answer |
//! |---|---|
//! | `subscribe FILE` | `subscribed` when the groups named in the file are joined |
//! | `publish FILE` | `publishing` when they are entered as publisher |
//! | `members` | `members` when each of these groups has the other receivers that the file says |
//! | `send COUNT BYTES` | `sent` when so many messages are accepted, over the groups in turn |
//! | `pace COUNT BYTES RATE` | the same, at so many messages a second; 0: as many as it can |
//! | `flush` | `flushed MILLISECONDS` when all of them are stable everywhere |
//! | `await COUNT` | `got COUNT` when so many messages have been delivered |
//! | `settle` | `settled COUNT` when nothing has been delivered for half a second |
//! | `address` | `address ADDRESS:PORT`: the multicast address of the cluster's first region |
//! | `digest` | `digest NUMBER`: of everything delivered, order within groups included |
//! | `report` | `report NAME=VALUE ...`, of the service too |
//! | `watch GROUP GROUPS [WAY]` | `watching` when so many groups, or as many of each core thread, are joined; their messages are written down. WAY: `paced RATE` (by upcalls, so many messages a second at most); or each read by a thread, and checked: `ordered`, `arrival`, `within MILLISECONDS`, `newest KEYS`, `hold MESSAGES` |
//! | `read RATE` | `reading`: such threads read so many messages a second at most from now on; 0: no limit |
//! | `readings COUNT` | `readings NAME=VALUE ...` of the first such thread when it is done with so many messages |
//! | `pulse GROUP GROUPS MEMBERS BYTES RATE` | `pulsing` when these have so many other receivers; publishes to them in turn until `stop` |
//! | `stop` | `stopped COUNT`: so many messages were published |
//! | `known COUNT` | `known COUNT` when at least so many have come, or are told to be lost |
//! | `rate RATE` | `paced`: publishes so many messages a second from now on; 0: as many as it can |
//! | `published` | `published COUNT`: so many messages since `pulse` |
//! | `now` | `now COUNT`: so many have come, or are told to be lost |
//! | `phase` | `phase SENDER=MESSAGES,GAP,P50,P99 ...` since the last time, microseconds |
//! | `totals` | `totals SENDER=LIFE,FIRST,NEXT,MESSAGES,DISORDER,LOST[,FROM-TO ...] ...` |
//! | `events` | `events EVENT; ...`: what has happened so far, but for views; of the service too |
//! | `nodes` | `nodes ID=ADDRESS[,REASON] ...`: as the service knows them, and why they are away |
//! | `lives` | `lives NUMBER ...`: those of the core threads |
//! | `quit` | none: shuts down |
//!
//! Every delivery is checked: numbers of a sender in a group are consecutive, and the content is
//! that which the number demands. A wrong one ends the process.

mod check;
mod pulse;
mod reading;
mod resent;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use check::{Checked, checker, content};
use clap::Parser;
use pulse::{Pulse, Record};
use qsm::metrics::{Metrics, rows};
use qsm::{
    ChannelOptions, Embedded, Event, Family, FaultConfig, Limits, NetworkOptions, Node, NodeRow,
    Pace, Publisher, RepairLimit, Service, ServiceHints, Upcalls,
};
use qsm_system::pacer::Pacer;
use reading::{Reader, Way};
use resent::Resent;

type Failure = Box<dyn std::error::Error>;

/// How long a command may wait for others before it is an error.
const PATIENCE: Duration = Duration::from_secs(60);
/// Silence after which nothing more is expected.
const SILENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Parser)]
#[expect(clippy::struct_excessive_bools, reason = "options of a command line")]
struct Arguments {
    #[arg(long)]
    interface: Vec<String>,
    #[arg(long, default_value = "system")]
    cluster: String,
    /// Without it the service is looked for, and embedded if there is none.
    #[arg(long)]
    service: Option<SocketAddr>,
    /// Embed a service at once.
    #[arg(long)]
    embed: bool,
    /// The version of IP by which the service is looked for, if it is not named.
    #[arg(long, default_value_t = 4)]
    ip: u8,
    /// Core threads of the node.
    #[arg(long, default_value_t = 1)]
    cores: usize,
    /// Let other processes use the node, by a file at this path.
    #[arg(long)]
    share: Option<PathBuf>,
    /// Use the node that another process shares at this path, and none of one's own.
    #[arg(long)]
    attach: Option<PathBuf>,
    /// Give source-specific addresses to regions.
    #[arg(long)]
    source_specific: bool,
    /// Send everything by unicast, and listen to no multicast.
    #[arg(long)]
    no_multicast: bool,
    /// Have the kernel clone what is sent by unicast to many.
    #[arg(long)]
    clone_copies: bool,
    /// Protect packets by the key of these tests.
    #[arg(long)]
    protected: bool,
    /// Be the membership service instead of a node.
    #[arg(long)]
    serve: bool,
    #[arg(long, default_value_t = 0)]
    loss_ppm: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Damages so many of a million packets received, within their first bytes.
    #[arg(long, default_value_t = 0)]
    damage_ppm: u32,
    #[arg(long, default_value_t = 40)]
    damage_bytes: usize,
    /// Seconds of silence after which a node is gone, of the service or an embedded one.
    #[arg(long, default_value_t = 30.0)]
    gone_after: f64,
    /// Seconds for which a node is waited for that is slower than the others, likewise.
    #[arg(long, default_value_t = 10.0)]
    slow_after: f64,
    /// Bytes that the kernel keeps of what has arrived.
    #[arg(long)]
    receive_buffer: Option<usize>,
    /// Bytes of packets that a node keeps for repair or order.
    #[arg(long)]
    receive_bytes: Option<usize>,
    /// Messages that wait in a publisher's queue at most.
    #[arg(long)]
    queue_messages: Option<usize>,
    /// Microseconds that datagrams may wait at a receiver all the time; 0: any time.
    #[arg(long)]
    queue_target_us: Option<u64>,
    /// Count the bytes that a node sends again, and those beyond so many in 10 ms.
    #[arg(long)]
    count_resent: Option<u64>,
    /// Hints of the service, as in a file.
    #[arg(long, default_value = "")]
    hints: String,
    /// Bytes that each node may send again in a second, of the service; 0: no limit.
    #[arg(long, default_value_t = 0)]
    repair_limit: u64,
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
    let address = arguments.service.ok_or("--serve needs --service")?;
    let network = network(arguments)
        .family(Family::of(address.ip()))
        .unicast_port(address.port());
    let service = Service::builder()
        .cluster(&arguments.cluster)
        .network(network)
        .channels(channels(arguments))
        .gone_after(Duration::from_secs_f64(arguments.gone_after))
        .slow_after(Duration::from_secs_f64(arguments.slow_after))
        .hints(ServiceHints::parse(&arguments.hints)?)
        .repair_limit(RepairLimit {
            bytes_per_second: arguments.repair_limit,
            share_ppm: 0,
        })
        .start()?;
    println!("serving {}", service.address());
    let diary = Diary::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok(event) = service.next_event() {
                diary.note(&event);
            }
        });
        let result = answer_until_quit(&service, &diary);
        service.shutdown();
        result
    })
}

fn answer_until_quit(service: &Service, diary: &Diary) -> Result<(), Failure> {
    loop {
        match hear()?.as_str() {
            "quit" => return Ok(()),
            "report" => {
                let snapshot = service.snapshot()?;
                println!("report{}", values(&snapshot.stats));
            }
            _ => println!("{}", diary.line()),
        }
    }
}

/// What has happened to a node or service so far; also said on standard error, for a test that
/// fails.
#[derive(Debug, Default)]
struct Diary(std::sync::Mutex<Vec<String>>);

impl Diary {
    fn note(&self, event: &dyn std::fmt::Debug) {
        eprintln!("[{}] {event:?}", std::process::id());
        let mut events = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        events.push(format!("{event:?}"));
    }

    fn line(&self) -> String {
        let events = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        format!("events {}", events.join("; "))
    }
}

/// The same in every process.
const TEST_KEY: &str =
    "qsm-key-1 aes-256-gcm 7465737465727320616e64206e6f626f647920656c7365207573652074686973";

fn network(arguments: &Arguments) -> NetworkOptions {
    let mut network = NetworkOptions::new()
        .interfaces(&arguments.interface)
        .clone_copies(arguments.clone_copies);
    if arguments.ip == 6 {
        network = network.family(Family::V6);
    }
    if arguments.no_multicast {
        network = network.multicast(false);
    }
    if arguments.protected {
        network = network.key(TEST_KEY.parse().expect("it is a key"));
    }
    if let Some(bytes) = arguments.receive_buffer {
        network = network.receive_buffer(bytes);
    }
    if arguments.loss_ppm == 0 && arguments.damage_ppm == 0 {
        return network;
    }
    network.fault(FaultConfig {
        seed: arguments.seed,
        loss_ppm: arguments.loss_ppm,
        damage_ppm: arguments.damage_ppm,
        damage_bytes: arguments.damage_bytes,
        ..FaultConfig::default()
    })
}

fn channels(arguments: &Arguments) -> ChannelOptions {
    ChannelOptions::new().source_specific(arguments.source_specific)
}

fn limits(arguments: &Arguments) -> Limits {
    let default = Limits::default();
    Limits {
        receive_bytes: arguments.receive_bytes.unwrap_or(default.receive_bytes),
        ..default
    }
}

fn pace(arguments: &Arguments) -> Pace {
    let default = Pace::default();
    let target = arguments.queue_target_us.map(Duration::from_micros);
    Pace {
        queue_target: target.unwrap_or(default.queue_target),
        ..default
    }
}

fn start(arguments: &Arguments, resent: &Arc<Resent>) -> Result<Node, Failure> {
    if let Some(path) = &arguments.attach {
        return Ok(Node::attach(path)?);
    }
    let node = Node::builder()
        .cluster(&arguments.cluster)
        .gone_after(Duration::from_secs_f64(arguments.gone_after))
        .slow_after(Duration::from_secs_f64(arguments.slow_after))
        .network(network(arguments))
        .channels(channels(arguments))
        .limits(limits(arguments))
        .pace(pace(arguments))
        .cores(arguments.cores);
    let node = match arguments.queue_messages {
        Some(messages) => node.queue_messages(messages),
        None => node,
    };
    let node = match arguments.count_resent {
        Some(_) => node.tap(resent.tap()),
        None => node,
    };
    let node = match arguments.service {
        Some(service) => node.service(service).embedded_service(Embedded::Never),
        None if arguments.embed => node.embedded_service(Embedded::Always),
        None => node,
    };
    let node = node.start()?;
    node.wait_admitted(PATIENCE)?;
    Ok(node)
}

fn act(arguments: &Arguments) -> Result<(), Failure> {
    let resent = Arc::new(Resent::new(arguments.count_resent.unwrap_or(0)));
    let node = start(arguments, &resent)?;
    let share = arguments.share.as_ref().map(|path| node.share(path));
    let share = share.transpose()?;
    let mut actor = Actor {
        node,
        checked: Arc::new(Checked::default()),
        upcalls: Vec::new(),
        publishers: Vec::new(),
        members: Vec::new(),
        sent: 0,
        record: Arc::new(Record::default()),
        readers: Vec::new(),
        resent,
        pulse: None,
        diary: Arc::new(Diary::default()),
    };
    let events = actor.node.events();
    let diary = actor.diary.clone();
    std::thread::spawn(move || events.for_each(|event| log(&event, &diary)));
    println!("ready{}", line_of(actor.node.ids().map(|id| id.0)));
    loop {
        let line = hear()?;
        if line == "quit" {
            drop(share);
            actor.node.shutdown(PATIENCE)?;
            return Ok(());
        }
        println!("{}", actor.obey(&line)?);
    }
}

fn log(event: &Event, diary: &Diary) {
    if !matches!(event, Event::RegionView { .. }) {
        diary.note(event);
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
    record: Arc<Record>,
    readers: Vec<Reader>,
    resent: Arc<Resent>,
    pulse: Option<Pulse>,
    diary: Arc<Diary>,
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
            "await" => {
                let delivered = || self.checked.messages.load(Ordering::Acquire);
                wait_for(number(1)?, delivered)?;
                format!("got {}", number(1)?)
            }
            "settle" => self.settle(),
            "watch" => self.watch(
                words[1],
                usize::try_from(number(2)?)?,
                Way::parse(&words[3..])?,
            )?,
            "read" => self.set_reading_rate(number(1)?),
            "readings" => self.await_readings(number(1)?)?,
            "pulse" => {
                let groups = self.groups_of_cores(words[1], usize::try_from(number(2)?)?);
                let publishers = self.publishers_with(groups.concat(), number(3)?)?;
                let bytes = usize::try_from(number(4)?)?;
                self.pulse = Some(Pulse::start(publishers, bytes, number(5)?));
                "pulsing".to_owned()
            }
            "rate" => {
                let pulse = self.pulse.as_ref().ok_or("nothing is published")?;
                pulse.set_rate(number(1)?);
                "paced".to_owned()
            }
            "stop" => {
                let pulse = self.pulse.take().ok_or("nothing is published")?;
                format!("stopped {}", pulse.stop()?)
            }
            "known" => {
                let known = || self.record.known();
                format!("known {}", wait_for(number(1)?, known)?)
            }
            question => self.answer(question)?,
        })
    }

    /// Says how things are.
    fn answer(&self, question: &str) -> Result<String, Failure> {
        Ok(match question {
            "address" => {
                let regions = self.node.list_regions()?;
                let region = regions.first().ok_or("there is no region")?;
                format!("address {}", region.address)
            }
            "digest" => format!("digest {}", self.checked.digest()),
            "report" => self.report()?,
            "lives" => {
                let cores = self.node.core_stats()?.into_iter();
                let lives = cores.map(|core| core.incarnation.map_or(0, |life| life.0.into()));
                format!("lives{}", line_of(lives))
            }
            "events" => self.diary.line(),
            "published" => {
                let pulse = self.pulse.as_ref();
                format!("published {}", pulse.map_or(0, Pulse::published))
            }
            "nodes" => format!("nodes{}", places(&self.node.list_nodes()?)),
            "now" => format!("now {}", self.record.known()),
            "phase" => format!("phase{}", self.record.phase()),
            "totals" => format!("totals{}", self.record.totals()),
            other => return Err(format!("unknown command {other}").into()),
        })
    }

    /// So many groups of each core thread, by core thread: who publishes is another sender on each of them.
    fn groups_of_cores(&self, name: &str, groups: usize) -> Vec<Vec<String>> {
        let cores = 0..self.node.ids().count();
        let of = |core| {
            let names = (0..).map(|number| format!("{name}/{number}"));
            names
                .filter(|name| self.node.core_of(name) == core)
                .take(groups)
                .collect()
        };
        cores.map(of).collect()
    }

    fn watch(&mut self, name: &str, groups: usize, way: Way) -> Result<String, Failure> {
        for names in self.groups_of_cores(name, groups) {
            if let Way::Upcalls(rate) = way {
                let upcall = self.record.upcall(rate);
                self.upcalls
                    .push(self.node.groups(names).subscribe_with(upcall)?);
                continue;
            }
            for name in names {
                let group = self.node.group(name);
                let reader = Reader::start(&group, way, self.record.clone())?;
                self.readers.push(reader);
            }
        }
        Ok("watching".to_owned())
    }

    fn set_reading_rate(&self, rate: u64) -> String {
        self.readers.iter().for_each(|reader| reader.set_rate(rate));
        "reading".to_owned()
    }

    fn await_readings(&self, count: u64) -> Result<String, Failure> {
        let reader = self.readers.first().ok_or("no thread reads")?;
        wait_for(count, || reader.settled())?;
        Ok(format!("readings{}", reader.line()))
    }

    fn publishers_with(
        &self,
        groups: Vec<String>,
        members: u64,
    ) -> Result<Vec<Publisher>, Failure> {
        let publishers = self.node.groups(groups).publishers()?;
        for publisher in &publishers {
            publisher.wait_for_members(u32::try_from(members)?, PATIENCE)?;
        }
        Ok(publishers)
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
        let mut pacer = Pacer::new();
        for _ in 0..count {
            while let Some(wait) = pacer.wait(rate) {
                std::thread::sleep(wait);
            }
            self.send(1, bytes)?;
            pacer.pass();
        }
        Ok("sent".to_owned())
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
        let resent = self.resent.sums();
        let mut line = String::from("report") + &values(&snapshot.protocol);
        line += &format!(
            " resent_most={} resent_bytes={} resent_over={}",
            resent.most, resent.total, resent.over
        );
        line += &format!(
            " by_multicast={} by_second={} incarnation={} delivered={} send_bytes={} receive_bytes={} repair_p50_us={} peers={}",
            snapshot.port.multicast.datagrams,
            snapshot
                .second_port
                .map_or(0, |port| port.unicast.datagrams + port.multicast.datagrams),
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

/// Waits until `have` says so many; returns what it says.
fn wait_for(count: u64, have: impl Fn() -> u64) -> Result<u64, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let got = have();
        if got >= count {
            return Ok(got);
        }
        if Instant::now() > deadline {
            return Err(format!("{got} of {count} messages within {PATIENCE:?}").into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// ` NAME=VALUE` of each.
fn values(metrics: &dyn Metrics) -> String {
    rows(metrics)
        .iter()
        .map(|row| format!(" {}={}", row.metric.name, row.number()))
        .collect()
}

/// ` ID=ADDRESS` of each, and why it is away.
fn places(nodes: &[NodeRow]) -> String {
    let place = |node: &NodeRow| {
        let away = node.away.map(|reason| format!(",{reason:?}"));
        let (id, away) = (node.origin.node.0, away.unwrap_or_default());
        format!(" {id}={}{away}", node.address)
    };
    nodes.iter().map(place).collect()
}

/// Numbers, with a space before each.
fn line_of(numbers: impl Iterator<Item = u64>) -> String {
    numbers.map(|number| format!(" {number}")).collect()
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
