//! Hosts, their state machines and the network between them on one virtual clock.
//!
//! ```text
//!   queue ──(time, order)──► arrival / timer / thaw ──► machine ──► transmits ──► network ──► queue
//!                       └──► task ──► caller                   └──► deliveries, events ──► caller
//! ```
//!
//! The engine owns what is physical: time, hosts, receive buffers, the network. What applications
//! do and what must hold is the caller's: it schedules tasks and reads [`Outputs`].

mod capture;
mod guard;
mod insider;
mod networks;
mod output;
mod refusal;
mod thread;

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use qsm_proto::{Event, Instant, Reason, Seed};
use qsm_testnet::{Cause, Fate, Network, NetworkCounters, NetworkOptions, Queue};
use qsm_wire::Kind;

pub use self::capture::Capture;
use self::guard::Guard;
use self::networks::Second;
use crate::checkers::cutoff::Said;
use crate::checkers::expiry::Repaired;
use crate::checkers::rate::Train;
use crate::checkers::sending::Leaving;
use crate::checkers::watermarks::Claim;
use crate::clock::Clock;
use crate::cost::{Cpu, Waiting};
use crate::digest::Digest;
use crate::insider::Liar;
use crate::machine::{Deliveries, Machine};
use crate::mischief::{Mischief, Saboteur};
use crate::trace::{Trace, TraceEntry};
use crate::violation::Violation;

/// Way of the word that no process is there.
const REFUSAL_DELAY: Duration = Duration::from_micros(100);
/// Timers fire at this granularity, like those of a kernel.
const TIMER_SLACK: Duration = Duration::from_micros(1);
/// Timeouts of one host in a row that change nothing before it counts as an endless loop.
const IDLE_TIMEOUTS_MAX: u32 = 200;
/// What the engine hands back when it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The outputs of this host wait.
    Host(usize),
    /// This task is due.
    Task(Task),
    /// This host's thread has nothing better to do than to publish what its application has.
    Feed(usize),
    /// Nothing more happens until the given time.
    Until,
}

/// Something the caller has scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// A flow publishes.
    Flow(usize),
    /// A change of membership.
    Churn(usize),
    /// A fault.
    Fault(usize),
}

/// What a machine has put out that concerns the application.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    pub(crate) deliveries: Deliveries,
    pub(crate) events: Vec<Event>,
    /// What the machine has said about streams.
    pub(crate) claims: Vec<Claim>,
    /// What tokens that it has sent say.
    pub(crate) tokens: Vec<Said>,
    /// Fresh data packets sent.
    pub(crate) data: Vec<Train>,
    /// All that was sent, train by train, if that is limited.
    pub(crate) leaving: Vec<Leaving>,
    /// Packets sent again.
    pub(crate) repairs: Vec<Repaired>,
    /// The machine has freed packets for want of room that members lack that are away.
    pub(crate) overran: bool,
}

impl Outputs {
    pub(crate) fn clear(&mut self) {
        self.deliveries.clear();
        self.events.clear();
        self.claims.clear();
        self.tokens.clear();
        self.data.clear();
        self.leaving.clear();
        self.repairs.clear();
        self.overran = false;
    }
}

/// Datagrams given to the network, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traffic {
    pub(crate) counts: [u64; Reason::ALL.len()],
    /// When the last one was sent.
    pub(crate) last: [Instant; Reason::ALL.len()],
}

