//! Feedback to a parent: when it is sent, and the round trip that its echo shows.

use core::time::Duration;

use qsm_wire::Instant;

use crate::packet::{Echo, Feedback, Limit};

/// Round trip before it is measured (RFC 4654, 3.1, has half a second; a hop of a tree is shorter).
const FIRST_TRIP: Duration = Duration::from_millis(100);
/// Round trips between the reports of a child that does not limit the source.
const IDLE_TRIPS: u32 = 4;
/// Bounds of that time.
const IDLE_MIN: Duration = Duration::from_millis(100);
const IDLE_MAX: Duration = Duration::from_millis(300);
/// Longest time between two that are not answered.
const UNANSWERED_MAX: Duration = Duration::from_secs(1);
/// Round trips without a packet after which there is nothing to report: of the last ones all is told.
const QUIET_TRIPS: u32 = 4;
/// Parts of a round trip after each of which a child reports that limits the source.
const BUSY_PARTS: u32 = 4;
/// Shortest time between two reports of the same rate.
const BUSY_MIN: Duration = Duration::from_millis(1);
/// Packets of which such a report tells, at least, where round trips are shorter than that: not each packet of a slow
/// stream brings a report.
const BUSY_PACKETS: u32 = 2;
/// Time after which a shortest round trip is old, once or twice.
const LEAST_LIFE: Duration = Duration::from_secs(15);

/// Round trips between a receiver or relay and its source, microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trips {
    pub(crate) now_us: u32,
    /// The shortest one lately.
    pub(crate) least_us: u32,
}

impl Trips {
    /// At the source.
    pub(crate) const NONE: Self = Self {
        now_us: 0,
        least_us: 0,
    };
}

/// The shortest round trip of the last 15 to 30 s.
#[derive(Debug, Clone, Copy)]
struct Least {
    before_us: u32,
    us: u32,
    since: Instant,
}

impl Least {
    fn take(&mut self, now: Instant, us: u32) {
        if now.since(self.since) >= LEAST_LIFE {
            *self = Self {
                before_us: self.us,
                us,
                since: now,
            };
        }
        self.us = self.us.min(us);
    }

    fn us(&self) -> u32 {
        self.us.min(self.before_us)
    }
}

