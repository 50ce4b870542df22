//! A rate below which no receiver holds a stream (R-RATE-10).
//!
//! ```text
//!  window open ──► packets leave, as many as it takes
//!  window closed, less sent than the rate allows ──► packets leave all the same
//!  more in flight than may be kept ──► the oldest is passed over: kept as for members that are away
//! ```
//!
//! What is passed over nobody waits for. Who lacks it asks for it as for any packet, and is told that it
//! is gone once there is no room for it any more.

use super::{BlockPool, SendStream, rate};
use crate::Instant;

/// Units of one packet, so that rate times nanoseconds is exact.
const PACKET: u64 = 1_000_000_000;
/// Parts of a second of which the packets may leave at once.
const PORTIONS_PER_SECOND: u32 = 1000;
/// Messages let go whose receivers are not looked for yet, at most: with more of them a stream is held
/// until the next acknowledgement.
const LET_GO_MAX: usize = 1 << 18;

/// Packets that may leave although receivers have no room for them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MinimumRate {
    /// 0: none; [`rate::UNLIMITED`]: as many as there are.
    packets_per_second: u32,
    credit: u64,
    since: Instant,
    /// Packets passed over that not everybody is known to have.
    unstable: u64,
    counters: MinimumCounters,
}

/// Counts since the start of the stream.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MinimumCounters {
    /// Fresh packets sent that receivers had no room for.
    pub(crate) beyond_window: u64,
    /// Packets passed over.
    pub(crate) passed_over: u64,
}

impl MinimumRate {
    pub(super) fn is_unlimited(&self) -> bool {
        self.packets_per_second == rate::UNLIMITED
    }

    /// Most that is earned while nothing leaves.
    fn most(&self) -> u64 {
        u64::from((self.packets_per_second / PORTIONS_PER_SECOND).max(1)) * PACKET
    }

    /// Earns what the time that has passed allows.
    pub(super) fn settle(&mut self, now: Instant) {
        let passed = now.0.saturating_sub(self.since.0);
        let earned = passed.saturating_mul(u64::from(self.packets_per_second));
        self.credit = self.credit.saturating_add(earned).min(self.most());
        self.since = now;
    }

    /// Packets that may leave now.
    pub(super) fn packets(&self) -> usize {
        if self.is_unlimited() {
            return usize::MAX;
        }
        usize::try_from(self.credit / PACKET).unwrap_or(usize::MAX)
    }

    /// Packets have left, within the window or beyond it.
    pub(super) fn spend(&mut self, packets: usize, beyond_window: bool) {
        let packets = super::wide(packets);
        self.credit = self.credit.saturating_sub(packets.saturating_mul(PACKET));
        self.counters.beyond_window += packets * u64::from(beyond_window);
    }

    /// Time at which packets may leave again, if none may now.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let wanted = (self.most() / 2).max(PACKET);
        let missing = wanted.saturating_sub(self.credit);
        let wait = missing.checked_div(u64::from(self.packets_per_second))?;
        Some(Instant(self.since.0.saturating_add(wait).saturating_add(1)))
    }
}

impl SendStream {
    /// Sets the packets that may leave in a second whatever receivers have room for: 0: none, and
    /// [`rate::UNLIMITED`]: as many as the sender's own rate allows. Rule R-RATE-10.
    pub fn set_minimum(&mut self, now: Instant, packets_per_second: u32) {
        if packets_per_second == 0 && self.minimum.is_none() {
            return;
        }
        let minimum = self.minimum.get_or_insert_default();
        minimum.packets_per_second = packets_per_second;
        (minimum.credit, minimum.since) = (0, now);
        self.pacer
            .set_minimum(now, self.config.rate, packets_per_second);
    }

    /// Counts of what has been done because no receiver holds this stream.
    pub(crate) fn minimum_counters(&self) -> MinimumCounters {
        let minimum = self.minimum.as_deref();
        minimum.map_or_else(MinimumCounters::default, |minimum| minimum.counters)
    }

    /// Everybody has everything up to here.
    #[must_use]
    pub fn stable_upto(&self) -> u64 {
        let minimum = self.minimum.as_deref();
        self.passed_upto() - minimum.map_or(0, |minimum| minimum.unstable)
    }

    /// Everybody has everything up to here, of what is passed over or forgotten.
    pub(super) fn note_stable(&mut self, upto: u64) {
        let passed = self.passed_upto();
        if let Some(minimum) = &mut self.minimum {
            minimum.unstable = minimum.unstable.min(passed.saturating_sub(upto));
        }
    }

    /// Packets up to here are passed over or stable: nobody is waited for.
    pub(crate) fn passed_upto(&self) -> u64 {
        self.store.trail()
    }

    /// Passes over the oldest packets in flight, if more are in flight than are waited for.
    #[cold]
    pub(super) fn pass_over(&mut self, now: Instant, pool: &mut BlockPool) {
        let overfull = self.in_flight_bytes > self.config.window_bytes
            || self.marks.highest - self.passed_upto() > self.config.window_packets;
        if !overfull || self.store.let_go() > LET_GO_MAX {
            return;
        }
        // Some more, so that the next packet finds room.
        let most_bytes = self.config.window_bytes / 8 * 7;
        let most_packets = self.config.window_packets / 8 * 7;
        let before = self.passed_upto();
        let (mut bytes, mut upto) = (self.in_flight_bytes, before);
        for entry in self.store.after(before) {
            if bytes <= most_bytes && self.marks.highest - upto <= most_packets {
                break;
            }
            bytes -= entry.length();
            upto += 1;
        }
        self.store.begin_retaining();
        self.relief = super::PressureRelief::default();
        self.arrive(upto);
        self.in_flight_bytes -= self.store.release(upto, pool);
        self.marks.cached = self.marks.cached.max(upto);
        let outstanding = self.marks.cached < self.marks.highest;
        self.alarms
            .progress(now, self.config.last_resort, outstanding);
        if let Some(minimum) = &mut self.minimum {
            minimum.unstable += upto - before;
            minimum.counters.passed_over += upto - before;
        }
    }
}
