use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::{Instant, Promptness};
use qsm_wire::Origin;

use super::history::History;
use super::lost::LostNumbers;
use crate::runs::Runs;
use crate::violation::Violation;

/// Messages may be so much later at most than twice the limit to waiting: they may wait for a gap and
/// then for another region, and timers are on time but for a datagram that the host is reading.
const LATE_MAX: Duration = Duration::from_millis(5);

/// A receiver's messages of one sender in one group.
pub(crate) type Way = (Origin, usize, Origin);

/// Whoever wants messages in another way than in order gets each once, and each that is delivered in
/// order, or is told that it will not; in order and without a silent gap if they are wanted so; and
/// not much later than they want, once they are there (R-DATA-12, R200, R201).
#[derive(Debug, Default)]
pub(crate) struct Prompt {
    tracks: BTreeMap<(Way, Promptness), Track>,
    /// When each message was there, as who wants it at once saw.
    arrived: BTreeMap<(Way, u64), Instant>,
}

#[derive(Debug, Default)]
struct Track {
    given: Runs,
    lost: Runs,
    /// The number that must come next, if they are to come in order; `None`: any may.
    next: Option<u64>,
    /// It was told that something is missing, and not what.
    vague: bool,
    /// What is missing up to here was told so.
    excused_upto: u64,
}

impl Prompt {
    /// A message has been handed out.
    pub(crate) fn give(
        &mut self,
        now: Instant,
        mode: Promptness,
        way: Way,
        number: u64,
    ) -> Result<(), Violation> {
        let track = self.tracks.entry((way, mode)).or_default();
        if track.given.contains(number) {
            return Err(wrong(mode, way, &format!("#{number} twice")));
        }
        if track.lost.contains(number) {
            return Err(wrong(mode, way, &format!("#{number}, reported as lost")));
        }
        if mode == Promptness::Arrival {
            self.arrived.entry((way, number)).or_insert(now);
        } else if let Some(next) = track.next.filter(|next| *next != number) {
            let what = format!("#{number}, and #{next} has to come next");
            return Err(wrong(mode, way, &what));
        }
        track.next = Some(number + 1);
        if core::mem::take(&mut track.vague) {
            track.excused_upto = track.excused_upto.max(number - 1);
        }
        track.given.add(number, number);
        Ok(())
    }

    /// It is told that these messages will not come, of so many that were published.
    pub(crate) fn lose(
        &mut self,
        mode: Promptness,
        lost: LostNumbers,
        published: u64,
    ) -> Result<(), Violation> {
        let LostNumbers {
            receiver,
            group,
            sender,
            first,
            last,
        } = lost;
        let way = (receiver, group, sender);
        let track = self.tracks.entry((way, mode)).or_default();
        if first == 0 || last < first || last > published || track.given.overlaps(first, last) {
            let what = format!("#{first}..=#{last} of {published} as lost, some of them had");
            return Err(wrong(mode, way, &what));
        }
        if mode != Promptness::Arrival {
            if let Some(next) = track.next.filter(|next| *next != first) {
                let what = format!("#{first}..=#{last} as lost, and #{next} has to come next");
                return Err(wrong(mode, way, &what));
            }
            track.next = Some(last + 1);
        }
        track.lost.add(first, last);
        Ok(())
    }

    /// It is told that something before the next message is missing, and not what.
    pub(crate) fn lose_vaguely(&mut self, mode: Promptness, way: Way) {
        self.tracks.entry((way, mode)).or_default().vague = true;
    }

    /// The application has given up the group: nothing that comes later has to follow what came.
    pub(crate) fn unwant(&mut self, receiver: Origin, group: usize) {
        for (((who, what, _), _), track) in &mut self.tracks {
            if (*who, *what) == (receiver, group) {
                track.next = None;
            }
        }
    }

    /// A message that has been handed out now, or told as lost, and was there for longer than that.
    pub(crate) fn late(
        &self,
        now: Instant,
        mode: Promptness,
        way: Way,
        number: u64,
    ) -> Option<Violation> {
        let Promptness::Within(limit) = mode else {
            return None;
        };
        let at = *self.arrived.get(&(way, number))?;
        let late = now.since(at) > limit * 2 + LATE_MAX;
        let what = format!("#{number} {:?} after it was there", now.since(at));
        late.then(|| wrong(mode, way, &what))
    }

