//! The sequence of all updates of a history, and who gives it.
//!
//! # How
//!
//! Updates go to all replicas as without an order, and wait there. One replica, the *sequencer*, says by *records* in
//! which order they are applied, and never sends their content again. Each replica has a log: the order as far as it
//! has the content, too. *Voters* confirm to all how far their log is the sequencer's of this *term*, and what a
//! majority of the voters has, is *agreed*: it alone is applied.
//!
//! This is Raft (Ongaro and Ousterhout, 2014) with these differences: content comes from its source and not from the
//! sequencer, so an entry is in a log, and confirmed and counted in elections, once its content is there; confirmations
//! go to all, so that every replica sees by itself what is agreed, half a round trip before the sequencer could say so;
//! and nothing is on disk. A replica that forgets its log, because it ends or binds anew, never comes back as the voter
//! that it was: a voter is a *life*, and the next life has another number.
//!
//! # Why no two replicas apply different updates at a position
//!
//! 1. A term has one sequencer at most: a voter grants a term once, and a sequencer has the grants of a majority.
//! 2. A sequencer never changes its log but at the end, and a record fits only behind an entry of the same term. So two
//!    logs that have an entry of the same term at a position are equal up to there.
//! 3. A voter grants only whose log ends in a later term, or in the same and not before its own. What is agreed in a
//!    term is in the logs of a majority, one of which every later sequencer asked. So it is in the log of every later
//!    sequencer. Entries of former terms are agreed only together with one of the present term: a majority that has an
//!    old entry may be outvoted by a log that ends later.
//! 4. Voters change by one at a time, by an entry of the sequence, which counts as soon as it is in a log, and only
//!    when the change before it and an entry of the present term are agreed. So any two majorities that may decide at a
//!    time have a voter in common. A replica that counts confirmations takes the voters of its log as far as it is the
//!    sequencer's; those are the voters that the sequencer had when its log was as long.
//! 5. A joiner takes a snapshot of what is agreed, and the voters at its position.
//!
//! So order records are never applied at once, only when a majority has them: this takes no more than the second half
//! of a round trip, and none of the replicas, dead or alive, has ever applied what the others do not.
//!
//! What is agreed can be lost only if a majority of voters dies or forgets at once. Then nothing can be agreed any
//! more. A replica that has known no sequencer for some seconds, though everybody whom the membership service counts is
//! there, binds anew, and the election of founders begins a new history, on the longest state that is left. Positions
//! begin at 1 in it, so the promise holds in every history without exception. A minority that is cut off finds no
//! majority, and waits: it goes on when it is back, or binds anew if its node was excluded.

mod ballot;
#[cfg(test)]
mod drawn;
mod govern;
mod log;
mod waiting;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::notice::{Cause, Notice};
use crate::random::draw;
use crate::word::{
    Ack, Anchor, Cut, History, Item, Place, Position, Record, Source, Step, Term, Update, Voter,
    Word,
};
use log::{Entry, Log};
pub(crate) use waiting::OVERHEAD;
use waiting::{Taken, Waiting};

/// Time between two records of a sequencer that has nothing to say.
const HEARTBEAT: Duration = Duration::from_millis(50);
/// Least time between two records, and between two confirmations: what comes meanwhile shares one.
pub(crate) const BATCH: Duration = Duration::from_micros(200);
/// Least time between two repetitions of records, and between two questions for them.
const AGAIN: Duration = Duration::from_millis(20);
/// A sequencer, or a voter of one, that was not heard for so long is not counted on.
const SILENT: Duration = Duration::from_secs(1);
/// A replica whose content is missing for so long binds anew.
const MISSING: Duration = Duration::from_secs(3);
/// Entries kept behind what is applied, for those that lack them.
const KEPT_MAX: u64 = 16_384;
/// Runs in one record.
const ITEMS_MAX: usize = 4096;
/// Entries that wait for their content.
const AHEAD_MAX: usize = 1 << 20;

/// Part of this replica in its term.
#[derive(Debug, PartialEq, Eq)]
enum Role {
    Follower,
    /// It asks whether it could be the sequencer of the next term; these said yes.
    Trial(BTreeSet<Source>),
    /// It asks to be the sequencer of this term; these said yes.
    Candidate(BTreeSet<Source>),
    Sequencer,
}