/// Reporter of a child's limit: some times in a round trip if that may limit the source, else seldom, so that a
/// parent is not flooded. Rule R-RELAY-16.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    /// Number of the child.
    child: u64,
    /// Smoothed round trip to the parent, microseconds.
    hop_us: Option<u32>,
    /// The same, smoothed less: by it a queue shows.
    near_us: Option<u32>,
    least: Least,
    above: Option<Trips>,
    /// Word of the last echo.
    source: Tempo,
    /// When something has come last of which there is to report.
    woken: Instant,
    /// Packets since the last report, up to those of which one tells.
    came: u32,
    /// The next report tells of a rate that fell, or of heavy losses.
    urgent: bool,
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
            near_us: None,
            least: Least {
                before_us: u32::MAX,
                us: u32::MAX,
                since: now,
            },
            above: None,
            source: Tempo::default(),
            woken: now,
            came: 0,
            urgent: false,
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
            let part = |before: Option<u32>, parts: u64| {
                let sum = u64::from(before.unwrap_or(measured)) * (parts - 1);
                let smoothed = (sum + u64::from(measured)) / parts;
                Some(u32::try_from(smoothed).unwrap_or(u32::MAX).max(1))
            };
            self.hop_us = part(self.hop_us, 8);
            self.near_us = part(self.near_us, 2);
            self.least.take(now, measured);
        }
        self.above = (echo.above_us != Echo::UNKNOWN).then_some(Trips {
            now_us: echo.above_us,
            least_us: echo.above_least_us.min(echo.above_us),
        });
        self.source = Tempo {
            limiting: echo.limiting,
            rate: echo.rate,
        };
        self.answered |= echo.sent == self.told_at.0;
        if first {
            self.interval = (self.trip() / BUSY_PARTS).max(BUSY_MIN);
            self.due = self.due.min(self.told_at.after(self.interval)).max(now);
        }
        if self.trips().is_some() && self.told.round_trip_us == 0 {
            self.wake(now);
        }
    }

    /// Smoothed round trip to the parent, microseconds.
    pub(crate) fn hop_us(&self) -> Option<u32> {
        self.hop_us
    }

    /// Round trips to the source: the sums of those of the hops. Rule R-RELAY-13.
    pub(crate) fn trips(&self) -> Option<Trips> {
        let (near_us, above) = (self.near_us?, self.above?);
        Some(Trips {
            now_us: near_us.saturating_add(above.now_us),
            least_us: self.least.us().min(near_us).saturating_add(above.least_us),
        })
    }

    /// Another parent is there: its round trip is measured anew.
    pub(crate) fn moved(&mut self, now: Instant) {
        *self = Self {
            source: self.source,
            ..Self::new(self.child, now)
        };
    }

    /// The source as the parent knows it.
    pub(crate) fn source(&self) -> Tempo {
        self.source
    }

    /// The limit that was reported last.
    pub(crate) fn told(&self) -> Limit {
        self.told
    }

    /// When a report is due next. Never while nothing comes, if the round trip is known and the last
    /// report was answered.
    pub(crate) fn due(&self) -> Instant {
        let quiet = self.trip().max(BUSY_MIN) * QUIET_TRIPS;
        match self.is_settled() {
            true if self.has_little() => self.due.max(self.told_at.after(self.idle())),
            true if self.due > self.woken.after(quiet) => Instant::NEVER,
            _ => self.due,
        }
    }

    /// Something has come, of which there is to report.
    pub(crate) fn wake(&mut self, now: Instant) {
        self.woken = now;
        self.came = BUSY_PACKETS;
    }

    /// A packet has come.
    pub(crate) fn packet(&mut self, now: Instant) {
        self.woken = now;
        self.came = (self.came + 1).min(BUSY_PACKETS);
    }

    fn is_settled(&self) -> bool {
        self.answered && self.trips().is_some()
    }

    /// Hastens the next report for a limit that is lower than the one told last, is the source's, or loses much.
    pub(crate) fn news(&mut self, now: Instant, limit: &Limit) {
        let fell = limit.is_below(self.told.rate) || self.told.rate == 0;
        let apart = match fell {
            true => BUSY_MIN,
            false => self.trip() / (BUSY_PARTS * 2),
        };
        if limit.rate > 0 && self.limits(limit) {
            self.urgent |= fell || limit.is_overloaded();
            self.due = self.due.min(self.told_at.after(apart).max(now));
        }
    }

    /// The report that is due now.
    pub(crate) fn report(&mut self, now: Instant, limit: Limit) -> Feedback {
        let again = self.woken < self.told_at && !self.is_settled();
        self.interval = if again {
            (self.interval * 2).min(UNANSWERED_MAX)
        } else if self.hop_us.is_none() {
            FIRST_TRIP
        } else if self.limits(&limit) {
            (self.trip() / BUSY_PARTS).max(BUSY_MIN)
        } else {
            self.idle()
        };
        (self.came, self.urgent) = (0, false);
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
        let lower = limit.is_below(rate) || limit.is_overloaded();
        limiting == 0 || limit.rate > 0 && (limit.receiver == limiting || lower)
    }

    /// Tells whether too little has come for a report.
    fn has_little(&self) -> bool {
        let near = self.trip() < BUSY_MIN * BUSY_PARTS;
        near && !self.urgent && (1..BUSY_PACKETS).contains(&self.came)
    }

    /// Time between the reports of a child that does not limit the source, or has little to tell.
    fn idle(&self) -> Duration {
        (self.trip() * IDLE_TRIPS).clamp(IDLE_MIN, IDLE_MAX)
    }

    fn trip(&self) -> Duration {
        let trip = self.trips().map(|trips| trips.now_us).or(self.hop_us);
        trip.map_or(FIRST_TRIP, |us| Duration::from_micros(u64::from(us)))
    }
}

/// The receiver that a source goes by, and the rate that it has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tempo {
    /// Number of the receiver; 0: none.
    pub(crate) limiting: u64,
    /// Bytes a second.
    pub(crate) rate: u64,
}

impl Tempo {
    /// The echo of a Feedback, by a parent that is so far from the source.
    pub(crate) fn echo(self, feedback: &Feedback, above: Option<Trips>) -> Echo {
        Echo {
            sent: feedback.sent,
            above_us: above.map_or(Echo::UNKNOWN, |above| above.now_us),
            above_least_us: above.map_or(0, |above| above.least_us),
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
            ..Limit::default()
        }
    }

