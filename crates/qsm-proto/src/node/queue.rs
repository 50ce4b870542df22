//! The credit that a node grants, held so small that no queue stands at its socket (R-RATE-9).
//!
//! ```text
//!  socket ── the oldest datagram had waited so long ──► least of three rounds
//!                                                             │ above the target: × 0.8, or × 0.5
//!  tokens ◄──────────────────── credit ◄──────────────────────┘ else: grows
//! ```
//!
//! A queue that is never empty makes nothing faster: what is read next is there in any case. It only
//! makes repairs and tokens wait. The least time that datagrams have waited during some rounds is how
//! much of the queue stands (`CoDel`, RFC 8289). Bursts and naps of the process leave no trace in it,
//! since the queue is empty for a moment afterwards.
//!
//! Each receiver holds its own credit, and tokens carry it as it is, never how it changes: a lost
//! token, another leader or another view take nothing from a sender for good.

use core::time::Duration;

use qsm_wire::RegionId;

use crate::Instant;

/// Rounds whose least counts. A smaller credit shows after two: one in which the sender learns of it,
/// and one in which what it had sent before is read. With two, a path of 10 ms lost an eighth of its
/// rate, which had not been used up when credit was taken again; with three, a sixtieth.
const ROUNDS: u8 = 3;
/// But no shorter than this: a process that shares its processor is given it for milliseconds, and
/// empties its queue at the end of them.
const SPAN_MIN: Duration = Duration::from_millis(10);
/// After so long without enough rounds nothing is known any more, and all credit is granted.
const SPAN_MAX: Duration = Duration::from_secs(10);
/// A region without a round for so long leaves the count to another one.
const SILENCE: Duration = Duration::from_secs(1);
/// Credit that comes back at once, bytes, but a sixteenth of the credit if that is more.
const GROWTH_BYTES: u32 = 64 << 10;
const GROWTH_SHARE: u32 = 16;
/// Least credit that is left, bytes: what a sender may send before it has heard of anybody.
const LEAST_BYTES: u32 = 64 << 10;
/// And for each stream as many datagrams: a window of fewer loses much by being one of whole packets. With
/// two, ten senders reached 88 % of what one does.
const LEAST_DATAGRAMS: usize = 8;
/// So many times the target, and what stands is as much as what a round has under way: half of the
/// credit can go, and the queue still does not run empty.
const LONG: u32 = 8;
/// Where rounds take long, a queue of this part of a round stands too: what a round allows comes at
/// once, and must last until the next one does.
const ROUND_SHARE: u32 = 8;

/// Credit that a node needs whatever stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// The streams that it receives.
    pub(crate) streams: usize,
    /// Bytes of the largest datagram.
    pub(crate) datagram_bytes: usize,
}

impl Needs {
    fn bytes(self) -> u32 {
        let datagrams = self.streams.saturating_mul(LEAST_DATAGRAMS);
        let bytes = datagrams.saturating_mul(self.datagram_bytes);
        u32::try_from(bytes).unwrap_or(u32::MAX).max(LEAST_BYTES)
    }
}

/// Change of the credit at the end of some rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A queue stood all the time; the least wait. The credit is smaller now.
    Stood(Duration),
    /// None did. The credit has grown, up to all that is granted.
    Empty,
}

/// The credit of a node and what it is held by.
#[derive(Debug)]
pub(crate) struct QueueControl {
    /// Time that datagrams may wait all the time; zero: credit is not held.
    target: Duration,
    /// Most credit, and credit now.
    most: u32,
    credit: u32,
    /// The least time that the oldest datagrams have waited since `began`.
    least: Option<Duration>,
    began: Instant,
    /// The region whose rounds are counted, and the last one of them.
    counted: Option<Round>,
    /// When that was.
    seen: Instant,
    rounds: u8,
}

/// A round of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round {
    pub(crate) region: RegionId,
    pub(crate) number: u64,
}

impl QueueControl {
    /// Grants `most` bytes at first.
    pub(crate) fn new(target: Duration, most: u32) -> Self {
        Self {
            target,
            most,
            credit: most,
            least: None,
            began: Instant(0),
            counted: None,
            seen: Instant(0),
            rounds: 0,
        }
    }

    /// Bytes that may wait here.
    pub(crate) fn credit(&self) -> u32 {
        self.credit
    }

    /// Bytes that may wait here, if none stand.
    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    /// The oldest datagram of those read now had waited for so long.
    pub(crate) fn note_wait(&mut self, waited: Duration) {
        let least = self.least.get_or_insert(waited);
        *least = waited.min(*least);
    }

    /// A round of tokens has been seen here; each counts once.
    pub(crate) fn note_round(
        &mut self,
        now: Instant,
        round: Round,
        needs: Needs,
    ) -> Option<Verdict> {
        if self.target.is_zero() {
            return None;
        }
        let span = now.since(self.began);
        if span > SPAN_MAX {
            self.credit = self.most;
        }
        let silent = now.since(self.seen) > SILENCE;
        let counts = self
            .counted
            .is_some_and(|last| last.region == round.region && last.number < round.number);
        if span > SPAN_MAX || self.counted.is_none() || silent && !counts {
            self.begin(now);
            (self.counted, self.seen) = (Some(round), now);
            return None;
        }
        if !counts {
            return None;
        }
        (self.counted, self.seen) = (Some(round), now);
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds < ROUNDS || span < SPAN_MIN {
            return None;
        }
        let share = span / u32::from(self.rounds) / ROUND_SHARE;
        let target = self.target.max(share);
        let verdict = self.judge(target, needs);
        self.begin(now);
        Some(verdict)
    }

    fn begin(&mut self, now: Instant) {
        self.began = now;
        self.least = None;
        self.rounds = 0;
    }

    /// Nothing read is an empty queue. Rule R-RATE-9.
    fn judge(&mut self, target: Duration, needs: Needs) -> Verdict {
        match self.least.filter(|least| *least > target) {
            Some(least) => {
                let part = match least > target * LONG {
                    true => self.credit / 2,
                    false => self.credit / 5,
                };
                let smaller = self.credit - part;
                self.credit = smaller.max(needs.bytes()).min(self.credit);
                Verdict::Stood(least)
            }
            None => {
                let growth = GROWTH_BYTES.max(self.credit / GROWTH_SHARE);
                self.credit = self.credit.saturating_add(growth).min(self.most);
                Verdict::Empty
            }
        }
    }
}

#[cfg(test)]
mod tests;