/// Confirmation of a voter.
#[derive(Debug, Clone, Copy)]
struct Acked {
    reached: Position,
    heard: Duration,
}

/// The sequence at one replica, for as long as it is live.
#[derive(Debug)]
pub(crate) struct Sequence {
    history: History,
    me: Voter,
    random: u64,
    log: Log,
    waiting: Waiting,
    term: Term,
    /// To whom this term was granted.
    voted: Option<Source>,
    role: Role,
    sequencer: Option<Voter>,
    /// When the sequencer was heard last.
    heard: Duration,
    /// When this replica asks to be the sequencer, if none is heard before.
    due: Duration,
    /// Up to here the log is the sequencer's of this term.
    reached: Position,
    /// When that became more, or nothing was missing.
    moved: Duration,
    /// Entries behind `reached`, of which the first one's content is missing.
    ahead: VecDeque<Entry>,
    /// The end of the sequencer's log, as far as it is known.
    end: Position,
    agreed: Position,
    applied: Position,
    acks: BTreeMap<Source, Acked>,
    /// Since when this replica is the sequencer.
    since: Duration,
    /// The sequencer has sent its log up to here, the last time then.
    published: Position,
    sent: Option<Duration>,
    /// From where on the sequencer is to send it again.
    again: Option<Position>,
    repeated: Option<Duration>,
    /// A record came that was not confirmed.
    answers: bool,
    /// Entries before that record are missing.
    lacks: bool,
    answered: Option<Duration>,
    /// Lives that have said that they end.
    leaving: BTreeSet<Source>,
    /// When sources were heard last.
    seen: BTreeMap<Source, Duration>,
    swept: Option<Duration>,
    governed: Option<Duration>,
    fault: Option<Cause>,
    words: Vec<Word>,
    notices: Vec<Notice>,
    /// Times that it asked to be the next sequencer, not told yet.
    elections: u64,
}

impl Sequence {
    /// Of a replica that founds a history: its first sequencer.
    pub(crate) fn found(history: History, me: Voter, held_bytes: usize, now: Duration) -> Self {
        let anchor = Anchor {
            position: 0,
            term: 0,
            voters: vec![me],
        };
        let mut sequence = Self::join(
            history,
            me,
            anchor,
            Waiting::new(&Cut::new(), held_bytes),
            now,
        );
        sequence.adopt(1);
        sequence.voted = Some(me.life);
        sequence.lead(now);
        sequence
    }

    /// Of a replica that has a snapshot, with its cut.
    pub(crate) fn bound(
        history: History,
        me: Voter,
        anchor: Anchor,
        cut: &Cut,
        held_bytes: usize,
        now: Duration,
    ) -> Self {
        Self::join(history, me, anchor, Waiting::new(cut, held_bytes), now)
    }

    fn join(history: History, me: Voter, anchor: Anchor, waiting: Waiting, now: Duration) -> Self {
        let position = anchor.position;
        let term = anchor.term;
        let log = Log::new(anchor);
        let mut random = me.life.0;
        let due = now + SILENT + Duration::from_millis(draw(&mut random) % 250);
        Self {
            history,
            me,
            random,
            log,
            waiting,
            term,
            voted: None,
            role: Role::Follower,
            sequencer: None,
            heard: now,
            due,
            reached: position,
            moved: now,
            ahead: VecDeque::new(),
            end: position,
            agreed: position,
            applied: position,
            acks: BTreeMap::new(),
            since: now,
            published: position,
            sent: None,
            again: None,
            repeated: None,
            answers: false,
            lacks: false,
            answered: None,
            leaving: BTreeSet::new(),
            seen: BTreeMap::new(),
            swept: None,
            governed: None,
            fault: None,
            words: Vec::new(),
            notices: Vec::new(),
            elections: 0,
        }
    }

    /// Takes an update in that came while the snapshot was fetched.
    pub(crate) fn hold(&mut self, update: Update, now: Duration) {
        self.seen.insert(update.source, now);
        if self.waiting.push(update) == Taken::Full {
            self.fault = Some(Cause::Lost);
        }
    }

