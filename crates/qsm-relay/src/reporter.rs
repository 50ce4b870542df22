//! Feedback to a parent: when it is sent, and the round trip that its echo shows.

use core::time::Duration;

use qsm_wire::Instant;

use crate::packet::{Echo, Feedback, Limit};

/// Round trip before it is measured (RFC 4654, 3.1, has half a second; a hop of a tree is shorter).
const FIRST_TRIP: Duration = Duration::from_millis(100);
/// Round trips between the reports of a child that does not limit the source.
const IDLE_TRIPS: u32 = 6;
/// Bounds of that time.
const IDLE_MIN: Duration = Duration::from_millis(100);
const IDLE_MAX: Duration = Duration::from_secs(1);
/// Round trips without a packet after which there is nothing to report: of the last ones all is told.
const QUIET_TRIPS: u32 = 4;
/// Shortest time between two reports of the same rate.
const BUSY_MIN: Duration = Duration::from_millis(1);

/// Reporter of a child's limit: each round trip if that may limit the source, else seldom, so that a
/// parent is not flooded (RFC 4654, 3.4, 4.5). Rule R-RELAY-16.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    /// Number of the child.
    child: u64,
    /// Smoothed round trip to the parent, microseconds.
    hop_us: Option<u32>,
    above_us: Option<u32>,
    /// Word of the last echo.
    source: Tempo,
    /// When something has come last of which there is to report.
    woken: Instant,
    /// The parent has answered the last report.
    answered: bool,
    told: Limit,
    told_at: Instant,
    /// Time from the last report to the next one.
    interval: Duration,
    due: Instant,
}

impl Reporter {
    /// A reporter that measures the round trip first.
    pub(crate) fn new(child: u64, now: Instant) -> Self {
        Self {
            child,
            hop_us: None,
            above_us: None,
            source: Tempo::default(),
            woken: now,
            answered: false,
            told: Limit::default(),
            told_at: now,
            interval: FIRST_TRIP,
            due: now,
        }
    }

    /// Takes the parent's answer.
    pub(crate) fn echo(&mut self, now: Instant, echo: &Echo) {
        let trip = now.0.saturating_sub(echo.sent) / 1000;
        let measured = u32::try_from(trip).ok().filter(|_| echo.sent <= now.0);
        let first = self.hop_us.is_none();
        if let Some(measured) = measured {
            let measured = measured.max(1);
            let smoothed = self.hop_us.map_or(measured, |before| {
                let sum = u64::from(before) * 7 + u64::from(measured);
                u32::try_from(sum / 8).unwrap_or(u32::MAX).max(1)
            });
            self.hop_us = Some(smoothed);
        }
        self.above_us = (echo.above_us != Echo::UNKNOWN).then_some(echo.above_us);
        self.source = Tempo {
            limiting: echo.limiting,
            rate: echo.rate,
        };
        self.answered |= echo.sent == self.told_at.0;
        if first {
            self.interval = self.trip().max(BUSY_MIN);
            self.due = self.due.min(self.told_at.after(self.interval)).max(now);
        }
        if self.round_trip_us().is_some() && self.told.round_trip_us == 0 {
            self.wake(now);
        }
    }

    /// Smoothed round trip to the parent, microseconds.
    pub(crate) fn hop_us(&self) -> Option<u32> {
        self.hop_us
    }

    /// Round trip to the source, microseconds: the sum of the hops. Rule R-RELAY-13.
    pub(crate) fn round_trip_us(&self) -> Option<u32> {
        Some(self.hop_us?.saturating_add(self.above_us?))
    }

    /// The source as the parent knows it.
    pub(crate) fn source(&self) -> Tempo {
        self.source
    }

    /// When a report is due next. Never while nothing comes, if the round trip is known and the last
    /// report was answered.
    pub(crate) fn due(&self) -> Instant {
        let quiet = self.trip().max(BUSY_MIN) * QUIET_TRIPS;
        if self.is_settled() && self.due > self.woken.after(quiet) {
            Instant::NEVER
        } else {
            self.due
        }
    }

