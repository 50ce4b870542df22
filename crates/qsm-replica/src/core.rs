//! A replica as a state machine without I/O: a function of what it hears, the time, and one seed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::bind::{Bind, Step};
use crate::election::{Peers, Rank};
use crate::held::Held;
use crate::limits::Limits;
use crate::machine::StateMachine;
use crate::notice::{BindError, Cause, Notice};
use crate::random::draw;
use crate::transfer::Donor;
use crate::word::{
    Address, Beat, Chunk, Cut, Fetch, Head, History, Kept, Source, Standing, Update, Word, read,
    write,
};

/// Time between two beats of a replica that binds, and the least between two of a live one.
const BEAT: Duration = Duration::from_millis(100);
/// Time between two beats of a live replica that nobody asks.
const QUIET_BEAT: Duration = Duration::from_millis(500);

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
    Binding(Bind),
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
    beaten: Option<Duration>,
    outputs: VecDeque<Output>,
}

impl<S: StateMachine> Core<S> {
    /// A replica that binds; `state` is what it has if it turns out to be the first. `seed` is to be drawn by chance:
    /// replicas with equal seeds take each other for themselves.
    pub fn new(state: S, limits: Limits, seed: u64, now: Duration) -> Self {
        let mut random = seed;
        let address = Address(draw(&mut random));
        let source = Source(draw(&mut random));
        Self {
            address,
            random,
            limits,
            state,
            history: None,
            updates: 0,
            cut: Cut::new(),
            source,
            number: 0,
            phase: Phase::Binding(Bind::new(limits, now)),
            held: Held::new(limits.held_bytes),
            peers: Peers::default(),
            donor: Donor::default(),
            beaten: None,
            outputs: VecDeque::new(),
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
            return None;
        };
        let content = match update(&mut self.state) {
            Ok(content) => content,
            Err(error) => return Some(Err(error)),
        };
        *published = true;
        self.number += 1;
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
            return;
        };
        match self.phase {
            Phase::Failed => {}
            Phase::Binding(_) => self.hold(update, now),
            Phase::Live { .. } if self.history != Some(update.history) => {}
            Phase::Live { .. } => {
                let applied = self.applied(update.source);
                if update.number == applied + 1 {
                    self.apply(&update);
                } else if update.number > applied {
                    self.rebind(Cause::Hole, now);
                    self.hold(update, now);
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
            _ => {}
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
                self.found();
            }
        }
        let every = if self.is_live() { QUIET_BEAT } else { BEAT };
        if self.beaten.is_none_or(|at| now.saturating_sub(at) >= every) {
            self.beat(now);
        }
    }

    fn applied(&self, source: Source) -> u64 {
        self.cut.get(&source).copied().unwrap_or(0)
    }

    fn apply(&mut self, update: &Update) {
        self.state.apply(&update.content);
        self.cut.insert(update.source, update.number);
        self.updates += 1;
    }

    fn hold(&mut self, update: Update, now: Duration) {
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
            standing,
            vote,
        };
        self.outputs
            .push_back(Output::All(write(&Word::Beat(beat))));
    }

    fn hear(&mut self, beat: &Beat, now: Duration) {
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
        };
        let state = &self.state;
        let chunks = self.donor.answer(fetch, now, &head, || {
            let mut bytes = Vec::new();
            state.snapshot(&mut bytes);
            bytes
        });
        for chunk in chunks {
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
        let imported = self.import(&bytes);
        let Phase::Binding(bind) = &mut self.phase else {
            return;
        };
        let step = match imported {
            Import::Done => return self.enter(false),
            Import::Gap => bind.again(now),
            Import::Foreign => bind.refuse(now),
        };
        self.follow(step);
    }

    /// Restores a snapshot and applies what was held beyond its cut.
    fn import(&mut self, bytes: &[u8]) -> Import {
        let Ok((head, state)) = postcard::take_from_bytes::<Head>(bytes) else {
            return Import::Gap;
        };
        // Checked before the state is touched, so that what was kept stays whole.
        if !self.held.joins(&head) {
            return Import::Gap;
        }
        if self.state.restore(state).is_err() {
            return Import::Foreign;
        }
        self.history = Some(head.history);
        self.updates = head.updates;
        self.cut = head.cut;
        for update in self.held.drain() {
            if update.history == head.history && update.number > self.applied(update.source) {
                self.apply(&update);
            }
        }
        Import::Done
    }

    /// Begins a history with what this replica has. All others bind to it.
    fn found(&mut self) {
        let generation = self.history.map_or(0, |history| history.generation) + 1;
        let id = draw(&mut self.random);
        self.history = Some(History { generation, id });
        self.cut.clear();
        self.held.clear();
        self.enter(true);
    }

    fn enter(&mut self, founded: bool) {
        let Some(history) = self.history else {
            return;
        };
        self.phase = Phase::Live { published: false };
        self.beaten = None;
        self.peers.restart();
        self.outputs
            .push_back(Output::Tell(Notice::Live { history, founded }));
    }

    fn rebind(&mut self, cause: Cause, now: Duration) {
        self.outputs.push_back(Output::Tell(Notice::Rebinds(cause)));
        // What was published last may be lost, and nobody can go on behind its number.
        self.source = Source(draw(&mut self.random));
        self.number = 0;
        self.phase = Phase::Binding(Bind::new(self.limits, now));
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
            Step::Fail(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: BindError) {
        self.phase = Phase::Failed;
        self.held.clear();
        self.outputs.push_back(Output::Tell(Notice::Failed(error)));
    }
}

fn millis(now: Duration) -> u64 {
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
