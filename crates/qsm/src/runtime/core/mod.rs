//! The core: the only place where a node's state changes (R115). It has a thread of its own; while
//! that sleeps, others may borrow it (`loan`). A node with several has as many of all that is here.
//!
//! Each turn of its thread's loop:
//!
//! 1. **Receive**: drain the sockets (R124), every datagram into the protocol, the most urgent of
//!    those that have come together first. The clock is read once, before.
//! 2. **Timers** that are due. The sockets follow an interface to another address (`following`).
//! 3. **Commands** of the application, all of them: they are few.
//! 4. **Messages** from publishers and feeds, in turn, up to a quantum.
//! 5. **Events** of the protocol: to the sockets, the application, or pending requests.
//! 6. **Transmit**, control first, up to a quantum.
//! 7. **Wake** those who wait for room in a queue, for messages or for answers.
//! 8. **Wait** until a socket has something, a timer is due, or the application wants something.
//!    With work left over, or soon after much was received or sent, do not wait: give the CPU to
//!    others on this host and go on (`slice`). For a second after that, sleep no longer than 5 ms,
//!    to notice when there was no CPU (`attention`).
//!
//! The state and its steps are here; `turn` has the loop over them, `commands`, `events`, `embed`,
//! `following` and `closing` the steps that decide, `loan` what borrowers do. These know the state, and it none of
//! them.
//!
//! Everything received comes before anything sent (R122); every step is bounded, so that none
//! starves another (R120).

mod addresses;
mod attention;
mod budget;
mod closing;
mod commands;
mod embed;
mod events;
mod following;
mod lacking;
mod lanes;
mod loan;
mod pending;
mod readers;
mod receive;
mod recording;
mod routes;
mod siblings;
mod slice;
mod sources;
mod start;
mod strangers;
mod turn;
mod watching;

use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_queue::SegQueue;
use qsm_net::{Ports, ThreadReport};
use qsm_proto::Instant;
use qsm_record::Recorded;
use qsm_wire::Incarnation;
use qsm_wire::membership::Role;

use self::addresses::Addresses;
use self::attention::Attention;
use self::budget::BudgetWatch;
pub(crate) use self::loan::CoreLoan;
use self::pending::Pending;
use self::readers::Readers;
use self::routes::Routes;
use self::siblings::Siblings;
use self::slice::Slice;
use self::sources::{Output, Sources};
pub(crate) use self::start::{probe, start};
use self::strangers::StrangerLog;
use crate::admission::EntryNews;
use crate::error::{CloseReason, Flushed};
use crate::handoff::reply::Reply;
use crate::handoff::shared::Shared;
use crate::runtime::clock::Clock;
use crate::runtime::embedding::Embedding;
use crate::runtime::tap::Tap;
use crate::runtime::transmit::Transmitter;
use crate::snapshot::Snapshot;
use crate::stats::{Memory, RuntimeStats, TimerDelays};

/// News of the guard of a core's sockets.
type EntryQueue = Arc<SegQueue<EntryNews>>;

/// Bytes received or sent likewise.
const BYTES_LOADED: usize = 16 << 10;

/// How far the end of the node has come.
struct Closing {
    deadline: Instant,
    /// What the handles will be told.
    reason: CloseReason,
    reply: Option<Reply<Flushed>>,
    /// Queues are empty, and the protocol finishes its streams and says goodbye.
    finishing: bool,
}

pub(crate) struct Core {
    shared: Arc<Shared>,
    clock: Clock,
    /// When this turn began.
    now: Instant,
    /// When it had done its work.
    done: Instant,
    attention: Attention,
    slice: Slice,
    endpoint: Recorded,
    port: Ports,
    addresses: Addresses,
    routes: Routes,
    sources: Sources,
    pending: Pending,
    readers: Readers,
    transmitter: Transmitter,
    tap: Option<Tap>,
    embedding: Embedding,
    siblings: Siblings,
    closing: Option<Closing>,
    about: About,
    /// The file that it is recorded to, if it is.
    recording: Option<PathBuf>,
    /// Counters of the core itself; its parts count the rest.
    stats: RuntimeStats,
    timers: TimerDelays,
    memory: Memory,
    load: Load,
    /// Of a node with a latency budget.
    budget: Option<BudgetWatch>,
    strangers: StrangerLog,
    /// News of the guard of its sockets.
    entry: EntryQueue,
    /// It may be lent while its thread sleeps.
    lendable: bool,
    /// When its thread wakes up by itself.
    asleep_until: Option<Instant>,
    /// Why it must end, found while it was lent or asleep.
    broken: Option<CloseReason>,
}