impl Traffic {
    fn sent(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// A datagram on its way.
#[derive(Debug)]
pub(crate) struct Datagram {
    /// Of all datagrams in the order of sending, from 1; 0 for those out of nowhere.
    pub(crate) serial: u64,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// What for; `None` for those out of nowhere.
    pub(crate) reason: Option<Reason>,
    /// Tag of its maker's cipher, in runs with tags.
    pub(crate) tag: u64,
    pub(crate) bytes: Rc<[u8]>,
}

#[derive(Debug)]
enum Happening {
    /// A copy is at its link's port of the switch.
    Port(usize, Rc<Datagram>),
    Arrival(usize, Rc<Datagram>),
    Serve(usize, u32),
    Run(usize, u32),
    Timer(usize, u32),
    Listen(usize, u32, SocketAddr, bool),
    ListenTo(usize, u32, SocketAddr, BTreeSet<SocketAddr>),
    Thaw(usize),
    /// The host is told that nobody is at this address.
    Refused(usize, SocketAddr),
    Task(Task),
}

#[derive(Debug)]
struct Host {
    address: SocketAddr,
    clock: Clock,
    machine: Option<Machine>,
    /// The machine's next timeout, by its own clock: it changes with inputs only.
    due: Option<Instant>,
    /// Counts the processes that have run here; what is scheduled for an earlier one is void.
    process: u32,
    inbox: VecDeque<Waiting>,
    inbox_bytes: usize,
    /// What its process wants to hear: a late effect of an earlier wish is none.
    listening: BTreeSet<SocketAddr>,
    /// Whether a `Serve` is in the queue.
    serving: bool,
    busy_until: Instant,
    /// Until then each datagram takes it that long at least.
    slow: (Duration, Instant),
    frozen_until: Option<Instant>,
    /// Since when the whole machine has been asleep, with its clock and its network interface.
    asleep_since: Option<Instant>,
    /// The earliest `Timer` in the queue.
    timer_at: Instant,
    /// Timeouts in a row without any output.
    idle_timeouts: u32,
    /// The caller wants to hear of every input, whether there is an output or not.
    watched: bool,
    /// Packets that it has freed for want of room, as its streams count them.
    overruns: u64,
    /// What its work costs; `None`: nothing but [`NetworkOptions::cpu_per_datagram`].
    cpu: Option<Box<Cpu>>,
    capture: Capture,
    /// Its place on a second network.
    second: Option<Box<Second>>,
}

/// How the engine behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EngineOptions {
    pub(crate) network: NetworkOptions,
    pub(crate) mischief: Mischief,
    /// All that nodes send is limited, and to be judged.
    pub(crate) sends_limited: bool,
    /// Check a machine's invariants after each so many inputs; 0: never.
    pub(crate) invariants_every: u64,
    /// Lines of trace to keep.
    pub(crate) trace_lines: usize,
    /// Hosts whose process has died say so to who probes it.
    pub(crate) refusals: bool,
    /// Datagrams carry tags.
    pub(crate) tagged: bool,
}

#[derive(Debug)]
pub(crate) struct Engine {
    now: Instant,
    queue: Queue<Happening>,
    hosts: Vec<Host>,
    network: Network,
    fates: Vec<(usize, Fate)>,
    outputs: Outputs,
    saboteur: Saboteur,
    trace: Trace,
    digest: Digest,
    traffic: Traffic,
    samples: VecDeque<Rc<Datagram>>,
    serial: u64,
    inputs: u64,
    /// The current second, and how many inputs there were before it.
    second: (u64, u64),
    /// All that nodes send is limited, and judged.
    sends_limited: bool,
    invariants_every: u64,
    refusals: bool,
    guard: Guard,
    liar: Option<Box<Liar>>,
}

impl Engine {
    pub(crate) fn new(options: EngineOptions, seed: Seed) -> Self {
        Self {
            now: Instant(0),
            queue: Queue::new(),
            hosts: Vec::new(),
            network: Network::new(options.network, seed),
            fates: Vec::new(),
            outputs: Outputs {
                deliveries: Deliveries::new(options.mischief),
                ..Outputs::default()
            },
            saboteur: Saboteur::new(options.mischief),
            trace: Trace::new(options.trace_lines),
            digest: Digest::new(seed.0),
            traffic: Traffic::default(),
            samples: VecDeque::new(),
            serial: 0,
            inputs: 0,
            second: (0, 0),
            sends_limited: options.sends_limited,
            invariants_every: options.invariants_every,
            refusals: options.refusals,
            guard: Guard::new(options.tagged, options.mischief, seed),
            liar: None,
        }
    }