    /// Takes an update in, which came from its source.
    pub(crate) fn update(&mut self, update: Update, now: Duration) {
        self.seen.insert(update.source, now);
        match self.waiting.push(update) {
            Taken::Done => {}
            Taken::Hole => self.fault = Some(Cause::Hole),
            Taken::Full => self.fault = Some(Cause::Lost),
        }
        if self.advance(now) {
            self.count();
        }
    }

    /// Takes a word of another replica in.
    pub(crate) fn hear(&mut self, word: &Word, now: Duration) {
        match word {
            Word::Record(record) if record.history == self.history => self.record(record, now),
            Word::Ack(ack) if ack.history == self.history => self.ack(ack, now),
            Word::Ask(ask) if ask.history == self.history => self.ask(ask, now),
            Word::Grant(grant) if grant.history == self.history => self.grant(grant, now),
            Word::Leave(life) => self.leaves(*life, now),
            _ => {}
        }
        self.count();
    }

    /// The next step that is agreed, once.
    pub(crate) fn next(&mut self, now: Duration) -> Option<Applied> {
        while self.applied < self.agreed {
            let position = self.applied + 1;
            let step = self.log.get(position)?.step.clone();
            self.applied = position;
            self.log.forget(position.saturating_sub(KEPT_MAX));
            match step {
                Step::Update(place) => {
                    let Some(content) = self.waiting.take(place) else {
                        self.fault = Some(Cause::Hole);
                        return None;
                    };
                    return Some(Applied::Update(place, content));
                }
                Step::Forget(source) => {
                    self.waiting.forget(source);
                    self.seen.remove(&source);
                    return Some(Applied::Forget(source));
                }
                Step::Voters(voters) => {
                    if self.role == Role::Sequencer && !voters.contains(&self.me) {
                        self.publish(now);
                        self.resign();
                    }
                }
            }
        }
        None
    }

    /// Words to all others.
    pub(crate) fn take_words(&mut self) -> Vec<Word> {
        std::mem::take(&mut self.words)
    }

    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Times since the last call that it asked to be the next sequencer.
    pub(crate) fn take_elections(&mut self) -> u64 {
        std::mem::take(&mut self.elections)
    }

    /// Why this replica has to bind anew.
    pub(crate) fn fault(&self) -> Option<Cause> {
        self.fault
    }

    /// Where the log of who takes a snapshot now begins.
    pub(crate) fn anchor(&self) -> Option<Anchor> {
        self.log.anchor(self.applied)
    }

    /// Tells whether there is a sequencer whom a majority follows, as far as is seen here.
    pub(crate) fn is_steady(&self, now: Duration) -> bool {
        let fresh = |heard: Duration| now.saturating_sub(heard) < SILENT;
        if self.role != Role::Sequencer {
            return self.sequencer.is_some() && fresh(self.heard);
        }
        let (_, voters) = self.log.voters_at(self.reached);
        let counted = voters.iter().filter(|voter| {
            let acked = self.acks.get(&voter.life);
            voter.life == self.me.life || acked.is_some_and(|acked| fresh(acked.heard))
        });
        counted.count() > voters.len() / 2 || fresh(self.since)
    }

    /// Number of the replicas that vote.
    pub(crate) fn voters(&self) -> usize {
        self.log.voters_at(self.applied).1.len()
    }

    /// Tells whether something is to be said before long.
    pub(crate) fn is_pending(&self) -> bool {
        match self.role {
            Role::Sequencer => self.is_unsaid(),
            _ => self.answers,
        }
    }

    fn is_unsaid(&self) -> bool {
        self.published < self.log.last() || self.waiting.any_fresh()
    }

    /// Says what is due.
    fn speak(&mut self, now: Duration) {
        let since = |at: Option<Duration>| at.map_or(Duration::MAX, |at| now.saturating_sub(at));
        if self.role == Role::Sequencer {
            let idle = since(self.sent);
            if idle >= HEARTBEAT || (self.is_unsaid() && idle >= BATCH) {
                self.publish(now);
            }
            if since(self.repeated) >= AGAIN
                && let Some(from) = self.again.take()
            {
                self.repeated = Some(now);
                let (record, _) = self.written(from.max(self.log.base()));
                self.words.push(Word::Record(record));
            }
            return;
        }
        let votes = self.log.voters_at(self.reached).1.contains(&self.me);
        let least = if votes && !self.lacks { BATCH } else { AGAIN };
        if self.answers && (votes || self.lacks) && since(self.answered) >= least {
            self.words.push(Word::Ack(Ack {
                history: self.history,
                term: self.term,
                life: self.me.life,
                reached: self.reached,
                lacks: self.lacks,
            }));
            (self.answered, self.lacks) = (Some(now), false);
            self.answers = false;
        }
        self.answers &= votes || self.lacks;
    }

