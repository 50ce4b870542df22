//! The core: the only place where a node's state changes (R115). It has a thread of its own; while
//! that sleeps, others may borrow it (`loan`). A node with several has as many of all that is here.
//!
//! Each turn of its thread's loop:
//!
//! 1. **Receive**: drain the sockets (R124), every datagram into the protocol. The clock is read
//!    once, before.
//! 2. **Timers** that are due.
//! 3. **Commands** of the application, all of them: they are few.
//! 4. **Messages** from publishers and feeds, in turn, up to a quantum.
//! 5. **Events** of the protocol: to the sockets, the application, or pending requests.
//! 6. **Transmit**, control first, up to a quantum.
//! 7. **Wake** those who wait for room in a queue, for messages or for answers.
//! 8. **Wait** until a socket has something, a timer is due, or the application wants something.
//!    With work left over, or soon after much was received or sent, do not wait: give the CPU to
//!    others on this host and go on (`slice`).
//!
//! Everything received comes before anything sent (R122); every step is bounded, so that none
//! starves another (R120).

mod clock;
mod commands;
mod embedding;
mod events;
mod lanes;
mod loan;
mod pending;
mod routes;
mod siblings;
mod slice;
mod sources;
mod start;
mod transmit;
mod void;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use qsm_net::Ports;
use qsm_proto::{Datagram, Endpoint, Instant};

pub(crate) use self::clock::Clock;
use self::embedding::Embedding;
use self::events::Readers;
use self::pending::Pending;
use self::routes::Routes;
use self::siblings::Siblings;
use self::slice::Slice;
use self::sources::{Output, Sources};
pub(crate) use self::start::{probe, random, start};
pub(crate) use self::transmit::{Poll, Transmitter};
pub(crate) use self::void::Told;
use crate::error::{CloseReason, RequestError};
use crate::shared::{Reply, Shared};
use crate::snapshot::RuntimeStats;
use crate::tap::{Direction, Tap, Tapped};

/// Datagrams received in one turn before timers and sending get theirs: about 1 ms at 4 million
/// a second.
const DATAGRAMS_PER_TURN: usize = 4096;
/// Bytes likewise: tokens wait meanwhile, and a sender for what they bring.
const BYTES_PER_TURN: usize = 256 << 10;
/// Datagrams received in one turn that show that more are coming; what comes one by one is seldom
/// found together.
const DATAGRAMS_LOADED: usize = 16;
/// Bytes received or sent likewise.
const BYTES_LOADED: usize = 16 << 10;
/// How long the core stays awake after that, as the rest of a window takes to go around.
const AWAKE: Duration = Duration::from_micros(200);

/// How far the end of the node has come.
struct Closing {
    deadline: Instant,
    /// What the handles will be told.
    reason: CloseReason,
    reply: Option<Reply<()>>,
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
    slice: Slice,
    endpoint: Endpoint,
    port: Ports,
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
    stats: RuntimeStats,
    load: Load,
    /// It may be lent while its thread sleeps.
    lendable: bool,
    /// When its thread wakes up by itself.
    asleep_until: Option<Instant>,
    /// Why it must end, found while it was lent or asleep.
    broken: Option<CloseReason>,
}

/// Why a core pauses.
enum Pause {
    /// To sleep for that long, or until something comes; it is lent meanwhile.
    Sleep(Option<Duration>),
    /// The node ends.
    End(CloseReason),
}

/// What a snapshot says and the protocol does not know.
struct About {
    name: String,
    cluster: String,
    service: Option<std::net::SocketAddr>,
}

#[derive(Default)]
struct Load {
    /// Much was received or sent in this turn.
    heavy: bool,
    /// Until then the core does not sleep.
    awake_until: Instant,
    /// Receiving was cut short: do not wait.
    cut: bool,
    /// Packets that the kernel dropped, as far as the protocol was told.
    drops: u64,
}

impl Core {
    /// Turns until it may be lent or the node ends.
    fn run(&mut self) -> Pause {
        if let Some(reason) = self.broken.take() {
            return Pause::End(reason);
        }
        self.slice.begin(self.clock.now());
        loop {
            let paused = match self.turn() {
                Ok(None) => self.wait(),
                ended => ended,
            };
            match paused {
                Ok(None) => {}
                Ok(Some(pause)) => return pause,
                Err(error) => return Pause::End(sockets_failed(&error)),
            }
        }
    }

    fn turn(&mut self) -> io::Result<Option<Pause>> {
        self.now = self.clock.now();
        self.stats.turns += 1;
        self.receive()?;
        self.run_timers();
        self.take_commands();
        self.take_messages();
        self.take_events();
        let sent = self
            .transmitter
            .run(self.now, &mut self.endpoint, &mut self.port);
        self.load.heavy |= sent >= BYTES_LOADED;
        let ended = self.go_on_closing();
        self.wake();
        self.done = self.clock.now();
        self.stats.turn_max = self.stats.turn_max.max(self.done.since(self.now));
        if self.load.heavy {
            self.load.awake_until = self.done.after(AWAKE);
        }
        Ok(ended.map(Pause::End))
    }

