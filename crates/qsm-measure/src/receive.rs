//! `qsm bench receive`: takes in what senders send, and verifies all of it.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use clap::Args;
use qsm::{Delivery, MessageRef, Publisher, Snapshot};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::log::Note;
use qsm_console::notice::Notices;
use qsm_console::options::seconds;
use qsm_console::output;
use qsm_console::progress::Progress;
use qsm_console::stop::Stop;

use crate::check::Check;
use crate::clock::Clock;
use crate::latencies::Latencies;
use crate::layout::{Layout, Seat};
use crate::message::{Kind, Stamp};
use crate::names;
use crate::options::EndOptions;
use crate::report::{BenchReport, Received, say};
use crate::show;
use crate::stages::Arrivals;

/// How often signals, events and the progress line are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The clock is read for so many first messages, and then for one in so many.
const CLOCK_EVERY: u64 = 64;

/// How long the goodbye to the cluster may take.
const GOODBYE: Duration = Duration::from_secs(1);

/// Arguments of `qsm bench receive`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
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
    /// Layout, as at the senders; with --seat
    #[arg(long, value_name = "LAYOUT", value_parser = Layout::from_str, requires = "seat")]
    pub(crate) layout: Option<Layout>,
    /// Which receiver of a layout this is, such as 2/6
    #[arg(long, value_name = "NUMBER/RECEIVERS", value_parser = Seat::from_str, requires = "layout")]
    pub(crate) seat: Option<Seat>,
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
    /// This process.
    #[command(flatten)]
    pub(crate) end: EndOptions,
}

/// Runs the command.
///
/// # Errors
/// Something is missing or wrong, or the node fails.
pub(crate) fn run(args: &ReceiveArgs) -> Result<(), Failure> {
    let cores = args.end.node.threads.cores;
    if args.stages && cores > 1 {
        return Err(Failure::usage(
            "stages cannot be told apart where several core threads are at work",
            "leave out --stages, or give --cores 1",
        ));
    }
    let stop = Stop::on_signals()?;
    let clock = args.end.clock();
    let arrivals = args
        .stages
        .then(|| Arc::new(Arrivals::new(clock, args.groups)));
    let mut builder = args.end.builder(args.spin)?;
    if let Some(arrivals) = arrivals.clone() {
        builder = builder.tap(move |tapped| arrivals.see(&tapped));
    }
    let node = EndOptions::start(builder)?;
    let mut notices = Notices::new(&node, &args.end.node);
    let echo = match args.echo {
        true => {
            let echo = node.publisher(names::ECHO)?;
            // What is sent back before the sender listens would be lost.
            echo.wait_for_members(1, args.patience)?;
            Some(Arc::new(echo))
        }
        false => None,
    };
    let own = args.layout_groups();
    // One for the groups that all have, and one for each other.
    let ends = 1 + own.len();
    let seen = Arc::new(Seen::new(cores, args.senders as usize * ends));
    let (outcome, ended) = sync_channel(1);
    let (account, accounts) = sync_channel(cores);
    let mut groups = names::groups(args.groups as usize);
    groups.push(names::END.to_owned());
    groups.extend(own.into_iter().map(names::of_layout));
    let mut left = 0;
    let upcalls = node.groups(&groups).subscribe_per_core(|core| {
        left += 1;
        let mut upcall = Upcall {
            core,
            account: Account::new(clock),
            accounts: account.clone(),
            arrivals: arrivals.clone(),
            echo: echo.clone(),
            seen: Arc::clone(&seen),
            outcome: Some(outcome.clone()),
        };
        move |delivery| upcall.take(delivery)
    })?;
    drop((outcome, account));
    wait(args, &ended, &seen, &stop, &mut notices)?;
    // Each gives its account when it is dropped.
    drop(upcalls);
    let account = gather(&accounts, left)?;
    let complete = account.check.is_complete(args.senders as usize, ends);
    complete.map_err(|fault| wrong(&fault))?;
    let mut received = account.received(arrivals.as_deref());
    received.count(&node.stats()?);
    let goodbye = node.shutdown(GOODBYE);
    notices.drain();
    if args.end.node.network.verbose && goodbye.is_err() {
        Note::info("goodbye", "the cluster did not hear the goodbye").say();
    }
    if args.end.json {
        say(&BenchReport::Received(Box::new(received)))
    } else {
        output::write(show::received(&received))
    }
}

