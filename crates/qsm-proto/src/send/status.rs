//! Heartbeats and the last resort: what a sender does when nobody asks.

use core::time::Duration;

use qsm_wire::{Heartbeat, Hop, ViewNumber};

use super::{Intake, SendStream};
use crate::{Destination, Instant, Outbox, Reason};

/// Longest time between heartbeats.
const HEARTBEAT_MAX: Duration = Duration::from_secs(1);
/// Packets sent again at once as last resort: enough to show receivers the gap.
const LAST_RESORT_PACKETS: u64 = 8;
/// The time to the next last resort doubles up to this many times the first.
const LAST_RESORT_FACTOR_MAX: u32 = 8;

/// Time without an acknowledgement after which members are told by unicast how far the stream goes.
const UNANSWERED: Duration = Duration::from_millis(500);
/// The time until they are told again doubles up to this many times: 4 s.
const UNANSWERED_DOUBLINGS: u8 = 3;

/// The timers, and why they run.
#[derive(Debug)]
pub(super) struct Alarms {
    /// Each is `Instant::NEVER` while it does not run.
    heartbeat: Instant,
    heartbeat_delay: Duration,
    /// A view whose opening not everybody is known to have heard of.
    announced: Option<ViewNumber>,
    last_resort: Instant,
    last_resort_delay: Duration,
    /// When nobody will have acknowledged anything for long.
    unanswered: Instant,
    /// Times that this has been so since the last acknowledgement.
    unanswered_times: u8,
    /// From the last data to the first heartbeat.
    heartbeat_min_ns: u32,
}

impl Alarms {
    pub(super) fn new(heartbeat_min: Duration) -> Self {
        Self {
            heartbeat: Instant::NEVER,
            heartbeat_delay: Duration::ZERO,
            announced: None,
            last_resort: Instant::NEVER,
            last_resort_delay: Duration::ZERO,
            unanswered: Instant::NEVER,
            unanswered_times: 0,
            // A second at most: fits.
            heartbeat_min_ns: u32::try_from(heartbeat_min.min(HEARTBEAT_MAX).as_nanos())
                .unwrap_or(u32::MAX),
        }
    }

    fn heartbeat_min(&self) -> Duration {
        Duration::from_nanos(self.heartbeat_min_ns.into())
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let next = self.heartbeat.min(self.last_resort).min(self.unanswered);
        (next != Instant::NEVER).then_some(next)
    }

    /// Data left: it says what a heartbeat would.
    pub(super) fn data_sent(&mut self, now: Instant, last_resort: Duration) {
        let owed = self.announced.is_some() && self.heartbeat <= now;
        if !owed {
            self.heartbeat = now.after(self.heartbeat_min());
            self.heartbeat_delay = self.heartbeat_min();
        }
        if self.last_resort == Instant::NEVER {
            self.progress(now, last_resort, true);
        }
        if self.unanswered == Instant::NEVER {
            self.answered(now, true);
        }
    }

    /// Somebody has acknowledged something, or there is something new to acknowledge.
    pub(super) fn answered(&mut self, now: Instant, outstanding: bool) {
        self.unanswered = due(outstanding, now, UNANSWERED);
        self.unanswered_times = 0;
    }

    // Rule R-REACH-2.
    fn take_unanswered(&mut self, now: Instant, outstanding: bool) -> bool {
        if self.unanswered > now {
            return false;
        }
        let delay = UNANSWERED * (1 << self.unanswered_times);
        self.unanswered = due(outstanding, now, delay);
        self.unanswered_times = (self.unanswered_times + 1).min(UNANSWERED_DOUBLINGS);
        outstanding
    }

    pub(super) fn heartbeat_now(&mut self, now: Instant) {
        self.heartbeat = now;
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
            self.heartbeat = Instant::NEVER;
        }
    }

    pub(super) fn progress(&mut self, now: Instant, last_resort: Duration, outstanding: bool) {
        self.last_resort = due(outstanding, now, last_resort);
        self.last_resort_delay = last_resort;
    }

    // Rule R-DATA-6.
    fn take_heartbeat(&mut self, now: Instant) -> bool {
        if self.heartbeat > now {
            return false;
        }
        self.heartbeat_delay =
            (self.heartbeat_delay * 2).clamp(self.heartbeat_min(), HEARTBEAT_MAX);
        self.heartbeat = now.after(self.heartbeat_delay);
        true
    }

    // Rule R-DATA-7.
    fn take_last_resort(&mut self, now: Instant, first: Duration) -> bool {
        if self.last_resort > now {
            return false;
        }
        let longest = first.saturating_mul(LAST_RESORT_FACTOR_MAX);
        self.last_resort_delay = self.last_resort_delay.saturating_mul(2).min(longest);
        self.last_resort = now.after(self.last_resort_delay);
        true
    }
}

/// When a timer runs out, or `Instant::NEVER` if it is not to run.
fn due(runs: bool, now: Instant, delay: Duration) -> Instant {
    if runs {
        now.after(delay)
    } else {
        Instant::NEVER
    }
}

/// Sends a packet again, to the channel's address.
pub(super) fn repeat(packet: &[u8], channel: Destination, out: &mut Outbox) {
    out.push(Reason::Repair, channel, |bytes| {
        bytes.extend_from_slice(packet);
        Hop::SenderRepair.stamp(bytes);
    });
}

impl SendStream {
    /// Does what is due: a heartbeat (G01), or the oldest packets, or the oldest seal, once more (R086, R-SEC-30), to the
    /// channel's address. Returns whether packets are out and nobody has acknowledged anything for
    /// long: then members are to be told how far the stream goes by another way than multicast
    /// (R-REACH-2).
    #[must_use]
    pub fn handle_timeout(&mut self, now: Instant, channel: Destination, out: &mut Outbox) -> bool {
        self.seal_if_due(now);
        if self.alarms.take_heartbeat(now) {
            // Nothing follows for a while that it could wait for.
            if self.owes_seal() {
                self.close_packet(now, 0);
                self.write_seal(now);
            }
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
                repeat(packet, channel, out);
            }
            self.counters.last_resort += last + 1 - first;
        }
        self.repeat_seal(now, channel, out);
        let outstanding = self.stable_upto() < self.marks.highest;
        self.alarms.take_unanswered(now, outstanding)
    }

    /// Appends a heartbeat: on its own timer, and in answer to a stream query.
    pub fn heartbeat(&self, out: &mut Vec<u8>) {
        let finished = self.intake == Intake::Finished && self.unsent_bytes() == 0;
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
