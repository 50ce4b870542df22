//! Heartbeats and the last resort: what a sender does when nobody asks.

use core::time::Duration;

use qsm_wire::{Heartbeat, Hop, ViewNumber};

use super::SendStream;
use crate::{Destination, Instant, Outbox, Reason};

/// Longest time between heartbeats.
const HEARTBEAT_MAX: Duration = Duration::from_secs(1);
/// Packets sent again at once as last resort: enough to show receivers the gap.
const LAST_RESORT_PACKETS: u64 = 8;
/// The time to the next last resort doubles up to this many times the first.
const LAST_RESORT_FACTOR_MAX: u32 = 8;

/// Time without an acknowledgement after which members are told by unicast how far the stream goes.
const UNANSWERED: Duration = Duration::from_millis(500);
/// Longest time between two times that they are told.
const UNANSWERED_MAX: Duration = Duration::from_secs(4);

/// The timers, and why they run.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    heartbeat: Option<Instant>,
    heartbeat_delay: Duration,
    /// A view whose opening not everybody is known to have heard of.
    announced: Option<ViewNumber>,
    last_resort: Option<Instant>,
    last_resort_delay: Duration,
    /// When nobody will have acknowledged anything for long.
    unanswered: Option<Instant>,
    unanswered_delay: Duration,
    /// From the last data to the first heartbeat.
    heartbeat_min: Duration,
}

impl Alarms {
    pub(super) fn new(heartbeat_min: Duration) -> Self {
        Self {
            heartbeat_min: heartbeat_min.min(HEARTBEAT_MAX),
            ..Self::default()
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let timers = [self.heartbeat, self.last_resort, self.unanswered];
        timers.into_iter().flatten().min()
    }

    /// Data left: it says what a heartbeat would.
    pub(super) fn data_sent(&mut self, now: Instant, last_resort: Duration) {
        let owed = self.announced.is_some() && self.heartbeat.is_some_and(|at| at <= now);
        if !owed {
            self.heartbeat = Some(now.after(self.heartbeat_min));
            self.heartbeat_delay = self.heartbeat_min;
        }
        if self.last_resort.is_none() {
            self.progress(now, last_resort, true);
        }
        if self.unanswered.is_none() {
            self.answered(now, true);
        }
    }

    /// Somebody has acknowledged something, or there is something new to acknowledge.
    pub(super) fn answered(&mut self, now: Instant, outstanding: bool) {
        self.unanswered = outstanding.then(|| now.after(UNANSWERED));
        self.unanswered_delay = UNANSWERED;
    }

    // Rule R-REACH-2.
    fn take_unanswered(&mut self, now: Instant, outstanding: bool) -> bool {
        if self.unanswered.is_none_or(|at| at > now) {
            return false;
        }
        self.unanswered = outstanding.then(|| now.after(self.unanswered_delay));
        self.unanswered_delay = (self.unanswered_delay * 2).min(UNANSWERED_MAX);
        outstanding
    }

    pub(super) fn heartbeat_now(&mut self, now: Instant) {
        self.heartbeat = Some(now);
        // The next one follows after the shortest time.
        self.heartbeat_delay = Duration::ZERO;
    }

    /// A view has opened: leaving members wait to hear where.
    pub(super) fn announce(&mut self, now: Instant, view: ViewNumber) {
        self.announced = Some(view);
        self.heartbeat_now(now);
    }

    /// Members of this view have everything, hence know where it begins.
    pub(super) fn heard_by(&mut self, view: ViewNumber) {
        if self.announced.is_some_and(|announced| announced <= view) {
            self.announced = None;
            self.all_stable();
        }
    }

    /// A stable stream is in no token, so that no ACK will say that its openings are known. Once
    /// the heartbeats have become rare, whoever still waits for one asks by stream query.
    fn announced_enough(&mut self) {
        if self.heartbeat_delay >= HEARTBEAT_MAX {
            self.announced = None;
        }
    }

    pub(super) fn all_stable(&mut self) {
        if self.announced.is_none() {
            self.heartbeat = None;
        }
    }

    pub(super) fn progress(&mut self, now: Instant, last_resort: Duration, outstanding: bool) {
        self.last_resort = outstanding.then(|| now.after(last_resort));
        self.last_resort_delay = last_resort;
    }

    // Rule R-DATA-6.
    fn take_heartbeat(&mut self, now: Instant) -> bool {
        if self.heartbeat.is_none_or(|at| at > now) {
            return false;
        }
        self.heartbeat_delay = (self.heartbeat_delay * 2).clamp(self.heartbeat_min, HEARTBEAT_MAX);
        self.heartbeat = Some(now.after(self.heartbeat_delay));
        true
    }

    // Rule R-DATA-7.
    fn take_last_resort(&mut self, now: Instant, first: Duration) -> bool {
        if self.last_resort.is_none_or(|at| at > now) {
            return false;
        }
        let longest = first.saturating_mul(LAST_RESORT_FACTOR_MAX);
        self.last_resort_delay = self.last_resort_delay.saturating_mul(2).min(longest);
        self.last_resort = Some(now.after(self.last_resort_delay));
        true
    }
}

impl SendStream {
    /// Does what is due: a heartbeat (G01), or the oldest packets once more (R086), to the
    /// channel's address.
    pub fn handle_timeout(&mut self, now: Instant, channel: Destination, out: &mut Outbox) {
        if self.alarms.take_heartbeat(now) {
            out.push(Reason::Status, channel, |bytes| self.heartbeat(bytes));
            self.counters.heartbeats += 1;
            // The last word of a finished stream that everybody has.
            if self.stable_upto() == self.marks.highest && !self.confirms {
                self.alarms.announced_enough();
                self.alarms.all_stable();
            }
        }
        if self.alarms.take_last_resort(now, self.config.last_resort) {
            let first = self.marks.cached + 1;
            let last = self
                .marks
                .highest
                .min(self.marks.cached + LAST_RESORT_PACKETS);
            for packet in (first..=last).filter_map(|sequence| self.packet(sequence)) {
                out.push(Reason::Repair, channel, |bytes| {
                    bytes.extend_from_slice(packet);
                    Hop::SenderRepair.stamp(bytes);
                });
            }
            self.counters.last_resort += last + 1 - first;
        }
    }

    /// Whether nobody has acknowledged anything for long, although packets are out: it is time to
    /// tell members how far the stream goes by another way than multicast.
    pub fn is_unanswered(&mut self, now: Instant) -> bool {
        let outstanding = self.stable_upto() < self.marks.highest;
        self.alarms.take_unanswered(now, outstanding)
    }

    /// Appends a heartbeat: on its own timer, and in answer to a stream query.
    pub fn heartbeat(&self, out: &mut Vec<u8>) {
        let finished = self.finished && self.unsent_bytes() == 0;
        let newest_first = self.openings.iter().rev().copied();
        let highest = self.marks.highest;
        Heartbeat::encode(
            &self.header,
            self.id(),
            highest,
            finished,
            newest_first,
            out,
        );
    }
}
