//! State of a node that its regions share: configuration, memory, budgets, counters, the time.

mod backlog;
mod meter;
mod queue;
mod send_limit;

use core::time::Duration;
use std::sync::Arc;

use qsm_identity::NodeKey;
use qsm_wire::membership::RepairLimit;
use qsm_wire::{GroupId, Header, HeaderTemplate, Origin};

pub(crate) use self::backlog::Backlog;
pub(crate) use self::meter::ReceiveMeter;
use self::queue::{Needs, QueueControl};
pub(crate) use self::queue::{Round, Verdict};
pub(crate) use self::send_limit::SendLimit;

use crate::history::History;
use crate::outbox::Outbox;
use crate::receive::{
    Cursors, DeliveryContext, PacketStore, RequestTiming, RetryInterval, StreamContext,
};
use crate::repair::{
    ParityShelf, REQUEST_COST, RateBudget, RecentRepairs, RepairGate, RepairSender, RequestBackoff,
    RequestWindow,
};
use crate::ring::Action;
use crate::stats::{RepairTimes, Times};
use crate::{Config, Deliver, Events, Instant, LossCause, Random, Seed, Stats};

/// State that all regions of a node share.
#[derive(Debug)]
pub(crate) struct NodeState {
    /// The time of the present input.
    pub(crate) now: Instant,
    pub(crate) config: Config,
    pub(crate) origin: Origin,
    template: HeaderTemplate,
    pub(crate) store: PacketStore,
    pub(crate) cursors: Cursors,
    pub(crate) stats: Stats,
    pub(crate) events: Events,
    pub(crate) outbox: Outbox,
    /// It signs by this key what it sends where proof is demanded.
    pub(crate) signing_key: Option<Arc<NodeKey>>,
    pub(crate) meter: ReceiveMeter,
    /// Whether the runtime has not read all that has arrived, and for how long in all.
    pub(crate) backlog: Backlog,
    /// The credit that it grants.
    queue: QueueControl,
    /// Streams received, of all regions.
    pub(crate) streams: usize,
    /// Members that get copies of what is multicast, of all regions.
    pub(crate) copied: usize,
    /// Limit of all that it sends; `None`: there is none.
    pub(crate) send_limit: Option<SendLimit>,
    repair_budget: RateBudget,
    /// The operator's limit of repairs; `None`: there is none.
    repair_gate: Option<Box<RepairGate>>,
    pub(crate) request_budget: RateBudget,
    /// Not before then are requests made again.
    pub(crate) requests_from: Instant,
    recent: RecentRepairs,
    /// Parities that are not enough yet.
    pub(crate) parities: ParityShelf,
    pub(crate) repairs: RepairTimes,
    /// All but those of repairs.
    pub(crate) times: Times,
    pub(crate) request_window: RequestWindow,
    random: Random,
    /// Emptied list for reuse.
    pub(crate) actions: Vec<Action>,
}

/// More in flight than this only fills queues: it is 3 ms of 10 Gbit/s, and what stays in a
/// processor's cache is copied several times faster than what does not.
const CREDIT_MAX: u32 = 4 << 20;

/// Of this many bytes of new packets one more may be repaired than the budget says: 64 MiB/s are
/// 2 % of what a fast host sends, whose receivers may lose more.
const REPAIRED_ONE_IN: u64 = 8;
/// Requests are made so many times per round trip, at most: what is missed meanwhile is asked for
/// together, and repaired together.
const REQUESTS_PER_ROUND_TRIP: u32 = 4;
/// But they do not wait for longer.
const REQUESTS_REST_MAX: Duration = Duration::from_millis(1);

impl NodeState {
    pub(crate) fn new(config: Config, seed: Seed, now: Instant) -> Self {
        let store = PacketStore::new(config.datagram_bytes, config.limits.receive_bytes);
        Self {
            now,
            origin: Origin {
                node: config.node,
                ..Origin::default()
            },
            template: config.header_template(),
            queue: QueueControl::new(config.pace.queue_target, credit_max(&config, &store)),
            store,
            cursors: Cursors::default(),
            stats: Stats::default(),
            events: Events::default(),
            outbox: Outbox::new(),
            signing_key: None,
            meter: ReceiveMeter::new(&config.pace, now),
            backlog: Backlog::default(),
            streams: 0,
            copied: 0,
            send_limit: SendLimit::new(config.pace.node_bytes_per_second),
            repair_budget: repair_budget(&config, now),
            repair_gate: None,
            request_budget: request_budget(&config, now),
            requests_from: Instant(0),
            recent: RecentRepairs::new(),
            parities: ParityShelf::default(),
            repairs: RepairTimes::default(),
            times: Times::default(),
            request_window: RequestWindow::default(),
            random: Random::new(seed, "backoff"),
            actions: Vec::new(),
            config,
        }
    }

    pub(crate) fn header(&self) -> Header {
        self.template.header(self.origin)
    }

    pub(crate) fn cluster(&self) -> u32 {
        self.template.cluster()
    }

    /// Whether requests for repair are made and answered at once, not only by tokens.
    pub(crate) fn fast(&self) -> bool {
        self.config.recovery.fast
    }

    /// Age of a gap before it is asked for: long enough for what is only out of order.
    pub(crate) fn guard(&self) -> Duration {
        self.config.recovery.guard(&self.repairs)
    }

    /// Time to the first retry of a request.
    pub(crate) fn retry(&self) -> Duration {
        self.config.recovery.retry(&self.repairs)
    }

    /// Time from one request for a packet to the next.
    pub(crate) fn retry_interval(&self) -> RetryInterval {
        RetryInterval {
            first: self.retry(),
            steady: self.repairs.steady(),
        }
    }

