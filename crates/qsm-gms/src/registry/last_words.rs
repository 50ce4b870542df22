//! Last words of senders that said goodbye: whom of those that are away they owe nothing (R-VIEW-16).

use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::Origin;
use qsm_wire::membership::{NOTHING_OWED_MAX, Update};

/// Senders remembered; of more, those with the highest numbers.
const SENDERS_MAX: usize = 1024;

/// Members that senders owe nothing, by sender.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LastWords(BTreeMap<Origin, BTreeSet<Origin>>);

impl LastWords {
    pub(super) fn note(&mut self, sender: Origin, members: Vec<Origin>) {
        let members = members.into_iter().take(NOTHING_OWED_MAX);
        self.0.insert(sender, members.collect());
        if self.0.len() > SENDERS_MAX {
            self.0.pop_first();
        }
    }

    /// Updates that tell a member of the end of a sender.
    pub(super) fn end(&self, sender: Origin, member: Origin) -> impl Iterator<Item = Update> {
        let members = self.0.get(&sender);
        let owed_nothing = members.is_some_and(|members| members.contains(&member));
        let origin = sender;
        let word = owed_nothing.then_some(Update::NothingOwed { origin });
        word.into_iter().chain([Update::Dead { origin }])
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Incarnation, NodeId};

    use super::*;

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    // Rule R-VIEW-16.
    #[test]
    fn a_member_that_is_owed_nothing_is_told_so_before_the_end() {
        let mut words = LastWords::default();
        words.note(origin(1), vec![origin(2)]);
        let told = |words: &LastWords, member| -> Vec<Update> {
            words.end(origin(1), origin(member)).collect()
        };
        let dead = Update::Dead { origin: origin(1) };
        let nothing = Update::NothingOwed { origin: origin(1) };
        assert_eq!(told(&words, 2), [nothing, dead.clone()]);
        assert_eq!(told(&words, 3), core::slice::from_ref(&dead));
        for node in 0..SENDERS_MAX as u64 {
            words.note(origin(10 + node), vec![origin(2)]);
        }
        assert_eq!(told(&words, 2), [dead], "the oldest is forgotten");
    }
}