    pub(crate) fn add_host(&mut self, address: SocketAddr, clock: Clock) -> usize {
        self.network.add_host(address);
        self.hosts.push(Host {
            address,
            clock,
            machine: None,
            due: None,
            process: 0,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            listening: BTreeSet::new(),
            serving: false,
            busy_until: Instant(0),
            slow: (Duration::ZERO, Instant(0)),
            frozen_until: None,
            asleep_since: None,
            timer_at: Instant::NEVER,
            idle_timeouts: 0,
            watched: false,
            overruns: 0,
            cpu: None,
            capture: Capture::default(),
            second: None,
        });
        self.hosts.len() - 1
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn local(&self, host: usize) -> Instant {
        self.hosts[host].clock.local(self.now)
    }

    /// Time since a host's clock showed this, also where it has stood still since.
    pub(crate) fn since(&self, host: usize, shown: Instant) -> Duration {
        self.hosts[host].clock.since(shown, self.now)
    }

    pub(crate) fn address(&self, host: usize) -> SocketAddr {
        self.hosts[host].address
    }

    pub(crate) fn capture(&self, host: usize) -> &Capture {
        &self.hosts[host].capture
    }

    pub(crate) fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Whether nothing passes between these hosts now, in one direction at least.
    pub(crate) fn parted(&self, one: usize, other: usize) -> bool {
        self.network.parted(one, other)
    }

    pub(crate) fn network_counters(&self) -> NetworkCounters {
        self.network.counters()
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    pub(crate) fn outputs(&mut self) -> &mut Outputs {
        &mut self.outputs
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest.value()
    }

    pub(crate) fn inputs(&self) -> u64 {
        self.inputs
    }

    pub(crate) fn machine(&self, host: usize) -> Option<&Machine> {
        self.hosts[host].machine.as_ref()
    }

    /// Whether a process runs on the host and is not frozen.
    pub(crate) fn is_running(&self, host: usize) -> bool {
        let host = &self.hosts[host];
        host.machine.is_some() && host.frozen_until.is_none()
    }

    /// Tells whether the host is slow, and has not read all that has arrived.
    pub(crate) fn is_behind(&self, host: usize) -> bool {
        let host = &self.hosts[host];
        host.slow.1 > self.now && !host.inbox.is_empty()
    }

    pub(crate) fn schedule(&mut self, at: Instant, task: Task) {
        self.queue.push(at, Happening::Task(task));
    }

    pub(crate) fn note(&mut self, host: usize, note: String) {
        self.trace.add(self.now, host, TraceEntry::Note(note));
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// A process starts on the host. It hears the given multicast address at once.
    pub(crate) fn start(&mut self, host: usize, machine: Machine, hears: SocketAddr) {
        self.stop(host);
        self.network.listen(host, hears, true);
        self.hosts[host].due = machine.next_timeout();
        self.hosts[host].machine = Some(machine);
        self.note(host, "starts".to_owned());
    }

    /// The host's process dies.
    pub(crate) fn stop(&mut self, host: usize) {
        self.network.forget(host);
        self.saboteur.forget(host);
        self.awake(host);
        let host_state = &mut self.hosts[host];
        let crashed = host_state.machine.as_ref();
        let crashed = crashed.filter(|machine| !machine.is_closed());
        if let Some(life) = crashed.and_then(Machine::origin) {
            self.saboteur.died(life, &mut self.outputs.deliveries);
        }
        let ran = host_state.machine.take().is_some();
        host_state.due = None;
        host_state.process += 1;
        host_state.inbox.clear();
        host_state.inbox_bytes = 0;
        host_state.listening.clear();
        host_state.serving = false;
        host_state.frozen_until = None;
        host_state.timer_at = Instant::NEVER;
        host_state.watched = false;
        if let Some(cpu) = &mut host_state.cpu {
            cpu.stop();
        }
        if ran {
            self.note(host, "stops".to_owned());
        }
    }

    /// From now on every input of the host ends a turn.
    pub(crate) fn watch(&mut self, host: usize) {
        self.hosts[host].watched = true;
    }

    /// The host handles nothing before `until`.
    pub(crate) fn freeze(&mut self, host: usize, until: Instant) {
        self.hosts[host].frozen_until = Some(until);
        self.queue.push(until, Happening::Thaw(host));
        self.note(host, format!("frozen until {until}"));
    }

    /// The host sleeps until `until`: it handles nothing, hears nothing, and its clock stands
    /// still.
    pub(crate) fn sleep(&mut self, host: usize, until: Instant) {
        let now = self.now;
        self.hosts[host].asleep_since.get_or_insert(now);
        self.freeze(host, until);
    }

    /// Until `until` every datagram takes the host that long at least.
    pub(crate) fn slow_down(&mut self, host: usize, per_datagram: Duration, until: Instant) {
        self.hosts[host].slow = (per_datagram, until);
        match per_datagram {
            Duration::ZERO => {}
            _ => self.note(host, format!("slow until {until}")),
        }
    }

    fn awake(&mut self, host: usize) {
        let now = self.now;
        let host = &mut self.hosts[host];
        if let Some(since) = host.asleep_since.take() {
            host.clock.stand_still(since, now);
        }
    }

    /// A datagram out of nowhere, with the sender and the tag of a true one.
    pub(crate) fn inject(&mut self, model: &Datagram, host: usize, bytes: &[u8]) {
        let datagram = Datagram {
            serial: 0,
            from: model.from,
            to: self.hosts[host].address,
            reason: None,
            tag: model.tag,
            bytes: Rc::from(bytes),
        };
        self.queue
            .push(self.now, Happening::Arrival(host, Rc::new(datagram)));
    }

    /// A datagram that was sent not long ago.
    pub(crate) fn sample(&self, draw: u64) -> Option<Rc<Datagram>> {
        let count = self.samples.len() as u64;
        let at = usize::try_from(draw.checked_rem(count)?).ok()?;
        self.samples.get(at).cloned()
    }

    /// Goes on until something concerns the caller, at most to `until`.
    pub(crate) fn turn(&mut self, until: Instant) -> Result<Turn, Violation> {
        loop {
            if self.queue.next_time().is_none_or(|at| at > until) {
                self.now = self.now.max(until);
                return Ok(Turn::Until);
            }
            let Some((at, happening)) = self.queue.pop() else {
                return Ok(Turn::Until);
            };
            self.now = self.now.max(at);
            let turn = match happening {
                Happening::Task(task) => Some(Turn::Task(task)),
                Happening::Run(host, process) => self.run(host, process)?,
                other => self.happen(other)?.map(Turn::Host),
            };
            if let Some(turn) = turn {
                return Ok(turn);
            }
        }
    }

    /// Calls a host's machine and carries out what it puts out, in place of what the last call
    /// has put out. `None` when none is running.
    pub(crate) fn drive<R>(
        &mut self,
        host: usize,
        input: impl FnOnce(&mut Machine, Instant, &mut Deliveries) -> R,
    ) -> Result<Option<R>, Violation> {
        self.outputs.clear();
        if !self.is_running(host) {
            return Ok(None);
        }
        match catch_unwind(AssertUnwindSafe(|| self.advance(host, input))) {
            Ok(result) => result.map(Some),
            Err(panic) => {
                let text = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("no message");
                Err(Violation::new("panic", format!("host {host}: {text}")))
            }
        }
    }

    fn happen(&mut self, happening: Happening) -> Result<Option<usize>, Violation> {
        match happening {
            Happening::Port(link, datagram) => {
                self.pass_port(link, datagram);
                Ok(None)
            }
            Happening::Arrival(host, datagram) => self.arrive(host, datagram),
            Happening::Serve(host, process) if self.hosts[host].process == process => {
                self.hosts[host].serving = false;
                self.serve(host)
            }
            Happening::Timer(host, process) if self.hosts[host].process == process => {
                self.time_out(host)
            }
            Happening::Listen(host, process, address, on) => {
                let state = &self.hosts[host];
                if state.process == process && state.listening.contains(&address) == on {
                    self.network.listen(host, address, on);
                }
                Ok(None)
            }
            Happening::ListenTo(host, process, address, senders) => {
                let state = &self.hosts[host];
                if state.process == process && state.listening.contains(&address) {
                    self.network.listen_to(host, address, &senders);
                }
                Ok(None)
            }
            Happening::Thaw(host) => self.thaw(host),
            Happening::Refused(host, address) => {
                self.drive(host, |machine, now, _| {
                    machine.handle_unreachable(now, address);
                })?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn pass_port(&mut self, link: usize, datagram: Rc<Datagram>) {
        let passed = self.network.pass_port(self.now, link, &datagram.bytes);
        let host = self.network.host_of(link);
        match passed {
            Some(at) => self.queue.push(at, Happening::Arrival(host, datagram)),
            None => {
                let dropped = TraceEntry::Dropped(Cause::Queue, datagram);
                self.trace.add(self.now, host, dropped);
            }
        }
    }

    fn arrive(&mut self, host: usize, datagram: Rc<Datagram>) -> Result<Option<usize>, Violation> {
        let limit = self.network.options().receive_buffer_bytes;
        let state = &mut self.hosts[host];
        if state.machine.is_none() {
            self.refuse(host, &datagram);
            return Ok(None);
        }
        state.capture.receive(&datagram);
        if state.asleep_since.is_some() {
            self.network.slept_through(&datagram.bytes);
            return Ok(None);
        }
        if let Some(cpu) = &mut state.cpu {
            if cpu.arrive(self.now, &datagram, limit) {
                self.wake(host);
            } else {
                if state.frozen_until.is_none() {
                    cpu.dropped_awake(&datagram);
                }
                self.network.overflowed(&datagram.bytes);
            }
            return Ok(None);
        }
        if state.inbox_bytes + datagram.bytes.len() > limit {
            self.network.overflowed(&datagram.bytes);
            self.trace
                .add(self.now, host, TraceEntry::Overflowed(datagram));
            return Ok(None);
        }
        state.inbox_bytes += datagram.bytes.len();
        state.inbox.push_back(Waiting {
            since: self.now,
            datagram,
        });
        if state.serving || state.frozen_until.is_some() {
            return Ok(None);
        }
        self.serve(host)
    }

    /// A probe has come to a host without a process: its kernel says so, if hosts do, and if the way
    /// back is open.
    fn refuse(&mut self, host: usize, datagram: &Datagram) {
        let address = self.hosts[host].address;
        let probe = Kind::peek(&datagram.bytes) == Some(Kind::Probe) && datagram.to == address;
        let asker = self
            .hosts
            .iter()
            .position(|other| other.address == datagram.from);
        let Some(asker) = asker.filter(|_| self.refusals && probe) else {
            return;
        };
        if !self.network.parted(host, asker) {
            let at = self.now.after(REFUSAL_DELAY);
            self.queue.push(at, Happening::Refused(asker, address));
        }
    }

    /// Handles the oldest datagram that waits, once the host has time.
    fn serve(&mut self, host: usize) -> Result<Option<usize>, Violation> {
        let state = &mut self.hosts[host];
        if state.frozen_until.is_some() || state.inbox.is_empty() {
            return Ok(None);
        }
        if state.busy_until > self.now {
            let happening = Happening::Serve(host, state.process);
            self.queue.push(state.busy_until, happening);
            state.serving = true;
            return Ok(None);
        }
        let Some(Waiting { since, datagram }) = state.inbox.pop_front() else {
            return Ok(None);
        };
        let waited = self.now.since(since);
        state.inbox_bytes -= datagram.bytes.len();
        let (slow, until) = state.slow;
        let slow = if until > self.now {
            slow
        } else {
            Duration::ZERO
        };
        let cost = self.network.options().cpu_per_datagram.max(slow);
        state.busy_until = self.now.after(cost);
        // What waits for microseconds is read in the same turn.
        let backlog = !state.inbox.is_empty() && !slow.is_zero();
        if !state.inbox.is_empty() {
            let happening = Happening::Serve(host, state.process);
            self.queue.push(state.busy_until, happening);
            state.serving = true;
        }
        self.trace
            .add(self.now, host, TraceEntry::Arrived(Rc::clone(&datagram)));
        let shown = self.unguarded(host, &datagram);
        if shown.is_some() && !self.guard.is_open() {
            return Ok(None);
        }
        let Some(bytes) = self.saboteur.incoming(host, &datagram.bytes) else {
            return Ok(None);
        };
        let from = self.source(host, &datagram);
        self.drive(host, |machine, now, out| {
            machine.note_sojourn(now, waited);
            machine.set_backlog(now, backlog);
            machine.handle_datagram(now, from, &bytes, out);
        })?;
        let deliveries = &mut self.outputs.deliveries;
        self.saboteur.delivered(host, &datagram.bytes, deliveries);
        self.check_unchanged(host, shown)?;
        Ok(self.concerns_caller(host).then_some(host))
    }

    fn time_out(&mut self, host: usize) -> Result<Option<usize>, Violation> {
        let state = &mut self.hosts[host];
        if state.timer_at > self.now {
            return Ok(None);
        }
        state.timer_at = Instant::NEVER;
        if state.frozen_until.is_some() {
            return Ok(None);
        }
        let local = state.clock.local(self.now);
        let due = state.due.is_some_and(|at| at <= local);
        if !due {
            self.set_timer(host);
            return Ok(None);
        }
        if state.cpu.is_some() {
            self.wake(host);
            return Ok(None);
        }
        let sent = self.traffic.sent();
        self.drive(host, |machine, now, out| machine.handle_timeout(now, out))?;
        let state = &mut self.hosts[host];
        let idle = sent == self.traffic.sent() && state.timer_at <= self.now.after(TIMER_SLACK);
        state.idle_timeouts = if idle { state.idle_timeouts + 1 } else { 0 };
        if state.idle_timeouts > IDLE_TIMEOUTS_MAX {
            let message = format!("host {host}: a timeout stays due that does nothing");
            return Err(Violation::new("progress", message));
        }
        Ok(self.concerns_caller(host).then_some(host))
    }

    fn thaw(&mut self, host: usize) -> Result<Option<usize>, Violation> {
        let state = &mut self.hosts[host];
        if state.frozen_until.is_none_or(|until| until > self.now) {
            return Ok(None);
        }
        state.frozen_until = None;
        self.awake(host);
        self.note(host, "thaws".to_owned());
        if self.hosts[host].cpu.is_some() {
            self.wake(host);
            return Ok(None);
        }
        // A process that wakes up runs its timers before it reads its socket.
        self.set_timer(host);
        self.queue
            .push(self.now, Happening::Serve(host, self.hosts[host].process));
        self.hosts[host].serving = true;
        Ok(None)
    }

    fn concerns_caller(&self, host: usize) -> bool {
        self.hosts[host].watched
            || self.outputs.overran
            || !self.outputs.repairs.is_empty()
            || !self.outputs.claims.is_empty()
            || !self.outputs.tokens.is_empty()
            || !self.outputs.data.is_empty()
            || !self.outputs.events.is_empty()
            || !self.outputs.deliveries.rows().is_empty()
            || !self.outputs.deliveries.losses().is_empty()
            || !self.outputs.deliveries.prompt().is_empty()
    }

    fn advance<R>(
        &mut self,
        host: usize,
        input: impl FnOnce(&mut Machine, Instant, &mut Deliveries) -> R,
    ) -> Result<R, Violation> {
        let local = self.local(host);
        let Some(machine) = self.hosts[host].machine.as_mut() else {
            return Err(Violation::new(
                "engine",
                format!("host {host} has no process"),
            ));
        };
        let result = input(machine, local, &mut self.outputs.deliveries);
        self.inputs += 1;
        self.check_storm()?;
        self.transmit(host, local)?;
        self.collect(host);
        self.note_overruns(host);
        let state = &mut self.hosts[host];
        state.due = state.machine.as_ref().and_then(Machine::next_timeout);
        self.set_timer(host);
        self.settle(host);
        let due = self.inputs.checked_rem(self.invariants_every) == Some(0);
        if let Some(machine) = self.hosts[host].machine.as_ref().filter(|_| due) {
            machine.check_invariants();
        }
        Ok(result)
    }

    /// Notes whether the machine has freed packets for want of room: the caller looks at once how much
    /// it keeps, which the next input may change.
    fn note_overruns(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        let machine = state.machine.as_ref();
        if let Some(machine) = machine.filter(|machine| machine.retained_bytes() > 0) {
            let overruns = machine.overruns();
            self.outputs.overran = overruns != state.overruns;
            state.overruns = overruns;
        }
    }

    fn set_timer(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        let Some(at) = state.due else {
            return;
        };
        let soonest = self.now.after(TIMER_SLACK);
        let at = state.clock.global(at).max(soonest);
        if at < state.timer_at {
            state.timer_at = at;
            self.queue.push(at, Happening::Timer(host, state.process));
        }
    }
}
