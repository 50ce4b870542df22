use std::time::Duration;

use qsm_proto::Instant;

/// Time with room that does not end a spell: a reader that is slow makes room now and then.
const PAUSE: Duration = Duration::from_secs(1);

/// Time for which a queue was full.
#[derive(Debug, Default)]
pub(super) struct Fullness {
    /// Since when it is full, if it is.
    since: Option<Instant>,
    /// When it began to be full, but for pauses.
    began: Option<Instant>,
    /// When it had room again.
    until: Instant,
    /// Time for which it was full before.
    total: Duration,
}

impl Fullness {
    pub(super) fn is_full(&self) -> bool {
        self.since.is_some()
    }

    /// It is full now, or has room.
    pub(super) fn note(&mut self, now: Instant, full: bool) {
        match (self.since, full) {
            (None, true) => {
                if now.since(self.until) >= PAUSE || self.began.is_none() {
                    self.began = Some(now);
                }
                self.since = Some(now);
            }
            (Some(since), false) => {
                self.total += now.since(since);
                (self.since, self.until) = (None, now);
            }
            _ => {}
        }
    }

    /// Time for which it was full so far.
    pub(super) fn total(&self, now: Instant) -> Duration {
        let present = self.since.map(|since| now.since(since));
        self.total + present.unwrap_or_default()
    }

    /// Time since it began to be full, but for pauses; zero if it is full no more.
    pub(super) fn spell(&self, now: Instant) -> Duration {
        let goes_on = self.is_full() || now.since(self.until) < PAUSE;
        let began = self.began.filter(|_| goes_on);
        began.map(|began| now.since(began)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_not_counted_and_ends_a_spell_only_if_it_is_long() {
        let ms = Duration::from_millis;
        let at = |millis| Instant(0).after(ms(millis));
        let mut queue = Fullness::default();
        assert_eq!(queue.spell(at(100)), ms(0));
        for (millis, full) in [(200, true), (300, true), (1200, false), (1500, true)] {
            queue.note(at(millis), full);
        }
        assert_eq!(
            (queue.total(at(2000)), queue.spell(at(2000))),
            (ms(1500), ms(1800))
        );
        queue.note(at(2000), false);
        assert_eq!(
            (queue.total(at(2999)), queue.spell(at(2999))),
            (ms(1500), ms(2799))
        );
        assert_eq!(queue.spell(at(3000)), ms(0));
        queue.note(at(3100), true);
        assert!(queue.is_full());
        assert_eq!(
            (queue.total(at(3200)), queue.spell(at(3200))),
            (ms(1600), ms(100))
        );
    }
}
