//! A replica as a state machine without I/O: a function of what it hears, the time, and one seed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::bind::{Bind, Step};
use crate::election::{FRESH, Peers, Rank};
use crate::held::Held;
use crate::limits::Limits;
use crate::machine::StateMachine;
use crate::notice::{BindError, Cause, Notice};
use crate::order::Order;
use crate::random::draw;
use crate::sequence::{Applied, OVERHEAD, Sequence};
use crate::stats::ReplicaStats;
use crate::transfer::Donor;
use crate::word::{
    Address, Beat, Chunk, Cut, Fetch, Head, History, Kept, Place, Source, Standing, Update, Voter,
    Word, read, write,
};

/// Time between two beats of a replica that binds, and the least between two of a live one.
const BEAT: Duration = Duration::from_millis(100);
/// Time between two beats of a live replica that nobody asks.
const QUIET_BEAT: Duration = Duration::from_millis(500);
/// A live replica that knows no sequencer for so long, though everybody is there, binds anew.
const UNSTEADY: Duration = Duration::from_secs(3);
/// Of [`Limits::held_bytes`], the part that updates of one replica may take that are not applied yet.
const OWN_PART: usize = 64;

/// Output of a replica, to be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// To be said to all replicas.
    All(Vec<u8>),
    /// To be said to one; it may be dropped, and is asked for again.
    One(Address, Vec<u8>),
    /// To be told to the program.
    Tell(Notice),
}

#[derive(Debug)]
enum Phase {
    Binding(Box<Bind>),
    Live { published: bool },
    Failed,
}

/// Outcome of importing a snapshot.
enum Import {
    Done,
    /// Something is missing between it and what is held.
    Gap,
    /// The state does not take it.
    Foreign,
}

/// A replica without I/O. `now` is the time since any origin that does not change, `members` the number of *other*
/// receivers of the group, as the membership service says.
#[derive(Debug)]
pub struct Core<S> {
    address: Address,
    random: u64,
    order: Order,
    limits: Limits,
    state: S,
    history: Option<History>,
    updates: u64,
    cut: Cut,
    source: Source,
    number: u64,
    phase: Phase,
    held: Held,
    peers: Peers,
    donor: Donor,
    /// Of a live replica with a total order.
    sequence: Option<Sequence>,
    /// Bytes of each update of this replica that is not applied yet, with a total order, and their sum.
    own: VecDeque<usize>,
    own_bytes: usize,
    /// Since when just the members were heard that the service counts.
    complete: Option<Duration>,
    /// Since when no sequencer is known.
    unsteady: Option<Duration>,
    beaten: Option<Duration>,
    outputs: VecDeque<Output>,
    /// Times that the state has changed, or whether it is live.
    changes: u64,
    /// Its counters; gauges are read when they are asked for.
    stats: ReplicaStats,
}

impl<S: StateMachine> Core<S> {
    /// A replica that binds; `state` is what it has if it turns out to be the first. `seed` is to be drawn by chance:
    /// replicas with equal seeds take each other for themselves.
    pub fn new(state: S, limits: Limits, seed: u64, now: Duration) -> Self {
        Self::ordered(state, Order::Source, limits, seed, now)
    }

    /// As [`Core::new`], of a group that applies updates in this order.
    pub fn ordered(state: S, order: Order, limits: Limits, seed: u64, now: Duration) -> Self {
        let mut random = seed;
        let address = Address(draw(&mut random));
        let source = Source(draw(&mut random));
        Self {
            address,
            random,
            order,
            limits,
            state,
            history: None,
            updates: 0,
            cut: Cut::new(),
            source,
            number: 0,
            phase: Phase::Binding(Box::new(Bind::new(limits, now))),
            held: Held::new(limits.held_bytes),
            peers: Peers::default(),
            donor: Donor::default(),
            sequence: None,
            own: VecDeque::new(),
            own_bytes: 0,
            complete: None,
            unsteady: None,
            beaten: None,
            outputs: VecDeque::new(),
            changes: 0,
            stats: ReplicaStats::default(),
        }
    }

    /// Where others send it what is for it alone.
    pub fn address(&self) -> Address {
        self.address
    }

