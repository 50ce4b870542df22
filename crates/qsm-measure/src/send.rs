//! `qsm bench send`: as many messages as receivers take, or a fixed rate of timed ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use qsm::{FeedHandle, Node, Publisher, Pull, RegionRow, RequestError};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::notice::Notices;
use qsm_console::options::seconds;
use qsm_console::output;
use qsm_console::stop::Stop;
use qsm_console::table::printable;

use crate::clock::Clock;
use crate::echo::Echoes;
use crate::latencies::Latencies;
use crate::layout::{Layout, LayoutOptions};
use crate::message::{self, Noise, Stamp};
use crate::names;
use crate::options::{EndOptions, LoadOptions};
use crate::others::Others;
use crate::pace::{Pace, wait_until};
use crate::report::{BenchReport, Sent, say, wait_for_start};
use crate::show;
use crate::stages::Departures;

/// How often signals are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How often groups of a layout get their share.
const FOLLOW: Duration = Duration::from_millis(2);

/// How long regions must have been as they are before a run, where the service plans them.
const STEADY: Duration = Duration::from_millis(2500);

/// How long the goodbye to the cluster may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Arguments of `qsm bench send`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm bench send --receivers 3                  as fast as three receivers take it"
    "qsm bench send --rate 1000 --payload 100      timed; hosts' clocks must be synchronised"
    "qsm bench send --rate 1000 --round-trip       timed there and back; they need not be"
))]
pub(crate) struct SendArgs {
    /// What is sent.
    #[command(flatten)]
    pub(crate) load: LoadOptions,
    /// What receivers have besides.
    #[command(flatten)]
    pub(crate) layout: LayoutOptions,
    /// Receivers to wait for
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) receivers: u32,
    /// Send so many timed messages per second, instead of as many as possible
    #[arg(long, value_name = "MESSAGES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// Time the way there and back, halved; one receiver is to run with --echo
    #[arg(long, requires = "rate")]
    pub(crate) round_trip: bool,
    /// How long receivers may take to appear, and to have everything
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) patience: Duration,
    /// Say when ready, and begin when a line comes on stdin: so several senders begin at once
    #[arg(long)]
    pub(crate) start_on_input: bool,
    /// This process.
    #[command(flatten)]
    pub(crate) end: EndOptions,
}

/// Runs the command.
///
/// # Errors
/// Receivers do not appear or do not get everything, or the node fails.
pub(crate) fn run(args: &SendArgs) -> Result<(), Failure> {
    args.load.check(args.rate.is_some())?;
    if args.rate.is_some() && args.end.node.threads.cores > 1 {
        return Err(Failure::usage(
            "messages are timed at one core thread",
            "leave out --rate, or give --cores 1",
        ));
    }
    if args.rate.is_some() && args.layout.layout.is_some() {
        return Err(Failure::usage(
            "layouts are measured at full speed",
            "leave out --rate, or --layout",
        ));
    }
    let stop = Stop::on_signals()?;
    let clock = args.end.clock();
    let departures = Arc::new(Departures::new(clock));
    let mut builder = args.end.builder(args.load.spin)?;
    if args.rate.is_some() {
        let departures = Arc::clone(&departures);
        builder = builder.tap(move |tapped| departures.see(&tapped));
    }
    let node = EndOptions::start(builder)?;
    let mut notices = Notices::new(&node, &args.end.node);
    let mut sender = Sender::new(args, &node)?;
    let load = match args.rate {
        None => Load::Flood(sender.register()?),
        Some(rate) => Load::Paced(rate),
    };
    sender.settle(&stop)?;
    if args.start_on_input {
        wait_for_start()?;
    }
    let packets = node.stats()?.protocol.data_sent;
    let (start, cpu) = (Instant::now(), qsm_net::process_cpu_time());
    let mut sent = match load {
        Load::Flood(flood) => sender.flood(flood, &stop)?,
        Load::Paced(rate) => sender.timed(Pace::new(start, rate), clock, &departures, &stop)?,
    };
    node.flush(args.patience).map_err(late)?;
    sent.seconds = start.elapsed().as_secs_f64();
    sent.cpu_seconds = qsm_net::process_cpu_time()
        .saturating_sub(cpu)
        .as_secs_f64();
    sent.count(&node, packets)?;
    let elsewhere = sender.others.end()?;
    sender
        .end
        .send(&message::last(1, sent.messages - elsewhere))?;
    node.flush(args.patience).map_err(late)?;
    drop(sender);
    // Everything has arrived; a goodbye unheard changes nothing.
    drop(node.shutdown(GOODBYE));
    notices.drain();
    if args.end.json {
        say(&BenchReport::Sent(Box::new(sent)))
    } else {
        output::write(show::sent(&sent))
    }
}

