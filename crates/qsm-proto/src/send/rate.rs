//! How fast a stream may send: S2 §2.4, equations 2 to 4.
//!
//! ```text
//!  ACK rate ── eq. 2 ──► µ_snd ── eq. 3: α ──► refill rate ── eq. 4 ──► credits ──► packets
//! ```
//!
//! A packet costs one credit. Credits come back in portions, when a timer expires, by the time
//! that has really passed (R107), so that a paced stream sends a train per timer instead of a
//! packet per nanosecond, and a late timer loses nothing as long as the pool can hold it (R108).
//!
//! All numbers are integers: a credit is 10⁹ units, so that rate times nanoseconds is exact.
//!
//! Two modes. As printed: the limit is equation 2 at every ACK, and α is tuned by equation 3.
//! Default: an ACK in which nobody objects raises the limit, up to none at all; an ACK with a rate
//! sets equation 2, but lowers the limit only if the stream really sends faster than that
//! (algorithms (c): receivers report what they receive, so the report of a stream that has
//! little to say must not hold it down).

use core::time::Duration;

use crate::{Instant, Pace, nanoseconds};

/// The rate that means "no limit".
pub const UNLIMITED: u32 = u32::MAX;

/// Fewest credits at which refilling stops: one train.
const CREDITS_HIGH_MIN: u64 = 64;
/// Parts of a second whose credits are refilled at once (Δ_max) and kept in stock (C_high): 1 ms.
/// Shorter: more timers than trains; longer: bursts that receive buffers of 208 KB do not hold.
const PORTIONS_PER_SECOND: u64 = 1000;
/// Units of one credit.
const CREDIT: u64 = 1_000_000_000;
/// Rate before the first ACK in the default mode: what the window allowed until then amounts to
/// per shortest round (64 KiB in 5 ms), so that the window is what binds.
const START_PACKETS: u32 = 10_000;
/// ACKs without objection, after one with, until the limit is doubled again instead of growing
/// by λ (algorithms (c) 5).
const CAUTION_ROUNDS: u8 = 16;
/// α = 1 (equation 3).
const ALPHA_ONE: u64 = 1 << 16;
/// Bounds of α: a tuned sender is at most four times off.
const ALPHA_RANGE: (u64, u64) = (ALPHA_ONE / 4, ALPHA_ONE * 4);
/// Equation 3 is applied at most this often.
const TUNE_INTERVAL: Duration = Duration::from_secs(1);
/// Samples of the moving average of the sending rate (R103: k).
const SAMPLES: usize = 10;

/// Bounds and growth of the rate, from [`Pace`].
#[derive(Debug, Clone, Copy)]
pub struct RateConfig {
    faithful: bool,
    growth_permille: u32,
    min: u32,
    max: u32,
    interval_ns: u64,
}

impl RateConfig {
    /// The part of the configuration that concerns the rate. A stream may always send one packet
    /// per second.
    #[must_use]
    pub fn new(pace: &Pace) -> Self {
        let max = pace.rate_max_packets.max(1);
        Self {
            faithful: pace.faithful_rate,
            growth_permille: pace.growth_permille,
            min: pace.rate_min_packets.clamp(1, max),
            max,
            interval_ns: nanoseconds(pace.rate_interval).max(1),
        }
    }

    /// Equation 2: µ_snd = max(µ_min, (1 + λ) µ_rec), at most the operator's bound (R113).
    /// Rule R-RATE-1.
    fn equation_2(&self, received: u32) -> u32 {
        // To the nearest: rounding down would keep small rates from growing at all.
        let grown = u64::from(received) * (1000 + u64::from(self.growth_permille));
        let grown = (grown + 500) / 1000;
        u32::try_from(grown)
            .unwrap_or(UNLIMITED)
            .clamp(self.min, self.max)
    }
}

/// The credit pool of one stream and the controller of its rate.
#[derive(Debug)]
pub struct Pacer {
    config: RateConfig,
    /// µ_snd, packets per second.
    target: u32,
    /// What the credits are refilled at: α µ_snd.
    rate: u32,
    credit: u64,
    /// Since when credits have not been refilled; only while the timer runs.
    since: Instant,
    /// When the next portion is due.
    timer: Option<Instant>,
    caution: u8,
    /// Among how many packets the operator's bound is shared: one, and its copies.
    shares: u16,
    meter: Meter,
    tuning: Tuning,
}

impl Pacer {
    /// A pool that is full, and the rate of a stream that has heard nothing yet.
    #[must_use]
    pub fn new(config: RateConfig) -> Self {
        let start = if config.faithful {
            config.min
        } else {
            START_PACKETS.clamp(config.min, config.max)
        };
        Self {
            config,
            target: start,
            rate: start,
            credit: high(start),
            since: Instant(0),
            timer: None,
            caution: 0,
            shares: 1,
            meter: Meter::default(),
            tuning: Tuning::default(),
        }
    }

