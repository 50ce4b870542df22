use core::time::Duration;
use std::collections::VecDeque;

use crate::{Instant, Pace};

/// How fast this node receives new packets, and whether it objects to more (R103; algorithms (c)
/// 1: receivers say what they can take, not what they happen to get).
#[derive(Debug)]
pub(crate) struct ReceiveMeter {
    interval: Duration,
    faithful: bool,
    /// Packets per interval, the newest last; at most [`SAMPLES`].
    samples: VecDeque<u64>,
    current: u64,
    /// End of the present interval.
    until: Instant,
    objects_until: Instant,
}

/// k of S2 §2.4: samples of the moving average.
const SAMPLES: usize = 10;
/// How long a node objects after its kernel dropped packets.
const OBJECTION: Duration = Duration::from_secs(1);

impl ReceiveMeter {
    pub(crate) fn new(pace: &Pace, now: Instant) -> Self {
        let interval = pace.rate_interval.max(Duration::from_millis(1));
        Self {
            interval,
            faithful: pace.faithful_rate,
            samples: VecDeque::new(),
            current: 0,
            until: now.after(interval),
            objects_until: Instant(0),
        }
    }

    /// So many new packets have arrived.
    pub(crate) fn count(&mut self, now: Instant, packets: usize) {
        if now >= self.until {
            self.close_intervals(now);
        }
        self.current += u64::try_from(packets).unwrap_or(u64::MAX);
    }

    /// The kernel has dropped packets.
    pub(crate) fn object(&mut self, now: Instant) {
        self.objects_until = now.after(OBJECTION);
    }

    /// Whether the kernel has dropped packets lately.
    pub(crate) fn objects(&self, now: Instant) -> bool {
        now < self.objects_until
    }

    /// What to say in the token, packets per second; `u32::MAX` for no objection (R-RATE-2).
    pub(crate) fn advertised(&mut self, now: Instant) -> u32 {
        self.close_intervals(now);
        if !self.faithful && now >= self.objects_until {
            return u32::MAX;
        }
        let sum: u64 = self.samples.iter().sum();
        let count = u64::try_from(self.samples.len()).unwrap_or(0);
        let span = crate::nanoseconds(self.interval)
            .saturating_mul(count)
            .max(1);
        // To the nearest, as equation 2: each rounding down would take from its growth.
        let rate = (u128::from(sum) * 1_000_000_000 + u128::from(span / 2)) / u128::from(span);
        u32::try_from(rate)
            .unwrap_or(u32::MAX - 1)
            .min(u32::MAX - 1)
    }

    fn close_intervals(&mut self, now: Instant) {
        let mut steps = 0;
        while now >= self.until && steps <= SAMPLES {
            self.samples.push_back(core::mem::take(&mut self.current));
            if self.samples.len() > SAMPLES {
                self.samples.pop_front();
            }
            self.until = self.until.after(self.interval);
            steps += 1;
        }
        if steps > SAMPLES {
            self.until = now.after(self.interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rule R-RATE-2.
    #[test]
    fn objects_only_after_drops_and_then_with_what_it_receives() {
        let pace = Pace {
            rate_interval: Duration::from_millis(10),
            ..Pace::default()
        };
        let mut meter = ReceiveMeter::new(&pace, Instant(0));
        for packet in 0..1000u64 {
            meter.count(Instant(packet * 100_000), 1);
        }
        let now = Instant(100_000_000);
        assert_eq!(meter.advertised(now), u32::MAX);
        meter.object(now);
        assert_eq!(meter.advertised(now), 10_000);
    }
}
