//! Positions of senders at the end of this node's former life: what they have sent between that
//! and the next message, it has missed.

use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_wire::{GroupId, Origin};

use crate::receive::{Cursors, HandedOut};

/// The next number of each sender in each group, by the group's name, until this life has a
/// number for the group.
#[derive(Debug, Default)]
pub(crate) struct FormerPositions(BTreeMap<Arc<str>, Vec<FormerPosition>>);

/// A sender's position in a group.
#[derive(Debug)]
struct FormerPosition {
    sender: Origin,
    next: u64,
    /// The group's number at that time.
    group: GroupId,
    /// What had been handed out ahead of its order.
    ahead: Vec<HandedOut>,
}

impl FormerPositions {
    /// Takes over where senders stood; groups without a name are of no interest any more.
    pub(crate) fn begin_life(
        &mut self,
        cursors: &mut Cursors,
        names: &BTreeMap<GroupId, Arc<str>>,
    ) {
        for (group, sender, next) in cursors.forget_all() {
            let ahead = cursors.prompt_mut().take(group, sender);
            if let Some(name) = names.get(&group) {
                let stood = self.0.entry(Arc::clone(name)).or_default();
                stood.push(FormerPosition {
                    sender,
                    next,
                    group,
                    ahead,
                });
            }
        }
        cursors.forget_numbers();
    }

    /// A group has its number in this life. If that is another one, everybody had left the group,
    /// and senders number their messages to it from 1 again.
    pub(crate) fn recall(&mut self, cursors: &mut Cursors, group: GroupId, name: &str) {
        for stood in self.0.remove(name).into_iter().flatten() {
            let same = stood.group == group;
            cursors.recall(group, stood.sender, if same { stood.next } else { 1 });
            if same {
                let prompt = cursors.prompt_mut();
                prompt.put(group, stood.sender, stood.ahead);
            }
        }
    }

    /// The application has given up a group: nothing of it is missed.
    pub(crate) fn forget(&mut self, cursors: &mut Cursors, group: Option<GroupId>, name: &str) {
        self.0.remove(name);
        if let Some(group) = group {
            cursors.forget_former(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receive::Verdict;

    const SENDER: Origin = Origin {
        node: qsm_wire::NodeId(7),
        incarnation: qsm_wire::Incarnation(1),
    };

    /// Receives five messages in group 3, begins another life, in which that is `group`, and
    /// receives the message with this number.
    fn in_another_life(group: u32, low: u32) -> Verdict {
        let (mut cursors, mut former) = (Cursors::default(), FormerPositions::default());
        cursors.subscribe(GroupId(3));
        for low in 1..=5 {
            cursors.take(SENDER, GroupId(3), low);
        }
        former.begin_life(&mut cursors, &[(GroupId(3), Arc::from("g"))].into());
        let group = GroupId(group);
        cursors.subscribe(group);
        former.recall(&mut cursors, group, "g");
        cursors.take(SENDER, group, low)
    }

    // Rule R-DATA-2.
    #[test]
    fn messages_to_a_group_with_another_number_count_from_1_again() {
        let missed = |first, number| Verdict::DeliverAfterAbsence { first, number };
        assert_eq!(in_another_life(3, 4), Verdict::Duplicate);
        assert_eq!(in_another_life(3, 6), Verdict::Deliver(6));
        assert_eq!(in_another_life(3, 9), missed(6, 9));
        assert_eq!(in_another_life(4, 1), Verdict::Deliver(1));
        assert_eq!(in_another_life(4, 4), missed(1, 4));
    }
}
