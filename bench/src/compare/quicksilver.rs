//! Quicksilver's program of the comparison: pull feeds where as much as possible is sent, the
//! queued `send` at a fixed rate, upcalls at receivers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use qsm::{
    Builder, ChannelOptions, Embedded, FaultConfig, FeedHandle, GroupOptions, NetworkOptions, Node,
    Overflow, Publisher, Pull, Service,
};

use super::harness::{self, Failure, Flooded, Options, RARE_EVERY, Sender, Source, Verifier};

const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two questions to the feeds of rare groups.
const RARE_INTERVAL: Duration = Duration::from_millis(2);
/// Time between two plans of the service where there are rare groups.
const PLAN_EVERY: Duration = Duration::from_secs(1);
/// Time by which the first phase, which does not count, is longer then: the service knows the rates of groups ten
/// seconds after they have been entered.
const PLANNED_AFTER: Duration = Duration::from_secs(15);

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let options = Options::parse(arguments)?;
    if options.sends {
        send(&options)
    } else {
        receive(&options)
    }
}

/// The first sender carries the membership service; where some have no multicast, beside its node.
fn builder(options: &Options) -> Builder {
    if !all_have_multicast(options) {
        return Node::builder()
            .network(network(options))
            .cluster(cluster(options))
            .slow_after(Duration::ZERO)
            .service(service_address(options));
    }
    let service = if options.sends && options.index == 0 {
        Embedded::Always
    } else {
        Embedded::Never
    };
    let builder = Node::builder()
        .network(network(options))
        .channels(ChannelOptions::new().port(options.port + 1))
        .cluster(cluster(options))
        .slow_after(Duration::ZERO)
        .embedded_service(service);
    if options.common < options.groups {
        builder.plan_every(PLAN_EVERY)
    } else {
        builder
    }
}

fn cluster(options: &Options) -> String {
    format!("bench-{}", options.port)
}

fn all_have_multicast(options: &Options) -> bool {
    options.setting("multicast").is_none()
}

/// Where half of the receivers have none, these are those with odd numbers.
fn has_multicast(options: &Options) -> bool {
    match options.setting("multicast") {
        Some("none") => false,
        Some("half") => options.sends || options.index.is_multiple_of(2),
        _ => true,
    }
}

/// Where the receivers' engine is, if they share one.
fn engine(options: &Options) -> Option<PathBuf> {
    options.setting("engine")?;
    Some(std::env::temp_dir().join(format!("{}.engine", cluster(options))))
}

fn service_address(options: &Options) -> SocketAddr {
    SocketAddr::from((options.senders[0], options.port + 2))
}

/// The service of a cluster of which not all have multicast, if it is this process that carries it.
fn service(options: &Options) -> Result<Option<Service>, Failure> {
    if all_have_multicast(options) || options.index > 0 {
        return Ok(None);
    }
    let network = network(options).unicast_port(options.port + 2);
    let service = Service::builder()
        .network(network)
        .cluster(cluster(options))
        .slow_after(Duration::ZERO);
    Ok(Some(service.start()?))
}

fn network(options: &Options) -> NetworkOptions {
    NetworkOptions::new()
        .interface(&options.interface)
        .multicast(has_multicast(options))
        .discovery(SocketAddr::from(([239, 255, 83, 77], options.port)))
}

fn name(group: usize) -> String {
    format!("bench/{group}")
}

fn send(options: &Options) -> Result<(), Failure> {
    let _service = service(options)?;
    let node = builder(options).start()?;
    let names: Vec<String> = (0..options.groups).map(name).collect();
    let publishers = node.groups(names).publishers()?;
    let switch = Arc::new(Switch::new(options.groups - options.common));
    let feeds = publishers
        .iter()
        .zip(Source::all(options))
        .enumerate()
        .map(|(group, (publisher, source))| {
            let switch = Arc::clone(&switch);
            match group.checked_sub(options.common) {
                Some(rare) => publisher.feed(pull_rarely(source, rare, switch)),
                None => publisher.feed(pull(source, switch)),
            }
        })
        .collect::<Result<_, _>>()?;
    let mut sender = Load {
        node,
        publishers,
        feeds,
        switch,
        common: options.common,
    };
    harness::run_sender(options, &mut sender)
}

/// What the main thread says to the feeds, and hears of them.
#[derive(Debug, Default)]
struct Switch {
    /// The phase for which feeds have messages; 0: none.
    phase: AtomicU64,
    /// Messages to common groups.
    sent: AtomicU64,
    /// Messages to each rare group.
    rare: Vec<AtomicU64>,
}

impl Switch {
    fn new(rare: usize) -> Self {
        Self {
            rare: (0..rare).map(|_| AtomicU64::new(0)).collect(),
            ..Self::default()
        }
    }

