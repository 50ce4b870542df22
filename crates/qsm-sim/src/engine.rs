//! Hosts, their state machines and the network between them on one virtual clock.
//!
//! ```text
//!   queue ──(time, order)──► arrival / timer / thaw ──► machine ──► transmits ──► network ──► queue
//!                       └──► task ──► caller                   └──► deliveries, events ──► caller
//! ```
//!
//! The engine owns what is physical: time, hosts, receive buffers, the network. What applications
//! do and what must hold is the caller's: it schedules tasks and reads [`Outputs`].

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use qsm_proto::{Event, Instant, Reason, Seed};

use crate::clock::Clock;
use crate::digest::Digest;
use crate::machine::{Deliveries, Machine, Mischief};
use crate::network::{Network, NetworkOptions};
use crate::queue::Queue;
use crate::trace::{Entry, Trace};
use crate::violation::Violation;

/// Timers fire at this granularity, like those of a kernel.
const TIMER_SLACK: Duration = Duration::from_micros(1);
/// Datagrams that one input may cause before it counts as an endless loop.
const TRANSMITS_PER_INPUT_MAX: usize = 1_000_000;
/// Timeouts of one host in a row that change nothing before it counts as an endless loop.
const IDLE_TIMEOUTS_MAX: u32 = 200;
/// Inputs of a host in one second, on average over all hosts, that no workload here needs: more is
/// a storm.
const INPUTS_PER_SECOND_MAX: u64 = 20_000;
/// Datagrams kept for replays and mutations.
const SAMPLES: usize = 64;

/// What the engine hands back when it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The outputs of this host wait.
    Host(usize),
    /// This task is due.
    Task(Task),
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
}

impl Outputs {
    pub(crate) fn clear(&mut self) {
        self.deliveries.clear();
        self.events.clear();
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

#[derive(Debug)]
enum Happening {
    Arrival(usize, SocketAddr, Rc<[u8]>),
    Serve(usize, u32),
    Timer(usize, u32),
    Listen(usize, u32, SocketAddr, bool),
    Thaw(usize),
    Task(Task),
}

#[derive(Debug)]
struct Host {
    address: SocketAddr,
    clock: Clock,
    machine: Option<Machine>,
    /// Counts the processes that have run here; what is scheduled for an earlier one is void.
    process: u32,
    inbox: VecDeque<(SocketAddr, Rc<[u8]>)>,
    inbox_bytes: usize,
    /// What its process wants to hear: a late effect of an earlier wish is none.
    listening: BTreeSet<SocketAddr>,
    /// Whether a `Serve` is in the queue.
    serving: bool,
    busy_until: Instant,
    frozen_until: Option<Instant>,
    /// The earliest `Timer` in the queue.
    timer_at: Instant,
    /// Timeouts in a row without any output.
    idle_timeouts: u32,
    /// The caller wants to hear of every input, whether there is an output or not.
    watched: bool,
}

/// How the engine behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EngineOptions {
    pub(crate) network: NetworkOptions,
    pub(crate) mischief: Mischief,
    /// Check a machine's invariants after each so many inputs; 0: never.
    pub(crate) invariants_every: u64,
    /// Lines of trace to keep.
    pub(crate) trace_lines: usize,
}

#[derive(Debug)]
pub(crate) struct Engine {
    now: Instant,
    queue: Queue<Happening>,
    hosts: Vec<Host>,
    network: Network,
    arrivals: Vec<(Instant, usize)>,
    outputs: Outputs,
    trace: Trace,
    digest: Digest,
    traffic: Traffic,
    samples: VecDeque<(usize, SocketAddr, Rc<[u8]>)>,
    inputs: u64,
    /// The current second, and how many inputs there were before it.
    second: (u64, u64),
    invariants_every: u64,
}

impl Engine {
    pub(crate) fn new(options: EngineOptions, seed: Seed) -> Self {
        Self {
            now: Instant(0),
            queue: Queue::new(),
            hosts: Vec::new(),
            network: Network::new(options.network, seed),
            arrivals: Vec::new(),
            outputs: Outputs {
                deliveries: Deliveries::new(options.mischief),
                events: Vec::new(),
            },
            trace: Trace::new(options.trace_lines),
            digest: Digest::new(seed.0),
            traffic: Traffic::default(),
            samples: VecDeque::new(),
            inputs: 0,
            second: (0, 0),
            invariants_every: options.invariants_every,
        }
    }