impl ReceiveArgs {
    /// What this receiver has of the layout, if there is one.
    fn layout_groups(&self) -> BTreeSet<u32> {
        let layout = self.layout.zip(self.seat);
        layout.map_or_else(BTreeSet::new, |(layout, seat)| {
            layout.groups_of(seat.receiver, seat.receivers)
        })
    }
}

/// What so many cores have received together.
fn gather(accounts: &Receiver<Account>, cores: usize) -> Result<Account, Failure> {
    let next = || accounts.recv_timeout(GOODBYE).map_err(|_| node_has_ended());
    let mut all = next()?;
    for _ in 1..cores {
        all.merge(next()?);
    }
    Ok(all)
}

/// What the upcalls of all cores have seen, each in its place.
#[derive(Debug)]
struct Seen {
    cores: Box<[Count]>,
    /// What senders have said that they sent,
    total: AtomicU64,
    /// how often one has said so,
    told: AtomicUsize,
    /// and how often all of them will have.
    ends: usize,
}

/// Messages at one core. Two of them share no line of a cache.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Count(AtomicU64);

impl Seen {
    fn new(cores: usize, ends: usize) -> Self {
        Self {
            cores: (0..cores).map(|_| Count::default()).collect(),
            total: AtomicU64::new(0),
            told: AtomicUsize::new(0),
            ends,
        }
    }

    fn messages(&self) -> u64 {
        let counts = self
            .cores
            .iter()
            .map(|count| count.0.load(Ordering::Relaxed));
        counts.sum()
    }

    /// All senders have told of all groups, and so many messages have come.
    fn is_complete(&self) -> bool {
        self.told.load(Ordering::Acquire) >= self.ends
            && self.messages() >= self.total.load(Ordering::Relaxed)
    }
}

/// All has come, or something was wrong.
type Outcome = Result<(), String>;

fn wrong(fault: &str) -> Failure {
    Failure::failed(
        format!("delivery is wrong: {fault}"),
        "start receivers before senders, and only one benchmark in each --cluster; otherwise it is \
         worth a report",
    )
}

fn node_has_ended() -> Failure {
    Failure::failed("the node has ended", "start it again")
}

