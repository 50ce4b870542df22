//! Groups that are delivered promptly, beside their order: who wants what, and what of a sender's
//! messages has been handed out ahead (R-DATA-12).

use core::ops::RangeInclusive;
use core::time::Duration;
use std::collections::BTreeMap;

use qsm_wire::{GroupId, Origin};

/// A way to deliver a group without waiting for all that is missing. It is beside the delivery in
/// order, which goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promptness {
    /// Messages are handed out as they come, each once; what never comes is told as lost when that
    /// is known (R200, R203).
    Arrival,
    /// Messages are handed out in order. What has been missing for so long is told as lost where a
    /// later message is there, and is not handed out if it comes after all (R201).
    Within(Duration),
}

/// Numbers of one sender's messages to one group that need not be handed out any more, ahead of
/// the order: ascending ranges that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Settled {
    ranges: Vec<RangeInclusive<u64>>,
}

impl Settled {
    fn contains(&self, number: u64) -> bool {
        let at = self.ranges.partition_point(|range| *range.end() < number);
        self.ranges
            .get(at)
            .is_some_and(|range| range.contains(&number))
    }

    fn last(&self) -> Option<u64> {
        self.ranges.last().map(|range| *range.end())
    }

    fn insert(&mut self, range: RangeInclusive<u64>) {
        let (mut first, mut last) = range.into_inner();
        let begin = self
            .ranges
            .partition_point(|range| *range.end() + 1 < first);
        let end = self
            .ranges
            .partition_point(|range| *range.start() <= last.saturating_add(1));
        for joined in self.ranges.drain(begin..end.max(begin)) {
            first = first.min(*joined.start());
            last = last.max(*joined.end());
        }
        self.ranges.insert(begin, first..=last);
    }

    /// Everything up to here has had its turn.
    fn trim(&mut self, upto: u64) {
        let passed = self.ranges.partition_point(|range| *range.end() <= upto);
        self.ranges.drain(..passed);
    }

    /// What of these numbers is not in here.
    fn missing(&self, numbers: RangeInclusive<u64>) -> Vec<RangeInclusive<u64>> {
        let (mut next, last) = numbers.into_inner();
        let mut missing = Vec::new();
        for range in &self.ranges {
            if *range.start() > last {
                break;
            }
            if *range.start() > next {
                missing.push(next..=*range.start() - 1);
            }
            next = next.max(range.end().saturating_add(1));
        }
        if next <= last {
            missing.push(next..=last);
        }
        missing
    }
}

/// Messages of a sender to a group that have been handed out in one way, ahead of their order.
#[derive(Debug)]
pub(crate) struct HandedOut {
    mode: Promptness,
    settled: Settled,
}

/// A message that is handed out ahead of its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ahead {
    /// Its full number.
    pub(super) number: u64,
    /// What is to be told before it.
    pub(super) before: Before,
}

/// What is missing before a message that is handed out ahead of its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing, or it may still be handed out.
    Nothing,
    /// The numbers from this one to the message's own have been missing for too long.
    Lost(u64),
    /// The numbers from this one to the message's own were sent while this node was excluded, or
    /// have been missing for too long.
    Absence(u64),
    /// It is the first message of its sender to the group here: packets that have been missing for
    /// too long may have had others.
    Unknown,
}

/// A sender's messages to a group, as one promptness has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    group: GroupId,
    sender: Origin,
    mode: Promptness,
}

/// Groups that are delivered promptly at this node, and what has been handed out ahead of the
/// order. There is memory only for what lies behind a gap.
#[derive(Debug, Default)]
pub struct PromptGroups {
    wanted: BTreeMap<GroupId, Box<[Promptness]>>,
    /// How many groups are wanted in each way.
    counts: BTreeMap<Promptness, usize>,
    /// The ways, ascending.
    modes: Vec<Promptness>,
    ahead: BTreeMap<Place, Settled>,
}