    fn wait(&mut self) -> io::Result<Option<Pause>> {
        let blocked = !self.port.writable();
        let more = self.load.cut || self.sources.is_active() || self.transmitter.has_more();
        let work = more && !blocked;
        if self.slice.spins() || work || self.stays_awake() {
            self.stats.awake += u64::from(!work);
            self.give_way(work);
            return Ok(None);
        }
        let due = self.next_timeout();
        let left = due.map(|due| due.since(self.clock.now()));
        if left == Some(Duration::ZERO) {
            return Ok(None);
        }
        self.stats.sleeps += 1;
        if self.lends() {
            self.asleep_until = due;
            return Ok(Some(Pause::Sleep(left)));
        }
        self.port.wait(left)?;
        self.slice.begin(self.clock.now());
        Ok(None)
    }

    /// Whether more is likely to come before it could have slept. Nobody waits for that: who else
    /// wants the CPU gets it.
    fn stays_awake(&self) -> bool {
        self.done < self.load.awake_until && self.slice.is_given(self.done)
    }

    /// Others who wait for this CPU go first when the slice is over, or when there is no work now.
    fn give_way(&mut self, work: bool) {
        if !work || self.slice.is_over(self.done) {
            self.slice.give_away(self.done, self.clock);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        [
            self.endpoint.next_timeout(),
            self.sources.next_timeout(),
            self.pending.next_timeout(),
            self.routes.next_timeout(),
            self.closing.as_ref().map(|closing| closing.deadline),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn receive(&mut self) -> io::Result<()> {
        let (mut datagrams, mut bytes) = (0, 0);
        self.load.cut = false;
        loop {
            let received = self.port.receive()?;
            if received == 0 {
                break;
            }
            datagrams += received;
            let tap = self
                .tap
                .as_ref()
                .map(|tap| (tap, std::time::Instant::now()));
            for datagram in self.port.datagrams() {
                bytes += datagram.bytes.len();
                let from = datagram.source;
                if let Some((tap, at)) = tap {
                    tap.tell(Tapped {
                        at,
                        direction: Direction::Received,
                        peer: from,
                        group: datagram.group,
                        bytes: datagram.bytes,
                        segment_bytes: datagram.bytes.len(),
                    });
                }
                let datagram = match datagram.home {
                    Some((buffer, start)) => {
                        Datagram::lent(buffer, start..start + datagram.bytes.len())
                    }
                    None => datagram.bytes.into(),
                };
                self.endpoint
                    .handle_datagram(self.now, from, datagram, &mut self.routes);
                self.routes.settle(&self.endpoint);
            }
            if datagrams >= DATAGRAMS_PER_TURN || bytes >= BYTES_PER_TURN {
                self.load.cut = true;
                self.stats.receive_cut += 1;
                break;
            }
        }
        self.endpoint.set_backlog(self.load.cut);
        self.load.heavy = datagrams >= DATAGRAMS_LOADED || bytes >= BYTES_LOADED;
        if datagrams > 0 {
            self.sources.unblock();
            self.note_drops();
        }
        Ok(())
    }

    /// Tells the protocol of packets that the kernel dropped: it asks senders to slow down.
    fn note_drops(&mut self) {
        let drops = self.port.kernel_drops();
        if drops > self.load.drops {
            self.endpoint.note_drops(self.now, drops - self.load.drops);
            self.load.drops = drops;
        }
    }

    fn run_timers(&mut self) {
        let Some(due) = self.endpoint.next_timeout().filter(|due| *due <= self.now) else {
            return;
        };
        // The first turn has nothing to be late for.
        if self.stats.turns > 1 {
            let late = self.now.since(due);
            self.stats.timer_late_max = self.stats.timer_late_max.max(late);
        }
        self.endpoint.handle_timeout(self.now, &mut self.routes);
        self.routes.settle(&self.endpoint);
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

    /// Brings the end of the node forward; says why when it is there.
    fn go_on_closing(&mut self) -> Option<CloseReason> {
        let closing = self.closing.as_mut()?;
        if !closing.finishing && self.sources.is_empty() {
            closing.finishing = true;
            self.endpoint.close(self.now);
            self.transmitter
                .run(self.now, &mut self.endpoint, &mut self.port);
        }
        let own = closing.finishing && self.endpoint.is_closed() && !self.transmitter.has_more();
        // The others' goodbyes may need the membership service that runs here.
        let done = own && !(self.siblings.leads() && self.siblings.are_running());
        if !done && self.now < closing.deadline {
            return None;
        }
        if let Some(reply) = closing.reply.take() {
            let late = "delivering everything before the end; some receivers may lack messages";
            let answer: Result<(), RequestError> = if done {
                let told = &self.shared.told;
                self.pending.voids.tell(told.load(Ordering::SeqCst), told)
            } else {
                Err(self.shared.timeout(late))
            };
            // The one who asked may have given up.
            drop(reply.try_send(answer));
        }
        Some(closing.reason.clone())
    }

    fn wake(&mut self) {
        self.pending
            .check(self.now, &self.shared, &self.endpoint, &self.sources);
        let readers = &mut self.readers;
        self.routes
            .tell_slow(self.now, |event| readers.tell(&event));
        self.routes.wake();
        self.readers.wake();
        self.sources.wake(&self.shared);
    }
}

fn sockets_failed(error: &io::Error) -> CloseReason {
    let cause = format!("sockets failed: {error}");
    CloseReason::Io { cause }
}
