//! Loss events as receivers count them (RFC 5348, section 5; RFC 4654, section 5).

use core::time::Duration;
use std::collections::VecDeque;

use qsm_wire::Instant;

use crate::equation::ALL_LOST;
use crate::packet::WINDOW_MAX;

/// Later packets that make a missing one count as lost: it was not only overtaken.
const OVERTAKEN: u8 = 3;
/// Weights of the intervals between loss events, the newest first, in fifths (RFC 5348, 5.4).
const WEIGHTS: [u64; 8] = [5, 5, 5, 5, 4, 3, 2, 1];

/// A weight that is not discounted.
const WHOLE: u64 = 256;

/// Packets between two loss events.
#[derive(Debug, Clone, Copy)]
struct Interval {
    packets: u64,
    /// Part of its weight that counts, of [`WHOLE`]: less if a much longer one has followed.
    discount: u64,
}

/// Packets in a row that have not come yet.
#[derive(Debug, Clone, Copy)]
struct Gap {
    first: u64,
    last: u64,
    /// Arrival of the packet before it, and of the one that has shown it.
    before: Instant,
    after: Instant,
    later: u8,
}

impl Gap {
    /// When a packet of it would have come, by those around it.
    fn arrival(&self, sequence: u64) -> Instant {
        let steps = u128::from(self.last - self.first + 2);
        let step = u128::from(sequence - self.first + 1);
        let span = u128::from(self.after.0.saturating_sub(self.before.0));
        let since = u64::try_from(span * step / steps).unwrap_or(u64::MAX);
        Instant(self.before.0.saturating_add(since))
    }
}

/// History of loss events: losses within one round trip are one.
#[derive(Debug, Clone)]
pub(crate) struct Losses {
    highest: u64,
    highest_at: Instant,
    /// At most as many as packets may overtake.
    gaps: VecDeque<Gap>,
    /// First packet of the newest loss event, and when it would have come.
    event: Option<(u64, Instant)>,
    /// Those before the newest loss event, the newest first.
    intervals: VecDeque<Interval>,
}

impl Losses {
    pub(crate) fn new() -> Self {
        Self {
            highest: 0,
            highest_at: Instant(0),
            gaps: VecDeque::new(),
            event: None,
            intervals: VecDeque::new(),
        }
    }

    /// Takes note of a packet; true if it shows a new loss event.
    pub(crate) fn arrived(&mut self, now: Instant, sequence: u64, round_trip: Duration) -> bool {
        let (before, before_at) = (self.highest, self.highest_at);
        if sequence <= before {
            self.overtaken(sequence);
            return false;
        }
        (self.highest, self.highest_at) = (sequence, now);
        if before == 0 || sequence - before > WINDOW_MAX {
            self.gaps.clear();
            return false;
        }
        for gap in &mut self.gaps {
            gap.later += 1;
        }
        if sequence > before + 1 {
            self.gaps.push_back(Gap {
                first: before + 1,
                last: sequence - 1,
                before: before_at,
                after: now,
                later: 1,
            });
        }
        let mut news = false;
        while let Some(gap) = self.gaps.front().copied()
            && gap.later >= OVERTAKEN
        {
            self.gaps.pop_front();
            news |= self.lost(&gap, round_trip);
        }
        news
    }

    /// Tells whether there has been a loss event.
    pub(crate) fn any(&self) -> bool {
        self.event.is_some()
    }

    /// Gives the time before the first loss event a length, in packets.
    pub(crate) fn begin(&mut self, packets: u64) {
        if let Some(first) = self.intervals.back_mut() {
            first.packets = packets.max(1);
        }
    }

    /// Loss events in a thousand million packets: the inverse of the mean interval, with the one that
    /// has not ended only if it makes that longer.
    pub(crate) fn rate_ppb(&self) -> u32 {
        let Some((event, _)) = self.event else {
            return 0;
        };
        let discount = self.discount();
        let open = Interval {
            packets: self.highest.saturating_sub(event) + 1,
            discount: WHOLE,
        };
        let older = self.intervals.iter().map(|interval| Interval {
            discount: interval.discount * discount / WHOLE,
            ..*interval
        });
        let with = Mean::of(core::iter::once(open).chain(older));
        let without = Mean::of(self.intervals.iter().copied());
        let rate = with.rate_ppb().min(without.rate_ppb());
        u32::try_from(rate.max(1)).unwrap_or(ALL_LOST).min(ALL_LOST)
    }

    /// The part of the weights of older intervals that counts, since no loss event has come for more
    /// than twice as long as before (RFC 5348, 5.5): half of them at least.
    fn discount(&self) -> u64 {
        let Some((event, _)) = self.event else {
            return WHOLE;
        };
        let open = self.highest.saturating_sub(event) + 1;
        let mean = Mean::of(self.intervals.iter().copied()).packets();
        let part = u128::from(mean) * 2 * u128::from(WHOLE) / u128::from(open);
        u64::try_from(part).unwrap_or(WHOLE).clamp(WHOLE / 2, WHOLE)
    }