    /// The sequencer puts what has come into its log, and says its log as far as it has not.
    fn publish(&mut self, now: Duration) {
        for place in self.waiting.take_fresh() {
            let step = Step::Update(place);
            self.append(step);
        }
        loop {
            let (record, last) = self.written(self.published);
            self.published = last;
            self.words.push(Word::Record(record));
            if last == self.log.last() {
                break;
            }
        }
        self.sent = Some(now);
        self.count();
    }

    /// Puts a step at the end of the sequencer's log.
    fn append(&mut self, step: Step) {
        let term = self.term;
        self.log.push(Entry { term, step });
        (self.reached, self.end) = (self.log.last(), self.log.last());
    }

    /// A record of the log behind this position, and where it ends.
    fn written(&self, behind: Position) -> (Record, Position) {
        let (items, last) = self.log.items(behind, ITEMS_MAX);
        let record = Record {
            history: self.history,
            term: self.term,
            sequencer: self.me,
            behind,
            behind_term: self.log.term_at(behind).unwrap_or(0),
            items,
            agreed: self.agreed,
            base: self.log.base(),
        };
        (record, last)
    }

    fn record(&mut self, record: &Record, now: Duration) {
        if record.term < self.term || record.sequencer.life == self.me.life {
            return;
        }
        if record.term > self.term {
            self.adopt(record.term);
        }
        self.follow(record.sequencer, now);
        if !self.fits(record) {
            self.lacks = true;
            if self.reached < record.base {
                self.fault = Some(Cause::Hole);
            }
            return;
        }
        let mut position = record.behind;
        for entry in record.items.iter().flat_map(Item::entries) {
            position += 1;
            if position > self.reached + self.ahead.len() as u64 && !self.take(position, entry) {
                return;
            }
        }
        self.end = position.max(self.end);
        self.lacks = false;
        self.advance(now);
        let agreed = record.agreed.min(self.reached);
        self.agreed = agreed.max(self.agreed);
    }

    /// Tells whether the log here is the sequencer's up to where the record begins.
    fn fits(&mut self, record: &Record) -> bool {
        if record.behind <= self.reached + self.ahead.len() as u64 {
            return true;
        }
        let same = self.log.term_at(record.behind) == Some(record.behind_term);
        if same && self.ahead.is_empty() {
            self.reached = record.behind;
        }
        same && self.ahead.is_empty()
    }

    /// Takes the sequencer's entry behind all that is here of its log; false if there is no room.
    fn take(&mut self, position: Position, entry: Entry) -> bool {
        if self.ahead.is_empty() && self.log.term_at(position) == Some(entry.term) {
            self.reached = position;
            return true;
        }
        if self.ahead.len() >= AHEAD_MAX {
            self.lacks = true;
            return false;
        }
        // Entries of a former term that the sequencer does not have are in no sequence; none was agreed.
        while let Some(other) = self.log.pop_behind(position.max(self.agreed + 1) - 1) {
            if let Step::Update(place) = other.step {
                self.waiting.take_back(place);
            }
        }
        if position <= self.agreed {
            self.fault = Some(Cause::Hole);
            return false;
        }
        self.ahead.push_back(entry);
        true
    }

    /// Puts entries into the log whose content is here; true if there was one.
    fn advance(&mut self, now: Duration) -> bool {
        let before = self.reached;
        while let Some(entry) = self.ahead.front() {
            if let Step::Update(place) = entry.step {
                if !self.waiting.has(place) {
                    break;
                }
                self.waiting.order(place);
            }
            let Some(entry) = self.ahead.pop_front() else {
                break;
            };
            self.log.push(entry);
            self.reached = self.log.last();
            self.moved = now;
            self.answers = true;
        }
        if self.ahead.is_empty() {
            self.moved = now;
        }
        self.reached > before
    }

