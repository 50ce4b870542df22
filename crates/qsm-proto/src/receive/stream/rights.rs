//! Groups to which a stream's sender may not publish (R-SEC-36).

use core::time::Duration;
use std::sync::Arc;

use qsm_wire::{Chunk, GroupId, Part};

use super::ReceiveStream;
use crate::{Instant, Stats};

/// Shortest time between two words on one sender.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Groups of a region that are barred to a sender, and what it has sent to them all the same.
#[derive(Debug, Default)]
pub(super) struct Bars {
    /// Ascending.
    groups: Arc<[GroupId]>,
    /// Messages that have yet to be told, and the group of the last one.
    untold: Option<(GroupId, u64)>,
    next_word: Instant,
}

impl Bars {
    pub(super) fn set(&mut self, groups: Arc<[GroupId]>) {
        self.groups = groups;
    }

    pub(super) fn holds(&self, group: GroupId) -> bool {
        self.groups.binary_search(&group).is_ok()
    }

    fn note(&mut self, group: GroupId) {
        let messages = self.untold.map_or(0, |(_, messages)| messages);
        self.untold = Some((group, messages + 1));
    }

    fn take(&mut self, now: Instant) -> Option<(GroupId, u64)> {
        if now < self.next_word {
            return None;
        }
        let told = self.untold.take()?;
        self.next_word = now.after(TELL_EVERY);
        Some(told)
    }
}

impl ReceiveStream {
    /// Tells whether a sender may not publish to this group.
    pub(super) fn is_barred(&self, group: GroupId) -> bool {
        let proof = self.proof.as_ref();
        proof.is_some_and(|proof| proof.bars.holds(group))
    }

    /// A message, or a part of one, is of a group that may be barred, and is not delivered.
    pub(super) fn note_barred(&mut self, chunk: &Chunk<'_>, stats: &mut Stats) {
        let ends = matches!(chunk.part, Part::Whole | Part::Last);
        if let Some(proof) = &mut self.proof
            && ends
            && proof.bars.holds(chunk.group)
        {
            stats.messages_barred += 1;
            proof.bars.note(chunk.group);
        }
    }

    /// The sender may not publish to these groups, in ascending order.
    pub(crate) fn bar(&mut self, groups: Arc<[GroupId]>) {
        if let Some(proof) = &mut self.proof {
            proof.bars.set(groups);
        }
    }

    /// Messages to barred groups that are to be told now, with the group of the last one.
    pub(crate) fn take_barred(&mut self, now: Instant) -> Option<(GroupId, u64)> {
        self.proof.as_mut()?.bars.take(now)
    }
}