fn wait(
    args: &ReceiveArgs,
    ended: &Receiver<Outcome>,
    seen: &Seen,
    stop: &Stop,
    notices: &mut Notices,
) -> Result<(), Failure> {
    let mut progress = Progress::new();
    let (mut messages, mut since) = (0, Instant::now());
    loop {
        let outcome = ended.recv_timeout(LOOK);
        notices.drain();
        let now = seen.messages();
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
            Ok(Err(fault)) => return Err(wrong(&fault)),
            Err(RecvTimeoutError::Disconnected) => return Err(node_has_ended()),
            // Two cores that end at the same time may each take the other to be at work.
            Err(RecvTimeoutError::Timeout) if !seen.is_complete() => {}
            Ok(Ok(())) | Err(RecvTimeoutError::Timeout) => {
                progress.clear();
                return Ok(());
            }
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

/// What one core has received, and when.
struct Account {
    check: Check,
    timing: Timing,
}

impl Account {
    fn new(clock: Clock) -> Self {
        Self {
            check: Check::new(),
            timing: Timing::new(clock),
        }
    }

    fn merge(&mut self, other: Self) {
        self.check.merge(other.check);
        self.timing.merge(&other.timing);
    }

    fn received(&self, arrivals: Option<&Arrivals>) -> Received {
        let seconds = self.timing.seconds();
        let (network, delivering) = match arrivals {
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
            by_receivers: 0,
            by_sender: 0,
            injected: 0,
            kernel_drops: 0,
            repairs: [0; 4],
        }
    }
}

/// The upcall of one core thread.
struct Upcall {
    core: usize,
    account: Account,
    /// Where the account goes at the end.
    accounts: SyncSender<Account>,
    arrivals: Option<Arc<Arrivals>>,
    echo: Option<Arc<Publisher>>,
    seen: Arc<Seen>,
    /// Taken with the end.
    outcome: Option<SyncSender<Outcome>>,
}

impl Upcall {
    fn take(&mut self, delivery: Delivery<'_>) {
        // A message that is lost is missed by the check of the next one, or of the total.
        let Some(message) = delivery.message().filter(|_| self.outcome.is_some()) else {
            return;
        };
        let outcome = match self.step(message) {
            Ok(()) if !self.seen.is_complete() => return,
            outcome => outcome,
        };
        if let Some(to) = self.outcome.take() {
            // The main thread may have given up, or have been told by another core.
            drop(to.try_send(outcome));
        }
    }

    fn step(&mut self, message: MessageRef<'_>) -> Result<(), String> {
        let Account { check, timing } = &mut self.account;
        match check.take(message.into())? {
            Kind::Plain => timing.count(check.messages),
            Kind::Stamped => {
                timing.count(check.messages);
                let stamp = Stamp::read(message.bytes);
                if let Some(stamp) = stamp.filter(|stamp| stamp.intended > 0) {
                    timing.time(&stamp, self.arrivals.as_deref())?;
                }
                if let Some(echo) = &self.echo {
                    let sent = echo.try_send(message.bytes);
                    sent.map_err(|error| format!("cannot send it back: {error}"))?;
                }
            }
            Kind::Last(total) => {
                // Several cores may have groups that end.
                self.seen.total.fetch_add(total, Ordering::Relaxed);
                self.seen.told.fetch_add(1, Ordering::Release);
            }
        }
        let count = &self.seen.cores[self.core].0;
        count.store(check.messages, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Upcall {
    fn drop(&mut self) {
        let empty = Account::new(self.account.timing.clock);
        let account = std::mem::replace(&mut self.account, empty);
        // The main thread may have given up.
        drop(self.accounts.try_send(account));
    }
}

impl Received {
    /// Adds what the node counted.
    fn count(&mut self, stats: &Snapshot) {
        let (port, protocol) = (&stats.port, &stats.protocol);
        self.gaps = protocol.gaps;
        self.by_receivers = protocol.repaired_by_cacher
            + protocol.repaired_by_pull
            + protocol.repaired_by_push
            + protocol.repaired_by_parity;
        self.by_sender = protocol.repaired_by_sender;
        self.injected = port.faults.lost;
        self.kernel_drops = port.unicast.kernel_drops + port.multicast.kernel_drops;
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let repair = &stats.times.repair;
        let [p50, p99, max] = [500, 990, 1000].map(|share| micros(repair.quantile(share)));
        self.repairs = [repair.count(), p50, p99, max];
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

    /// Adds those of another core.
    fn merge(&mut self, other: &Self) {
        if other.clocked == 0 {
            return;
        }
        if self.clocked == 0 || other.first < self.first {
            (self.first, self.cpu) = (other.first, other.cpu);
        }
        self.last = self.last.max(other.last);
        self.clocked += other.clocked;
        self.latency.merge(&other.latency);
        self.repaired.merge(&other.repaired);
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
        let latency = self.clock.since(stamp.intended, now).map_err(|early| {
            format!(
                "a message came {early} ns before it was sent: the hosts' clocks differ; \
                 synchronise them (PTP, chrony), or measure with --round-trip and --echo"
            )
        })?;
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
