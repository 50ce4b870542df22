//! Which message of which group comes next: per sender and group (R053, R059).
//!
//! The packets of a stream are in order already; the cursors see what packet numbers cannot:
//! that a message of the group was lost with a packet, that it came twice because the node moved
//! between regions, or that it must wait for one that is still on its way through the region the
//! node has left. They also say which groups this node delivers.

use std::collections::BTreeMap;

use qsm_wire::{Chunk, GroupId, Origin};

use super::prompt::{Ahead, AheadMessage, PromptGroups, StandsAt};
use crate::table::GroupTable;
use crate::{FullReaders, Promptness};

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Deliver it; this is its full number.
    Deliver(u64),
    /// Deliver it, but first report the numbers `first..number` as lost.
    DeliverAfterLoss {
        /// First lost number.
        first: u64,
        /// The message's own number.
        number: u64,
    },
    /// Deliver it, but first report that `first..number` were sent while this node was excluded.
    DeliverAfterAbsence {
        /// First number missed.
        first: u64,
        /// The message's own number.
        number: u64,
    },
    /// It has been delivered before.
    Duplicate,
    /// This node does not receive the group.
    NotSubscribed,
}

/// The cursors of one node.
#[derive(Debug, Default)]
pub struct Cursors {
    /// Whether a group is delivered here.
    subscribed: GroupTable<bool>,
    /// For each sender, ascending: the next number expected of each group; 0 before the first.
    next: Vec<(Origin, GroupTable<u64>)>,
    /// The place in `next` that was used last: most messages come from the sender of the one
    /// before.
    recent: usize,
    /// The number expected next when this node's former life ended, of those senders and groups
    /// that nothing has come from since.
    former: BTreeMap<(GroupId, Origin), u64>,
    /// Groups that are delivered promptly as well.
    prompt: PromptGroups,
    /// Groups whose readers take no more.
    full: FullReaders,
    /// There are some of either: one look tells each packet that there are none.
    special: bool,
}

impl Cursors {
    /// Groups that are delivered promptly as well.
    #[must_use]
    #[inline]
    pub fn prompt(&self) -> &PromptGroups {
        &self.prompt
    }

    /// The same, to note what has been handed out.
    #[inline]
    pub(crate) fn prompt_mut(&mut self) -> &mut PromptGroups {
        &mut self.prompt
    }

    /// The group is delivered in these ways from now on, beside its order.
    pub(crate) fn want(&mut self, group: GroupId, modes: &[Promptness]) {
        self.prompt.want(group, modes);
        self.look();
    }

    /// Groups whose readers take no more.
    #[must_use]
    #[inline]
    pub fn full(&self) -> &FullReaders {
        &self.full
    }

    /// The readers of these groups take no more, and those of others do.
    pub(crate) fn set_full(&mut self, full: FullReaders) {
        self.full = full;
        self.look();
    }

    /// Numbers of groups are void.
    pub(crate) fn forget_numbers(&mut self) {
        self.prompt.forget_numbers();
        self.look();
    }

    /// Tells whether some group is delivered promptly as well, or some readers take no more.
    #[must_use]
    #[inline]
    pub fn is_special(&self) -> bool {
        self.special
    }

    fn look(&mut self) {
        self.special = !self.prompt.is_empty() || !self.full.is_none();
    }

    /// Takes a message whose number ends in `low` ahead of its order, for those who want the group
    /// so. `None`: they have it, or were told that it is lost, or it has had its turn.
    pub(super) fn take_ahead(
        &mut self,
        mode: Promptness,
        sender: Origin,
        group: GroupId,
        low: u32,
    ) -> Option<Ahead> {
        if !self.subscribed(group) {
            return None;
        }
        let stands = |former| move |next| StandsAt { next, former };
        let begun = self.standing(sender, group).map(stands(false));
        let former = self.former.get(&(group, sender)).copied();
        let standing = begun.or_else(|| former.map(stands(true)));
        let first = u64::from(low).max(1);
        let message = AheadMessage {
            group,
            sender,
            number: standing.map_or(first, |standing| extend(standing.next, low)),
        };
        self.prompt.take_ahead(mode, message, standing)
    }