    /// At the end: what came in order, or was told as lost there, has come in every way that the host
    /// wants.
    pub(crate) fn check_end(
        &self,
        history: &History,
        modes: &BTreeMap<usize, Vec<Promptness>>,
    ) -> Result<(), Violation> {
        let none = Track::default();
        for (way, ordered) in history.tracks() {
            let (receiver, ..) = way;
            let life = history.life(receiver).filter(|life| life.ended.is_none());
            let modes = life.and_then(|life| modes.get(&life.host));
            for mode in modes.into_iter().flatten() {
                let track = self.tracks.get(&(way, *mode)).unwrap_or(&none);
                let mut told = Runs::default();
                told.add_all(&track.given);
                told.add_all(&track.lost);
                told.add(1, track.excused_upto);
                let owed = [&ordered.delivered, &ordered.lost];
                if let Some(number) = owed.iter().find_map(|owed| owed.first_outside(&told)) {
                    let what = format!("nothing of #{number}, which came in order");
                    return Err(wrong(*mode, way, &what));
                }
            }
        }
        Ok(())
    }
}

fn wrong(mode: Promptness, way: Way, what: &str) -> Violation {
    let (receiver, group, sender) = way;
    let message = format!("{receiver} gets by {mode:?} of {sender}/group {group} {what}");
    Violation::new("prompt", message)
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Incarnation, NodeId};

    use super::*;

    const SOON: Promptness = Promptness::Within(Duration::from_millis(20));
    const BEGIN: Instant = Instant(1_000_000_000);

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    /// A receiver of group 0 to which ten messages were published, of which it got five in order.
    fn history() -> History {
        let mut history = History::default();
        history.begin(origin(1), 1, [(0, BEGIN)].into());
        history.begin(origin(2), 2, BTreeMap::new());
        (0..10).for_each(|_| history.publish(origin(2), 0, BEGIN));
        (1..=5).for_each(|number| history.deliver(origin(1), 0, origin(2), number));
        history
    }

    struct Told {
        prompt: Prompt,
        history: History,
        mode: Promptness,
    }

    impl Told {
        fn new(mode: Promptness) -> Self {
            Self {
                prompt: Prompt::default(),
                history: history(),
                mode,
            }
        }

        fn give(&mut self, ms: u64, number: u64) -> Result<(), Violation> {
            let now = BEGIN.after(Duration::from_millis(ms));
            let way = (origin(1), 0, origin(2));
            self.prompt.give(now, self.mode, way, number)
        }

        fn lose(&mut self, first: u64, last: u64) -> Result<(), Violation> {
            let lost = LostNumbers {
                receiver: origin(1),
                group: 0,
                sender: origin(2),
                first,
                last,
            };
            self.prompt.lose(self.mode, lost, 10)
        }

        fn end(&self) -> Result<(), Violation> {
            let modes = [(1, vec![self.mode])].into();
            self.prompt.check_end(&self.history, &modes)
        }
    }

    #[test]
    fn doubled_messages_and_silent_gaps_are_seen() {
        let mut told = Told::new(Promptness::Arrival);
        told.give(0, 3).unwrap();
        told.give(0, 1).unwrap();
        assert!(told.give(0, 3).is_err());
        assert!(told.lose(3, 3).is_err());
        let mut told = Told::new(SOON);
        told.give(0, 1).unwrap();
        assert!(told.give(0, 3).is_err());
        told.lose(2, 3).unwrap();
        assert!(told.give(0, 3).is_err());
        told.give(0, 4).unwrap();
        told.prompt.unwant(origin(1), 0);
        told.give(0, 7).unwrap();
        assert!(told.lose(8, 11).is_err(), "so many were not published");
    }

    #[test]
    fn what_came_in_order_alone_is_missed_at_the_end() {
        let mut told = Told::new(SOON);
        assert!(told.end().is_err());
        told.prompt.lose_vaguely(SOON, (origin(1), 0, origin(2)));
        told.give(0, 3).unwrap();
        assert!(told.end().is_err());
        told.give(0, 4).unwrap();
        told.lose(5, 6).unwrap();
        told.end().unwrap();
    }

    #[test]
    fn what_is_there_is_not_kept_back_for_longer_than_it_may() {
        let mut told = Told::new(Promptness::Arrival);
        told.give(0, 1).unwrap();
        told.give(0, 2).unwrap();
        told.mode = SOON;
        told.give(45, 1).unwrap();
        told.give(46, 2).unwrap();
        let way = (origin(1), 0, origin(2));
        let late = |ms, number| {
            let now = BEGIN.after(Duration::from_millis(ms));
            told.prompt.late(now, SOON, way, number).is_some()
        };
        assert_eq!(
            [late(45, 1), late(46, 2), late(90, 3)],
            [false, true, false]
        );
    }
}
