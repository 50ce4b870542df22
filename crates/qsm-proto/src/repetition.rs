//! Repetitions of what is not answered: losses, silence, or impatience.
//!
//! An answer after several sendings does not tell which of them it is for (Karn). Under loss it is
//! for the last one, the round trip is as before, and the next sending need not wait for longer. If
//! the round trip has become longer than the interval, it is for an earlier one, and no answer comes
//! to a single sending any more.

use core::time::Duration;

/// An answer to something that was sent once or several times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    /// So often.
    pub(crate) sendings: u32,
    /// Time since the last sending.
    pub(crate) last: Duration,
    /// Time since an earlier one that may have been answered.
    pub(crate) earlier: Duration,
}

/// Answers to several sendings, and how many these were.
#[derive(Debug, Clone, Default)]
pub(crate) struct Repetition {
    /// Sendings of the latest answer.
    latest: u32,
    /// So many of the latest answers in a row took several sendings.
    several: u32,
    /// And so many were late for the last one, or took nearly as many as the answer before.
    regular: u32,
    /// Smoothed number of sendings beyond the first.
    mean_64ths: u32,
}

/// From so many answers in a row on, none of which came to a single sending, sendings come too soon:
/// with 60 % of all packets lost one answer in seven does.
const SEVERAL_MAX: u32 = 64;
/// From so many on that a longer round trip explains better: losses are not so regular.
const REGULAR_MAX: u32 = 8;
/// One sending, in the unit of their mean.
const SENDING: u32 = 64;
/// Share of a new sample in the mean.
const WEIGHT: u32 = 8;
/// Most sendings that are taken for the usual course of things.
const STEADY_MAX: u32 = 16;

impl Repetition {
    /// An answer came where they usually take `known` (zero before the first). Returns the time
    /// from sending to answer that it shows: that from the last sending, or from an earlier one if
    /// sendings come too soon. Who is asked may have had to wait for the answer itself: so one that
    /// is late for the last of several sendings counts as twice as long as usual.
    pub(crate) fn note(&mut self, known: Duration, answer: Answer) -> Duration {
        let Answer {
            sendings,
            last,
            earlier,
        } = answer;
        let late = sendings > 1 && !known.is_zero() && last > known * 2;
        let alike = sendings.abs_diff(self.latest) <= 1;
        self.latest = sendings;
        if sendings > 1 {
            self.several = self.several.saturating_add(1);
            self.regular = match late || alike {
                true => self.regular.saturating_add(1),
                false => 0,
            };
        } else {
            (self.several, self.regular) = (0, 0);
        }
        if !late {
            self.count(sendings);
        }
        let too_soon = self.several >= SEVERAL_MAX || self.regular >= REGULAR_MAX;
        match (too_soon, late) {
            (true, _) => earlier,
            (false, true) => known * 2,
            (false, false) => last,
        }
    }

    /// So many sendings were usual this time.
    pub(crate) fn count(&mut self, sendings: u32) {
        let repeated = sendings.clamp(1, STEADY_MAX) - 1;
        self.mean_64ths -= self.mean_64ths / WEIGHT;
        self.mean_64ths += repeated * SENDING / WEIGHT;
    }

    /// Sendings that are no sign of silence: about twice as many as answers have lately taken.
    pub(crate) fn steady(&self) -> u32 {
        (1 + 2 * self.mean_64ths / SENDING).min(STEADY_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(1);
    const KNOWN: Duration = Duration::from_millis(4);
    const LATE: Duration = Duration::from_millis(9);
    const EARLIER: Duration = Duration::from_millis(50);

    /// Notes an answer so long after the last of so many sendings.
    fn note(repetition: &mut Repetition, sendings: u32, last: Duration) -> Duration {
        let answer = Answer {
            sendings,
            last,
            earlier: EARLIER,
        };
        repetition.note(KNOWN, answer)
    }

    // Rules R-NAK-5, R-TOK-3.
    #[test]
    fn sendings_are_steady_up_to_twice_as_many_as_answers_take() {
        let mut repetition = Repetition::default();
        let mut after = |sendings: [u32; 10]| {
            for sendings in [sendings; 10].concat() {
                note(&mut repetition, sendings, KNOWN);
            }
            repetition.steady()
        };
        assert_eq!(after([1; 10]), 1);
        assert_eq!(
            after([2, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
            1,
            "each tenth is lost"
        );
        assert_eq!(after([1, 5, 2, 4, 3, 3, 3, 3, 3, 3]), 5);
        assert_eq!(after([1000; 10]), STEADY_MAX);
        assert_eq!(after([1; 10]), 1);
    }

    #[test]
    fn sendings_that_come_too_soon_do_not_become_more() {
        let mut repetition = Repetition::default();
        for _ in 0..100 {
            note(&mut repetition, 7, LATE);
        }
        assert_eq!(repetition.steady(), 1);
    }

    // Rules R-NAK-5, R-TOK-3.
    #[test]
    fn an_answer_is_for_the_last_sending_unless_none_comes_to_a_single_one() {
        let mut repetition = Repetition::default();
        let shown = |repetition: &mut Repetition, at: u32| match at % 3 {
            0 => (note(repetition, 2, KNOWN), KNOWN),
            1 => (note(repetition, 5, SOON), SOON),
            _ => (note(repetition, 9, LATE), KNOWN * 2),
        };
        for at in 1..SEVERAL_MAX {
            let (sample, expected) = shown(&mut repetition, at);
            assert_eq!(sample, expected);
        }
        assert_eq!(shown(&mut repetition, 0).0, EARLIER);
        assert_eq!(note(&mut repetition, 1, LATE), LATE);
        assert_eq!(note(&mut repetition, 3, KNOWN), KNOWN);
    }

    // Rules R-NAK-5, R-TOK-3.
    #[test]
    fn answers_that_are_late_or_take_as_many_sendings_show_soon_that_these_come_too_soon() {
        let mut repetition = Repetition::default();
        assert_eq!(note(&mut repetition, 17, LATE), KNOWN * 2);
        assert_eq!(note(&mut repetition, 7, LATE), KNOWN * 2);
        for sendings in [7, 6, 5, 4, 3] {
            assert_eq!(note(&mut repetition, sendings, KNOWN), KNOWN);
        }
        assert_eq!(note(&mut repetition, 2, KNOWN), EARLIER);
    }

    #[test]
    fn the_first_answer_is_believed() {
        let mut repetition = Repetition::default();
        let answer = Answer {
            sendings: 3,
            last: LATE,
            earlier: EARLIER,
        };
        assert_eq!(repetition.note(Duration::ZERO, answer), LATE);
    }
}
