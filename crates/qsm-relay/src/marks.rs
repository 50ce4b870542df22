//! Marks of congestion (ECN) that the slowest receiver has counted, and whether they are believed.

use core::time::Duration;

use qsm_wire::Instant;

use crate::packet::Limit;

/// Round trips, one after the other, without a word on a queue after which the way is thought to tell none.
const MUTE_ROUNDS: u8 = 8;
/// Fewest packets of a round trip that is judged.
const ROUND_MIN: u64 = 4;
/// Time for which packets are then sent without a codepoint.
const REST: Duration = Duration::from_secs(60);

/// Packets of a receiver in some time.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// By their numbers, lost ones among them.
    packets: u64,
    /// Packets that came with a codepoint that can be marked, or with a mark.
    capable: u64,
    marked: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.capable += other.capable;
        self.marked += other.marked;
    }

    /// Tells whether it says nothing on queues: most packets came without a codepoint, or nearly all with a mark.
    fn is_mute(&self) -> bool {
        let unmarked = self.capable.saturating_sub(self.marked);
        self.capable < self.packets / 2 || unmarked <= self.capable / 8
    }
}

/// Use of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Use {
    /// Nobody has asked for it.
    #[default]
    Unasked,
    /// Packets may be marked.
    On,
    /// The way breaks marks: they are tried again then.
    Rests(Instant),
}

/// Marks of the way to the slowest receiver. They are believed once a packet that could be marked has come without a
/// mark. Where none could be marked, or all were, for some round trips, the way is thought to break them, and they are
/// done without for a while. Rule R-RELAY-81.
#[derive(Debug, Clone, Default)]
pub(crate) struct Marks {
    state: Use,
    /// Packets up to this one were sent before they could be marked.
    unmarkable: u64,
    /// Packets up to this one were sent before the source has made way for marks, or until its queue was gone.
    answered: u64,
    /// The source has made way, and what it has sent since has not come yet.
    is_draining: bool,
    /// The receiver's last word.
    before: Limit,
    /// Of the newest word, behind what has been answered.
    news: Count,
    /// Of the round trip that goes on.
    round: Count,
    mute_rounds: u8,
    is_believed: bool,
    answers: u64,
    given_up: u64,
}

impl Marks {
    /// Has packets marked from now on.
    pub(crate) fn want(&mut self) {
        self.state = Use::On;
    }

    /// Tells whether packets leave with a codepoint that can be marked.
    pub(crate) fn are_on(&self) -> bool {
        self.state == Use::On
    }

    /// Times that the source has made way for marks.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// Times that the way was found to break them.
    pub(crate) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Takes the word of the slowest receiver. `round`: it ends a round trip; `sent`: the newest packet. Returns whether
    /// marks were given up by it.
    pub(crate) fn heard(&mut self, now: Instant, limit: &Limit, round: bool, sent: u64) -> bool {
        self.news = Count::default();
        if let Use::Rests(until) = self.state
            && now >= until
        {
            (self.state, self.unmarkable) = (Use::On, sent);
        }
        let before = core::mem::replace(&mut self.before, *limit);
        if before.receiver != limit.receiver {
            // It is another way, on which something has come without a mark, or has not.
            self.is_believed = limit.capable > limit.marked;
            (self.round, self.mute_rounds) = (Count::default(), 0);
            return false;
        }
        if !self.are_on() || before.highest < self.unmarkable {
            return false;
        }
        let count = Count {
            packets: limit.highest.saturating_sub(before.highest),
            capable: limit.capable.wrapping_sub(before.capable).into(),
            marked: limit.marked.wrapping_sub(before.marked).into(),
        };
        self.is_believed |= count.capable > count.marked;
        if self.is_draining && before.highest >= self.answered {
            (self.answered, self.is_draining) = (sent, false);
        }
        if self.is_believed && before.highest >= self.answered {
            self.news = count;
        }
        self.round.add(count);
        round && self.judge(now)
    }

    /// Packets have met a queue, and the source has not made way for it yet.
    pub(crate) fn are_news(&self) -> bool {
        self.news.marked > 0
    }

    /// Half of the packets have met a queue.
    pub(crate) fn are_many(&self) -> bool {
        self.are_news() && self.news.marked * 2 >= self.news.packets
    }

    /// The source makes way: what it has sent until now says no more than is known.
    pub(crate) fn answer(&mut self, sent: u64) {
        self.answers += 1;
        self.pass_over(sent);
        self.is_draining = true;
    }

