//! `qsm bench receive`: takes in what senders send, and verifies all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use qsm::{Delivery, Embedded, Publisher, Snapshot};

use super::check::Check;
use super::clock::Clock;
use super::latencies::Latencies;
use super::message::{Kind, Stamp};
use super::names;
use super::report::{Received, Said, say};
use super::show;
use super::stages::Arrivals;
use crate::args::{NodeOptions, after_help, seconds};
use crate::failure::Failure;
use crate::figures;
use crate::notice::Notices;
use crate::progress::Progress;
use crate::stop::Stop;

/// How often signals, events and the progress line are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The clock is read for so many first messages, and then for one in so many.
const CLOCK_EVERY: u64 = 64;

/// How long the goodbye to the cluster may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Arguments of `qsm bench receive`.
#[derive(Debug, Clone, Args)]
#[command(after_help = after_help!(
    "qsm bench receive                             on each receiving host, before the sender"
    "qsm bench receive --groups 1000 --senders 2   as the senders are called"
    "qsm bench receive --echo                      on one host, for send --round-trip"
))]
pub(crate) struct ReceiveArgs {
    /// Senders to wait for
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) senders: u32,
    /// Groups, as at the senders
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) groups: u32,
    /// Fail when nothing comes for this long, once something has come
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) patience: Duration,
    /// Send each timed message back, for `qsm bench send --round-trip`
    #[arg(long)]
    pub(crate) echo: bool,
    /// Also time the stages of each message's way; costs some throughput
    #[arg(long)]
    pub(crate) stages: bool,
    /// Never sleep: lowest latency, for a whole CPU
    #[arg(long)]
    pub(crate) spin: bool,
    /// Write the result as JSON, in one line
    #[arg(long)]
    pub(crate) json: bool,
    /// The sender is on this host and uses the monotonic clock
    #[arg(long, hide = true)]
    pub(crate) same_host: bool,
    /// The node.
    #[command(flatten)]
    pub(crate) node: NodeOptions,
}

/// Runs the command.
///
/// # Errors
/// Something is missing or wrong, or the node fails.
pub(crate) fn run(args: &ReceiveArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let clock = if args.same_host {
        Clock::monotonic()
    } else {
        Clock::wall()
    };
    let arrivals = args
        .stages
        .then(|| Arc::new(Arrivals::new(clock, args.groups)));
    let mut builder = args.node.builder(Embedded::IfNoneFound).spin(args.spin);
    if let Some(arrivals) = arrivals.clone() {
        builder = builder.tap(move |tapped| arrivals.see(&tapped));
    }
    let node = builder.start()?;
    let mut notices = Notices::new(node.events(), args.node.network.verbose);
    let echo = match args.echo {
        true => {
            let echo = node.publisher(names::ECHO)?;
            // What is sent back before the sender listens would be lost.
            echo.wait_for_members(1, args.patience)?;
            Some(echo)
        }
        false => None,
    };
    let seen = Arc::new(Seen::default());
    let (outcome, ended) = sync_channel(1);
    let mut upcall = Upcall {
        check: Check::new(),
        timing: Timing::new(clock),
        arrivals,
        echo,
        senders: args.senders as usize,
        seen: Arc::clone(&seen),
        outcome: Some(outcome),
    };
    let mut groups = names::groups(args.groups as usize);
    groups.push(names::END.to_owned());
    let upcalls = node.subscribe_with(&groups, move |message| upcall.take(message))?;
    let mut received = wait(args, &ended, &seen, &stop, &mut notices)?;
    received.count(&node.stats()?);
    drop(upcalls);
    let goodbye = node.shutdown(GOODBYE);
    notices.drain();
    if args.node.network.verbose && goodbye.is_err() {
        eprintln!("qsm: the cluster did not hear the goodbye");
    }
    if args.json {
        say(&Said::Received(Box::new(received)))
    } else {
        show::print(&show::received(&received))
    }
}

/// What the main thread sees of the upcall's work. Only the upcall writes.
#[derive(Debug, Default)]
struct Seen {
    messages: AtomicU64,
    /// As far as senders have told.
    total: AtomicU64,
}

type Outcome = Result<Received, String>;

