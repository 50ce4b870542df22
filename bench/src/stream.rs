//! Quicksilver's side: one publisher with pull feeds, receivers with upcalls that check numbers
//! and content.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use qsm::{Builder, ChannelOptions, Embedded, FaultConfig, NetworkOptions, Node, Publisher, Pull};

use crate::Failure;
use crate::children::{cpu_micros, hear, monotonic_nanos, say};

#[derive(Debug, Args)]
pub(crate) struct Common {
    #[arg(long)]
    interface: String,
    /// Ports from here on are this run's own.
    #[arg(long)]
    port: u16,
    #[arg(long)]
    groups: usize,
}

#[derive(Debug, Args)]
pub(crate) struct SendOptions {
    #[command(flatten)]
    common: Common,
    #[arg(long)]
    payload: usize,
    #[arg(long)]
    millis: u64,
    #[arg(long)]
    receivers: u32,
    /// Messages per second; 0 for as many as possible.
    #[arg(long, default_value_t = 0)]
    rate: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ReceiveOptions {
    #[command(flatten)]
    common: Common,
    #[arg(long, default_value_t = 0)]
    loss_ppm: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const PATIENCE: Duration = Duration::from_secs(30);

impl Common {
    fn builder(&self) -> Builder {
        Node::builder()
            .network(self.network())
            .channels(ChannelOptions::new().port(self.port + 1))
            .cluster(format!("bench-{}", self.port))
            .slow_after(Duration::ZERO)
    }

    fn network(&self) -> NetworkOptions {
        NetworkOptions::new()
            .interface(&self.interface)
            .discovery(SocketAddr::from(([239, 255, 83, 77], self.port)))
    }

    fn names(&self) -> Vec<String> {
        (0..self.groups)
            .map(|group| format!("bench/{group}"))
            .collect()
    }
}

pub(crate) fn send(options: &SendOptions) -> Result<(), Failure> {
    let node = options
        .common
        .builder()
        .embedded_service(Embedded::Always)
        .start()?;
    let publishers = node.groups(options.common.names()).publishers()?;
    say("ready");
    hear()?;
    for publisher in &publishers {
        publisher.wait_for_members(options.receivers, PATIENCE)?;
    }
    say("joined");
    hear()?;
    let (start, cpu) = (Instant::now(), cpu_micros());
    let sent = if options.rate == 0 {
        flood(options, &node, &publishers)?
    } else {
        pace(options, &publishers)?
    };
    node.flush(PATIENCE)?;
    let nanos = start.elapsed().as_nanos();
    let stats = node.stats()?;
    say(&format!(
        "sent {sent} {nanos} {} {}",
        cpu_micros() - cpu,
        stats.protocol.sender_asked
    ));
    hear()?;
    Ok(())
}

/// As many messages as the node takes, pulled from one feed for each group.
fn flood(options: &SendOptions, node: &Node, publishers: &[Publisher]) -> Result<u64, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let sent = Arc::new(AtomicU64::new(0));
    let feeds: Vec<_> = publishers
        .iter()
        .map(|publisher| publisher.feed(source(options.payload, stop.clone(), sent.clone())))
        .collect::<Result<_, _>>()?;
    std::thread::sleep(Duration::from_millis(options.millis));
    stop.store(true, Ordering::Release);
    node.flush(PATIENCE)?;
    drop(feeds);
    Ok(sent.load(Ordering::Acquire))
}

/// Messages that begin with their number in the group.
fn source(
    payload: usize,
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
) -> impl FnMut(&mut Vec<u8>) -> Pull + Send + 'static {
    let mut number = 0u64;
    move |message| {
        if stop.load(Ordering::Relaxed) {
            return Pull::End;
        }
        number += 1;
        // Only the core thread writes: no locked instruction, which would wait for all stores before it.
        sent.store(sent.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        message.extend_from_slice(&number.to_le_bytes());
        message.resize(payload.max(8), 7);
        Pull::Message
    }
}

/// A fixed rate, in bursts of a millisecond's worth.
fn pace(options: &SendOptions, publishers: &[Publisher]) -> Result<u64, Failure> {
    let start = Instant::now();
    let mut message = vec![7; options.payload.max(8)];
    let (mut sent, total) = (0, options.rate * options.millis / 1000);
    while sent < total {
        let due = (start.elapsed().as_micros() as u64 * options.rate / 1_000_000).min(total);
        while sent < due {
            let publisher = &publishers[sent as usize % publishers.len()];
            let number = sent / publishers.len() as u64 + 1;
            message[..8].copy_from_slice(&number.to_le_bytes());
            publisher.send(&message)?;
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(sent)
}

/// What the upcall has seen. It alone writes; the main thread looks on.
#[derive(Debug, Default)]
struct Tally {
    messages: AtomicU64,
    first_nanos: AtomicU64,
    last_nanos: AtomicU64,
    wrong: AtomicU64,
}

/// The clock is read once in so many messages.
const CLOCK_EVERY: u64 = 64;

/// Checks numbers and content, and counts into the tally.
fn checker(tally: Arc<Tally>) -> impl FnMut(qsm::Delivery<'_>) + Send + 'static {
    let mut next: Vec<u64> = Vec::new();
    let (mut messages, mut wrong) = (0, 0);
    move |delivery| {
        // One that is lost is missed when the next one is checked.
        let Some(delivery) = delivery.message() else {
            return;
        };
        let group = delivery.group_id.0 as usize;
        if group >= next.len() {
            next.resize(group + 1, 1);
        }
        let named = delivery
            .bytes
            .first_chunk()
            .map(|word| u64::from_le_bytes(*word));
        wrong += u64::from(delivery.number != next[group] || named != Some(delivery.number));
        next[group] = delivery.number + 1;
        if messages % CLOCK_EVERY == 0 {
            let now = monotonic_nanos();
            tally.last_nanos.store(now, Ordering::Relaxed);
            if messages == 0 {
                tally.first_nanos.store(now, Ordering::Relaxed);
            }
        }
        messages += 1;
        tally.wrong.store(wrong, Ordering::Relaxed);
        tally.messages.store(messages, Ordering::Release);
    }
}

pub(crate) fn receive(options: &ReceiveOptions) -> Result<(), Failure> {
    let mut builder = options.common.builder().embedded_service(Embedded::Never);
    if options.loss_ppm > 0 {
        builder = builder.network(options.common.network().fault(FaultConfig {
            loss_ppm: options.loss_ppm,
            seed: options.seed,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            ..FaultConfig::default()
        }));
    }
    let node = builder.start()?;
    let tally = Arc::new(Tally::default());
    let upcalls = node
        .groups(options.common.names())
        .subscribe_with(checker(tally.clone()))?;
    say("ready");
    let cpu = cpu_micros();
    let goal: u64 = hear()?.parse()?;
    let deadline = Instant::now() + PATIENCE;
    while tally.messages.load(Ordering::Acquire) < goal && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let cpu = cpu_micros() - cpu;
    let read = |value: &AtomicU64| value.load(Ordering::Acquire);
    let (messages, wrong) = (read(&tally.messages), read(&tally.wrong));
    if messages != goal || wrong != 0 {
        return Err(format!("{messages} of {goal} messages came, {wrong} of them wrong").into());
    }
    let nanos = read(&tally.last_nanos) - read(&tally.first_nanos);
    let stats = node.stats()?;
    say(&format!(
        "received {messages} {nanos} {cpu} {} {} {}",
        stats.protocol.gaps,
        stats.times.repair.quantile(500).as_micros(),
        stats.times.repair.quantile(990).as_micros(),
    ));
    drop(upcalls);
    hear()?;
    Ok(())
}