    /// Marks of what was sent until now are of a queue that is known.
    pub(crate) fn pass_over(&mut self, sent: u64) {
        (self.answered, self.news) = (sent, Count::default());
    }

    /// Judges a round trip. Returns whether it was the last of those that told nothing.
    fn judge(&mut self, now: Instant) -> bool {
        if self.round.packets < ROUND_MIN {
            return false;
        }
        self.mute_rounds = match core::mem::take(&mut self.round).is_mute() {
            true => self.mute_rounds + 1,
            false => 0,
        };
        let mute = self.mute_rounds >= MUTE_ROUNDS;
        if mute {
            self.state = Use::Rests(now.after(REST));
            (self.is_believed, self.mute_rounds, self.news) = (false, 0, Count::default());
            self.given_up += 1;
        }
        mute
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source whose receiver reports ten packets at a time, a round trip each.
    struct Trial {
        marks: Marks,
        limit: Limit,
        now: Instant,
    }

    impl Trial {
        fn new() -> Self {
            let mut trial = Self {
                marks: Marks::default(),
                limit: Limit::default(),
                now: Instant(0),
            };
            trial.limit.receiver = 7;
            trial.marks.want();
            trial.marks.heard(trial.now, &trial.limit, true, 0);
            trial
        }

        /// Ten more packets come, so many of them with a codepoint, and with a mark.
        fn come(&mut self, capable: u32, marked: u32) -> bool {
            self.now = self.now.after(Duration::from_millis(100));
            self.limit.highest += 10;
            self.limit.capable = self.limit.capable.wrapping_add(capable);
            self.limit.marked = self.limit.marked.wrapping_add(marked);
            self.marks
                .heard(self.now, &self.limit, true, self.limit.highest)
        }
    }

    /// R-RELAY-80.
    #[test]
    fn a_mark_is_news_until_it_is_answered_and_for_what_is_sent_then_again() {
        let mut trial = Trial::new();
        trial.limit.marked = u32::MAX;
        trial.marks.before.marked = u32::MAX;
        assert!(!trial.come(10, 0) && !trial.marks.are_news());
        trial.come(10, 4);
        assert!(trial.marks.are_news() && !trial.marks.are_many());
        trial.come(10, 5);
        assert!(trial.marks.are_many());
        trial.marks.answer(trial.limit.highest + 10);
        assert!(!trial.marks.are_news());
        trial.come(10, 10);
        assert!(!trial.marks.are_news(), "it was sent before");
        trial.come(10, 10);
        assert!(!trial.marks.are_news(), "and so was what it waited behind");
        trial.come(10, 1);
        assert!(trial.marks.are_news());
        assert_eq!(trial.marks.answers(), 1);
    }

    /// R-RELAY-81: nothing comes without a mark, or nothing that could be marked.
    #[test]
    fn a_way_that_marks_all_or_bleaches_is_done_without_for_a_minute() {
        for (capable, marked) in [(10, 10), (8, 7), (0, 0), (4, 0)] {
            let mut trial = Trial::new();
            for _ in 1..MUTE_ROUNDS {
                assert!(!trial.come(capable, marked));
                assert!(trial.marks.are_on());
            }
            assert!(trial.come(capable, marked), "{capable}, {marked}");
            let until = trial.now.after(REST);
            while trial.now < until {
                assert!(!trial.marks.are_on() && !trial.marks.are_news());
                trial.come(0, 0);
            }
            assert!(trial.marks.are_on());
            trial.come(10, 0);
            trial.come(10, 1);
            assert!(trial.marks.are_news());
            assert_eq!(trial.marks.given_up(), 1);
        }
    }

    /// R-RELAY-81.
    #[test]
    fn marks_are_not_believed_before_a_packet_came_without_one_and_losses_are_no_lack() {
        let mut trial = Trial::new();
        trial.come(10, 10);
        assert!(!trial.marks.are_news());
        trial.come(10, 9);
        assert!(trial.marks.are_many());
        for _ in 0..3 * MUTE_ROUNDS {
            // Four of ten are lost; and a queue that is there for longer is left in the end.
            assert!(!trial.come(6, 0));
        }
        for (receiver, marked) in [(8, 0), (9, 0), (10, 1)] {
            trial.limit = Limit {
                receiver,
                highest: trial.limit.highest,
                ..Limit::default()
            };
            trial.come(10, 10 - marked);
            trial.come(10, 10);
            let news = trial.marks.are_news();
            assert_eq!(news, marked > 0, "it is another way");
        }
    }
}