    fn clear(&self) {
        self.sent.store(0, Ordering::Release);
        for sent in &self.rare {
            sent.store(0, Ordering::Release);
        }
    }

    fn flooded(&self) -> Flooded {
        let rare: Vec<u64> = self
            .rare
            .iter()
            .map(|it| it.load(Ordering::Acquire))
            .collect();
        Flooded {
            messages: self.sent.load(Ordering::Acquire) + rare.iter().sum::<u64>(),
            rare,
        }
    }

    /// Messages that a rare group may have had by now.
    fn share(&self) -> u64 {
        let groups = self.rare.len().max(1) as u64;
        self.sent.load(Ordering::Relaxed) / (RARE_EVERY - 1) / groups
    }
}

/// Only the core thread writes: no locked instruction, which would wait for all stores before it.
fn count(one: &AtomicU64) {
    one.store(one.load(Ordering::Relaxed) + 1, Ordering::Release);
}

fn pull(mut source: Source, switch: Arc<Switch>) -> impl FnMut(&mut Vec<u8>) -> Pull + Send {
    move |message| {
        let phase = switch.phase.load(Ordering::Acquire);
        if phase == 0 {
            return Pull::Idle;
        }
        source.write(phase, 0, message);
        count(&switch.sent);
        Pull::Message
    }
}

/// A rare group's: as many as are due to it beside the common groups' messages.
fn pull_rarely(
    mut source: Source,
    rare: usize,
    switch: Arc<Switch>,
) -> impl FnMut(&mut Vec<u8>) -> Pull + Send {
    move |message| {
        let phase = switch.phase.load(Ordering::Acquire);
        let sent = &switch.rare[rare];
        if phase == 0 || sent.load(Ordering::Relaxed) >= switch.share() {
            return Pull::Idle;
        }
        source.write(phase, 0, message);
        count(sent);
        Pull::Message
    }
}

struct Load {
    node: Node,
    publishers: Vec<Publisher>,
    feeds: Vec<FeedHandle>,
    switch: Arc<Switch>,
    /// Groups that all receivers have.
    common: usize,
}

impl Sender for Load {
    fn send(&mut self, group: usize, message: &[u8]) -> Result<(), Failure> {
        Ok(self.publishers[group].send(message)?)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.node.flush(PATIENCE)?;
        Ok(())
    }

    fn flood(&mut self, phase: u64, time: Duration) -> Result<Option<Flooded>, Failure> {
        let settles = self.common < self.feeds.len() && phase == 1;
        let time = if settles { time + PLANNED_AFTER } else { time };
        self.switch.clear();
        self.switch.phase.store(phase, Ordering::Release);
        for feed in &self.feeds {
            feed.wake();
        }
        let rare = &self.feeds[self.common..];
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if rare.is_empty() || left.is_zero() {
                std::thread::sleep(left);
                break;
            }
            std::thread::sleep(left.min(RARE_INTERVAL));
            for feed in rare {
                feed.wake();
            }
        }
        self.switch.phase.store(0, Ordering::Release);
        // The core thread may be within a feed: what it sends then is seen after the flush.
        self.node.flush(PATIENCE)?;
        Ok(Some(self.switch.flooded()))
    }
}

fn receive(options: &Options) -> Result<(), Failure> {
    let mut builder = builder(options);
    if let Some(loss) = options.setting("injected-loss-ppm") {
        builder = builder.network(network(options).fault(FaultConfig {
            loss_ppm: loss.parse()?,
            seed: options.index as u64 + 1,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            ..FaultConfig::default()
        }));
    }
    let engine = engine(options);
    let own = match &engine {
        Some(_) if options.index > 0 => None,
        _ => Some(builder.start()?),
    };
    // The first receiver's node is the engine of all, its own reader's too.
    let _share = match (&own, &engine) {
        (Some(node), Some(path)) => Some(node.share(path)?),
        _ => None,
    };
    let attached = engine.as_ref().map(Node::attach).transpose()?;
    let node = attached.as_ref().or(own.as_ref()).ok_or("no node")?;
    let mut verifier = Verifier::new(options);
    let tally = verifier.tally();
    let groups = options.wanted().into_iter().map(name).collect::<Vec<_>>();
    let upcalls = node
        .groups(groups)
        .options(GroupOptions::default().overflow(Overflow::Hold))
        .subscribe_with(move |delivery: qsm::Delivery<'_>| {
            // A message that is lost is missed when the next one is verified.
            if let Some(message) = delivery.message() {
                verifier.deliver(message.bytes);
            }
        })?;
    let result = harness::run_receiver(&tally);
    drop(upcalls);
    result
}
