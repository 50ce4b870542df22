use core::time::Duration;

use qsm_wire::MemberIndex;

use super::{Gap, Gaps};
use crate::Instant;

/// Who was asked for something: a cacher, or `None`, the sender; and when. In another view the same
/// place may be another member's: then something is asked for again too early, once.
type SentRequest = (Option<MemberIndex>, Instant);

/// What of a stream was asked of somebody before something that has come from there since: its
/// request or its repair is probably lost. It need not wait until a retry would be due if nobody
/// answered. Rule R-NAK-13.
#[derive(Debug)]
pub struct OvertakenRequests {
    /// Of those who answer, the latest request that each has answered.
    answered: Vec<SentRequest>,
    /// So old is what is asked for again.
    age: Duration,
    /// When there may be something so old; [`Instant::NEVER`]: not before another answer.
    due: Instant,
    /// Those who have not answered, and when that was found.
    silent: Vec<(MemberIndex, Instant)>,
}

/// Requests after which the intervals of [`Gap::next_request`] count alone: nobody may have
/// what others are repaired beside.
const HASTENED_MAX: u8 = 4;
/// Requests without an answer after which a member counts as silent. With 2 % loss one request in
/// 25 has none, and in a large region three in a row are no rarity: all they cost is another way.
const SILENT_MIN: u8 = 3;
/// Answers remembered: more than the cachers that a node asks while one request is on its way.
const ANSWERED_MAX: usize = 16;

impl OvertakenRequests {
    /// What was asked for then has come; `retry`: the time to the first retry. Those who answer
    /// remember for two thirds of it that they have (R-NAK-5).
    pub fn note(&mut self, of: Option<MemberIndex>, asked: Instant, retry: Duration) {
        self.silent.retain(|(member, _)| Some(*member) != of);
        let known = self.answered.iter().position(|(by, _)| *by == of);
        let oldest = || (0..self.answered.len()).min_by_key(|at| self.answered[*at].1);
        let full = self.answered.len() == ANSWERED_MAX;
        match known.or_else(|| oldest().filter(|_| full)) {
            Some(at) if self.answered[at].1 >= asked => return,
            Some(at) => self.answered[at] = (of, asked),
            None => self.answered.push((of, asked)),
        }
        self.age = retry * 2 / 3;
        self.due = self.due.min(asked.after(self.age));
    }

    /// A gap is asked for once more. If it has been several times and the member asked last has
    /// answered nothing that was asked since the gap was found, the member counts as silent.
    pub fn note_retry(&mut self, now: Instant, gap: &Gap) {
        let Some(member) = gap.asked_of.filter(|_| gap.attempts >= SILENT_MIN) else {
            return;
        };
        let mut answered = self.answered.iter();
        if answered.any(|(by, asked)| *by == gap.asked_of && *asked >= gap.found) {
            return;
        }
        self.silent.retain(|(silent, _)| *silent != member);
        if self.silent.len() == ANSWERED_MAX {
            self.silent.remove(0);
        }
        self.silent.push((member, now));
    }

    /// When this member was found to be silent, if it has answered nothing since.
    #[must_use]
    pub fn silent_at(&self, member: MemberIndex) -> Option<Instant> {
        let mut silent = self.silent.iter();
        let found = silent.find(|(silent, _)| *silent == member);
        found.map(|(_, at)| *at)
    }

    /// When to call [`OvertakenRequests::hasten`].
    #[must_use]
    pub fn due(&self) -> Instant {
        self.due
    }

    /// What has been overtaken for long enough is due.
    pub fn hasten(&mut self, now: Instant, gaps: &mut Gaps) {
        if now < self.due {
            return;
        }
        let latest = self.answered.iter().map(|(_, asked)| *asked).max();
        let last = latest.map_or(now, |latest| latest.after(self.age));
        self.due = if last > now { last } else { Instant::NEVER };
        for gap in gaps.iter_mut() {
            let may_hasten = !gap.crowded_out && gap.due > now;
            let hastens = (1..=HASTENED_MAX).contains(&gap.attempts) && may_hasten;
            if hastens && gap.asked.after(self.age) <= now && self.is_overtaken(gap) {
                gap.due = now;
                gap.early = true;
            }
        }
    }

    fn is_overtaken(&self, gap: &Gap) -> bool {
        let mut answered = self.answered.iter();
        answered.any(|(by, asked)| *by == gap.asked_of && gap.asked < *asked)
    }
}

