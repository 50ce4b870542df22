//! Account of the way from a gateway of another site.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use qsm_wire::Instant;

use crate::commands::sites::Reach;

/// Silence of a gateway that has answered before, after which it is not reached.
const SILENCE: Duration = Duration::from_secs(3);
/// Silence after which it is asked whether it is there, and time between two questions: the source of a stream that
/// rests says nothing by itself. Rule R-RELAY-64.
const QUESTION: Duration = Duration::from_secs(1);

qsm::metrics::metrics! {
    /// Account of the way from another site's gateway, or from a relay between.
    #[derive(Copy)]
    pub(super) struct GateStats of "gate" {
        /// Whether it is reached: 1, or 0 before it has answered and while it is silent.
        reached: gauge(gateways),
        /// Whether it has answered before and is silent now: 1, or 0.
        silent: gauge(gateways),
        /// Round trip to the source of the stream, once it is measured.
        round_trip_us: gauge(microseconds),
        /// Questions to it whether it is there.
        asked: counter(packets),
        /// Messages that it has brought, also those that another one had brought.
        messages: counter(messages),
    }
}

impl GateStats {
    pub(super) fn reach(&self) -> Reach {
        match (self.reached, self.silent) {
            (1.., _) => Reach::Reached,
            (0, 1..) => Reach::Silent,
            (0, 0) => Reach::Asked,
        }
    }
}

/// The account, which the receiver and the reader of its packets keep together.
#[derive(Debug, Clone, Default)]
pub(super) struct GateBooks(Arc<Mutex<GateStats>>);

impl GateBooks {
    pub(super) fn read(&self) -> GateStats {
        *self.open()
    }

    pub(super) fn add_messages(&self, messages: u64) {
        self.open().messages += messages;
    }

    pub(super) fn add_question(&self) {
        self.open().asked += 1;
    }

    pub(super) fn note(&self, reach: Reach, round_trip: Option<Duration>) {
        let mut stats = self.open();
        stats.reached = u64::from(reach == Reach::Reached);
        stats.silent = u64::from(reach == Reach::Silent);
        let micros = round_trip.map(|trip| u64::try_from(trip.as_micros()).unwrap_or(u64::MAX));
        stats.round_trip_us = micros.unwrap_or_default();
    }

    fn open(&self) -> MutexGuard<'_, GateStats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Signs of life of a gateway.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pulse {
    heard: Instant,
    asked: Instant,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self {
            heard: Instant(0),
            asked: Instant(0),
        }
    }

    /// Something has come from it.
    pub(super) fn hear(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Tells whether it is reached, where the receiver is a member of its stream or not.
    pub(super) fn reach(&self, now: Instant, is_member: bool) -> Reach {
        match is_member {
            false => Reach::Asked,
            true if now.since(self.heard) < SILENCE => Reach::Reached,
            true => Reach::Silent,
        }
    }

    /// Tells whether a gateway that has answered before is to be asked now, and takes note of it.
    pub(super) fn is_doubted(&mut self, now: Instant) -> bool {
        let due = now.since(self.heard.max(self.asked)) >= QUESTION;
        if due {
            self.asked = now;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// R-RELAY-64.
    #[test]
    fn a_gateway_that_rests_is_asked_and_one_that_does_not_answer_is_silent() {
        let mut pulse = Pulse::new();
        assert_eq!(pulse.reach(at(0), false), Reach::Asked);
        pulse.hear(at(100));
        assert!(!pulse.is_doubted(at(1099)));
        assert!(pulse.is_doubted(at(1100)) && !pulse.is_doubted(at(2099)));
        assert_eq!(pulse.reach(at(3099), true), Reach::Reached);
        assert!(pulse.is_doubted(at(3099)));
        assert_eq!(pulse.reach(at(3100), true), Reach::Silent);
        pulse.hear(at(3200));
        assert_eq!(pulse.reach(at(3200), true), Reach::Reached);
        assert!(!pulse.is_doubted(at(4199)));
    }

    #[test]
    fn what_is_noted_is_read() {
        let books = GateBooks::default();
        assert_eq!(books.read().reach(), Reach::Asked);
        for reach in [Reach::Reached, Reach::Silent, Reach::Asked] {
            books.note(reach, Some(Duration::from_millis(40)));
            assert_eq!(books.read().reach(), reach);
        }
        books.add_messages(3);
        books.add_question();
        let stats = books.read();
        assert_eq!(
            (stats.round_trip_us, stats.messages, stats.asked),
            (40_000, 3, 1)
        );
    }
}
