//! A relay's part in rate control: it hears all its children, and passes on the slowest one.

use core::time::Duration;

use qsm_wire::Instant;

use crate::context::{Context, Due};
use crate::limits::Limits;
use crate::packet::{Body, Echo, Feedback, Limit};
use crate::reporter::{Reporter, Tempo};

/// Limits of a session's children, and the report on them. Rule R-RELAY-15.
#[derive(Debug)]
pub(crate) struct Rates {
    limits: Limits,
    reporter: Reporter,
    timer: Instant,
}

impl Rates {
    pub(crate) fn new(cx: &mut Context<'_>) -> Self {
        let mut rates = Self {
            limits: Limits::default(),
            reporter: Reporter::new(cx.child, cx.now),
            timer: Instant::NEVER,
        };
        rates.schedule(cx);
        rates
    }

    /// Takes a child's word, and answers it.
    pub(crate) fn feedback(&mut self, cx: &mut Context<'_>, place: usize, told: &Feedback) -> Echo {
        cx.stats.feedback_received += 1;
        self.limits.tell(cx.now, place, told);
        self.reporter.wake(cx.now);
        let limit = self.limits.lowest();
        if let Some(limit) = limit {
            self.reporter.news(cx.now, &limit);
        }
        self.schedule(cx);
        let tempo = self.tempo(limit.unwrap_or_default());
        tempo.echo(told, self.reporter.trips())
    }

    /// Takes the parent's answer.
    pub(crate) fn echo(&mut self, cx: &mut Context<'_>, echo: &Echo) {
        self.reporter.echo(cx.now, echo);
        self.schedule(cx);
    }

    /// Reports the slowest child.
    pub(crate) fn due(&mut self, cx: &mut Context<'_>) {
        self.timer = Instant::NEVER;
        let limit = self.limits.lowest();
        if cx.now >= self.reporter.due() {
            // Nothing has come yet: the round trip is of use alone.
            let limit = limit.unwrap_or_else(|| Limit {
                round_trip_us: self.limits.round_trip_us(),
                ..Limit::default()
            });
            let feedback = self.reporter.report(cx.now, limit);
            cx.stats.feedback_sent += 1;
            cx.outbox.push(cx.parent, cx.id, Body::Feedback(feedback));
        }
        self.schedule(cx);
    }

    /// The parent is another one.
    pub(crate) fn moved(&mut self, cx: &mut Context<'_>) {
        self.reporter.moved(cx.now);
        self.schedule(cx);
    }

    pub(crate) fn forget(&mut self, place: usize) {
        self.limits.forget(place);
    }

    /// Round trip to a child, microseconds; 0: not known.
    pub(crate) fn trip_us(&self, place: usize) -> u32 {
        self.limits.trip_us(place)
    }

    /// Ends it: its session has no children.
    pub(crate) fn end(&self, cx: &mut Context<'_>) {
        cx.cancel_timer(self.timer, Due::Rate);
    }

    /// Round trips to the farthest child and to the parent, once both are measured.
    pub(crate) fn round_trips(&self) -> Option<[Duration; 2]> {
        let trips = [self.limits.hop_us(), self.reporter.hop_us()?];
        let known = trips.iter().all(|us| *us > 0);
        known.then(|| trips.map(|us| Duration::from_micros(u64::from(us))))
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        size_of::<Self>() + self.limits.allocated_bytes()
    }

    /// The receiver that the source goes by, or will when it hears of this limit: a child that has become the
    /// slowest is to report often at once.
    fn tempo(&self, limit: Limit) -> Tempo {
        let source = self.reporter.source();
        let replaced = self.reporter.told().receiver == source.limiting;
        match limit.rate > 0 && (replaced || limit.is_below(source.rate)) {
            true => Tempo {
                limiting: limit.receiver,
                rate: limit.rate,
            },
            false => source,
        }
    }

    fn schedule(&mut self, cx: &mut Context<'_>) {
        let due = self.reporter.due();
        if due != self.timer {
            cx.cancel_timer(self.timer, Due::Rate);
            self.timer = due;
            if due < Instant::NEVER {
                cx.set_timer(due, Due::Rate);
            }
        }
    }
}