impl Default for OvertakenRequests {
    fn default() -> Self {
        Self {
            answered: Vec::new(),
            age: Duration::ZERO,
            due: Instant::NEVER,
            silent: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::SeqRange;

    use super::*;

    const RETRY: Duration = Duration::from_millis(3);

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// Gaps 10, 20, 30, asked for once, one after the other, a millisecond apart.
    fn gaps() -> Gaps {
        let mut gaps = Gaps::default();
        for number in 1..=3 {
            gaps.append(SeqRange::one(number * 10), at(0), Instant::NEVER);
        }
        for (gap, ms) in gaps.iter_mut().zip(1..) {
            gap.ask(at(ms), None);
        }
        gaps
    }

    fn due(gaps: &Gaps, now: Instant) -> Vec<u64> {
        let due = gaps.iter().filter(|gap| gap.due <= now);
        due.map(|gap| gap.first).collect()
    }

    // Rule R-NAK-13.
    #[test]
    fn what_was_asked_for_before_something_that_has_come_is_due_after_two_round_trips() {
        let (mut gaps, mut overtaken) = (gaps(), OvertakenRequests::default());
        assert_eq!(overtaken.due(), Instant::NEVER);
        let answered = gaps.fill(20).unwrap();
        overtaken.note(None, answered.asked, RETRY);
        assert_eq!(overtaken.due(), at(4));
        overtaken.hasten(at(3), &mut gaps);
        assert!(due(&gaps, at(3)).is_empty());
        overtaken.hasten(at(4), &mut gaps);
        assert_eq!(due(&gaps, at(4)), [10], "30 was asked for later");
        assert!(gaps.find_mut(10).unwrap().early);
        assert_eq!(overtaken.due(), Instant::NEVER);
    }

    #[test]
    fn answers_that_come_meanwhile_are_looked_at_in_time() {
        let (mut gaps, mut overtaken) = (gaps(), OvertakenRequests::default());
        overtaken.note(None, at(2), RETRY);
        overtaken.note(None, at(4), RETRY);
        overtaken.note(None, at(3), RETRY);
        overtaken.hasten(at(4), &mut gaps);
        assert_eq!(due(&gaps, at(4)), [10, 20]);
        assert_eq!(overtaken.due(), at(6));
        overtaken.hasten(at(6), &mut gaps);
        assert_eq!(due(&gaps, at(6)), [10, 20, 30]);
    }

    #[test]
    fn what_nobody_may_have_is_not_hastened_for_ever() {
        let (mut gaps, mut overtaken) = (gaps(), OvertakenRequests::default());
        let gap = gaps.find_mut(10).unwrap();
        (0..HASTENED_MAX).for_each(|_| gap.ask(at(1), None));
        overtaken.note(None, at(3), RETRY);
        overtaken.hasten(at(9), &mut gaps);
        assert_eq!(due(&gaps, at(9)), [20]);
    }

    // Rule R-NAK-2.
    #[test]
    fn who_answers_nothing_is_silent_until_it_does() {
        let (cacher, mut overtaken) = (MemberIndex(7), OvertakenRequests::default());
        let mut gaps = gaps();
        let gap = gaps.find_mut(10).unwrap();
        while gap.attempts < SILENT_MIN - 1 {
            gap.ask(at(10), Some(cacher));
        }
        overtaken.note_retry(at(16), gap);
        assert_eq!(overtaken.silent_at(cacher), None, "asked too seldom");
        gap.ask(at(16), Some(cacher));
        overtaken.note(Some(cacher), at(11), RETRY);
        overtaken.note_retry(at(24), gap);
        assert_eq!(overtaken.silent_at(cacher), None, "it answers others");
        gap.found = at(12);
        overtaken.note_retry(at(24), gap);
        assert_eq!(overtaken.silent_at(cacher), Some(at(24)));
        overtaken.note(Some(cacher), at(12), RETRY);
        assert_eq!(overtaken.silent_at(cacher), None);
    }

    #[test]
    fn nobody_is_overtaken_by_another() {
        let (mut gaps, mut overtaken) = (gaps(), OvertakenRequests::default());
        overtaken.note(Some(MemberIndex(7)), at(3), RETRY);
        overtaken.hasten(at(9), &mut gaps);
        assert!(due(&gaps, at(9)).is_empty());
        for other in 0..100 {
            overtaken.note(Some(MemberIndex(other)), at(3), RETRY);
        }
        assert_eq!(overtaken.answered.len(), ANSWERED_MAX);
    }
}