    fn ack(&mut self, ack: &Ack, now: Duration) {
        if ack.term > self.term {
            self.adopt(ack.term);
        }
        if ack.term < self.term || ack.life == self.me.life {
            return;
        }
        let acked = self.acks.entry(ack.life).or_insert(Acked {
            reached: ack.reached,
            heard: now,
        });
        (acked.reached, acked.heard) = (ack.reached.max(acked.reached), now);
        if ack.lacks && self.role == Role::Sequencer {
            let from = self
                .again
                .map_or(ack.reached, |again| again.min(ack.reached));
            self.again = Some(from);
        }
    }

    /// Finds what a majority of the voters has.
    fn count(&mut self) {
        let (_, voters) = self.log.voters_at(self.reached);
        let mut places: Vec<Position> = voters.iter().map(|voter| self.place(voter)).collect();
        places.sort_unstable_by_key(|place| Reverse(*place));
        let most = places.get(voters.len() / 2).copied().unwrap_or(0);
        let agreed = most.min(self.reached);
        // One of a former term alone would not be safe: see the head of this module.
        if agreed > self.agreed && self.log.term_at(agreed) == Some(self.term) {
            self.agreed = agreed;
        }
    }

    fn place(&self, voter: &Voter) -> Position {
        if voter.life == self.me.life {
            self.reached
        } else if self.sequencer == Some(*voter) {
            self.end
        } else {
            self.acks.get(&voter.life).map_or(0, |acked| acked.reached)
        }
    }

    /// Begins a term that this replica knows nothing of.
    fn adopt(&mut self, term: Term) {
        self.term = term;
        self.voted = None;
        self.role = Role::Follower;
        self.sequencer = None;
        self.ahead.clear();
        self.acks.clear();
        self.again = None;
        self.lacks = false;
        // What is agreed is in the log of every later sequencer.
        (self.reached, self.end) = (self.agreed, self.agreed);
    }

    /// The sequencer of this term was heard.
    fn follow(&mut self, sequencer: Voter, now: Duration) {
        if self.sequencer != Some(sequencer) {
            self.sequencer = Some(sequencer);
            self.tell(sequencer);
        }
        self.role = Role::Follower;
        self.heard = now;
        self.due = now + self.suspicion();
        self.answers = true;
    }

    /// Begins to be the sequencer of this term.
    fn lead(&mut self, now: Duration) {
        self.role = Role::Sequencer;
        self.sequencer = Some(self.me);
        (self.heard, self.since) = (now, now);
        self.reached = self.log.last();
        // What others may lack, and an entry of this term, with which all before it is agreed.
        self.published = self.agreed;
        let (_, voters) = self.log.voters_at(self.reached);
        self.append(Step::Voters(voters.to_vec()));
        self.tell(self.me);
        self.publish(now);
    }

    fn tell(&mut self, sequencer: Voter) {
        self.notices.push(Notice::Sequencer {
            term: self.term,
            address: sequencer.address,
            own: sequencer == self.me,
        });
    }

    fn resign(&mut self) {
        self.role = Role::Follower;
        self.sequencer = None;
        self.words.push(Word::Leave(self.me.life));
    }
}

/// Step that is carried out at this replica.
#[derive(Debug)]
pub(crate) enum Applied {
    /// An update, with its content.
    Update(Place, Vec<u8>),
    /// The number of this source is not needed any more.
    Forget(Source),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::{Address, Ask};

    const HISTORY: History = History {
        generation: 1,
        id: 7,
    };
    const NOW: Duration = Duration::ZERO;

    fn voter(life: u64) -> Voter {
        Voter {
            address: Address(life),
            life: Source(life),
        }
    }

    /// A replica that votes with four others.
    fn fifth() -> Sequence {
        let anchor = Anchor {
            position: 0,
            term: 0,
            voters: (1..=5).map(voter).collect(),
        };
        Sequence::bound(HISTORY, voter(5), anchor, &Cut::new(), 1000, NOW)
    }

    fn update(source: u64, number: u64) -> (Update, Step) {
        let source = Source(source);
        let update = Update {
            history: HISTORY,
            source,
            number,
            content: vec![7],
        };
        (update, Step::Update(Place { source, number }))
    }