    pub(crate) fn add_host(&mut self, address: SocketAddr, clock: Clock) -> usize {
        self.network.add_host(address);
        self.hosts.push(Host {
            address,
            clock,
            machine: None,
            process: 0,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            listening: BTreeSet::new(),
            serving: false,
            busy_until: Instant(0),
            frozen_until: None,
            timer_at: Instant::NEVER,
            idle_timeouts: 0,
            watched: false,
        });
        self.hosts.len() - 1
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    pub(crate) fn local(&self, host: usize) -> Instant {
        self.hosts[host].clock.local(self.now)
    }

    pub(crate) fn address(&self, host: usize) -> SocketAddr {
        self.hosts[host].address
    }

    pub(crate) fn network(&mut self) -> &mut Network {
        &mut self.network
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

    pub(crate) fn schedule(&mut self, at: Instant, task: Task) {
        self.queue.push(at, Happening::Task(task));
    }

    pub(crate) fn note(&mut self, host: usize, note: String) {
        self.trace.add(self.now, host, Entry::Note(note));
    }

    pub(crate) fn trace_lines(&self) -> Vec<String> {
        self.trace.lines()
    }

    /// A process starts on the host. It hears the given multicast address at once.
    pub(crate) fn start(&mut self, host: usize, machine: Machine, hears: SocketAddr) {
        self.stop(host);
        self.network.listen(host, hears, true);
        self.hosts[host].machine = Some(machine);
        self.note(host, "starts".to_owned());
    }

    /// The host's process dies.
    pub(crate) fn stop(&mut self, host: usize) {
        self.network.forget(host);
        let host_state = &mut self.hosts[host];
        host_state.machine = None;
        host_state.process += 1;
        host_state.inbox.clear();
        host_state.inbox_bytes = 0;
        host_state.listening.clear();
        host_state.serving = false;
        host_state.frozen_until = None;
        host_state.timer_at = Instant::NEVER;
        host_state.watched = false;
        self.note(host, "stops".to_owned());
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

    /// A datagram out of nowhere.
    pub(crate) fn inject(&mut self, from: SocketAddr, to: usize, datagram: Rc<[u8]>) {
        self.queue
            .push(self.now, Happening::Arrival(to, from, datagram));
    }

    /// A datagram that was sent not long ago: (sender's host, destination, bytes).
    pub(crate) fn sample(&self, draw: u64) -> Option<(usize, SocketAddr, Rc<[u8]>)> {
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
            let host = match happening {
                Happening::Task(task) => return Ok(Turn::Task(task)),
                other => self.happen(other)?,
            };
            if let Some(host) = host {
                return Ok(Turn::Host(host));
            }
        }
    }

    /// Calls a host's machine and carries out what it puts out. `None` when none is running.
    pub(crate) fn drive<R>(
        &mut self,
        host: usize,
        input: impl FnOnce(&mut Machine, Instant, &mut Deliveries) -> R,
    ) -> Result<Option<R>, Violation> {
        if !self.is_running(host) {
            return Ok(None);
        }
        self.outputs.clear();
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
            Happening::Arrival(host, from, datagram) => self.arrive(host, from, datagram),
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
            Happening::Thaw(host) => self.thaw(host),
            _ => Ok(None),
        }
    }

    fn arrive(
        &mut self,
        host: usize,
        from: SocketAddr,
        datagram: Rc<[u8]>,
    ) -> Result<Option<usize>, Violation> {
        let limit = self.network.options().receive_buffer_bytes;
        let state = &mut self.hosts[host];
        if state.machine.is_none() {
            return Ok(None);
        }
        if state.inbox_bytes + datagram.len() > limit {
            self.network.overflowed(&datagram);
            self.trace.add(self.now, host, Entry::Overflowed(datagram));
            return Ok(None);
        }
        state.inbox_bytes += datagram.len();
        state.inbox.push_back((from, datagram));
        if state.serving || state.frozen_until.is_some() {
            return Ok(None);
        }
        self.serve(host)
    }

    /// Handles the oldest datagram that waits, once the host has time.
    fn serve(&mut self, host: usize) -> Result<Option<usize>, Violation> {
        let cost = self.network.options().cpu_per_datagram;
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
        let Some((from, datagram)) = state.inbox.pop_front() else {
            return Ok(None);
        };
        state.inbox_bytes -= datagram.len();
        state.busy_until = self.now.after(cost);
        if !state.inbox.is_empty() {
            let happening = Happening::Serve(host, state.process);
            self.queue.push(state.busy_until, happening);
            state.serving = true;
        }
        self.trace
            .add(self.now, host, Entry::Arrived(from, Rc::clone(&datagram)));
        self.drive(host, |machine, now, out| {
            machine.handle_datagram(now, from, &datagram, out);
        })?;
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
        let due = state
            .machine
            .as_ref()
            .and_then(Machine::next_timeout)
            .is_some_and(|at| at <= state.clock.local(self.now));
        if !due {
            self.set_timer(host);
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
        self.note(host, "thaws".to_owned());
        // A process that wakes up runs its timers before it reads its socket.
        self.set_timer(host);
        self.queue
            .push(self.now, Happening::Serve(host, self.hosts[host].process));
        self.hosts[host].serving = true;
        Ok(None)
    }

    fn concerns_caller(&self, host: usize) -> bool {
        self.hosts[host].watched
            || !self.outputs.events.is_empty()
            || !self.outputs.deliveries.rows().is_empty()
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
        self.set_timer(host);
        let due = self.inputs.checked_rem(self.invariants_every) == Some(0);
        if let Some(machine) = self.hosts[host].machine.as_ref().filter(|_| due) {
            machine.check_invariants();
        }
        Ok(result)
    }

    fn check_storm(&mut self) -> Result<(), Violation> {
        let second = self.now.0 / 1_000_000_000;
        if self.second.0 != second {
            self.second = (second, self.inputs);
        }
        let inputs = self.inputs - self.second.1;
        let most = INPUTS_PER_SECOND_MAX * self.hosts.len() as u64;
        if inputs > most {
            let message = format!("more than {most} inputs within a second: a storm");
            return Err(Violation::new("storm", message));
        }
        Ok(())
    }

    /// Sends what the machine wants to send, train by train.
    fn transmit(&mut self, host: usize, local: Instant) -> Result<(), Violation> {
        let state = &mut self.hosts[host];
        let from = state.address;
        let Some(machine) = state.machine.as_mut() else {
            return Ok(());
        };
        for _ in 0..TRANSMITS_PER_INPUT_MAX {
            let Some(train) = machine.poll_transmit(local) else {
                return Ok(());
            };
            self.digest.bytes(train.bytes);
            for datagram in train.bytes.chunks(train.segment_bytes.max(1)) {
                let reason = train.reason as usize;
                self.traffic.counts[reason] += 1;
                self.traffic.last[reason] = self.now;
                let bytes: Rc<[u8]> = Rc::from(datagram);
                if self.samples.len() >= SAMPLES {
                    self.samples.pop_front();
                }
                self.samples.push_back((host, train.to, Rc::clone(&bytes)));
                self.network
                    .send(self.now, host, train.to, &bytes, &mut self.arrivals);
                for (at, to) in self.arrivals.drain(..) {
                    self.queue
                        .push(at, Happening::Arrival(to, from, Rc::clone(&bytes)));
                }
                self.trace
                    .add(self.now, host, Entry::Sent(train.to, train.reason, bytes));
            }
        }
        let message = format!("host {host}: transmits without end");
        Err(Violation::new("progress", message))
    }

    /// Takes events; those about multicast addresses are for the network, the others are kept.
    fn collect(&mut self, host: usize) {
        let options = *self.network.options();
        let state = &mut self.hosts[host];
        let Some(machine) = state.machine.as_mut() else {
            return;
        };
        while let Some(event) = machine.poll_event() {
            let (at, address, on) = match event {
                Event::Listen { address } => (options.join_latency, address, true),
                Event::Unlisten { address } => (options.leave_latency, address, false),
                other => {
                    self.outputs.events.push(other);
                    continue;
                }
            };
            if on {
                state.listening.insert(address);
            } else {
                state.listening.remove(&address);
            }
            let happening = Happening::Listen(host, state.process, address, on);
            self.queue.push(self.now.after(at), happening);
            let word = if on {
                "listens to"
            } else {
                "no longer listens to"
            };
            self.trace
                .add(self.now, host, Entry::Note(format!("{word} {address}")));
        }
        for event in &self.outputs.events {
            self.trace
                .add(self.now, host, Entry::Event(Box::new(event.clone())));
        }
        for row in self.outputs.deliveries.rows() {
            self.digest.number(self.now.0 ^ ((host as u64) << 48));
            self.digest
                .number(u64::from(row.group.0) ^ row.sender.node.0 ^ row.number);
            let length = self.outputs.deliveries.bytes(row).len();
            let entry = Entry::Delivered(row.group, row.sender, row.number, length);
            self.trace.add(self.now, host, entry);
        }
    }

    fn set_timer(&mut self, host: usize) {
        let state = &mut self.hosts[host];
        let Some(at) = state.machine.as_ref().and_then(Machine::next_timeout) else {
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