    /// Delivers this group from now on, from whatever message comes first.
    pub fn subscribe(&mut self, group: GroupId) {
        *self.subscribed.entry(group) = true;
    }

    /// Delivers it no more, and forgets where its senders were.
    pub fn unsubscribe(&mut self, group: GroupId) {
        *self.subscribed.entry(group) = false;
        for (_, next) in &mut self.next {
            if next.get(group).is_some() {
                *next.entry(group) = 0;
            }
        }
        self.prompt.forget_group(group);
    }

    /// Whether the group is delivered here.
    #[must_use]
    pub fn subscribed(&self, group: GroupId) -> bool {
        self.subscribed
            .get(group)
            .is_some_and(|delivered| *delivered)
    }

    /// What to do with the message whose number ends in `low` (R-DATA-2). If it is to be
    /// delivered, the cursor has moved on.
    #[inline]
    pub fn take(&mut self, sender: Origin, group: GroupId, low: u32) -> Verdict {
        // A group that is not delivered here has no cursors: see `unsubscribe`.
        match self.expected(sender, group) {
            Some(next) => advance(next, low),
            None => self.begin(sender, group, low),
        }
    }

    /// The first message of this sender to this group.
    fn begin(&mut self, sender: Origin, group: GroupId, low: u32) -> Verdict {
        if !self.subscribed(group) {
            return Verdict::NotSubscribed;
        }
        if let Some(mut next) = self.former.remove(&(group, sender)) {
            let verdict = match advance(&mut next, low) {
                Verdict::DeliverAfterLoss { first, number } => {
                    Verdict::DeliverAfterAbsence { first, number }
                }
                other => other,
            };
            *self.table(sender).entry(group) = next;
            return verdict;
        }
        let number = u64::from(low).max(1);
        *self.table(sender).entry(group) = number + 1;
        Verdict::Deliver(number)
    }

    /// Where a sender's messages to a group stood when this node's former life ended: what was
    /// sent between that and the next message is missed.
    pub fn recall(&mut self, group: GroupId, sender: Origin, next: u64) {
        self.former.insert((group, sender), next);
    }

    /// The application has given up a group: nothing of it is missed.
    pub fn forget_former(&mut self, group: GroupId) {
        self.former.retain(|(other, _), _| *other != group);
    }

    /// The sender is gone for good.
    pub fn forget(&mut self, sender: Origin) {
        self.next.retain(|(origin, _)| *origin != sender);
        self.former.retain(|(_, origin), _| *origin != sender);
        self.prompt.forget_sender(sender);
    }

    /// Forgets all senders (a new life), and tells where they stood; subscriptions stay. Those of
    /// the life before that nothing has come from since still stand there.
    pub fn forget_all(&mut self) -> Vec<(GroupId, Origin, u64)> {
        let former = core::mem::take(&mut self.former).into_iter();
        let mut stood: Vec<_> = former
            .map(|((group, sender), next)| (group, sender, next))
            .collect();
        for (sender, next) in self.next.drain(..) {
            let groups = next.into_sorted().into_iter();
            let begun = groups.filter(|(_, next)| *next != 0);
            stood.extend(begun.map(|(group, next)| (group, sender, next)));
        }
        stood
    }

    /// The number that the sender's next message to this group should have, once it has sent one
    /// that was delivered here. Whoever delivers that message moves it on.
    #[inline]
    pub fn expected(&mut self, sender: Origin, group: GroupId) -> Option<&mut u64> {
        let hit = self.next.get(self.recent);
        if hit.is_none_or(|(origin, _)| *origin != sender) {
            self.recent = self.find(sender).ok()?;
        }
        let next = self.next[self.recent].1.get_mut(group);
        next.filter(|next| **next != 0)
    }

    /// The same, for those who only look.
    #[must_use]
    pub fn standing(&self, sender: Origin, group: GroupId) -> Option<u64> {
        let (_, next) = &self.next[self.find(sender).ok()?];
        next.get(group).copied().filter(|next| *next != 0)
    }