impl PromptGroups {
    /// No group is delivered promptly.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.modes.is_empty()
    }

    /// The group is delivered in these ways from now on, beside its order.
    pub(super) fn want(&mut self, group: GroupId, modes: &[Promptness]) {
        let mut modes = modes.to_vec();
        modes.sort_unstable();
        modes.dedup();
        self.ahead
            .retain(|place, _| place.group != group || modes.contains(&place.mode));
        for mode in &modes {
            *self.counts.entry(*mode).or_default() += 1;
        }
        let before = match modes.is_empty() {
            true => self.wanted.remove(&group),
            false => self.wanted.insert(group, modes.into()),
        };
        for mode in before.iter().flatten() {
            *self.counts.entry(*mode).or_default() -= 1;
        }
        self.counts.retain(|_, groups| *groups > 0);
        self.modes = self.counts.keys().copied().collect();
    }

    /// Numbers of groups are void.
    pub(super) fn forget_numbers(&mut self) {
        self.wanted.clear();
        self.ahead.clear();
        self.counts.clear();
        self.modes.clear();
    }

    /// In which ways a group is delivered beside its order, ascending.
    #[must_use]
    pub fn of(&self, group: GroupId) -> &[Promptness] {
        self.wanted.get(&group).map_or(&[], |modes| modes)
    }

    /// In which ways some group is.
    pub(super) fn modes(&self) -> &[Promptness] {
        &self.modes
    }

    /// Forgets what was handed out of a group.
    pub(super) fn forget_group(&mut self, group: GroupId) {
        self.ahead.retain(|place, _| place.group != group);
    }

    /// Forgets what was handed out of a sender's messages.
    pub(super) fn forget_sender(&mut self, sender: Origin) {
        self.ahead.retain(|place, _| place.sender != sender);
    }

    /// Takes out what has been handed out ahead of the order, for another life.
    pub(crate) fn take(&mut self, group: GroupId, sender: Origin) -> Vec<HandedOut> {
        let mut taken = Vec::new();
        for mode in self.of(group).to_vec() {
            let place = Place {
                group,
                sender,
                mode,
            };
            let settled = self.ahead.remove(&place);
            taken.extend(settled.map(|settled| HandedOut { mode, settled }));
        }
        taken
    }

    /// Puts back what was taken out.
    pub(crate) fn put(&mut self, group: GroupId, sender: Origin, taken: Vec<HandedOut>) {
        for HandedOut { mode, settled } in taken {
            let place = Place {
                group,
                sender,
                mode,
            };
            self.ahead.insert(place, settled);
        }
    }

    /// Takes a message that is not next in turn; `standing`: where the group is in order. `None`:
    /// it is handed out already, or was told as lost.
    pub(super) fn take_ahead(
        &mut self,
        mode: Promptness,
        message: AheadMessage,
        standing: Option<StandsAt>,
    ) -> Option<Ahead> {
        let AheadMessage {
            group,
            sender,
            number,
        } = message;
        let next = standing.map(|standing| standing.next);
        if next.is_some_and(|next| number < next) {
            return None;
        }
        let place = Place {
            group,
            sender,
            mode,
        };
        let settled = self.ahead.get(&place);
        if settled.is_some_and(|settled| settled.contains(number)) {
            return None;
        }
        let before = match (mode, settled.and_then(Settled::last), standing) {
            (Promptness::Within(_), Some(last), _) if last + 1 < number => Before::Lost(last + 1),
            (Promptness::Within(_), None, Some(StandsAt { next, former })) if next < number => {
                match former {
                    true => Before::Absence(next),
                    false => Before::Lost(next),
                }
            }
            (Promptness::Within(_), None, None) => Before::Unknown,
            _ => Before::Nothing,
        };
        let settled = self.ahead.entry(place).or_default();
        settled.insert(match mode {
            Promptness::Arrival => number..=number,
            Promptness::Within(_) => 0..=number,
        });
        Some(Ahead { number, before })
    }

    /// Notes that a message has its turn. Returns whether it is still to be handed out in this way.
    pub(super) fn take_turn(&mut self, mode: Promptness, message: AheadMessage) -> bool {
        let AheadMessage {
            group,
            sender,
            number,
        } = message;
        let place = Place {
            group,
            sender,
            mode,
        };
        let Some(settled) = self.ahead.get_mut(&place) else {
            return true;
        };
        let fresh = !settled.contains(number);
        settled.trim(number);
        if settled.ranges.is_empty() {
            self.ahead.remove(&place);
        }
        fresh
    }

    /// Notes that messages will not come. Returns which of them are still to be told in this way.
    pub(super) fn pass(
        &mut self,
        mode: Promptness,
        last: AheadMessage,
        first: u64,
    ) -> Vec<RangeInclusive<u64>> {
        let AheadMessage {
            group,
            sender,
            number,
        } = last;
        let place = Place {
            group,
            sender,
            mode,
        };
        let Some(settled) = self.ahead.get_mut(&place) else {
            return Vec::from([first..=number]);
        };
        let missing = settled.missing(first..=number);
        settled.trim(number);
        if settled.ranges.is_empty() {
            self.ahead.remove(&place);
        }
        missing
    }
}