    /// Tells whether the aim is below the operator's bound.
    #[must_use]
    pub fn is_advised(&self) -> bool {
        self.target < self.max()
    }

    /// The rate now aimed at, packets per second; [`UNLIMITED`] for none.
    #[must_use]
    pub fn target(&self) -> u32 {
        self.target
    }

    /// Each packet leaves with so many copies: all of them are within the operator's bound.
    /// Rule R-RATE-7.
    pub fn share(&mut self, now: Instant, copies: usize) {
        let shares = u16::try_from(copies).unwrap_or(u16::MAX).saturating_add(1);
        if shares != self.shares {
            self.shares = shares;
            self.set_target(now, self.target.min(self.max()));
        }
    }

    /// Receivers name no rate below this, packets per second; `config`: the bounds without that.
    pub(super) fn set_minimum(&mut self, now: Instant, config: RateConfig, packets: u32) {
        self.config = RateConfig {
            min: config.min.max(packets).min(config.max),
            ..config
        };
        if packets > 0 {
            let least = self.config.min.min(self.max());
            self.set_target(now, self.target.max(least));
        }
    }

    /// The operator's bound, as far as copies leave it to new packets.
    fn max(&self) -> u32 {
        match self.config.max {
            UNLIMITED => UNLIMITED,
            max => (max / u32::from(self.shares)).max(1),
        }
    }

    /// How many packets may leave now.
    #[must_use]
    pub fn packets(&self) -> usize {
        if self.rate == UNLIMITED {
            return usize::MAX;
        }
        usize::try_from(self.credit / CREDIT).unwrap_or(usize::MAX)
    }

    /// When more packets may leave, if none may now.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.packets() > 0 { None } else { self.timer }
    }

    /// Most packets that ever leave at once: C, the size of the pool.
    #[must_use]
    pub fn burst_max(&self) -> usize {
        if self.rate == UNLIMITED {
            return usize::MAX;
        }
        usize::try_from(pool(self.rate) / CREDIT).unwrap_or(usize::MAX)
    }

    /// Refills the credits if the timer has expired (R-RATE-3).
    pub fn refill(&mut self, now: Instant) {
        if self.timer.is_some_and(|at| at <= now) {
            self.settle(now);
            self.arm(now, high(self.rate));
        }
        if self.config.faithful {
            self.tune(now);
        }
    }

    /// Takes the credits of packets that leave now.
    pub fn spend(&mut self, now: Instant, packets: usize) {
        let count = super::wide(packets);
        self.meter.record(now, self.config.interval_ns, count);
        self.tuning.sent = self.tuning.sent.saturating_add(count);
        if self.rate == UNLIMITED {
            return;
        }
        self.credit = self.credit.saturating_sub(count.saturating_mul(CREDIT));
        if self.timer.is_none() || self.since == now {
            self.since = now;
            // C_low is half of C_high.
            self.arm(now, high(self.rate) / 2);
        }
    }

    /// Notes that something other than the rate keeps the stream from sending: such a second says
    /// nothing about α.
    pub fn held_otherwise(&mut self) {
        self.tuning.held = true;
    }

    /// Takes what a round says about the rate; `received` is [`UNLIMITED`] if nobody objects.
    pub fn advise(&mut self, now: Instant, received: u32) {
        let bound = self.config.equation_2(received).min(self.max());
        let target = if self.config.faithful {
            bound
        } else if received == UNLIMITED {
            self.grown()
        } else {
            self.caution = CAUTION_ROUNDS;
            let sending = self.meter.per_second(now, self.config.interval_ns);
            if bound < self.target && sending <= u64::from(bound) {
                self.target
            } else {
                bound
            }
        };
        self.set_target(now, target);
    }

    fn grown(&mut self) -> u32 {
        if self.caution == 0 {
            return self.target.saturating_mul(2).min(self.max());
        }
        self.caution -= 1;
        // One more at least, so that the smallest rates grow too.
        let next = self.target.saturating_add(1).min(self.max());
        let grown = self.config.equation_2(self.target).max(next);
        grown.min(self.max())
    }

    fn set_target(&mut self, now: Instant, target: u32) {
        self.target = target;
        let rate = if target == UNLIMITED {
            UNLIMITED
        } else {
            let tuned = u64::from(target) * self.tuning.alpha / ALPHA_ONE;
            u32::try_from(tuned).unwrap_or(UNLIMITED - 1).max(1)
        };
        if rate == self.rate {
            return;
        }
        if self.timer.is_some() {
            self.settle(now);
        }
        let was_unlimited = core::mem::replace(&mut self.rate, rate) == UNLIMITED;
        self.timer = None;
        if rate == UNLIMITED {
            return;
        }
        self.credit = if was_unlimited {
            high(rate)
        } else {
            self.credit.min(pool(rate))
        };
        self.since = now;
        self.arm(now, high(rate));
    }

    /// Adds the credits of the time that has passed (ΔT µ_snd).
    fn settle(&mut self, now: Instant) {
        let elapsed = now.0.saturating_sub(self.since.0);
        let earned = elapsed.saturating_mul(u64::from(self.rate));
        self.credit = self.credit.saturating_add(earned).min(pool(self.rate));
        self.since = now;
    }

    /// Sets the timer of equation 4 if the credits are below `mark`:
    /// τ = min(C_high - c, Δ_max) / µ_snd.
    fn arm(&mut self, now: Instant, mark: u64) {
        if self.credit >= mark {
            self.timer = None;
            return;
        }
        let wanted = high(self.rate).saturating_sub(self.credit);
        let wait = wanted
            .min(portion(self.rate))
            .div_ceil(u64::from(self.rate).max(1));
        self.timer = Some(Instant(now.0.saturating_add(wait)));
    }

    /// Equation 3. The actual rate is that of the interval just ended, not the moving average of
    /// ten: the loop would oscillate with five intervals of delay in it.
    fn tune(&mut self, now: Instant) {
        let elapsed = now.0.saturating_sub(self.tuning.since.0);
        if elapsed < nanoseconds(TUNE_INTERVAL) {
            return;
        }
        let usable = !self.tuning.held && self.tuning.sent > 0 && self.tuning.running;
        if usable && self.target != UNLIMITED {
            let due = u128::from(self.target) * u128::from(elapsed) / u128::from(CREDIT);
            let step = u128::from(ALPHA_ONE / 2);
            let ratio = due * step / u128::from(self.tuning.sent);
            let alpha = (u128::from(self.tuning.alpha) + ratio).saturating_sub(step);
            self.tuning.alpha = u64::try_from(alpha)
                .unwrap_or(u64::MAX)
                .clamp(ALPHA_RANGE.0, ALPHA_RANGE.1);
        }
        self.tuning = Tuning {
            alpha: self.tuning.alpha,
            since: now,
            running: true,
            ..Tuning::default()
        };
        self.set_target(now, self.target);
    }
}