    /// Whether no message of this sender to a group that is delivered here has come yet.
    #[must_use]
    pub fn awaits_first(&mut self, sender: Origin, group: GroupId) -> bool {
        self.subscribed(group) && self.expected(sender, group).is_none()
    }

    /// The sender's messages to a group that nothing has come of are owed from this number on.
    /// Returns the first and the last of those before that were sent while this node was excluded.
    /// Rule R-DATA-11.
    pub fn owe(&mut self, sender: Origin, group: GroupId, first: u64) -> Option<(u64, u64)> {
        if !self.awaits_first(sender, group) {
            return None;
        }
        let former = self.former.remove(&(group, sender)).unwrap_or(first);
        *self.table(sender).entry(group) = first.max(former);
        (former < first).then(|| (former, first - 1))
    }

    /// Nothing of this sender's messages to a group up to this number will come any more. Returns
    /// the first and the last of those that have not. Rule R-DATA-11.
    pub fn pass(&mut self, sender: Origin, group: GroupId, last: u64) -> Option<(u64, u64)> {
        let next = self.expected(sender, group)?;
        let first = core::mem::replace(next, last.saturating_add(1).max(*next));
        (first <= last).then_some((first, last))
    }

    fn table(&mut self, sender: Origin) -> &mut GroupTable<u64> {
        self.recent = self.find(sender).unwrap_or_else(|at| {
            self.next.insert(at, (sender, GroupTable::default()));
            at
        });
        &mut self.next[self.recent].1
    }

    fn find(&self, sender: Origin) -> Result<usize, usize> {
        self.next
            .binary_search_by_key(&sender, |(origin, _)| *origin)
    }
}

/// What to do with the message whose number ends in `low`, where `next` is expected.
#[inline]
fn advance(next: &mut u64, low: u32) -> Verdict {
    let (first, number) = (*next, extend(*next, low));
    if number < first {
        return Verdict::Duplicate;
    }
    *next = number + 1;
    if number == first {
        Verdict::Deliver(number)
    } else {
        Verdict::DeliverAfterLoss { first, number }
    }
}

