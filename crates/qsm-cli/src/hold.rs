//! An output that takes less than comes, so that senders wait for it.

use std::time::{Duration, Instant};

use qsm_console::log::Note;

/// Time for which senders wait before it is said.
const TELL_AFTER: Duration = Duration::from_secs(3);
/// Pause before it is said again.
const TELL_AGAIN: Duration = Duration::from_secs(30);
/// Time without it after which it is over: a slow output makes room now and then.
const OVER: Duration = Duration::from_secs(1);

/// Since when senders have waited, and whether that has been said.
#[derive(Debug, Default)]
pub(crate) struct HoldNotice {
    began: Option<Instant>,
    last: Option<Instant>,
    told: Option<Instant>,
}

/// Something that is to be said.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    /// Senders have waited for so long.
    Waits(Duration),
    /// They have waited for so long, and do not any more.
    Over(Duration),
}

impl HoldNotice {
    /// Notes whether senders wait now, and says so when they have for long.
    pub(crate) fn note(&mut self, holds: bool) {
        match self.look(Instant::now(), holds) {
            None => {}
            Some(Word::Waits(time)) => {
                let line = format!(
                    "the output takes less than comes, and senders have waited for it for {:.1} s; \
                     with `--overflow drop-newest` nobody waits, and messages are dropped here",
                    time.as_secs_f64()
                );
                Note::warn("holds", &line).say();
            }
            Some(Word::Over(time)) => {
                let line = format!(
                    "senders do not wait for the output any more; they did for {:.1} s",
                    time.as_secs_f64()
                );
                Note::info("holds", &line).say();
            }
        }
    }

    fn look(&mut self, now: Instant, holds: bool) -> Option<Word> {
        if !holds {
            let last = self.last?;
            if now.duration_since(last) < OVER {
                return None;
            }
            let (began, told) = (self.began.take(), self.told.take());
            self.last = None;
            return told.and(began).map(|began| Word::Over(last - began));
        }
        let began = *self.began.get_or_insert(now);
        self.last = Some(now);
        let time = now.duration_since(began);
        let due = match self.told {
            None => time >= TELL_AFTER,
            Some(told) => now.duration_since(told) >= TELL_AGAIN,
        };
        if !due {
            return None;
        }
        self.told = Some(now);
        Some(Word::Waits(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_after_a_while_and_its_end_only_if_it_was() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut notice = HoldNotice::default();
        let mut look = |tenths: u32, holds| notice.look(start + second * tenths / 10, holds);
        assert_eq!(look(0, true), None);
        assert_eq!(look(29, true), None);
        assert_eq!(look(31, false), None, "room for a moment");
        assert_eq!(look(32, true), Some(Word::Waits(second * 32 / 10)));
        assert_eq!(look(50, true), None);
        assert_eq!(look(60, false), Some(Word::Over(second * 5)));
        assert_eq!(look(70, false), None);
        assert_eq!(look(80, true), None);
        assert_eq!(look(100, false), None, "that was short");
    }
}
