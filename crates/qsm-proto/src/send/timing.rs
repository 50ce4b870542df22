//! Times from the first sending of packets until everybody has them.
//!
//! A mark stands for the packets of trains sent at nearly the same time, so that timing costs a
//! few instructions a train, and a stream has few marks. When all are taken, neighbours are put
//! together: a time may then come out a sixteenth too long, and the histogram that takes it has
//! steps of a quarter.

use core::ops::Range;
use std::collections::VecDeque;

use crate::Instant;
use crate::stats::Histogram;

/// Most marks of a stream.
const MARKS_MAX: usize = 64;
/// Marks that are left, and one, when neighbours were put together.
const MARKS_KEPT: u32 = 32;

/// Packets sent first at nearly the same time.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    last: u64,
}

/// When packets that are not stable yet were sent first.
#[derive(Debug, Default)]
pub(super) struct PacketTimes {
    /// In the order of sending.
    marks: VecDeque<Mark>,
}

impl PacketTimes {
    /// Packets up to this one have been sent.
    pub(super) fn note(&mut self, now: Instant, last: u64) {
        match self.marks.back_mut() {
            Some(mark) if mark.at == now => mark.last = last,
            _ => {
                if self.marks.len() == MARKS_MAX {
                    self.thin(now);
                }
                self.marks.push_back(Mark { at: now, last });
            }
        }
    }

    /// Puts neighbours together, so that those left are evenly spaced.
    fn thin(&mut self, now: Instant) {
        let Some(oldest) = self.marks.front() else {
            return;
        };
        let spacing = now.since(oldest.at) / MARKS_KEPT;
        let mut kept = 0;
        for at in 1..self.marks.len() {
            let mark = self.marks[at];
            if mark.at.since(self.marks[kept].at) > spacing {
                kept += 1;
                self.marks[kept] = mark;
            } else {
                self.marks[kept].last = mark.last;
            }
        }
        self.marks.truncate(kept + 1);
    }

    /// Everybody has the packets above the range's start up to its end: counts their times.
    pub(super) fn settle(&mut self, now: Instant, stable: Range<u64>, times: &mut Histogram) {
        let mut settled = stable.start;
        while settled < stable.end
            && let Some(mark) = self.marks.front().copied()
        {
            let upto = mark.last.min(stable.end);
            if upto > settled {
                times.record_many(now.since(mark.at), upto - settled);
                settled = upto;
            }
            self.forget(settled);
        }
    }

    /// Nobody will say any more that packets up to this one are stable.
    pub(super) fn forget(&mut self, upto: u64) {
        while self.marks.front().is_some_and(|mark| mark.last <= upto) {
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(micros: u64) -> Instant {
        Instant(micros * 1000)
    }

    fn micros(duration: Duration) -> u128 {
        duration.as_micros()
    }

    #[test]
    fn packets_are_timed_from_their_own_sending() {
        let mut sendings = PacketTimes::default();
        let mut times = Histogram::new();
        sendings.note(at(0), 10);
        sendings.note(at(1000), 20);
        // A part of the first ten, then the rest and a part of the second.
        sendings.settle(at(2000), 0..4, &mut times);
        assert_eq!((times.count(), micros(times.sum())), (4, 4 * 2000));
        sendings.settle(at(3000), 4..15, &mut times);
        let sum = 4 * 2000 + 6 * 3000 + 5 * 2000;
        assert_eq!((times.count(), micros(times.sum())), (15, sum));
    }

    #[test]
    fn what_is_forgotten_is_not_timed() {
        let mut sendings = PacketTimes::default();
        let mut times = Histogram::new();
        sendings.note(at(0), 10);
        sendings.note(at(1000), 20);
        sendings.forget(10);
        sendings.settle(at(2000), 10..20, &mut times);
        assert_eq!((times.count(), micros(times.sum())), (10, 10 * 1000));
    }

    #[test]
    fn marks_are_few_however_many_trains_and_times_right_to_the_step() {
        let mut sendings = PacketTimes::default();
        let mut times = Histogram::new();
        // A train each 10 us, stable 5 ms after, told each 1 ms.
        let (mut sent, mut stable) = (0, 0);
        for step in 0..10_000 {
            sent += 1;
            sendings.note(at(step * 10), sent);
            if step % 100 == 0 && sent > 500 {
                sendings.settle(at(step * 10), stable..sent - 500, &mut times);
                stable = sent - 500;
            }
            assert!(sendings.marks.len() <= MARKS_MAX);
        }
        assert_eq!(times.count(), stable);
        // Between 5 and 6 ms.
        let [least, most] = [10, 1000].map(|share| micros(times.quantile(share)));
        assert!(least >= 5000 && most <= 7168, "{least} to {most}");
        let mean = micros(times.sum()) / u128::from(times.count());
        assert!((5400..5800).contains(&mean), "{mean}");
    }

    #[test]
    fn a_stream_that_hears_nothing_keeps_its_bound() {
        let mut sendings = PacketTimes::default();
        let mut times = Histogram::new();
        for step in 1..1000 {
            sendings.note(at(step * 1000), step);
        }
        assert!(sendings.marks.len() <= MARKS_MAX);
        sendings.settle(at(1_000_000), 0..999, &mut times);
        assert_eq!(times.count(), 999);
        assert!(sendings.marks.is_empty());
    }
}