/// The number nearest to `next` that ends in the 32 bits `low`.
pub(crate) fn extend(next: u64, low: u32) -> u64 {
    let ahead = low.wrapping_sub(Chunk::low(next));
    if ahead < 1 << 31 {
        next.saturating_add(u64::from(ahead))
    } else {
        next.saturating_sub(u64::from(ahead.wrapping_neg()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDER: Origin = Origin {
        node: qsm_wire::NodeId(1),
        incarnation: qsm_wire::Incarnation(1),
    };
    const GROUP: GroupId = GroupId(700);

    // Rules R-DATA-12, R-DATA-13.
    #[test]
    fn delivery_is_special_as_long_as_some_group_is() {
        let mut cursors = Cursors::default();
        assert!(!cursors.is_special());
        cursors.want(GroupId(3), &[Promptness::Arrival]);
        cursors.set_full(FullReaders::All);
        assert!(cursors.is_special());
        cursors.forget_numbers();
        assert!(cursors.is_special(), "readers still take no more");
        cursors.set_full(FullReaders::None);
        assert!(!cursors.is_special());
        cursors.want(GroupId(3), &[Promptness::Arrival]);
        cursors.want(GroupId(3), &[]);
        assert!(!cursors.is_special());
    }

    // Rule R-DATA-2.
    #[test]
    fn sees_losses_and_duplicates_from_the_first_message_on() {
        let mut cursors = Cursors::default();
        assert_eq!(cursors.take(SENDER, GROUP, 5), Verdict::NotSubscribed);
        cursors.subscribe(GROUP);
        assert_eq!(cursors.take(SENDER, GROUP, 5), Verdict::Deliver(5));
        assert_eq!(cursors.take(SENDER, GROUP, 5), Verdict::Duplicate);
        assert_eq!(cursors.take(SENDER, GROUP, 6), Verdict::Deliver(6));
        assert_eq!(
            cursors.take(SENDER, GROUP, 9),
            Verdict::DeliverAfterLoss {
                first: 7,
                number: 9
            }
        );
        cursors.unsubscribe(GROUP);
        cursors.subscribe(GROUP);
        assert_eq!(cursors.take(SENDER, GROUP, 2), Verdict::Deliver(2));
    }

    #[test]
    fn senders_are_apart_and_can_be_forgotten() {
        let other = Origin {
            incarnation: qsm_wire::Incarnation(2),
            ..SENDER
        };
        let mut cursors = Cursors::default();
        cursors.subscribe(GROUP);
        assert_eq!(cursors.take(other, GROUP, 8), Verdict::Deliver(8));
        assert_eq!(cursors.take(SENDER, GROUP, 3), Verdict::Deliver(3));
        assert_eq!(cursors.take(other, GROUP, 9), Verdict::Deliver(9));
        cursors.forget(SENDER);
        assert_eq!(cursors.take(other, GROUP, 9), Verdict::Duplicate);
        assert_eq!(cursors.take(SENDER, GROUP, 3), Verdict::Deliver(3));
    }

    #[test]
    fn what_was_sent_during_an_absence_is_missed_and_not_lost() {
        let mut cursors = Cursors::default();
        cursors.subscribe(GROUP);
        assert_eq!(cursors.take(SENDER, GROUP, 5), Verdict::Deliver(5));
        let stood = cursors.forget_all();
        assert_eq!(stood, [(GROUP, SENDER, 6)]);
        cursors.recall(GROUP, SENDER, 6);
        assert_eq!(cursors.forget_all(), stood, "a second absence");
        cursors.recall(GROUP, SENDER, 6);
        let (first, number) = (6, 9);
        assert_eq!(
            cursors.take(SENDER, GROUP, 9),
            Verdict::DeliverAfterAbsence { first, number }
        );
        assert_eq!(cursors.take(SENDER, GROUP, 10), Verdict::Deliver(10));
        cursors.forget_all();
        cursors.recall(GROUP, SENDER, 11);
        assert_eq!(cursors.take(SENDER, GROUP, 11), Verdict::Deliver(11));
        cursors.forget_all();
        cursors.recall(GROUP, SENDER, 12);
        cursors.forget_former(GROUP);
        assert_eq!(cursors.take(SENDER, GROUP, 20), Verdict::Deliver(20));
    }

    // Rule R-DATA-11.
    #[test]
    fn what_is_owed_before_the_first_message_is_lost_once() {
        let mut cursors = Cursors::default();
        assert_eq!(cursors.owe(SENDER, GROUP, 4), None);
        assert_eq!(cursors.pass(SENDER, GROUP, 6), None, "not subscribed");
        cursors.subscribe(GROUP);
        assert_eq!(
            cursors.pass(SENDER, GROUP, 6),
            None,
            "the first is not known"
        );
        assert_eq!(cursors.owe(SENDER, GROUP, 4), None);
        assert_eq!(cursors.owe(SENDER, GROUP, 2), None, "known by now");
        assert_eq!(cursors.pass(SENDER, GROUP, 6), Some((4, 6)));
        assert_eq!(cursors.pass(SENDER, GROUP, 6), None);
        assert_eq!(cursors.pass(SENDER, GROUP, 5), None);
        let (first, number) = (7, 9);
        assert_eq!(
            cursors.take(SENDER, GROUP, 9),
            Verdict::DeliverAfterLoss { first, number }
        );
    }

    // Rule R-DATA-11.
    #[test]
    fn what_was_sent_in_a_former_life_and_since_is_apart() {
        let mut cursors = Cursors::default();
        cursors.subscribe(GROUP);
        cursors.recall(GROUP, SENDER, 3);
        assert_eq!(cursors.owe(SENDER, GROUP, 6), Some((3, 5)));
        assert_eq!(cursors.pass(SENDER, GROUP, 8), Some((6, 8)));
    }

    #[test]
    fn numbers_go_on_beyond_32_bits() {
        assert_eq!(extend((1 << 32) - 1, 1), (1 << 32) + 1);
        assert_eq!(extend((1 << 32) + 1, u32::MAX), (1 << 32) - 1);
        assert_eq!(extend(7, 7), 7);
    }
}