    /// Whether there is room for another stream.
    pub(crate) fn has_room_for_stream(&self) -> bool {
        self.streams < self.config.limits.streams
    }

    /// Requests have been made: the next ones wait for others to go with them. Rule R-NAK-12.
    pub(crate) fn rest_from_requests(&mut self) {
        if self.config.recovery.fast {
            let rest = self.repairs.round_trip() / REQUESTS_PER_ROUND_TRIP;
            self.requests_from = self.now.after(rest.min(REQUESTS_REST_MAX));
        }
    }

    /// A new packet has been received: with them grows what may be asked for. Rule R-NAK-7.
    pub(crate) fn earn_requests(&mut self) {
        if self.config.recovery.fast {
            self.request_budget.earn(1);
        }
    }

    /// New packets have been sent or received: with them grows what may be repaired. Rule R-NAK-7.
    pub(crate) fn earn_repairs(&mut self, bytes: usize) {
        if self.config.recovery.fast {
            self.repair_budget.earn(bytes as u64 / REPAIRED_ONE_IN);
        }
        if let Some(gate) = &mut self.repair_gate {
            gate.note_fresh(self.now, bytes as u64);
        }
    }

    /// The operator's limit of what is sent again, from now on. Rule R-NAK-16.
    pub(crate) fn limit_repairs(&mut self, limit: RepairLimit) {
        if self.repair_limit() != limit {
            self.repair_gate = RepairGate::new(limit).map(Box::new);
        }
    }

    /// Nothing waits to be sent again any more: what was decided has left. Rule R-NAK-16.
    pub(crate) fn note_repairs_left(&mut self) {
        if let Some(gate) = &mut self.repair_gate {
            gate.note_left(self.now);
        }
    }

    pub(crate) fn repair_limit(&self) -> RepairLimit {
        let gate = self.repair_gate.as_deref();
        gate.map_or_else(RepairLimit::default, RepairGate::limit)
    }

    /// The receive buffer that this node offers to the senders of a region: as much as it can have,
    /// or less where that would only stand (R-RATE-9).
    pub(crate) fn credit_bytes(&self) -> u32 {
        self.queue.credit()
    }

    /// The oldest datagram of those handed over now had waited for so long.
    pub(crate) fn note_sojourn(&mut self, waited: Duration) {
        self.queue.note_wait(waited);
    }

    /// A round has been seen here, of which more may be said later.
    pub(crate) fn note_round(&mut self, round: Round) {
        let needs = Needs {
            streams: self.streams,
            datagram_bytes: self.config.datagram_bytes,
        };
        match self.queue.note_round(self.now, round, needs) {
            Some(Verdict::Stood(wait)) => {
                self.stats.credit_cuts += 1;
                self.stats.standing_ns = crate::nanoseconds(wait);
            }
            Some(Verdict::Empty) => self.stats.standing_ns = 0,
            None => return,
        }
        self.stats.credit_bytes = self.queue.credit().into();
    }

    /// Whether there is memory to keep, besides what is kept, as much as senders may send.
    pub(crate) fn has_room(&self) -> bool {
        let credit = usize::try_from(self.queue.most()).unwrap_or(usize::MAX);
        self.store
            .room_packets()
            .saturating_mul(self.config.datagram_bytes)
            >= credit
    }

    /// Sends packets again; and the memory that received ones are kept in.
    pub(crate) fn repairs(&mut self) -> (RepairSender<'_>, &PacketStore) {
        let repairs = RepairSender {
            now: self.now,
            budget: &mut self.repair_budget,
            gate: self.repair_gate.as_deref_mut(),
            copies: self.copied,
            recent: &mut self.recent,
            outbox: &mut self.outbox,
            stats: &mut self.stats,
        };
        (repairs, &self.store)
    }

    /// Lends the streams of a region with this back-off, that many members and these groups what they
    /// work with.
    pub(crate) fn stream_context<'a>(
        &'a mut self,
        backoff: &'a RequestBackoff,
        history: &'a History,
        groups: &'a [GroupId],
        out: &'a mut dyn Deliver,
    ) -> StreamContext<'a> {
        StreamContext {
            now: self.now,
            timing: RequestTiming {
                recovery: &self.config.recovery,
                backoff,
                history,
                random: &mut self.random,
            },
            ahead_max: self.config.limits.ahead_packets,
            store: &mut self.store,
            repairs: &mut self.repairs,
            request_window: &mut self.request_window,
            delivery: DeliveryContext {
                cursors: &mut self.cursors,
                stats: &mut self.stats,
                out,
                groups,
                message_bytes_max: self.config.limits.message_bytes,
                loss: LossCause::default(),
            },
        }
    }
}

/// Half of what the kernel granted, because it counts its own overhead into it, no more than can be
/// kept here until everybody has it, and no more than is useful.
fn credit_max(config: &Config, store: &PacketStore) -> u32 {
    let kernel = config.receive_buffer_bytes / 2;
    let kept = store.limit_bytes();
    u32::try_from(kernel.min(kept))
        .unwrap_or(u32::MAX)
        .min(CREDIT_MAX)
}

fn repair_budget(config: &Config, now: Instant) -> RateBudget {
    let packet = config.datagram_bytes as u64;
    RateBudget::new(config.recovery.repair_bytes_per_second, packet, now)
}

fn request_budget(config: &Config, now: Instant) -> RateBudget {
    let requests = config.recovery.requests_per_second;
    RateBudget::new(requests.saturating_mul(REQUEST_COST), REQUEST_COST, now)
}
