//! Positions of senders at the end of this node's former life: what they have sent between that
//! and the next message, it has missed.

use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_wire::{GroupId, Origin};

use crate::receive::Cursors;

/// The next number of each sender in each group, by the group's name, until this life has a
/// number for the group.
#[derive(Debug, Default)]
pub(crate) struct FormerPositions(BTreeMap<Arc<str>, Vec<(Origin, u64)>>);

impl FormerPositions {
    /// Takes over where senders stood; groups without a name are of no interest any more.
    pub(crate) fn begin_life(
        &mut self,
        cursors: &mut Cursors,
        names: &BTreeMap<GroupId, Arc<str>>,
    ) {
        for (group, sender, next) in cursors.forget_all() {
            if let Some(name) = names.get(&group) {
                let stood = self.0.entry(Arc::clone(name)).or_default();
                stood.push((sender, next));
            }
        }
    }

    /// A group has its number in this life.
    pub(crate) fn recall(&mut self, cursors: &mut Cursors, group: GroupId, name: &str) {
        for (sender, next) in self.0.remove(name).into_iter().flatten() {
            cursors.recall(group, sender, next);
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