fn late(error: RequestError) -> Failure {
    Failure {
        remedy: "see what the receivers say; look for one that hangs or was stopped, or give a \
                 longer --patience"
            .to_owned(),
        ..Failure::from(error)
    }
}

impl Sent {
    /// What the node counted since it had sent so many packets, and the regions there are.
    fn count(&mut self, node: &Node, packets: u64) -> Result<(), Failure> {
        let protocol = node.stats()?.protocol;
        self.asked = protocol.sender_asked;
        self.packets = protocol.data_sent - packets;
        let regions = node.list_regions()?;
        let shared = |region: &&RegionRow| region.address.ip().is_multicast();
        self.regions = regions.iter().filter(shared).count();
        self.private_regions = regions.len() - self.regions;
        Ok(())
    }
}

/// How fast.
enum Load {
    /// As many messages as the node takes.
    Flood(Flood),
    /// So many a second.
    Paced(u32),
}

/// Feeds that wait for the word to begin.
struct Flood {
    feeds: Vec<FeedHandle>,
    /// By core.
    quotas: BTreeMap<usize, Arc<Quota>>,
}

/// A node that is ready to send.
struct Sender<'a> {
    args: &'a SendArgs,
    node: &'a Node,
    publishers: Vec<Publisher>,
    /// The layout's groups.
    others: Others,
    end: Publisher,
    echoes: Option<Echoes>,
    noise: Arc<Noise>,
    /// Where the noise of each group begins.
    salts: Vec<u64>,
}

impl<'a> Sender<'a> {
    /// Returns when all receivers are there.
    fn new(args: &'a SendArgs, node: &'a Node) -> Result<Self, Failure> {
        // First: the receiver that echoes waits for it before it can be found.
        let echoes = match args.round_trip {
            true => Some(Echoes::new(node, args.load.groups)?),
            false => None,
        };
        let mut publishers = node
            .groups(names::groups(args.load.groups as usize))
            .publishers()?;
        let end = node.publisher(names::END)?;
        publishers.push(end);
        let deadline = Instant::now() + args.patience;
        for publisher in &publishers {
            let left = deadline.saturating_duration_since(Instant::now());
            publisher
                .wait_for_members(args.receivers, left)
                .map_err(|error| too_few(args, error))?;
        }
        let wait = |publisher: &Publisher, receivers| {
            let left = deadline.saturating_duration_since(Instant::now());
            let waited = publisher.wait_for_members(receivers, left);
            waited.map_err(|error| too_few(args, error))
        };
        let others = Others::new(node, args.layout, args.receivers, &args.load, wait)?;
        let end = publishers
            .pop()
            .unwrap_or_else(|| unreachable!("it was just put there"));
        let ids: Vec<_> = node.ids().collect();
        let groups = publishers.iter().map(Publisher::group).enumerate();
        let salts = groups.map(|(index, group)| Noise::salt(ids[node.core_of(group)], index));
        Ok(Self {
            args,
            node,
            salts: salts.collect(),
            publishers,
            others,
            end,
            echoes,
            noise: Arc::new(Noise::new(args.load.payload)),
        })
    }

    /// Waits until the membership service has placed all receivers, if it does so after they have
    /// come, but not longer than receivers may take.
    fn settle(&self, stop: &Stop) -> Result<(), Failure> {
        if !self.args.layout.layout.is_some_and(Layout::is_planned) {
            return Ok(());
        }
        let deadline = Instant::now() + self.args.patience;
        let views = || {
            let regions = self.node.list_regions()?;
            let views = regions.iter().map(|row| (row.region, row.view));
            Ok::<_, RequestError>(views.collect::<BTreeSet<_>>())
        };
        let (mut known, mut since) = (views()?, Instant::now());
        while since.elapsed() < STEADY && Instant::now() < deadline {
            if stop.is_asked() {
                return Err(interrupted());
            }
            thread::sleep(LOOK);
            let now = views()?;
            if now != known {
                (known, since) = (now, Instant::now());
            }
        }
        Ok(())
    }

    /// One feed for each group. To register a hundred thousand takes seconds while some send, so
    /// they wait for each other.
    fn register(&mut self) -> Result<Flood, Failure> {
        self.others.register(self.node, &self.noise)?;
        let quotas = self.quotas();
        let feed = |(group, publisher): (usize, &Publisher)| {
            let core = self.node.core_of(publisher.group());
            publisher.feed(self.source(group, &quotas[&core]))
        };
        let feeds = self.publishers.iter().enumerate().map(feed);
        Ok(Flood {
            feeds: feeds.collect::<Result<_, _>>()?,
            quotas,
        })
    }

