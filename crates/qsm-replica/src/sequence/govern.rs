//! Decisions of the sequencer beside the order: who votes, and which sources are forgotten.

use std::time::Duration;

use super::{HEARTBEAT, MISSING, Role, SILENT, Sequence};
use crate::election::Peers;
use crate::notice::Cause;
use crate::word::{Source, Step, Voter, Word};

/// Voters at most: more replicas only follow, so that confirmations do not grow with the group.
const VOTERS_MAX: usize = 5;
/// A source that was not heard for so long is forgotten, and what nobody else has of it.
const FORGET: Duration = Duration::from_secs(60);
/// After the sequencer said that it ends, a voter asks to be the next within this time.
const HANDOVER: Duration = Duration::from_millis(50);
/// Time between two looks for such sources.
const SWEEP: Duration = Duration::from_secs(1);

impl Sequence {
    /// Lets time pass. `complete`: every member that the service counts has been heard for a while, and nobody else.
    pub(crate) fn tick(&mut self, peers: &Peers, complete: bool, now: Duration) {
        self.stand(now);
        if self.role == Role::Sequencer && passed(self.governed, HEARTBEAT, now) {
            self.governed = Some(now);
            self.govern(peers, complete, now);
        }
        if passed(self.swept, SWEEP, now) {
            self.swept = Some(now);
            self.sweep(peers, now);
        }
        if now.saturating_sub(self.moved) >= MISSING && !self.ahead.is_empty() {
            self.fault = Some(Cause::Hole);
        }
        self.speak(now);
        self.count();
    }

    /// Changes the voters by one, if the last change is agreed and another one is due.
    fn govern(&mut self, peers: &Peers, complete: bool, now: Duration) {
        let (changed, voters) = self.log.voters_at(self.log.last());
        if changed > self.agreed {
            return;
        }
        let live: Vec<Voter> = peers.live_in(self.history);
        let spare = live
            .iter()
            .find(|peer| !voters.contains(peer) && !self.leaving.contains(&peer.life));
        let gone = voters.iter().find(|voter| {
            let known = peers.life_of(voter.address);
            let forgot = known.is_some_and(|life| life != voter.life);
            let unneeded = self.is_silent(voter, now) && (complete || spare.is_some());
            let ends = self.leaving.contains(&voter.life);
            ends || (voter.life != self.me.life && (forgot || unneeded))
        });
        let changed: Vec<Voter> = match (gone, spare) {
            (Some(gone), _) if voters.len() > 1 => voters
                .iter()
                .filter(|voter| *voter != gone)
                .copied()
                .collect(),
            (_, Some(spare)) if voters.len() < VOTERS_MAX => {
                voters.iter().chain([spare]).copied().collect()
            }
            _ => return,
        };
        self.append(Step::Voters(changed));
    }

    fn is_silent(&self, voter: &Voter, now: Duration) -> bool {
        let acked = self.acks.get(&voter.life).map(|acked| acked.heard);
        let heard = acked.unwrap_or(self.since);
        now.saturating_sub(heard) >= SILENT
    }

    /// Says that this replica ends, or, as the sequencer, has another one follow first.
    pub(crate) fn leave(&mut self) {
        let new = self.leaving.insert(self.me.life);
        if new && self.role != Role::Sequencer {
            self.words.push(Word::Leave(self.me.life));
        }
    }

    /// Tells whether nothing depends on this replica.
    pub(crate) fn may_end(&self) -> bool {
        !self.log.voters_at(self.applied).1.contains(&self.me)
    }

    /// A replica says that it ends.
    pub(super) fn leaves(&mut self, life: Source, now: Duration) {
        self.leaving.insert(life);
        if self
            .sequencer
            .is_some_and(|sequencer| sequencer.life == life)
        {
            self.sequencer = None;
            self.due = now + self.at_most(HANDOVER);
        }
    }

    /// Forgets sources that are gone.
    fn sweep(&mut self, peers: &Peers, now: Duration) {
        let lives = peers.lives();
        for life in lives.chain([self.me.life]) {
            self.seen.insert(life, now);
        }
        let (_, voters) = self.log.voters_at(self.log.last());
        let matters = |life: &Source| {
            voters.iter().any(|voter| voter.life == *life) || peers.lives().any(|it| it == *life)
        };
        self.leaving.retain(matters);
        self.acks.retain(|life, _| matters(life));
        for source in self.waiting.sources() {
            let seen = *self.seen.entry(source).or_insert(now);
            if now.saturating_sub(seen) < FORGET {
                continue;
            }
            if !self.waiting.is_done(source) {
                self.waiting.drop_fresh(source);
            } else if self.role == Role::Sequencer {
                self.waiting.forget(source);
                self.append(Step::Forget(source));
            }
        }
        self.seen
            .retain(|_, seen| now.saturating_sub(*seen) < 2 * FORGET);
    }
}

fn passed(at: Option<Duration>, time: Duration, now: Duration) -> bool {
    at.is_none_or(|at| now.saturating_sub(at) >= time)
}