    /// Something has come, of which there is to report.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.woken = now;
    }

    fn is_settled(&self) -> bool {
        self.answered && self.round_trip_us().is_some()
    }

    /// Hastens the next report for a limit that is lower than the one told last, or is the source's.
    pub(crate) fn news(&mut self, now: Instant, limit: &Limit) {
        let fell = limit.rate < self.told.rate - self.told.rate / 20 || self.told.rate == 0;
        let apart = match fell {
            true => BUSY_MIN,
            false => self.trip() / 2,
        };
        if limit.rate > 0 && self.limits(limit) {
            self.due = self.due.min(self.told_at.after(apart).max(now));
        }
    }

    /// The report that is due now.
    pub(crate) fn report(&mut self, now: Instant, limit: Limit) -> Feedback {
        let again = self.woken < self.told_at && !self.is_settled();
        self.interval = if again {
            (self.interval * 2).min(IDLE_MAX)
        } else if self.hop_us.is_none() || self.limits(&limit) {
            self.trip().max(BUSY_MIN)
        } else {
            (self.trip() * IDLE_TRIPS).clamp(IDLE_MIN, IDLE_MAX)
        };
        (self.told, self.told_at, self.answered) = (limit, now, false);
        self.due = now.after(self.interval);
        Feedback {
            child: self.child,
            sent: now.0,
            hop_us: self.hop_us.unwrap_or(0),
            limit,
        }
    }

    /// Tells whether the source goes by this limit, or should.
    fn limits(&self, limit: &Limit) -> bool {
        let Tempo { limiting, rate } = self.source;
        limiting == 0 || limit.rate > 0 && (limit.receiver == limiting || limit.rate < rate)
    }

    fn trip(&self) -> Duration {
        let trip = self.round_trip_us().or(self.hop_us);
        trip.map_or(FIRST_TRIP, |us| Duration::from_micros(u64::from(us)))
    }
}

/// Rate of a source, and the receiver that it goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tempo {
    /// Number of the receiver; 0: none.
    pub(crate) limiting: u64,
    /// Bytes a second.
    pub(crate) rate: u64,
}

impl Tempo {
    /// The echo of a Feedback, by a parent that is so far from the source.
    pub(crate) fn echo(self, feedback: &Feedback, above_us: Option<u32>) -> Echo {
        Echo {
            sent: feedback.sent,
            above_us: above_us.unwrap_or(Echo::UNKNOWN),
            limiting: self.limiting,
            rate: self.rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn limit(rate: u64) -> Limit {
        Limit {
            receiver: 7,
            rate,
            round_trip_us: 30_000,
            loss_ppb: 5,
        }
    }

    /// A reporter 10 ms below a parent that is 20 ms below the source.
    fn reporter(limiting: u64, rate: u64) -> Reporter {
        let mut reporter = Reporter::new(7, at(0));
        let feedback = reporter.report(at(0), Limit::default());
        let echo = Tempo { limiting, rate }.echo(&feedback, Some(20_000));
        reporter.echo(at(10), &echo);
        reporter
    }

    /// R-RELAY-13.
    #[test]
    fn round_trips_of_hops_add_up() {
        let mut reporter = reporter(1, 1000);
        assert_eq!(reporter.round_trip_us(), Some(30_000));
        let feedback = reporter.report(at(100), limit(5));
        assert_eq!(feedback.hop_us, 10_000);
        let tempo = reporter.source();
        reporter.echo(at(118), &tempo.echo(&feedback, None));
        assert_eq!(reporter.hop_us(), Some(11_000), "an eighth of the new one");
        assert_eq!(reporter.round_trip_us(), None, "the parent does not know");
    }

    /// R-RELAY-16: a parent that is not there is asked more and more seldom.
    #[test]
    fn a_round_trip_that_is_not_answered_is_asked_for_at_doubling_intervals() {
        let mut reporter = Reporter::new(7, at(0));
        let mut waits = Vec::new();
        for _ in 0..6 {
            let now = reporter.due();
            reporter.report(now, Limit::default());
            waits.push(reporter.due().since(now).as_millis());
        }
        assert_eq!(waits, [100, 100, 200, 400, 800, 1000]);
    }

    /// R-RELAY-16.
    #[test]
    fn nothing_is_reported_while_nothing_comes() {
        let mut reporter = reporter(7, 500);
        for ms in [30, 60, 90, 120] {
            assert_eq!(
                reporter.due(),
                at(ms),
                "four round trips after the first echo"
            );
            let feedback = reporter.report(at(ms), limit(500));
            let echo = reporter.source().echo(&feedback, Some(20_000));
            reporter.echo(at(ms + 10), &echo);
        }
        assert_eq!(reporter.due(), Instant::NEVER);
        reporter.wake(at(500));
        assert_eq!(reporter.due(), at(150), "at once");
        reporter.report(at(500), limit(500));
        assert_eq!(reporter.due(), at(530));
    }

    /// R-RELAY-16.
    #[test]
    fn who_limits_the_source_reports_each_round_trip_and_others_seldom() {
        for (limiting, rate, interval) in [(7, 500, 30), (1, 2000, 30), (1, 1000, 180)] {
            let mut reporter = reporter(limiting, rate);
            reporter.report(at(50), limit(1000));
            assert_eq!(reporter.due(), at(50 + interval), "{limiting} {rate}");
        }
    }

    #[test]
    fn a_limit_that_falls_below_the_source_is_told_at_once() {
        let mut reporter = reporter(1, 1000);
        reporter.report(at(50), limit(2000));
        reporter.news(at(60), &limit(1500));
        assert_eq!(reporter.due(), at(230), "the source is below it");
        reporter.news(at(61), &limit(900));
        assert_eq!(reporter.due(), at(61));
    }
}