/// A message by its full number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AheadMessage {
    pub(super) group: GroupId,
    pub(super) sender: Origin,
    pub(super) number: u64,
}

/// Where a sender is in a group, by the messages that have had their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StandsAt {
    /// The next number.
    pub(super) next: u64,
    /// So it stood when this node's former life ended.
    pub(super) former: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: GroupId = GroupId(7);
    const SOON: Promptness = Promptness::Within(Duration::from_millis(5));

    fn groups() -> PromptGroups {
        let mut groups = PromptGroups::default();
        groups.want(GROUP, &[SOON, Promptness::Arrival, SOON]);
        groups
    }

    fn message(number: u64) -> AheadMessage {
        AheadMessage {
            group: GROUP,
            sender: Origin::default(),
            number,
        }
    }

    fn ahead(groups: &mut PromptGroups, mode: Promptness, number: u64) -> Option<Before> {
        let standing = StandsAt {
            next: 3,
            former: false,
        };
        let ahead = groups.take_ahead(mode, message(number), Some(standing));
        ahead.map(|ahead| ahead.before)
    }

    // Rule R-DATA-12.
    #[test]
    fn messages_are_taken_once_as_they_come() {
        let mut groups = groups();
        let mode = Promptness::Arrival;
        for number in [7, 5, 6, 9] {
            assert_eq!(ahead(&mut groups, mode, number), Some(Before::Nothing));
            assert_eq!(ahead(&mut groups, mode, number), None);
        }
        assert_eq!(ahead(&mut groups, mode, 2), None, "it had its turn");
        assert!(groups.take_turn(mode, message(3)));
        assert_eq!(groups.pass(mode, message(8), 4), [4..=4, 8..=8]);
        assert!(!groups.take_turn(mode, message(9)));
        assert!(groups.ahead.is_empty(), "nothing is kept without a gap");
        assert!(groups.take_turn(mode, message(10)));
    }

    // Rule R-DATA-12.
    #[test]
    fn what_is_skipped_is_told_once_and_not_taken_when_it_comes() {
        let mut groups = groups();
        assert_eq!(ahead(&mut groups, SOON, 5), Some(Before::Lost(3)));
        assert_eq!(ahead(&mut groups, SOON, 6), Some(Before::Nothing));
        assert_eq!(ahead(&mut groups, SOON, 4), None);
        assert_eq!(ahead(&mut groups, SOON, 9), Some(Before::Lost(7)));
        assert!(!groups.take_turn(SOON, message(3)));
        assert_eq!(groups.pass(SOON, message(11), 4), [10..=11]);
        assert!(groups.ahead.is_empty());
    }

    // Rule R-DATA-12.
    #[test]
    fn the_first_message_of_a_sender_tells_of_an_unknown_past() {
        let mut groups = groups();
        let before = |groups: &mut PromptGroups, mode, standing| {
            let ahead = groups.take_ahead(mode, message(5), standing);
            ahead.map(|ahead| ahead.before)
        };
        assert_eq!(before(&mut groups, SOON, None), Some(Before::Unknown));
        let arrival = before(&mut groups, Promptness::Arrival, None);
        assert_eq!(arrival, Some(Before::Nothing));
        groups.forget_group(GROUP);
        let former = StandsAt {
            next: 2,
            former: true,
        };
        let told = before(&mut groups, SOON, Some(former));
        assert_eq!(told, Some(Before::Absence(2)));
    }

    #[test]
    fn ways_are_those_of_the_groups_that_have_a_number() {
        let mut groups = groups();
        groups.want(GroupId(8), &[Promptness::Arrival]);
        assert_eq!(groups.of(GROUP), [Promptness::Arrival, SOON]);
        groups.want(GROUP, &[]);
        assert_eq!(groups.modes(), [Promptness::Arrival]);
        assert_eq!(groups.of(GROUP), []);
        groups.forget_numbers();
        assert!(groups.is_empty());
    }

    #[test]
    fn ranges_join_where_they_touch() {
        let mut settled = Settled::default();
        for range in [5..=6, 9..=9, 1..=2, 7..=8, 20..=30, 15..=25] {
            settled.insert(range);
        }
        assert_eq!(settled.ranges, [1..=2, 5..=9, 15..=30]);
        assert_eq!(settled.missing(1..=40), [3..=4, 10..=14, 31..=40]);
        assert_eq!(settled.missing(6..=8), []);
        settled.trim(9);
        assert_eq!(settled.ranges, [15..=30]);
        assert!(settled.contains(15) && !settled.contains(14) && !settled.contains(31));
    }
}
