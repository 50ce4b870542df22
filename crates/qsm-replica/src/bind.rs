//! Fetching a snapshot from donors, of which any may end.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::election::Live;
use crate::limits::Limits;
use crate::notice::BindError;
use crate::random::draw;
use crate::transfer::{AHEAD, CHUNK_BYTES, Partial, WINDOW};
use crate::word::{Address, Chunk, Fetch};

/// A donor that is silent for so long is taken for dead; twice as long after each round in which none was of help, since
/// a long state takes its time to be written, up to [`SILENT_MAX`].
const SILENT: Duration = Duration::from_secs(1);
const SILENT_MAX: Duration = Duration::from_secs(8);
/// Before a donor is asked, what was sent before this replica entered the group has so long to reach it: neither the
/// snapshot nor what is held would have that.
const SETTLE: Duration = Duration::from_millis(200);
/// When no chunk has come for so long, those that are missing are asked for once more.
const AGAIN: Duration = Duration::from_millis(250);

/// Next step of a bind.
#[derive(Debug)]
pub(crate) enum Step {
    None,
    Ask(Fetch),
    /// As `Ask`, for chunks that were asked for before and did not come.
    AskAgain(Fetch),
    /// An attempt has failed, and another one may begin.
    Left,
    Fail(BindError),
}

#[derive(Debug)]
pub(crate) struct Bind {
    limits: Limits,
    since: Duration,
    attempts: u32,
    donor: Option<Asked>,
    /// A donor that is silent for so long is left.
    silent: Duration,
    /// One was left before its first chunk came.
    slow: bool,
    /// The last attempt brought a snapshot that the state does not take.
    foreign: bool,
    /// Donors that did not help, in this round.
    shunned: BTreeSet<Address>,
    partial: Option<Partial>,
}

/// A donor, and the first chunk of the last question to it.
#[derive(Debug)]
struct Asked {
    address: Address,
    transfer: u64,
    first: u32,
    at: Duration,
    heard: Duration,
}

impl Bind {
    pub(crate) fn new(limits: Limits, now: Duration) -> Self {
        Self {
            limits,
            since: now,
            attempts: 0,
            silent: SILENT,
            slow: false,
            foreign: false,
            donor: None,
            shunned: BTreeSet::new(),
            partial: None,
        }
    }

    /// Asks a donor, or another one if that is silent.
    pub(crate) fn tick(
        &mut self,
        me: Address,
        donors: &[Live],
        now: Duration,
        random: &mut u64,
    ) -> Step {
        if now.saturating_sub(self.since) > self.limits.patience {
            return Step::Fail(BindError::Patience);
        }
        if let Some(asked) = &self.donor {
            if now.saturating_sub(asked.heard) < self.silent {
                return self.remind(me, now);
            }
            self.slow |= self.partial.is_none();
            return self.leave();
        }
        if now.saturating_sub(self.since) < SETTLE {
            return Step::None;
        }
        if donors
            .iter()
            .all(|donor| self.shunned.contains(&donor.address))
        {
            self.shunned.clear();
            if std::mem::take(&mut self.slow) {
                self.silent = (2 * self.silent).min(SILENT_MAX);
            }
        }
        let willing = donors
            .iter()
            .filter(|donor| !self.shunned.contains(&donor.address));
        // One that publishes only if there is no other; joiners spread over the rest.
        let near = |donor: &Live| {
            let mut mixed = me.0 ^ donor.address.0.rotate_left(32);
            (donor.publishes, draw(&mut mixed))
        };
        let Some(donor) = willing.min_by_key(|donor| near(donor)) else {
            return Step::None;
        };
        let asked = Asked {
            address: donor.address,
            transfer: draw(random),
            first: 0,
            at: now,
            heard: now,
        };
        self.ask(me, asked)
    }

    /// The present attempt has failed; the next one begins with a new snapshot.
    pub(crate) fn again(&mut self, now: Duration) -> Step {
        self.partial = None;
        if self.donor.is_some() {
            return self.leave();
        }
        if now.saturating_sub(self.since) > self.limits.patience {
            return Step::Fail(BindError::Patience);
        }
        Step::None
    }

    /// The snapshot is of another kind of state; other donors may have the right one.
    pub(crate) fn refuse(&mut self, now: Duration) -> Step {
        self.foreign = true;
        self.again(now)
    }

    /// Takes a chunk of the donor asked, and asks for the next ones behind the last of a window.
    pub(crate) fn chunk(&mut self, me: Address, chunk: Chunk, now: Duration) -> Step {
        let Some(asked) = &mut self.donor else {
            return Step::None;
        };
        if chunk.from != asked.address || chunk.transfer != asked.transfer {
            return Step::None;
        }
        if chunk.chunks as usize > self.limits.snapshot_bytes.div_ceil(CHUNK_BYTES) {
            return Step::Fail(BindError::TooLong);
        }
        asked.heard = now;
        let chunks = chunk.chunks;
        let partial = match self.partial.take().filter(|partial| partial.fits(&chunk)) {
            Some(partial) => self.partial.insert(partial),
            None => self.partial.insert(Partial::new(&chunk)),
        };
        if !partial.take(chunk) {
            return self.again(now);
        }
        // The next ones are asked for while the last of these come, so that the donor never waits.
        let behind = asked.first.saturating_add(WINDOW);
        match partial.missing() {
            Some(missing) if missing.saturating_add(AHEAD) >= behind && behind < chunks => {
                let asked = Asked {
                    first: behind.max(missing),
                    at: now,
                    ..*asked
                };
                self.ask(me, asked)
            }
            _ => Step::None,
        }
    }

    /// The snapshot, once all of it is there and is what was promised.
    pub(crate) fn take_whole(&mut self) -> Option<Vec<u8>> {
        self.partial
            .as_ref()
            .filter(|partial| partial.missing().is_none())?;
        self.partial
            .take()
            .map(|partial| partial.whole().unwrap_or_default())
    }

    fn remind(&mut self, me: Address, now: Duration) -> Step {
        let missing = self.partial.as_ref().and_then(Partial::missing);
        match &self.donor {
            Some(asked) if now.saturating_sub(asked.at.max(asked.heard)) >= AGAIN => {
                let first = missing.unwrap_or(0);
                let asked = Asked {
                    first,
                    at: now,
                    ..*asked
                };
                match self.ask(me, asked) {
                    Step::Ask(fetch) => Step::AskAgain(fetch),
                    step => step,
                }
            }
            _ => Step::None,
        }
    }

    fn ask(&mut self, me: Address, asked: Asked) -> Step {
        let fetch = Fetch {
            from: me,
            to: asked.address,
            transfer: asked.transfer,
            first: asked.first,
        };
        self.donor = Some(asked);
        Step::Ask(fetch)
    }

    fn leave(&mut self) -> Step {
        self.shunned
            .extend(self.donor.take().map(|asked| asked.address));
        self.attempts += 1;
        let foreign = std::mem::take(&mut self.foreign);
        if self.attempts >= self.limits.attempts {
            return Step::Fail(match foreign {
                true => BindError::Foreign,
                false => BindError::Attempts,
            });
        }
        Step::Left
    }
}
