use std::fmt;
use std::time::Duration;

use qsm_console::figures::duration;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// A change of the time of day against the time that passes, from which on it is a step: corrections that
/// are smooth run at 500 µs a second at most.
const STEP: Duration = Duration::from_millis(1);
/// Readings of which the one that took least counts.
const READINGS: usize = 100;

/// The clocks of this host at one moment, or what has passed on them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    /// The time that passes, as corrected.
    monotonic: i128,
    /// The same as the oscillator has it.
    raw: i128,
    /// The time of day.
    real: i128,
}

impl Clocks {
    pub(super) fn now() -> Self {
        let reading = || {
            let before = read(ClockId::Monotonic);
            let (raw, real) = (read(ClockId::MonotonicRaw), read(ClockId::Realtime));
            let after = read(ClockId::Monotonic);
            let clocks = Self {
                monotonic: i128::midpoint(before, after),
                raw,
                real,
            };
            (after - before, clocks)
        };
        let mut best = reading();
        for _ in 1..READINGS {
            let next = reading();
            if next.0 < best.0 {
                best = next;
            }
        }
        best.1
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            monotonic: self.monotonic - before.monotonic,
            raw: self.raw - before.raw,
            real: self.real - before.real,
        }
    }

    /// Millionths by which the clock is made to run faster than its oscillator.
    fn correction(&self) -> f64 {
        match self.raw {
            0 => 0.0,
            raw => (self.monotonic - raw) as f64 / raw as f64 * 1e6,
        }
    }

    /// The step of the time of day, nanoseconds forwards; 0: there was none.
    fn step(&self) -> i128 {
        let moved = self.real - self.monotonic;
        match moved.unsigned_abs() >= STEP.as_nanos() {
            true => moved,
            false => 0,
        }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "seconds": self.monotonic as f64 / 1e9,
            "correction_ppm": self.correction(),
            "step_seconds": self.step() as f64 / 1e9,
        })
    }
}

fn read(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

impl fmt::Display for Clocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let correction = self.correction();
        match correction.abs() < 0.05 {
            true => f.write_str("the clock runs as its oscillator does: nothing corrects it")?,
            false => write!(
                f,
                "the clock is corrected by {correction:+.1} millionths: {:.1} ms an hour",
                correction * 3.6
            )?,
        }
        let step = self.step();
        if step == 0 {
            return f.write_str("; the time of day made no step");
        }
        let nanos = u64::try_from(step.unsigned_abs()).unwrap_or(u64::MAX);
        let towards = if step > 0 { "forwards" } else { "backwards" };
        write!(
            f,
            "; the time of day STEPPED {} {towards}: latencies between hosts that are taken by it are \
             wrong by as much",
            duration(Duration::from_nanos(nanos))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(monotonic: i128, raw: i128, real: i128) -> Clocks {
        let start = Clocks {
            monotonic: 5,
            raw: 7,
            real: 1_000_000_000_000,
        };
        let end = Clocks {
            monotonic: 5 + monotonic,
            raw: 7 + raw,
            real: start.real + real,
        };
        end.since(&start)
    }

    #[test]
    fn corrections_and_steps_are_told_apart() {
        const SECOND: i128 = 1_000_000_000;
        let text = passed(10 * SECOND, 10 * SECOND, 10 * SECOND).to_string();
        assert_eq!(
            text,
            "the clock runs as its oscillator does: nothing corrects it; the time of day made no step"
        );
        let text = passed(10 * SECOND + 200_000, 10 * SECOND, 10 * SECOND + 200_000).to_string();
        assert!(
            text.starts_with("the clock is corrected by +20.0 millionths: 72.0 ms an hour;"),
            "{text}"
        );
        let text = passed(10 * SECOND, 10 * SECOND, 7 * SECOND).to_string();
        assert!(text.contains("STEPPED 3.00 s backwards"), "{text}");
    }
}