    const ABOVE: Option<Trips> = Some(Trips {
        now_us: 20_000,
        least_us: 15_000,
    });

    /// A reporter 10 ms below a parent that is 20 ms below the source.
    fn reporter(limiting: u64, rate: u64) -> Reporter {
        let mut reporter = Reporter::new(7, at(0));
        let feedback = reporter.report(at(0), Limit::default());
        let echo = Tempo { limiting, rate }.echo(&feedback, ABOVE);
        reporter.echo(at(10), &echo);
        reporter
    }

    /// R-RELAY-13.
    #[test]
    fn round_trips_of_hops_add_up() {
        let mut reporter = reporter(1, 1000);
        let trips = |now_us, least_us| Some(Trips { now_us, least_us });
        assert_eq!(reporter.trips(), trips(30_000, 25_000));
        let feedback = reporter.report(at(100), limit(5));
        assert_eq!(feedback.hop_us, 10_000);
        let tempo = reporter.source();
        reporter.echo(at(118), &tempo.echo(&feedback, ABOVE));
        assert_eq!(reporter.hop_us(), Some(11_000), "an eighth of the new one");
        assert_eq!(reporter.trips(), trips(34_000, 25_000));
        reporter.echo(at(120), &tempo.echo(&feedback, None));
        assert_eq!(reporter.trips(), None, "the parent does not know");
        reporter.moved(at(200));
        assert_eq!((reporter.hop_us(), reporter.due()), (None, at(200)));
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
        let mut told = at(0);
        while reporter.due() < Instant::NEVER {
            assert!(reporter.due() > told);
            told = reporter.due();
            let feedback = reporter.report(told, limit(500));
            let echo = reporter.source().echo(&feedback, ABOVE);
            reporter.echo(Instant(told.0 + 10_000_000), &echo);
        }
        // Four round trips after the beginning.
        assert!((at(110)..=at(130)).contains(&told), "{told}");
        reporter.wake(at(500));
        assert!(reporter.due() <= at(150), "at once");
        reporter.report(at(500), limit(500));
        assert_eq!(reporter.due(), Instant(507_500_000));
    }

    /// R-RELAY-16.
    #[test]
    fn who_limits_the_source_reports_four_times_in_a_round_trip_and_others_seldom() {
        for (limiting, rate, us) in [(7, 500, 7500), (1, 2000, 7500), (1, 1050, 120_000)] {
            let mut reporter = reporter(limiting, rate);
            reporter.report(at(50), limit(1000));
            let after = reporter.due().since(at(50));
            assert_eq!(after.as_micros(), us, "{limiting} {rate}");
        }
    }

    /// R-RELAY-16.
    #[test]
    fn on_a_short_way_a_report_tells_of_two_packets_unless_it_is_urgent_and_of_the_last_one_later()
    {
        let above = Some(Trips {
            now_us: 100,
            least_us: 100,
        });
        let mut reporter = Reporter::new(7, at(0));
        let told = |reporter: &mut Reporter, ms, rate| {
            let feedback = reporter.report(at(ms), limit(rate));
            let echo = Tempo {
                limiting: 7,
                rate: 500,
            };
            reporter.echo(Instant(at(ms).0 + 100_000), &echo.echo(&feedback, above));
        };
        for ms in 0..50 {
            told(&mut reporter, ms, 500);
        }
        reporter.packet(at(60));
        assert_eq!(reporter.due(), at(149), "of one");
        reporter.packet(at(61));
        assert_eq!(reporter.due(), at(50), "of two");
        told(&mut reporter, 61, 500);
        reporter.packet(at(62));
        reporter.news(at(62), &limit(400));
        assert_eq!(reporter.due(), at(62), "it has fallen");
    }

    #[test]
    fn a_limit_that_falls_below_the_source_is_told_at_once() {
        let mut reporter = reporter(1, 1000);
        reporter.report(at(50), limit(2000));
        reporter.news(at(60), &limit(1500));
        assert_eq!(reporter.due(), at(170), "the source is below it");
        reporter.news(at(61), &limit(900));
        assert_eq!(reporter.due(), at(61));
    }
}
