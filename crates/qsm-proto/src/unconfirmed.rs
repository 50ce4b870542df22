//! Messages that this node has accepted and not all receivers are known to have: told at the end of
//! a life or of a region.

use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_wire::{GroupId, Incarnation};

use crate::publication::Routes;
use crate::receive::extend;
use crate::send::SendStream;
use crate::{Event, Events, MessageRange, UnconfirmedCause};

/// Message numbers of groups, each a list of runs. Messages of one stream come in order, so a
/// stream makes one run per group; another region's copies are joined to it at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnconfirmedNumbers(BTreeMap<GroupId, Vec<(u64, u64)>>);

impl UnconfirmedNumbers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a message.
    pub(crate) fn note(&mut self, group: GroupId, number: u64) {
        let runs = self.0.entry(group).or_default();
        match runs.last_mut() {
            Some((_, last)) if *last == number || *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }

    /// Adds messages that follow each other.
    pub(crate) fn note_run(&mut self, group: GroupId, first: u64, last: u64) {
        self.0.entry(group).or_default().push((first, last));
    }

    /// Adds the messages of another list.
    pub(crate) fn extend(&mut self, other: Self) {
        for (group, runs) in other.0 {
            self.0.entry(group).or_default().extend(runs);
        }
    }

    /// Adds what is not stable of a stream, up to that packet.
    pub(crate) fn add(&mut self, stream: &SendStream, upto: u64, routes: &Routes) {
        for (group, low) in stream.unstable(0, upto) {
            self.note(group, extend(routes.next_number(group), low));
        }
    }

    /// Adds what is there of a stream above `after`, up to that packet, stable or not.
    pub(crate) fn add_kept(&mut self, stream: &SendStream, after: u64, upto: u64, routes: &Routes) {
        self.add_kept_of(stream, after, upto, routes, |_| true);
    }

    /// The same of some groups.
    pub(crate) fn add_kept_of(
        &mut self,
        stream: &SendStream,
        after: u64,
        upto: u64,
        routes: &Routes,
        of: impl Fn(GroupId) -> bool,
    ) {
        for (group, low) in stream.kept(after, upto).filter(|(group, _)| of(*group)) {
            self.note(group, extend(routes.next_number(group), low));
        }
    }

    /// Keeps the messages of some groups alone.
    pub(crate) fn retain(&mut self, of: impl Fn(GroupId) -> bool) {
        self.0.retain(|group, _| of(*group));
    }

    /// Adds runs that have only the low 32 bits of their numbers.
    pub(crate) fn add_low(&mut self, low: Self, routes: &Routes) {
        for (group, first, last) in low.runs() {
            let whole = |low: u64| extend(routes.next_number(group), low as u32);
            let run = (whole(first), whole(last));
            self.0.entry(group).or_default().push(run);
        }
    }

    /// The first number of each group.
    pub(crate) fn firsts(self) -> BTreeMap<GroupId, u64> {
        let mut firsts = BTreeMap::new();
        for (group, first, _) in self.runs() {
            firsts.entry(group).or_insert(first);
        }
        firsts
    }

    /// The first runs, and how many messages are in the others.
    pub(crate) fn ranges(
        self,
        most: usize,
        name: impl Fn(GroupId) -> Option<Arc<str>>,
    ) -> (Vec<MessageRange>, u64) {
        let (mut ranges, mut more) = (Vec::new(), 0);
        for (group, first, last) in self.runs() {
            if ranges.len() == most {
                more += last - first + 1;
                continue;
            }
            let group = name(group).unwrap_or_else(|| Arc::from(""));
            ranges.push(MessageRange { group, first, last });
        }
        (ranges, more)
    }

    /// All runs, joined where they touch.
    fn runs(self) -> impl Iterator<Item = (GroupId, u64, u64)> {
        self.0.into_iter().flat_map(|(group, mut runs)| {
            runs.sort_unstable();
            let mut joined: Vec<(u64, u64)> = Vec::new();
            for (first, last) in runs {
                match joined.last_mut() {
                    Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
                    _ => joined.push((first, last)),
                }
            }
            joined
                .into_iter()
                .map(move |(first, last)| (group, first, last))
        })
    }

    /// Tells the application. Of a group that it has left it gets no name.
    pub(crate) fn tell(
        self,
        events: &mut Events,
        incarnation: Incarnation,
        cause: UnconfirmedCause,
        name: impl Fn(GroupId) -> Option<Arc<str>>,
    ) {
        for (group, first, last) in self.runs() {
            events.push(Event::Unconfirmed {
                group: name(group).unwrap_or_else(|| Arc::from("")),
                incarnation,
                first,
                last,
                cause,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_for_several_regions_are_one_run_and_holes_stay() {
        let mut numbers = UnconfirmedNumbers::default();
        let (one, other) = (GroupId(1), GroupId(2));
        // One region lacks 5 to 9, another 3 to 6 and 12.
        (5..=9).for_each(|number| numbers.note(one, number));
        numbers.note(other, 7);
        (3..=6).for_each(|number| numbers.note(one, number));
        numbers.note(one, 12);
        let runs: Vec<_> = numbers.runs().collect();
        assert_eq!(runs, [(one, 3, 9), (one, 12, 12), (other, 7, 7)]);
    }
}
