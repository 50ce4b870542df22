//! Told at the end of a life or of a region: what this node has accepted and not all receivers are
//! known to have, and what it has missed itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_wire::{GroupId, Incarnation, RegionId};

use super::Endpoint;
use crate::publication::Routes;
use crate::receive::extend;
use crate::region::Region;
use crate::send::SendStream;
use crate::{Event, UnconfirmedCause};

/// Message numbers of groups, each a list of runs. Messages of one stream come in order, so a
/// stream makes one run per group; another region's copies are joined to it at the end.
#[derive(Default)]
struct Numbers(BTreeMap<GroupId, Vec<(u64, u64)>>);

impl Numbers {
    fn note(&mut self, group: GroupId, number: u64) {
        let runs = self.0.entry(group).or_default();
        match runs.last_mut() {
            Some((_, last)) if *last == number || *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }

    /// Adds what is not stable of a stream, up to that packet.
    fn add(&mut self, stream: &SendStream, upto: u64, routes: &Routes) {
        for (group, low) in stream.unstable(upto) {
            self.note(group, extend(routes.next_number(group), low));
        }
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
}

impl Endpoint {
    /// The streams of the life that has ended are void: tells what they still had, and remembers
    /// where other senders stood.
    pub(super) fn report_former_life(&mut self) {
        let names = self.membership.take_former_names();
        let mut numbers = Numbers::default();
        for sender in self.regions.iter().filter_map(Region::own_stream) {
            numbers.add(sender, u64::MAX, &self.routes);
        }
        let incarnation = self.node.origin.incarnation;
        let name = |group| names.get(&group).cloned();
        self.report(numbers, name, incarnation, UnconfirmedCause::NewLife);
        for (group, sender, next) in self.node.cursors.forget_all() {
            if let Some(name) = names.get(&group) {
                let stood = self.former.entry(Arc::clone(name)).or_default();
                stood.push((sender, next));
            }
        }
    }

    /// Nobody is left who could say that he has the packets of this region up to that one.
    pub(super) fn report_unheard(&mut self, id: RegionId, upto: Option<u64>) {
        let region = self.regions.get(id);
        let Some((sender, upto)) = region.and_then(Region::own_stream).zip(upto) else {
            return;
        };
        let mut numbers = Numbers::default();
        numbers.add(sender, upto, &self.routes);
        let groups: Vec<GroupId> = numbers.0.keys().copied().collect();
        let name = |group: GroupId| self.membership.group_name(group).map(Arc::from);
        let names: BTreeMap<GroupId, Arc<str>> = groups
            .into_iter()
            .filter_map(|group| Some((group, name(group)?)))
            .collect();
        let incarnation = self.node.origin.incarnation;
        let name = |group| names.get(&group).cloned();
        self.report(numbers, name, incarnation, UnconfirmedCause::NoReceivers);
    }

    fn report(
        &mut self,
        numbers: Numbers,
        name: impl Fn(GroupId) -> Option<Arc<str>>,
        incarnation: Incarnation,
        cause: UnconfirmedCause,
    ) {
        for (group, first, last) in numbers.runs() {
            self.node.events.push(Event::Unconfirmed {
                group: name(group).unwrap_or_else(|| Arc::from("")),
                incarnation,
                first,
                last,
                cause,
            });
        }
    }

    /// A group has its number in this life.
    pub(super) fn recall(&mut self, group: GroupId, name: &str) {
        for (sender, next) in self.former.remove(name).into_iter().flatten() {
            self.node.cursors.recall(group, sender, next);
        }
    }

    /// The application has given up a group: nothing of it is missed.
    pub(super) fn forget_former(&mut self, name: &str) {
        self.former.remove(name);
        if let Some(group) = self.membership.group(name) {
            self.node.cursors.forget_former(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_for_several_regions_are_one_run_and_holes_stay() {
        let mut numbers = Numbers::default();
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
