//! Choice of a sequencer when the last one is not heard any more.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Role, Sequence};
use crate::random::draw;
use crate::word::{Ask, Grant, Source, Word};

/// Least silence of a sequencer after which a voter asks to be the next; up to twice as long, by chance.
const SUSPICION: Duration = Duration::from_millis(250);
/// Time for the answers, before it asks again; up to twice as long, by chance.
const ANSWERS: Duration = Duration::from_millis(150);
/// Time in which a sequencer that was heard is not doubted.
const TRUST: Duration = Duration::from_millis(150);

impl Sequence {
    /// Asks to be the sequencer, if none is heard.
    pub(super) fn stand(&mut self, now: Duration) {
        let votes = self.log.voters_at(self.log.last()).1.contains(&self.me);
        let leaves = self.leaving.contains(&self.me.life);
        if self.role == Role::Sequencer || now < self.due || !votes || leaves {
            return;
        }
        self.due = now + self.by_chance(ANSWERS);
        self.role = Role::Trial(BTreeSet::from([self.me.life]));
        self.elections += 1;
        self.say_ask(true);
        self.elected(now);
    }

    pub(super) fn suspicion(&mut self) -> Duration {
        self.by_chance(SUSPICION)
    }

    fn by_chance(&mut self, least: Duration) -> Duration {
        least + self.at_most(least)
    }

    /// A time below this one, by chance.
    pub(super) fn at_most(&mut self, limit: Duration) -> Duration {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(draw(&mut self.random) % millis.max(1))
    }

    fn say_ask(&mut self, trial: bool) {
        self.words.push(Word::Ask(Ask {
            history: self.history,
            term: self.term.saturating_add(u64::from(trial)),
            life: self.me.life,
            end: self.log.end(),
            trial,
        }));
    }

    pub(super) fn ask(&mut self, ask: &Ask, now: Duration) {
        if ask.life == self.me.life {
            return;
        }
        let trusted = self.role == Role::Sequencer
            || (self.sequencer.is_some() && now.saturating_sub(self.heard) < TRUST);
        if !ask.trial && ask.term > self.term {
            self.adopt(ask.term);
        }
        // Of two that ask at once one gives way.
        let rival = matches!(self.role, Role::Trial(_))
            && (self.log.end(), self.me.life) > (ask.end, ask.life);
        let granted = ask.end >= self.log.end()
            && if ask.trial {
                ask.term > self.term && !trusted && !rival
            } else {
                let free = self.voted.is_none_or(|voted| voted == ask.life);
                ask.term == self.term && free
            };
        if !granted {
            return;
        }
        if !ask.trial {
            self.voted = Some(ask.life);
        }
        self.role = Role::Follower;
        self.due = now + self.suspicion();
        self.words.push(Word::Grant(Grant {
            history: self.history,
            term: ask.term,
            life: self.me.life,
            to: ask.life,
            trial: ask.trial,
        }));
    }

    pub(super) fn grant(&mut self, grant: &Grant, now: Duration) {
        if grant.to != self.me.life {
            return;
        }
        let term = self.term;
        match &mut self.role {
            Role::Trial(lives) if grant.trial && grant.term == term.saturating_add(1) => {
                lives.insert(grant.life);
            }
            Role::Candidate(lives) if !grant.trial && grant.term == term => {
                lives.insert(grant.life);
            }
            _ => {}
        }
        self.elected(now);
    }

    /// Takes the next step, if a majority has said yes.
    fn elected(&mut self, now: Duration) {
        if let Role::Trial(lives) = &self.role
            && self.is_majority(lives)
        {
            self.adopt(self.term.saturating_add(1));
            self.voted = Some(self.me.life);
            self.role = Role::Candidate(BTreeSet::from([self.me.life]));
            self.due = now + self.by_chance(ANSWERS);
            self.say_ask(false);
        }
        if let Role::Candidate(lives) = &self.role
            && self.is_majority(lives)
        {
            self.lead(now);
        }
    }

    fn is_majority(&self, lives: &BTreeSet<Source>) -> bool {
        let (_, voters) = self.log.voters_at(self.log.last());
        let granted = voters.iter().filter(|voter| lives.contains(&voter.life));
        granted.count() > voters.len() / 2
    }
}
