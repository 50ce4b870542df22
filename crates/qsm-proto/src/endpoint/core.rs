use core::time::Duration;
use std::net::SocketAddr;

use qsm_wire::{Header, HeaderTemplate, Hop, Origin};

use crate::outbox::Outbox;
use crate::receive::{Asking, Cursors, Desk, Inbox, Store};
use crate::repair::{Appetite, Backoff, Budget, REQUEST_COST, Recent};
use crate::stats::RepairTimes;
use crate::{Config, Deliver, Events, Instant, Random, Seed, Stats};

/// What all parts of a node share: configuration, memory, budgets, counters.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: Config,
    pub(super) origin: Origin,
    template: HeaderTemplate,
    pub(super) store: Store,
    pub(super) cursors: Cursors,
    pub(super) stats: Stats,
    pub(super) events: Events,
    pub(super) outbox: Outbox,
    pub(super) repair_budget: Budget,
    pub(super) request_budget: Budget,
    /// Not before then are requests made again.
    pub(super) requests_from: Instant,
    pub(super) recent: Recent,
    pub(super) repairs: RepairTimes,
    pub(super) appetite: Appetite,
    random: Random,
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

impl Core {
    pub(super) fn new(config: Config, seed: Seed, now: Instant) -> Self {
        Self {
            origin: Origin {
                node: config.node,
                ..Origin::default()
            },
            template: config.header_template(),
            store: Store::new(config.datagram_bytes, config.limits.receive_bytes),
            cursors: Cursors::default(),
            stats: Stats::default(),
            events: Events::default(),
            outbox: Outbox::new(),
            repair_budget: repair_budget(&config, now),
            request_budget: request_budget(&config, now),
            requests_from: Instant(0),
            recent: Recent::new(),
            repairs: RepairTimes::default(),
            appetite: Appetite::default(),
            random: Random::new(seed, "backoff"),
            config,
        }
    }

    pub(super) fn header(&self) -> Header {
        self.template.header(self.origin)
    }

    pub(super) fn cluster(&self) -> u32 {
        self.template.cluster()
    }

    /// Age of a gap before it is asked for: long enough for what is only out of order.
    pub(super) fn guard(&self) -> Duration {
        self.config.recovery.guard(&self.repairs)
    }

    /// Time to the first retry of a request.
    pub(super) fn retry(&self) -> Duration {
        self.config.recovery.retry(&self.repairs)
    }

    /// Requests have been made: the next ones wait for others to go with them. Rule R-NAK-12.
    pub(super) fn rest_from_requests(&mut self, now: Instant) {
        if self.config.recovery.fast {
            let rest = self.repairs.round_trip() / REQUESTS_PER_ROUND_TRIP;
            self.requests_from = now.after(rest.min(REQUESTS_REST_MAX));
        }
    }

    /// A new packet has been received: with them grows what may be asked for. Rule R-NAK-7.
    pub(super) fn earn_requests(&mut self) {
        if self.config.recovery.fast {
            self.request_budget.earn(1);
        }
    }

    /// New packets have been sent or received: with them grows what may be repaired. Rule R-NAK-7.
    pub(super) fn earn_repairs(&mut self, bytes: usize) {
        if self.config.recovery.fast {
            self.repair_budget.earn(bytes as u64 / REPAIRED_ONE_IN);
        }
    }

    /// The receive buffer that this node offers to the senders of a region: half of what the
    /// kernel granted, because it counts its own overhead into it, no more than can be kept here
    /// until everybody has it, and no more than is useful.
    pub(super) fn credit_bytes(&self) -> u32 {
        let kernel = self.config.receive_buffer_bytes / 2;
        let kept = self.store.limit_bytes();
        u32::try_from(kernel.min(kept))
            .unwrap_or(u32::MAX)
            .min(CREDIT_MAX)
    }

    /// Whether there is memory to keep, besides what is kept, as much as senders may send.
    pub(super) fn has_room(&self) -> bool {
        let credit = usize::try_from(self.credit_bytes()).unwrap_or(usize::MAX);
        self.store
            .room_packets()
            .saturating_mul(self.config.datagram_bytes)
            >= credit
    }

    /// What the streams of a region with this back-off and that many members work with.
    pub(super) fn inbox<'a>(
        &'a mut self,
        now: Instant,
        (backoff, members): (&'a Backoff, usize),
        out: &'a mut dyn Deliver,
    ) -> Inbox<'a> {
        Inbox {
            now,
            asking: Asking {
                recovery: &self.config.recovery,
                backoff,
                members,
                random: &mut self.random,
            },
            ahead_max: self.config.limits.ahead_packets,
            store: &mut self.store,
            repairs: &mut self.repairs,
            appetite: &mut self.appetite,
            desk: Desk {
                cursors: &mut self.cursors,
                stats: &mut self.stats,
                events: &mut self.events,
                out,
                message_bytes_max: self.config.limits.message_bytes,
            },
        }
    }
}

fn repair_budget(config: &Config, now: Instant) -> Budget {
    let packet = config.datagram_bytes as u64;
    Budget::new(config.recovery.repair_bytes_per_second, packet, now)
}

fn request_budget(config: &Config, now: Instant) -> Budget {
    let requests = config.recovery.requests_per_second;
    Budget::new(requests.saturating_mul(REQUEST_COST), REQUEST_COST, now)
}

/// Sends a repair if the budget allows it. Takes the parts of the core one by one, because the
/// packet may lie in the core's own store.
pub(super) fn send_repair(
    (budget, outbox, stats): (&mut Budget, &mut Outbox, &mut Stats),
    now: Instant,
    to: SocketAddr,
    hop: Hop,
    packet: &[u8],
) -> bool {
    if !budget.take(now, packet.len() as u64) {
        stats.repairs_over_budget += 1;
        return false;
    }
    outbox.push(crate::Reason::Repair, to, |bytes| {
        bytes.extend_from_slice(packet);
        hop.stamp(bytes);
    });
    let counter = match hop {
        Hop::SenderRepair => &mut stats.repairs_sender_sent,
        Hop::Push => &mut stats.repairs_push_sent,
        Hop::PullRepair => &mut stats.repairs_pull_sent,
        _ => &mut stats.repairs_cacher_sent,
    };
    *counter += 1;
    true
}