    /// A packet that was thought missing has come.
    fn overtaken(&mut self, sequence: u64) {
        let Some(at) = self
            .gaps
            .iter()
            .position(|gap| (gap.first..=gap.last).contains(&sequence))
        else {
            return;
        };
        let gap = self.gaps[at];
        let (left, right) = (sequence > gap.first, sequence < gap.last);
        if left {
            self.gaps[at].last = sequence - 1;
        }
        match (left, right) {
            (true, true) if self.gaps.len() < usize::from(OVERTAKEN) => {
                let first = sequence + 1;
                self.gaps.insert(at + 1, Gap { first, ..gap });
            }
            (false, true) => self.gaps[at].first = sequence + 1,
            (false, false) => {
                self.gaps.remove(at);
            }
            (true, _) => {}
        }
    }

    fn end_interval(&mut self, packets: u64) {
        let discount = self.discount();
        for interval in &mut self.intervals {
            interval.discount = (interval.discount * discount / WHOLE).max(1);
        }
        self.intervals.push_front(Interval {
            packets,
            discount: WHOLE,
        });
    }

    fn lost(&mut self, gap: &Gap, round_trip: Duration) -> bool {
        let mut news = false;
        for sequence in gap.first..=gap.last {
            let at = gap.arrival(sequence);
            match self.event {
                Some((_, since)) if at <= since.after(round_trip) => continue,
                Some((before, _)) => self.end_interval(sequence - before),
                // Its length is not known: see `begin`.
                None => self.end_interval(sequence),
            }
            self.intervals.truncate(WEIGHTS.len());
            self.event = Some((sequence, at));
            news = true;
        }
        news
    }
}

/// A weighted mean of intervals, the newest first.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    packets: u128,
    weights: u128,
}

impl Mean {
    fn of(intervals: impl Iterator<Item = Interval>) -> Self {
        intervals
            .zip(WEIGHTS)
            .fold(Self::default(), |sum, (interval, weight)| {
                let weight = u128::from(weight * interval.discount);
                Self {
                    packets: sum.packets + u128::from(interval.packets) * weight,
                    weights: sum.weights + weight,
                }
            })
    }

    fn packets(&self) -> u64 {
        u64::try_from(self.packets / self.weights.max(1)).unwrap_or(u64::MAX)
    }

    /// Without intervals as high as can be.
    fn rate_ppb(&self) -> u64 {
        let rate = u128::from(ALL_LOST) * self.weights / self.packets.max(1);
        match self.weights {
            0 => u64::MAX,
            _ => u64::try_from(rate).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(10);

    /// Packets that come each millisecond, but for those that are lost; the loss events.
    fn after(packets: u64, lost: impl Fn(u64) -> bool) -> (Losses, u32) {
        let (mut losses, mut events) = (Losses::new(), 0);
        for sequence in (1..=packets).filter(|sequence| !lost(*sequence)) {
            let now = Instant(sequence * 1_000_000);
            events += u32::from(losses.arrived(now, sequence, TRIP));
        }
        (losses, events)
    }

    /// R-RELAY-13.
    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        let (losses, events) = after(1000, |it| it % 100 == 50 || it % 100 == 55);
        assert_eq!(events, 10);
        // The open interval of 51 does not count: it would make the mean shorter.
        assert_eq!(losses.rate_ppb(), ALL_LOST / 100);
    }

    #[test]
    fn a_long_time_without_loss_lowers_the_rate() {
        let lost = |it: u64| it <= 1000 && it % 100 == 50;
        let (losses, _) = after(3000, lost);
        // The open interval of 2051, and seven of 100 at half their weights.
        let expected = u64::from(ALL_LOST) * (5 * 2 + 25) / (2051 * 5 * 2 + 100 * 25);
        assert_eq!(u64::from(losses.rate_ppb()), expected);
    }

    #[test]
    fn what_is_overtaken_by_two_packets_is_not_lost() {
        let mut losses = Losses::new();
        let order = [1, 2, 5, 6, 3, 4, 7, 8, 9, 11, 12, 10, 13, 14, 15, 16];
        let events = order
            .iter()
            .map(|it| losses.arrived(Instant(*it * 1_000_000), *it, TRIP));
        assert_eq!(events.filter(|event| *event).count(), 0);
        assert!(!losses.any());
        assert_eq!(losses.rate_ppb(), 0);
    }

    #[test]
    fn a_gap_longer_than_a_round_trip_is_more_than_one_event() {
        let (losses, events) = after(200, |it| (100..=135).contains(&it));
        assert_eq!((events, losses.intervals.len()), (1, 4));
    }

    #[test]
    fn a_leap_beyond_any_window_begins_anew() {
        let mut losses = Losses::new();
        for sequence in [1, 2, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX / 2 + 5] {
            assert!(!losses.arrived(Instant(5), sequence, TRIP));
        }
    }
}