/// C_high: a millisecond's credits, a train at least.
fn high(rate: u32) -> u64 {
    (u64::from(rate) * CREDIT / PORTIONS_PER_SECOND).max(CREDITS_HIGH_MIN * CREDIT)
}

/// C: twice C_high, so that a timer may be late by its own length and lose nothing.
fn pool(rate: u32) -> u64 {
    2 * high(rate)
}

/// Δ_max: a millisecond's credits, one at least.
fn portion(rate: u32) -> u64 {
    (u64::from(rate) * CREDIT / PORTIONS_PER_SECOND).max(CREDIT)
}

/// State of equation 3.
#[derive(Debug)]
struct Tuning {
    alpha: u64,
    since: Instant,
    sent: u64,
    /// Something else than the rate was the limit in this interval.
    held: bool,
    /// `since` is the beginning of a whole interval.
    running: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            alpha: ALPHA_ONE,
            since: Instant(0),
            sent: 0,
            held: false,
            running: false,
        }
    }
}

/// Packets sent per interval, over the last ten (R103).
#[derive(Debug, Default)]
struct Meter {
    begin: u64,
    now: u32,
    past: [u32; SAMPLES],
    filled: u8,
    at: u8,
}

impl Meter {
    fn record(&mut self, now: Instant, interval_ns: u64, packets: u64) {
        if self.filled == 0 && self.now == 0 {
            self.begin = now.0;
        }
        self.advance(now, interval_ns);
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        self.now = self.now.saturating_add(packets);
    }

    fn advance(&mut self, now: Instant, interval_ns: u64) {
        let passed = now.0.saturating_sub(self.begin) / interval_ns;
        for _ in 0..passed.min(super::wide(SAMPLES) + 1) {
            self.past[usize::from(self.at)] = core::mem::take(&mut self.now);
            self.at = (self.at + 1) % (SAMPLES as u8);
            self.filled = (self.filled + 1).min(SAMPLES as u8);
        }
        self.begin = self
            .begin
            .saturating_add(passed.saturating_mul(interval_ns));
    }

    fn per_second(&mut self, now: Instant, interval_ns: u64) -> u64 {
        self.advance(now, interval_ns);
        let sum: u64 = match self.filled {
            0 => u64::from(self.now),
            _ => self.past.iter().map(|count| u64::from(*count)).sum(),
        };
        let time_ns = interval_ns.saturating_mul(u64::from(self.filled.max(1)));
        sum.saturating_mul(CREDIT) / time_ns
    }
}

#[cfg(test)]
mod tests;