/// What a snapshot says and the protocol does not know.
struct About {
    name: String,
    cluster: String,
    service: Option<std::net::SocketAddr>,
    life: Option<Incarnation>,
}

#[derive(Default)]
struct Load {
    /// Much was received or sent in this turn.
    heavy: bool,
    /// Until then the core does not sleep.
    awake_until: Instant,
    /// Receiving was cut short: do not wait.
    cut: bool,
    /// Events of the protocol that it had no room for, as far as the application was told.
    events_dropped: u64,
    /// Packets that the kernel dropped, as far as the protocol was told.
    drops: u64,
}

impl Core {
    fn next_timeout(&self) -> Option<Instant> {
        [
            self.endpoint.next_timeout(),
            self.sources.next_timeout(),
            self.pending.next_timeout(),
            self.routes.next_timeout(),
            self.addresses.next_timeout(),
            self.closing.as_ref().map(|closing| closing.deadline),
            self.reader_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn run_timers(&mut self) {
        let Some(due) = self.endpoint.next_timeout().filter(|due| *due <= self.now) else {
            return;
        };
        // The first turn has nothing to be late for.
        if self.stats.turns > 1 {
            // Later than the turn's beginning by what was received in it.
            self.timers.ran(self.clock.now(), due);
        }
        self.endpoint.handle_timeout(self.now, &mut self.routes);
        self.sources.unblock();
    }

    fn take_messages(&mut self) {
        self.sources.collect(self.now, &self.shared);
        self.give_messages();
    }

    /// From publishers and feeds to the protocol.
    fn give_messages(&mut self) {
        let output = Output {
            now: self.now,
            clock: self.clock,
            endpoint: &mut self.endpoint,
            routes: &mut self.routes,
            stats: &mut self.stats,
        };
        let gone = self.sources.run(&self.shared, output);
        self.exit_publisher(gone);
    }

    fn wake(&mut self) {
        self.pending.check(self.now, &self.endpoint, &self.sources);
        self.routes.catch_up(self.now);
        self.follow_readers();
        self.routes.wake();
        self.readers.wake();
        self.sources.wake(&self.shared);
    }

    /// Tells the protocol which groups' readers take no more.
    fn follow_readers(&mut self) {
        let core = self.shared.waker();
        if let Some(full) = self.routes.follow_readers(self.now, core) {
            self.endpoint.set_full_readers(self.now, full);
            self.sources.unblock();
        }
    }

    fn exit_publisher(&mut self, names: Vec<String>) {
        self.exit(Role::Publisher, names);
    }

    fn exit(&mut self, role: Role, names: Vec<String>) {
        if !names.is_empty() {
            // Nobody waits for the answer.
            self.endpoint.exit(self.now, role, names);
        }
    }

    fn unsubscribe(&mut self, key: u64) {
        let names = self.routes.names_of(key);
        let gone = self.routes.remove(key);
        self.want(&names);
        self.exit(Role::Subscriber, gone);
    }

    fn retire(&mut self, slot: u32) {
        let gone = self.sources.retire(slot);
        self.exit_publisher(gone.into_iter().collect());
    }

    fn note_memory(&mut self) {
        let (send_bytes, receive_bytes) = self.endpoint.memory_bytes();
        self.memory.note(send_bytes, receive_bytes);
    }

    fn snapshot(&mut self) -> Snapshot {
        self.port.refresh_drops();
        self.note_memory();
        self.look_at_stages();
        let mut runtime = self.stats;
        runtime.uptime = self.clock.uptime();
        runtime += self.routes.stats();
        runtime += self.transmitter.stats();
        let incarnation = self.endpoint.origin().incarnation;
        Snapshot {
            node: self.endpoint.origin().node,
            name: self.about.name.clone(),
            cluster: self.about.cluster.clone(),
            address: self.port.local_addr(),
            incarnation: (incarnation.0 != 0).then_some(incarnation),
            service: self.about.service,
            protocol: self.endpoint.stats(),
            times: self.endpoint.times(),
            port: self.port.counters(),
            io: self.port.report(),
            second: self.port.second_report(),
            second_port: self.port.second_counters(),
            runtime,
            thread: ThreadReport::current(),
            cores: 1,
            timers: self.timers.stats(self.clock.now()),
            latency: self
                .budget
                .as_ref()
                .map(BudgetWatch::stats)
                .unwrap_or_default(),
            memory: self.memory,
            subscriptions: self.routes.rows(self.now),
            publishers: self.sources.rows(),
        }
    }
}