    /// As many messages as the node takes.
    fn flood(&mut self, Flood { feeds, quotas }: Flood, stop: &Stop) -> Result<Sent, Failure> {
        let pulled = || {
            let sent = quotas.values();
            sent.map(|quota| quota.sent.load(Ordering::Acquire)).sum()
        };
        let look = if self.others.is_empty() { LOOK } else { FOLLOW };
        let until = self.args.load.lasts().map(|lasts| Instant::now() + lasts);
        for quota in quotas.values() {
            quota.begun.store(true, Ordering::Release);
        }
        feeds.iter().for_each(FeedHandle::wake);
        loop {
            let over = quotas.values().all(|quota| quota.is_over());
            self.others.follow(pulled(), over);
            if (over && self.others.is_over()) || stop.is_asked() {
                break;
            }
            let left = until.map_or(look, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(look));
        }
        self.others.stop();
        for quota in quotas.values() {
            quota.over.store(true, Ordering::Release);
        }
        // What was pulled before is sent, and what has been pulled is known, when this returns.
        self.node.flush(self.args.patience).map_err(late)?;
        drop(feeds);
        if stop.is_asked() {
            return Err(interrupted());
        }
        Ok(Sent::of(pulled() + self.others.sent()))
    }

    /// For each core that has groups its part of the messages, as even as it can be.
    fn quotas(&self) -> BTreeMap<usize, Arc<Quota>> {
        let groups = self.publishers.iter().map(Publisher::group);
        let cores: BTreeSet<usize> = groups.map(|group| self.node.core_of(group)).collect();
        let others = |messages| messages - self.others.part_of(messages);
        let (count, messages) = (cores.len() as u64, self.args.load.messages.map(others));
        let part =
            |index| messages.map(|messages| messages / count + u64::from(index < messages % count));
        let quota = |(index, core)| (core, Arc::new(Quota::new(part(index))));
        (0..).zip(cores).map(quota).collect()
    }

    fn source(
        &self,
        group: usize,
        quota: &Arc<Quota>,
    ) -> impl FnMut(&mut Vec<u8>) -> Pull + Send + 'static {
        let (noise, quota) = (Arc::clone(&self.noise), Arc::clone(quota));
        let (salt, bytes) = (self.salts[group], self.args.load.payload);
        let mut number = 0;
        move |message| {
            if let Err(without) = quota.take() {
                return without;
            }
            number += 1;
            noise.write_plain(message, salt, number, bytes);
            Pull::Message
        }
    }

    /// Each message when it is due, or as soon as the one before was accepted. Spinning, the core
    /// thread asks for it, so that a sender keeps one CPU busy and not two.
    fn timed(
        &self,
        pace: Pace,
        clock: Clock,
        departures: &Arc<Departures>,
        stop: &Stop,
    ) -> Result<Sent, Failure> {
        let total = match (self.args.load.messages, self.args.load.lasts()) {
            (Some(messages), _) => messages,
            (None, lasts) => pace.messages_in(lasts.unwrap_or_default()).max(1),
        };
        let timing = Timing {
            pace,
            clock,
            departures: Arc::clone(departures),
            tag: self.node.stats()?.address.port(),
            there_and_back: self.echoes.is_some(),
            noise: Arc::clone(&self.noise),
            bytes: self.args.load.payload,
        };
        if let Some(echoes) = &self.echoes {
            echoes.begin(pace);
        }
        let late = match self.args.load.spin {
            true => self.pulled(&timing, total, stop)?,
            false => self.pushed(&timing, total, stop)?,
        };
        let mut sent = Sent {
            late,
            handing: departures.handing(),
            ..Sent::of(total)
        };
        if let Some(echoes) = &self.echoes {
            sent.half_round_trip = echoes.wait(total, self.args.patience, stop)?;
        }
        Ok(sent)
    }

    /// By this thread, one group after the other. Returns by how much it called too late.
    fn pushed(&self, timing: &Timing, total: u64, stop: &Stop) -> Result<Latencies, Failure> {
        let groups = self.publishers.len() as u64;
        let (mut buffer, mut late) = (Vec::new(), Latencies::new());
        for index in 0..total {
            if !wait_until(timing.pace.due(index), false, stop) {
                return Err(interrupted());
            }
            let (group, number) = ((index % groups) as usize, index / groups + 1);
            buffer.clear();
            timing.write(&mut buffer, index, self.salts[group], number, &mut late);
            self.publishers[group].send(&buffer)?;
        }
        Ok(late)
    }

    /// The same, by a feed for each group.
    fn pulled(&self, timing: &Timing, total: u64, stop: &Stop) -> Result<Latencies, Failure> {
        let groups = self.publishers.len() as u64;
        let (tell, told) = mpsc::channel();
        let feeds = (0..groups).zip(&self.publishers).zip(&self.salts);
        let feeds = feeds.map(|((group, publisher), salt)| {
            let (timing, tell, salt) = (timing.clone(), tell.clone(), *salt);
            let (mut index, mut late) = (group, Latencies::new());
            publisher.feed(move |message: &mut Vec<u8>| {
                if index >= total {
                    // Who has given up listening wants no figures.
                    drop(tell.send(core::mem::replace(&mut late, Latencies::new())));
                    return Pull::End;
                }
                let due = timing.pace.due(index);
                if Instant::now() < due {
                    return Pull::At(due);
                }
                timing.write(message, index, salt, index / groups + 1, &mut late);
                index += groups;
                Pull::Message
            })
        });
        let _feeds = feeds.collect::<Result<Vec<_>, _>>()?;
        let mut all = Latencies::new();
        for _ in 0..groups {
            let late = loop {
                match told.recv_timeout(LOOK) {
                    Ok(late) => break late,
                    Err(_) if stop.is_asked() => return Err(interrupted()),
                    Err(_) => {}
                }
            };
            all.merge(&late);
        }
        Ok(all)
    }
}