    /// The state. Old, or with a hole, unless [`Core::is_live`].
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Tells whether the state follows every update.
    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live { .. })
    }

    /// The line of states, once there is one.
    pub fn history(&self) -> Option<History> {
        self.history
    }

    /// Number of updates that the state is made of.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Number of times that the state has changed, or whether it is live, for who waits for either.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Its counters. The size of the state is asked for.
    pub fn stats(&self) -> ReplicaStats {
        ReplicaStats {
            live: u64::from(self.is_live()),
            state_bytes: self.state.size(),
            given_snapshots: self.donor.begun,
            busy: self.donor.busy,
            held_bytes: self.held.bytes() as u64,
            ..self.stats
        }
    }

    /// Number of updates that this replica has published and not applied yet.
    pub fn unapplied(&self) -> u64 {
        self.number - self.applied(self.source)
    }

    /// Tells whether another update may be published: with a total order, those of this replica that are not applied
    /// may take a 64th of [`Limits::held_bytes`].
    pub fn has_room(&self) -> bool {
        self.own_bytes <= self.limits.held_bytes / OWN_PART
    }

    /// Tells whether [`Core::tick`] is to be called within 200 µs, for a word that is due.
    pub fn is_pending(&self) -> bool {
        self.sequence.as_ref().is_some_and(Sequence::is_pending)
    }

    /// Says that this replica ends, so that others need not find it out. [`Core::may_end`] tells when it is done.
    pub fn leave(&mut self, now: Duration) {
        if let Some(sequence) = &mut self.sequence {
            sequence.leave();
        }
        self.advance(now);
    }

    /// Tells whether this replica is one of those, five at most, a majority of which has to have an update before it is
    /// applied.
    pub fn votes(&self) -> bool {
        let votes = |sequence: &Sequence| !sequence.may_end();
        self.sequence.as_ref().is_some_and(votes)
    }

    /// Number of the replicas that vote, this one included if it does; 0 without a total order.
    pub fn voters(&self) -> usize {
        self.sequence.as_ref().map_or(0, Sequence::voters)
    }

    /// Tells whether nobody depends on this replica, or nobody is there.
    pub fn may_end(&self) -> bool {
        let free = |sequence: &Sequence| sequence.may_end();
        self.peers.len() == 0 || self.sequence.as_ref().is_none_or(free)
    }

    /// Takes what is to be done.
    pub fn take(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// An update as it is to be published, `None` while this replica is not live. What it returns must be published,
    /// in this order, or [`Core::lost`] called.
    pub fn publish(&mut self, content: &[u8]) -> Option<Vec<u8>> {
        let written = self.publish_by(|_| Ok::<_, Infallible>(content.to_vec()))?;
        written.ok()
    }

    /// As [`Core::publish`], of an update that the state writes, and may apply at once if its coming again changes
    /// nothing. What `update` fails with is handed on, and nothing is to be published.
    pub fn publish_by<E>(
        &mut self,
        update: impl FnOnce(&mut S) -> Result<Vec<u8>, E>,
    ) -> Option<Result<Vec<u8>, E>> {
        let (Phase::Live { published }, Some(history)) = (&mut self.phase, self.history) else {
            self.stats.refused += 1;
            return None;
        };
        let content = match update(&mut self.state) {
            Ok(content) => content,
            Err(error) => {
                self.stats.refused += 1;
                return Some(Err(error));
            }
        };
        *published = true;
        self.number += 1;
        self.changes += 1;
        self.stats.published += 1;
        if self.order == Order::Total {
            let bytes = content.len() + OVERHEAD;
            self.own.push_back(bytes);
            self.own_bytes += bytes;
        }
        Some(Ok(write(&Update {
            history,
            source: self.source,
            number: self.number,
            content,
        })))
    }

    /// An update that came, of any replica, this one included.
    pub fn update(&mut self, bytes: &[u8], now: Duration) {
        let Some(update) = read::<Update>(bytes) else {
            self.stats.passed_over += 1;
            return;
        };
        match self.phase {
            Phase::Failed => {}
            Phase::Binding(_) => self.hold(update, now),
            Phase::Live { .. } if self.history != Some(update.history) => {
                self.stats.passed_over += 1;
            }
            Phase::Live { .. } if self.order == Order::Total => {
                if let Some(sequence) = &mut self.sequence {
                    sequence.update(update, now);
                }
                self.advance(now);
            }
            Phase::Live { .. } => {
                let applied = self.applied(update.source);
                if update.number == applied + 1 {
                    let (source, number) = (update.source, update.number);
                    self.apply(Place { source, number }, &update.content);
                } else if update.number > applied {
                    self.rebind(Cause::Hole, now);
                    self.hold(update, now);
                } else {
                    self.stats.passed_over += 1;
                }
            }
        }
    }

    /// Something of the group is lost, or this replica's own update was not sent.
    pub fn lost(&mut self, now: Duration) {
        match &mut self.phase {
            Phase::Failed => {}
            Phase::Binding(bind) => {
                // What is held may have a hole at its end, where no number shows it.
                self.held.clear();
                let step = bind.again(now);
                self.follow(step);
            }
            Phase::Live { .. } => self.rebind(Cause::Lost, now),
        }
    }

    /// A word of another replica, to all or to this one.
    pub fn word(&mut self, bytes: &[u8], now: Duration) {
        if matches!(self.phase, Phase::Failed) {
            return;
        }
        match read::<Word>(bytes) {
            Some(Word::Beat(beat)) if beat.from != self.address => self.hear(&beat, now),
            Some(Word::Fetch(fetch)) if fetch.to == self.address => self.serve(&fetch, now),
            Some(Word::Chunk(chunk)) => self.chunk(chunk, now),
            Some(Word::Beat(_) | Word::Fetch(_)) => {}
            None => self.stats.malformed += 1,
            Some(Word::Record(record)) if matches!(self.phase, Phase::Binding(_)) => {
                if self.order == Order::Total {
                    self.held.keep(record);
                }
            }
            Some(word) => {
                if let Some(sequence) = &mut self.sequence {
                    sequence.hear(&word, now);
                }
                self.advance(now);
            }
        }
    }

    /// Lets time pass; to be called every few milliseconds.
    pub fn tick(&mut self, members: Option<u32>, now: Duration) {
        self.peers.forget_silent(now);
        self.donor.forget_idle(now);
        if let Phase::Binding(bind) = &mut self.phase {
            let donors = self.peers.donors();
            let step = bind.tick(self.address, &donors, now, &mut self.random);
            self.follow(step);
        }
        if matches!(self.phase, Phase::Binding(_)) {
            let me = Rank {
                kept: self.kept(),
                address: self.address,
            };
            if self.peers.may_found(me, members, now) {
                self.found(now);
            }
        }
        self.tick_sequence(members, now);
        let every = if self.is_live() { QUIET_BEAT } else { BEAT };
        if self.beaten.is_none_or(|at| now.saturating_sub(at) >= every) {
            self.beat(now);
        }
    }

    fn applied(&self, source: Source) -> u64 {
        self.cut.get(&source).copied().unwrap_or(0)
    }

    fn apply(&mut self, place: Place, content: &[u8]) {
        self.state.apply(content);
        self.cut.insert(place.source, place.number);
        self.updates += 1;
        self.changes += 1;
        self.stats.applied += 1;
    }

    fn tick_sequence(&mut self, members: Option<u32>, now: Duration) {
        let counted = members == u32::try_from(self.peers.len()).ok();
        let since = counted.then(|| self.complete.unwrap_or(now));
        self.complete = since;
        let complete = since.is_some_and(|since| now.saturating_sub(since) > FRESH);
        let Some(sequence) = &mut self.sequence else {
            return;
        };
        sequence.tick(&self.peers, complete, now);
        let unsteady = (!sequence.is_steady(now)).then(|| self.unsteady.unwrap_or(now));
        self.unsteady = unsteady;
        self.advance(now);
        if complete && unsteady.is_some_and(|since| now.saturating_sub(since) >= UNSTEADY) {
            self.rebind(Cause::Quorum, now);
        }
    }

    /// Carries out what the sequence says.
    fn advance(&mut self, now: Duration) {
        let Some(mut sequence) = self.sequence.take() else {
            return;
        };
        let mut forgotten = false;
        while let Some(applied) = sequence.next(now) {
            match applied {
                Applied::Update(place, content) => {
                    if place.source == self.source {
                        self.own_bytes -= self.own.pop_front().unwrap_or(0);
                    }
                    self.apply(place, &content);
                }
                Applied::Forget(source) => {
                    self.cut.remove(&source);
                    forgotten |= source == self.source && self.number > 0;
                }
            }
        }
        let words = sequence.take_words().into_iter();
        let words = words.map(|word| Output::All(write(&word)));
        self.outputs.extend(words);
        self.stats.elections += sequence.take_elections();
        for notice in sequence.take_notices() {
            if let Notice::Sequencer { own, .. } = notice {
                self.stats.terms += 1;
                self.stats.own_terms += u64::from(own);
            }
            self.outputs.push_back(Output::Tell(notice));
        }
        let fault = match sequence.fault() {
            None if forgotten => Some(Cause::Lost),
            fault => fault,
        };
        self.sequence = Some(sequence);
        if let Some(cause) = fault {
            self.rebind(cause, now);
        }
    }

    #[cfg(test)]
    pub(crate) fn sources(&self) -> usize {
        self.cut.len()
    }

    #[cfg(test)]
    pub(crate) fn life(&self) -> Source {
        self.source
    }

    fn me(&self) -> Voter {
        Voter {
            address: self.address,
            life: self.source,
        }
    }

    fn hold(&mut self, update: Update, now: Duration) {
        self.stats.held += 1;
        if !self.held.push(update)
            && let Phase::Binding(bind) = &mut self.phase
        {
            let step = bind.again(now);
            self.follow(step);
        }
    }

    fn kept(&self) -> Kept {
        Kept {
            generation: self.history.map_or(0, |history| history.generation),
            updates: self.updates,
        }
    }

    fn digest(&self) -> u64 {
        xxh3_64(&write(&self.cut))
    }

    /// Of the state, while it has no update of its own that others may lack.
    fn state_digest(&self) -> Option<u64> {
        let settled = self.applied(self.source) == self.number;
        settled.then(|| self.state.digest()).flatten()
    }

    fn beat(&mut self, now: Duration) {
        let standing = match (&self.phase, self.history) {
            (Phase::Failed, _) => return,
            (Phase::Live { published }, Some(history)) => Standing::Live {
                history,
                updates: self.updates,
                digest: self.digest(),
                state: self.state_digest(),
                publishes: *published,
                serves: self.order == Order::Source
                    || self
                        .sequence
                        .as_ref()
                        .is_some_and(|sequence| sequence.is_steady(now)),
            },
            _ => Standing::Binding {
                kept: self.kept(),
                asked: millis(now),
            },
        };
        let vote = match standing {
            Standing::Live { .. } => None,
            Standing::Binding { .. } => {
                let me = Rank {
                    kept: self.kept(),
                    address: self.address,
                };
                self.peers.vote(me, now)
            }
        };
        self.beaten = Some(now);
        let from = self.address;
        let beat = Beat {
            from,
            life: self.source,
            order: self.order,
            standing,
            vote,
        };
        self.outputs
            .push_back(Output::All(write(&Word::Beat(beat))));
    }

    fn hear(&mut self, beat: &Beat, now: Duration) {
        if beat.order != self.order {
            let live = matches!(beat.standing, Standing::Live { .. });
            if live && matches!(self.phase, Phase::Binding(_)) {
                self.fail(BindError::Order);
            }
            return;
        }
        self.peers.hear(beat, now);
        let (Phase::Live { .. }, Some(mine)) = (&self.phase, self.history) else {
            return;
        };
        match beat.standing {
            Standing::Binding { .. } => {
                if self
                    .beaten
                    .is_none_or(|at| now.saturating_sub(at) >= BEAT / 2)
                {
                    self.beat(now);
                }
            }
            Standing::Live { history, .. } if history > mine => {
                self.rebind(Cause::OtherHistory, now);
            }
            Standing::Live {
                history,
                updates,
                digest,
                state,
                ..
            } if history == mine => {
                let own = (self.updates, self.digest());
                let differs = own == (updates, digest) && beat.from < self.address && {
                    let states = state.zip(self.state_digest());
                    states.is_some_and(|(theirs, own)| theirs != own)
                };
                if differs {
                    self.rebind(Cause::Differs, now);
                } else if self.peers.is_behind(beat.from, own, (updates, digest), now) {
                    self.rebind(Cause::Behind, now);
                }
            }
            Standing::Live { .. } => {}
        }
    }

    fn serve(&mut self, fetch: &Fetch, now: Duration) {
        let (Phase::Live { .. }, Some(history)) = (&self.phase, self.history) else {
            return;
        };
        let head = Head {
            history,
            updates: self.updates,
            cut: self.cut.clone(),
            anchor: self.sequence.as_ref().and_then(Sequence::anchor),
        };
        let state = &self.state;
        let chunks = self
            .donor
            .answer(fetch, now, &head, |out| state.snapshot(out));
        for chunk in chunks {
            self.stats.given_bytes += chunk.content.len() as u64;
            self.outputs
                .push_back(Output::One(fetch.from, write(&Word::Chunk(chunk))));
        }
    }

    fn chunk(&mut self, chunk: Chunk, now: Duration) {
        if let Phase::Binding(bind) = &mut self.phase {
            let step = bind.chunk(self.address, chunk, now);
            self.follow(step);
        }
        let Phase::Binding(bind) = &mut self.phase else {
            return;
        };
        let Some(bytes) = bind.take_whole() else {
            return;
        };
        let imported = self.import(&bytes, now);
        let Phase::Binding(bind) = &mut self.phase else {
            return;
        };
        let step = match imported {
            Import::Done => {
                self.stats.taken_snapshots += 1;
                self.stats.taken_bytes += bytes.len() as u64;
                self.enter(false);
                return self.order_held(now);
            }
            Import::Gap => bind.again(now),
            Import::Foreign => bind.refuse(now),
        };
        self.follow(step);
    }

    /// Restores a snapshot and applies what was held beyond its cut.
    fn import(&mut self, bytes: &[u8], now: Duration) -> Import {
        let Ok((head, state)) = postcard::take_from_bytes::<Head>(bytes) else {
            return Import::Gap;
        };
        // Checked before the state is touched, so that what was kept stays whole.
        // With a total order, what a source sent that is gone may be in no sequence; if it is, its lack will show.
        let there =
            |source| self.order == Order::Source || self.peers.lives().any(|life| life == source);
        if !self.held.joins(&head, there) || head.anchor.is_some() != (self.order == Order::Total) {
            return Import::Gap;
        }
        if self.state.restore(state).is_err() {
            return Import::Foreign;
        }
        self.history = Some(head.history);
        self.updates = head.updates;
        self.cut = head.cut;
        let me = self.me();
        let held_bytes = self.limits.held_bytes;
        self.sequence = head
            .anchor
            .map(|anchor| Sequence::bound(head.history, me, anchor, &self.cut, held_bytes, now));
        for update in self.held.drain() {
            if update.history != head.history {
                continue;
            }
            if let Some(sequence) = &mut self.sequence {
                sequence.hold(update, now);
            } else if update.number > self.applied(update.source) {
                let (source, number) = (update.source, update.number);
                self.apply(Place { source, number }, &update.content);
            }
        }
        Import::Done
    }

    /// Follows the sequence from the snapshot on, as far as it was said meanwhile.
    fn order_held(&mut self, now: Duration) {
        for record in self.held.take_records() {
            // One that does not fit has ended the sequence here.
            let Some(sequence) = &mut self.sequence else {
                return;
            };
            sequence.hear(&Word::Record(record), now);
            self.advance(now);
        }
    }

    /// Begins a history with what this replica has. All others bind to it.
    fn found(&mut self, now: Duration) {
        let generation = self.history.map_or(0, |history| history.generation) + 1;
        let id = draw(&mut self.random);
        let history = History { generation, id };
        self.history = Some(history);
        self.cut.clear();
        self.held.clear();
        if self.order == Order::Total {
            let held_bytes = self.limits.held_bytes;
            self.sequence = Some(Sequence::found(history, self.me(), held_bytes, now));
        }
        self.enter(true);
    }

    fn enter(&mut self, founded: bool) {
        let Some(history) = self.history else {
            return;
        };
        self.phase = Phase::Live { published: false };
        self.changes += 1;
        self.stats.binds += 1;
        self.stats.founded += u64::from(founded);
        self.beaten = None;
        self.unsteady = None;
        self.peers.restart();
        self.outputs
            .push_back(Output::Tell(Notice::Live { history, founded }));
    }

    fn rebind(&mut self, cause: Cause, now: Duration) {
        self.outputs.push_back(Output::Tell(Notice::Rebinds(cause)));
        self.changes += 1;
        self.stats.rebinds += 1;
        // What was published last may be lost, and nobody can go on behind its number.
        self.source = Source(draw(&mut self.random));
        self.number = 0;
        self.sequence = None;
        self.own.clear();
        self.own_bytes = 0;
        self.phase = Phase::Binding(Box::new(Bind::new(self.limits, now)));
        self.held.clear();
        self.donor.clear();
        self.peers.restart();
        self.beaten = None;
    }

    fn follow(&mut self, step: Step) {
        match step {
            Step::None => {}
            Step::Ask(fetch) => self
                .outputs
                .push_back(Output::All(write(&Word::Fetch(fetch)))),
            Step::AskAgain(fetch) => {
                self.stats.asked_again += 1;
                self.follow(Step::Ask(fetch));
            }
            Step::Left => self.stats.failed_attempts += 1,
            Step::Fail(error) => {
                let tried = matches!(error, BindError::Attempts | BindError::Foreign);
                self.stats.failed_attempts += u64::from(tried);
                self.fail(error);
            }
        }
    }

    fn fail(&mut self, error: BindError) {
        self.phase = Phase::Failed;
        self.changes += 1;
        self.held.clear();
        self.outputs.push_back(Output::Tell(Notice::Failed(error)));
    }
}

fn millis(now: Duration) -> u64 {
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