    fn record(sequencer: u64, term: Term, behind: Anchor, steps: &[(Term, &Step)]) -> Word {
        let item = |(term, step): &(Term, &Step)| Item {
            term: *term,
            step: (*step).clone(),
            count: 1,
        };
        Word::Record(Record {
            history: HISTORY,
            term,
            sequencer: voter(sequencer),
            behind: behind.position,
            behind_term: behind.term,
            items: steps.iter().map(item).collect(),
            agreed: 0,
            base: 0,
        })
    }

    fn at(position: Position, term: Term) -> Anchor {
        Anchor {
            position,
            term,
            voters: Vec::new(),
        }
    }

    fn ack(life: u64, term: Term, reached: Position) -> Word {
        Word::Ack(Ack {
            history: HISTORY,
            term,
            life: Source(life),
            reached,
            lacks: false,
        })
    }

    #[test]
    fn what_a_majority_has_of_a_former_term_is_agreed_with_the_present_one_only() {
        let mut sequence = fifth();
        let (content, step) = update(9, 1);
        sequence.update(content, NOW);
        sequence.hear(&record(1, 1, at(0, 0), &[(1, &step)]), NOW);
        sequence.hear(&record(2, 3, at(0, 0), &[(1, &step)]), NOW);
        for life in [3, 4] {
            sequence.hear(&ack(life, 3, 1), NOW);
        }
        assert!(sequence.next(NOW).is_none());
        let voters = Step::Voters((1..=5).map(voter).collect());
        sequence.hear(&record(2, 3, at(1, 1), &[(3, &voters)]), NOW);
        assert!(sequence.next(NOW).is_none());
        sequence.hear(&ack(3, 3, 2), NOW);
        assert!(matches!(sequence.next(NOW), Some(Applied::Update(..))));
    }

    #[test]
    fn an_entry_is_neither_confirmed_nor_counted_before_its_content_is_here() {
        let mut sequence = fifth();
        let (content, step) = update(9, 1);
        sequence.hear(&record(1, 1, at(0, 0), &[(1, &step)]), NOW);
        for life in [2, 3] {
            sequence.hear(&ack(life, 1, 1), NOW);
        }
        assert_eq!((sequence.reached, sequence.log.end()), (0, (0, 0)));
        assert!(sequence.next(NOW).is_none());
        sequence.update(content, NOW);
        assert_eq!((sequence.reached, sequence.log.end()), (1, (1, 1)));
        assert!(matches!(sequence.next(NOW), Some(Applied::Update(..))));
    }

    #[test]
    fn entries_that_the_next_sequencer_does_not_have_give_way_and_are_ordered_later() {
        let mut sequence = fifth();
        let [(first, old), (second, new)] = [update(8, 1), update(9, 1)];
        sequence.update(first, NOW);
        sequence.update(second, NOW);
        sequence.hear(&record(1, 1, at(0, 0), &[(1, &old)]), NOW);
        sequence.hear(&record(2, 2, at(0, 0), &[(2, &new), (2, &old)]), NOW);
        for life in [3, 4] {
            sequence.hear(&ack(life, 2, 2), NOW);
        }
        let applied = [sequence.next(NOW), sequence.next(NOW)];
        let sources = applied.map(|applied| match applied {
            Some(Applied::Update(place, _)) => place.source.0,
            other => panic!("{other:?}"),
        });
        assert_eq!(sources, [9, 8]);
    }

    #[test]
    fn a_term_is_granted_once_and_only_to_a_log_that_is_no_shorter() {
        let mut sequence = fifth();
        let (content, step) = update(9, 1);
        sequence.update(content, NOW);
        sequence.hear(&record(1, 1, at(0, 0), &[(1, &step)]), NOW);
        sequence.take_words();
        let mut asked = |life, term, end| {
            let ask = Ask {
                history: HISTORY,
                term,
                life: Source(life),
                end,
                trial: false,
            };
            sequence.hear(&Word::Ask(ask), NOW);
            !sequence.take_words().is_empty()
        };
        assert!(!asked(2, 2, (0, 0)), "it lacks the update");
        assert!(asked(3, 2, (1, 1)));
        assert!(asked(3, 2, (1, 1)), "the answer may be lost");
        assert!(!asked(4, 2, (1, 5)), "the term is granted");
        assert!(asked(4, 3, (1, 5)));
    }
}
