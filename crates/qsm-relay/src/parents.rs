//! Parents of a receiver or relay: the present one, and those that may take its place. Rule R-RELAY-42.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::VecDeque;

use qsm_wire::Instant;

/// Silence of a parent after which it is asked whether it is there, where there is another one.
const DOUBT: Duration = Duration::from_millis(100);
/// Time between these questions.
const QUESTIONS: Duration = Duration::from_millis(80);
/// Silence after which the next parent takes its place.
const SILENCE: Duration = Duration::from_millis(500);
/// The same in intervals after which a parent is asked again, if that is longer: six round trips.
const SILENT_RETRIES: u32 = 4;

/// Next step with a parent that is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silent {
    /// It is to be asked whether it is there.
    Asked,
    /// Another one has taken its place.
    Replaced,
}

/// Declared parents, of which one is present.
#[derive(Debug)]
pub(crate) struct Parents {
    present: SocketAddr,
    /// In the order in which they are tried.
    others: VecDeque<SocketAddr>,
    /// When the present one was heard last.
    heard: Instant,
    /// When it is asked next, if it is silent.
    ask: Instant,
    /// When the one before it was heard last, until the present one has been heard.
    orphaned: Option<Instant>,
}

impl Parents {
    /// One parent.
    pub(crate) fn one(parent: SocketAddr) -> Self {
        Self {
            present: parent,
            others: VecDeque::new(),
            heard: Instant(0),
            ask: Instant(0),
            orphaned: None,
        }
    }

    /// Names another one, behind all that were named before.
    pub(crate) fn add(&mut self, now: Instant, parent: SocketAddr) {
        self.heard = now;
        self.others.push_back(parent);
    }

    pub(crate) fn present(&self) -> SocketAddr {
        self.present
    }

    /// Tells whether another one may take the place of the present one.
    pub(crate) fn are_several(&self) -> bool {
        !self.others.is_empty()
    }

    /// Tells whether it is a parent that is not the present one.
    pub(crate) fn is_other(&self, address: SocketAddr) -> bool {
        self.others.contains(&address)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = SocketAddr> {
        core::iter::once(self.present).chain(self.others.iter().copied())
    }

    /// The present one is there. Returns how long there was none, if it has just taken another's place.
    pub(crate) fn hear(&mut self, now: Instant) -> Option<Duration> {
        self.heard = now;
        let orphaned = self.orphaned.take()?;
        Some(now.since(orphaned))
    }

    /// Tells whether the present one has taken another's place, and has not been heard yet.
    pub(crate) fn are_silent(&self) -> bool {
        self.orphaned.is_some()
    }

    /// Tells whether the present one has been silent for so long that another one's answer counts.
    pub(crate) fn is_doubted(&self, now: Instant) -> bool {
        now >= self.heard.after(DOUBT)
    }

    /// Another one has answered first, and is the present one from now on.
    pub(crate) fn choose(&mut self, now: Instant, parent: SocketAddr) {
        while self.present != parent && self.is_other(parent) {
            self.replace(now);
        }
        self.orphaned = None;
    }

    /// When [`Parents::look`] has something to do. `retry`: the interval after which a parent is asked again.
    pub(crate) fn due(&self, retry: Duration) -> Instant {
        if self.others.is_empty() {
            return Instant::NEVER;
        }
        let ask = self.ask.max(self.heard.after(DOUBT));
        ask.min(self.heard.after(silence(retry)))
    }

    /// Looks whether the present one is silent, and replaces one that has been for too long.
    pub(crate) fn look(&mut self, now: Instant, retry: Duration) -> Option<Silent> {
        if now < self.due(retry) {
            return None;
        }
        self.ask = now.after(QUESTIONS);
        if now < self.heard.after(silence(retry)) {
            return Some(Silent::Asked);
        }
        self.replace(now);
        Some(Silent::Replaced)
    }

    /// Takes the next one in a circle.
    pub(crate) fn replace(&mut self, now: Instant) {
        if let Some(next) = self.others.pop_front() {
            self.others.push_back(self.present);
            self.orphaned.get_or_insert(self.heard);
            (self.present, self.heard) = (next, now);
        }
    }
}

fn silence(retry: Duration) -> Duration {
    SILENCE.max(retry * SILENT_RETRIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// R-RELAY-42.
    #[test]
    fn a_silent_parent_is_asked_and_then_replaced_by_the_next_in_a_circle() {
        let mut parents = Parents::one(address(1));
        assert_eq!(parents.due(RETRY), Instant::NEVER);
        parents.add(at(1000), address(2));
        let mut now = at(1000);
        for next in [2, 1] {
            let began = now;
            let mut asked = 0;
            loop {
                now = parents.due(RETRY);
                match parents.look(now, RETRY) {
                    Some(Silent::Asked) => asked += 1,
                    Some(Silent::Replaced) => break,
                    None => panic!("nothing at {now}, when it was due"),
                }
            }
            assert_eq!((asked, now.since(began)), (5, SILENCE));
            assert_eq!(parents.present(), address(next));
        }
        // The time without a parent counts from the word of the last one that was there.
        assert_eq!(parents.hear(now), Some(SILENCE * 2));
        assert_eq!(parents.hear(now), None);
    }

    /// R-RELAY-42: a long way is given time.
    #[test]
    fn six_round_trips_of_silence_are_not_too_long() {
        let mut parents = Parents::one(address(1));
        parents.add(at(0), address(2));
        let retry = Duration::from_millis(300);
        parents.look(at(1100), retry);
        assert_eq!(parents.present(), address(1));
        parents.look(at(1200), retry);
        assert_eq!(parents.present(), address(2));
    }
}
