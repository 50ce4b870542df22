//! Messages with a lifetime (R-DATA-14).

use qsm_wire::GroupId;

use super::World;
use crate::checkers::lost::LostNumbers;
use crate::engine::Outputs;
use crate::pattern::GroupPlan;
use crate::violation::Violation;

impl World {
    /// Messages are told as expired.
    pub(super) fn expired(&mut self, lost: LostNumbers) -> Result<(), Violation> {
        let (now, lifetime) = (self.engine.now(), self.options.lifetimes.get(&lost.group));
        self.checkers.expired(now, lifetime.copied(), lost)
    }

    /// Messages are told as lost. Where packets that had expired are passed together with others that
    /// their sender has let go, it is not told which messages had: those that are as old may have.
    pub(super) fn note_old(&mut self, lost: LostNumbers) {
        let lifetime = self.options.lifetimes.get(&lost.group);
        let (now, history) = (self.engine.now(), &mut self.checkers.history);
        let let_go = history.may_lose(lost.sender, lost.receiver);
        let Some(lifetime) = lifetime.filter(|_| let_go) else {
            return;
        };
        let old = |number: &u64| {
            let at = history.published_at(lost.sender, lost.group, *number);
            at.is_some_and(|at| now.since(at) >= *lifetime)
        };
        let old = (lost.first..=lost.last).take_while(old).last();
        if let Some(last) = old {
            history.expire(LostNumbers { last, ..lost });
        }
    }

    /// Judges what a host sends again, where messages may expire.
    pub(super) fn repaired(&mut self, host: usize, outputs: &Outputs) -> Result<(), Violation> {
        if self.options.lifetimes.is_empty() || !self.checkers.armed {
            return Ok(());
        }
        // By its own clock, which stands still while it sleeps.
        let now = self.engine.local(host);
        for repaired in &outputs.repairs {
            let Some(machine) = self.engine.machine(host) else {
                continue;
            };
            // What a dead sender has sent is repaired all the same, and so is what its sender repeats
            // as a last resort.
            let expiry = &self.checkers.expiry;
            let resort = expiry.is_last_resort(host, machine, repaired);
            if resort || machine.knows_dead(repaired.stream()) {
                continue;
            }
            let lifetime = |group: GroupId| {
                let group = machine.group_name(group).and_then(GroupPlan::number)?;
                self.options.lifetimes.get(&group).copied()
            };
            expiry.check_repair(now, host, repaired, lifetime)?;
        }
        if let Some(machine) = self.engine.machine(host) {
            self.checkers.expiry.note(now, host, machine);
        }
        Ok(())
    }
}
