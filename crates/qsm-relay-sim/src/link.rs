//! Links: what becomes of a datagram on its way.

use core::time::Duration;

use qsm_relay::{Codepoint, Kind};
use qsm_wire::Instant;

/// Treatment of what passes a link, in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Time that each datagram takes.
    pub delay: Duration,
    /// Time that it may take besides; more than the time between two reorders them.
    pub jitter: Duration,
    /// Datagrams of a million that are lost.
    pub loss_ppm: u32,
    /// Datagrams of a million that come twice.
    pub double_ppm: u32,
    /// Fate of marks of congestion on it.
    pub marks: Marking,
}

/// Fate of codepoints in the header of IP (ECN) on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Marking {
    /// They pass, and queues mark.
    #[default]
    Kept,
    /// They are removed.
    Bleached,
    /// All packets that can be marked are.
    All,
}

impl Marking {
    /// The codepoint of a packet behind the link, if it had this one in front of it, and met a queue that marks or none.
    pub(crate) fn passed(self, codepoint: Codepoint, queued: bool) -> Codepoint {
        match (self, codepoint) {
            (Self::Bleached, _) | (_, Codepoint::NotCapable) => Codepoint::NotCapable,
            (Self::All, _) => Codepoint::Marked,
            (Self::Kept, _) if queued => Codepoint::Marked,
            (Self::Kept, _) => codepoint,
        }
    }
}

impl Link {
    /// A link without flaw.
    #[must_use]
    pub const fn clean(delay_ms: u64) -> Self {
        Self {
            delay: Duration::from_millis(delay_ms),
            jitter: Duration::ZERO,
            loss_ppm: 0,
            double_ppm: 0,
            marks: Marking::Kept,
        }
    }

    /// A link that nothing passes.
    #[must_use]
    pub const fn cut(self) -> Self {
        Self {
            loss_ppm: 1_000_000,
            ..self
        }
    }

    /// Longest round trip.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        (self.delay + self.jitter) * 2
    }
}

/// A datagram that is not to arrive: the next one that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// Node that sends it.
    pub from: usize,
    /// Node that it is for.
    pub to: usize,
    /// Its kind.
    pub kind: Kind,
    /// First number in it; 0 if there is none.
    pub sequence: u64,
}

/// Treatment of a packet by a bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passage {
    /// When it has passed.
    pub at: Instant,
    /// It met a queue that marks.
    pub marked: bool,
}

/// One direction of a link of limited rate, with a queue that drops what does not fit.
#[derive(Debug, Clone)]
pub struct Bottleneck {
    /// Bytes a second.
    pub rate: u64,
    /// Bytes that wait at most.
    pub queue: u64,
    /// Bytes behind which packets are marked if they can be.
    pub mark: u64,
    free: Instant,
    passed: u64,
    dropped: u64,
}

impl Bottleneck {
    /// A bottleneck in which nothing waits.
    #[must_use]
    pub fn new(rate: u64, queue: u64) -> Self {
        Self {
            rate,
            queue,
            mark: u64::MAX,
            free: Instant(0),
            passed: 0,
            dropped: 0,
        }
    }

    /// Marks packets behind so many bytes from now on.
    #[must_use]
    pub fn marking(self, mark: u64) -> Self {
        Self { mark, ..self }
    }

    /// Has this rate and queue from now on; what waits already goes on to wait.
    pub fn reshape(&mut self, now: Instant, rate: u64, queue: u64) {
        let waits = self.waiting(now);
        (self.rate, self.queue) = (rate, queue);
        self.free = now.after(self.time(waits));
    }

    /// Bytes that have passed.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Bytes that were dropped because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// When a packet has passed, and whether it is marked if it can be; `None` if it is dropped.
    pub fn pass(&mut self, now: Instant, bytes: u64) -> Option<Passage> {
        let waits = self.waiting(now);
        if waits + bytes > self.queue {
            self.dropped += bytes;
            return None;
        }
        self.passed += bytes;
        self.free = self.free.max(now).after(self.time(bytes));
        Some(Passage {
            at: self.free,
            marked: waits > self.mark,
        })
    }

    /// Bytes that wait.
    #[must_use]
    pub fn waiting(&self, now: Instant) -> u64 {
        let bytes = self.free.since(now).as_nanos() * u128::from(self.rate) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX / 2)
    }

    fn time(&self, bytes: u64) -> Duration {
        Duration::from_nanos(bytes * 1_000_000_000 / self.rate.max(1))
    }
}