fn wait(
    args: &ReceiveArgs,
    ended: &Receiver<Outcome>,
    seen: &Seen,
    stop: &Stop,
    notices: &mut Notices,
) -> Result<Received, Failure> {
    let mut progress = Progress::new();
    let (mut messages, mut since) = (0, Instant::now());
    loop {
        let outcome = ended.recv_timeout(LOOK);
        notices.drain();
        let now = seen.messages.load(Ordering::Relaxed);
        if now != messages {
            (messages, since) = (now, Instant::now());
        }
        let missing = || {
            let total = seen.total.load(Ordering::Relaxed);
            format!(
                "{} messages came, all as they should be, of {} that ended senders sent",
                figures::count(messages),
                figures::count(total)
            )
        };
        match outcome {
            Ok(Ok(received)) => {
                progress.clear();
                return Ok(received);
            }
            Ok(Err(fault)) => {
                return Err(Failure::failed(
                    format!("delivery is wrong: {fault}"),
                    "start receivers before senders, and only one benchmark in each --cluster; \
                     otherwise it is worth a report",
                ));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::failed("the node has ended", "start it again"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.is_asked() {
            return Err(Failure::failed(
                format!("interrupted: {}", missing()),
                "let it run to its end",
            ));
        }
        if messages > 0 && since.elapsed() >= args.patience {
            return Err(Failure::failed(
                format!("delivery is incomplete: {}", missing()),
                "see whether a sender was stopped or lost its network; give --senders as many as \
                 there are, or a longer --patience",
            ));
        }
        if progress.is_due() {
            progress.show(&format!("received {} messages", figures::count(messages)));
        }
    }
}

/// The upcall, on the core thread.
struct Upcall {
    check: Check,
    timing: Timing,
    arrivals: Option<Arc<Arrivals>>,
    echo: Option<Publisher>,
    senders: usize,
    seen: Arc<Seen>,
    /// Taken with the end.
    outcome: Option<SyncSender<Outcome>>,
}

impl Upcall {
    fn take(&mut self, message: Delivery<'_>) {
        if self.outcome.is_none() {
            return;
        }
        let outcome = match self.step(message) {
            Ok(false) => return,
            Ok(true) => Ok(self.received()),
            Err(fault) => Err(fault),
        };
        if let Some(to) = self.outcome.take() {
            // The main thread may have given up.
            drop(to.try_send(outcome));
        }
    }

    /// True when all is there.
    fn step(&mut self, message: Delivery<'_>) -> Result<bool, String> {
        match self.check.take(message.into())? {
            Kind::Plain => self.timing.count(self.check.messages),
            Kind::Stamped(stamp) => {
                self.timing.count(self.check.messages);
                if stamp.intended > 0 {
                    self.timing.time(&stamp, self.arrivals.as_deref())?;
                }
                if let Some(echo) = &self.echo {
                    let sent = echo.try_send(message.bytes);
                    sent.map_err(|error| format!("cannot send it back: {error}"))?;
                }
            }
            Kind::Last(_) => self.seen.total.store(self.check.total, Ordering::Relaxed),
        }
        let messages = self.check.messages;
        self.seen.messages.store(messages, Ordering::Relaxed);
        if self.check.told < self.senders {
            return Ok(false);
        }
        self.check.is_complete(self.senders)
    }

    fn received(&mut self) -> Received {
        let seconds = self.timing.seconds();
        let (network, delivering) = match &self.arrivals {
            Some(arrivals) => arrivals.stages(),
            None => (Latencies::new(), Latencies::new()),
        };
        let intervals = self.timing.clocked.saturating_sub(1);
        let cpu = qsm_net::process_cpu_time().saturating_sub(self.timing.cpu);
        Received {
            messages: self.check.messages,
            bytes: self.check.bytes,
            seconds,
            messages_per_second: intervals as f64 / seconds,
            cpu_seconds: cpu.as_secs_f64(),
            latency: self.timing.latency.clone(),
            repaired: self.timing.repaired.clone(),
            network,
            delivering,
            gaps: 0,
            injected: 0,
            kernel_drops: 0,
            repairs: [0; 4],
        }
    }
}

impl Received {
    /// Adds what the node counted.
    fn count(&mut self, stats: &Snapshot) {
        let port = &stats.port;
        self.gaps = stats.protocol.gaps;
        self.injected = port.faults.lost;
        self.kernel_drops = port.unicast.kernel_drops + port.multicast.kernel_drops;
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let repair = &stats.repair;
        let [p50, p99, max] = [repair.p50, repair.p99, repair.max].map(micros);
        self.repairs = [repair.count, p50, p99, max];
    }
}

/// When messages came.
struct Timing {
    clock: Clock,
    first: Instant,
    /// The last message that the clock was read for: when, and which one it was.
    last: Instant,
    clocked: u64,
    /// Spent before the first.
    cpu: Duration,
    latency: Latencies,
    repaired: Latencies,
}

impl Timing {
    fn new(clock: Clock) -> Self {
        let now = Instant::now();
        Self {
            clock,
            first: now,
            last: now,
            clocked: 0,
            cpu: Duration::ZERO,
            latency: Latencies::new(),
            repaired: Latencies::new(),
        }
    }

    /// Another message, the `count`th, came.
    fn count(&mut self, count: u64) {
        if count >= CLOCK_EVERY && !count.is_multiple_of(CLOCK_EVERY) {
            return;
        }
        self.last = Instant::now();
        self.clocked = count;
        if count == 1 {
            self.first = self.last;
            self.cpu = qsm_net::process_cpu_time();
        }
    }

    fn time(&mut self, stamp: &Stamp, arrivals: Option<&Arrivals>) -> Result<(), String> {
        let now = self.clock.now();
        let Some(latency) = now.checked_sub(stamp.intended) else {
            return Err(format!(
                "a message came {} ns before it was sent: the hosts' clocks differ; synchronise \
                 them (PTP, chrony), or measure with --round-trip and --echo",
                stamp.intended - now
            ));
        };
        self.latency.record(latency);
        if arrivals.is_some_and(|arrivals| arrivals.deliver(stamp, now)) {
            self.repaired.record(latency);
        }
        Ok(())
    }

    fn seconds(&self) -> f64 {
        // Of a single message there is no rate.
        (self.last - self.first).as_secs_f64().max(1e-9)
    }
}