/// What timed messages are made of.
#[derive(Debug, Clone)]
struct Timing {
    pace: Pace,
    clock: Clock,
    departures: Arc<Departures>,
    tag: u16,
    there_and_back: bool,
    noise: Arc<Noise>,
    bytes: usize,
}

impl Timing {
    /// Writes the message that is due now, and notes by how much this is too late.
    fn write(
        &self,
        buffer: &mut Vec<u8>,
        index: u64,
        salt: u64,
        number: u64,
        late: &mut Latencies,
    ) {
        let (due, called) = (self.pace.due(index), Instant::now());
        late.record(crate::clock::nanos(called.saturating_duration_since(due)));
        let (earlier, handed) = self.departures.untold().unwrap_or_default();
        let stamp = Stamp {
            id: Stamp::id(self.tag, index),
            intended: match self.there_and_back {
                true => 0,
                false => self.clock.at(due),
            },
            called: self.clock.at(called),
            earlier,
            handed,
        };
        self.noise
            .write_stamped(buffer, stamp, salt, number, self.bytes);
    }
}

impl Sent {
    fn of(messages: u64) -> Self {
        Self {
            messages,
            seconds: 0.0,
            cpu_seconds: 0.0,
            asked: 0,
            packets: 0,
            regions: 0,
            private_regions: 0,
            late: Latencies::new(),
            handing: Latencies::new(),
            half_round_trip: Latencies::new(),
        }
    }
}

fn interrupted() -> Failure {
    Failure::failed("interrupted", "let it run to its end")
}

fn too_few(args: &SendArgs, error: RequestError) -> Failure {
    match error {
        RequestError::TooFewReceivers {
            group, receivers, ..
        } => Failure::timeout(
            format!(
                "there are not {} receivers of all groups; of {}: {receivers}",
                args.receivers,
                printable(&group)
            ),
            "start `qsm bench receive` on the receiving hosts with the same --groups and \
             --cluster, see with `qsm nodes` which are there, or give a longer --patience",
        ),
        other => other.into(),
    }
}

/// How many messages all feeds of a core together may still give. Only the core thread counts, so
/// there are no read-modify-write operations, which would cost more than all the rest. Two of them
/// share no line of a cache.
#[derive(Debug)]
#[repr(align(128))]
struct Quota {
    left: AtomicU64,
    sent: AtomicU64,
    begun: AtomicBool,
    over: AtomicBool,
}

impl Quota {
    /// So many, or as many as one likes.
    fn new(messages: Option<u64>) -> Self {
        Self {
            left: AtomicU64::new(messages.unwrap_or(u64::MAX)),
            sent: AtomicU64::new(0),
            begun: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Allows one message.
    ///
    /// # Errors
    /// None is allowed, or none yet: what a feed is to answer.
    fn take(&self) -> Result<(), Pull> {
        if !self.begun.load(Ordering::Acquire) {
            return Err(Pull::Idle);
        }
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 || self.over.load(Ordering::Acquire) {
            return Err(Pull::End);
        }
        self.left.store(left - 1, Ordering::Relaxed);
        let sent = self.sent.load(Ordering::Relaxed);
        self.sent.store(sent + 1, Ordering::Release);
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}
