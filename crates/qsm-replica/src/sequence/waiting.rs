//! Updates that wait until the sequence says when they are applied.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::word::{Cut, Place, Source, Update};

/// Bytes of an update beside its content.
pub(crate) const OVERHEAD: usize = 64;

/// Outcome of taking an update in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It waits, or was here before.
    Done,
    /// One before it is missing.
    Hole,
    /// There is no room.
    Full,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    limit: usize,
    bytes: usize,
    /// Number of the last update here, of each source; all before it are here or applied.
    reached: Cut,
    /// Number of the last update in the log.
    ordered: Cut,
    /// Those not yet applied; the last one has the number `reached`.
    queues: BTreeMap<Source, VecDeque<Vec<u8>>>,
    /// Sources with updates that are not in the log.
    fresh: BTreeSet<Source>,
}

impl Waiting {
    /// With the updates of this cut applied, and room for so many bytes.
    pub(crate) fn new(cut: &Cut, limit: usize) -> Self {
        Self {
            limit,
            bytes: 0,
            reached: cut.clone(),
            ordered: cut.clone(),
            queues: BTreeMap::new(),
            fresh: BTreeSet::new(),
        }
    }

    pub(crate) fn push(&mut self, update: Update) -> Taken {
        let known = self.reached.get(&update.source).copied();
        let next = known.unwrap_or(0).saturating_add(1);
        if update.number < next {
            return Taken::Done;
        }
        if update.number > next {
            // One of a source that is forgotten was never put into the sequence.
            return known.map_or(Taken::Done, |_| Taken::Hole);
        }
        self.bytes += update.content.len() + OVERHEAD;
        if self.bytes > self.limit {
            return Taken::Full;
        }
        self.reached.insert(update.source, update.number);
        self.fresh.insert(update.source);
        let queue = self.queues.entry(update.source).or_default();
        queue.push_back(update.content);
        Taken::Done
    }

    pub(crate) fn has(&self, place: Place) -> bool {
        self.reached
            .get(&place.source)
            .is_some_and(|reached| place.number <= *reached)
    }

    /// It is in the log now.
    pub(crate) fn order(&mut self, place: Place) {
        self.ordered.insert(place.source, place.number);
    }

    /// It is not in the log any more.
    pub(crate) fn take_back(&mut self, place: Place) {
        self.ordered
            .insert(place.source, place.number.saturating_sub(1));
        self.fresh.insert(place.source);
    }

    /// Updates that are not in the log, by source and number; those of a log that this replica makes.
    pub(crate) fn take_fresh(&mut self) -> Vec<Place> {
        let mut places = Vec::new();
        for source in std::mem::take(&mut self.fresh) {
            let numbers = self.numbers(source);
            places.extend(numbers.map(|number| Place { source, number }));
        }
        places.iter().for_each(|place| self.order(*place));
        places
    }

    /// Tells whether updates wait that are in no log here.
    pub(crate) fn any_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    fn numbers(&self, source: Source) -> impl Iterator<Item = u64> + use<> {
        let of = |cut: &Cut| cut.get(&source).copied().unwrap_or(0);
        of(&self.ordered).saturating_add(1)..=of(&self.reached)
    }

    /// The content of an update that is applied now.
    pub(crate) fn take(&mut self, place: Place) -> Option<Vec<u8>> {
        let reached = self.reached.get(&place.source)?;
        let queue = self.queues.get_mut(&place.source)?;
        if place.number.saturating_add(queue.len() as u64) != reached.saturating_add(1) {
            return None;
        }
        let content = queue.pop_front()?;
        if queue.is_empty() {
            self.queues.remove(&place.source);
        }
        self.bytes -= content.len() + OVERHEAD;
        Some(content)
    }

    /// Sources whose numbers are kept.
    pub(crate) fn sources(&self) -> Vec<Source> {
        self.reached.keys().copied().collect()
    }

    /// Tells whether nothing of the source waits.
    pub(crate) fn is_done(&self, source: Source) -> bool {
        !self.queues.contains_key(&source)
    }

    /// The source is gone: neither its number nor what waits of it is kept.
    pub(crate) fn forget(&mut self, source: Source) {
        self.reached.remove(&source);
        self.ordered.remove(&source);
        self.fresh.remove(&source);
        for content in self.queues.remove(&source).into_iter().flatten() {
            self.bytes -= content.len() + OVERHEAD;
        }
    }

    /// Drops updates of a source that are in no log: nobody else has them.
    pub(crate) fn drop_fresh(&mut self, source: Source) {
        let ordered = self.ordered.get(&source).copied().unwrap_or(0);
        let beyond = self.numbers(source).count();
        let Some(queue) = self.queues.get_mut(&source) else {
            return;
        };
        for _ in 0..beyond {
            let content = queue.pop_back().unwrap_or_default();
            self.bytes -= content.len() + OVERHEAD;
        }
        if queue.is_empty() {
            self.queues.remove(&source);
        }
        self.reached.insert(source, ordered);
        self.fresh.remove(&source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::History;

    const HISTORY: History = History {
        generation: 1,
        id: 7,
    };

    fn update(source: u64, number: u64) -> Update {
        Update {
            history: HISTORY,
            source: Source(source),
            number,
            content: vec![0; 10],
        }
    }

    fn place(source: u64, number: u64) -> Place {
        let source = Source(source);
        Place { source, number }
    }

    #[test]
    fn updates_wait_without_a_hole_and_are_ordered_once() {
        let mut waiting = Waiting::new(&Cut::from([(Source(1), 4)]), 1000);
        for number in [4, 5, 6, 6] {
            assert_eq!(waiting.push(update(1, number)), Taken::Done);
        }
        assert_eq!(waiting.push(update(1, 8)), Taken::Hole);
        assert_eq!(waiting.take_fresh(), [place(1, 5), place(1, 6)]);
        assert!(waiting.take_fresh().is_empty());
        waiting.take_back(place(1, 6));
        assert_eq!(waiting.take_fresh(), [place(1, 6)]);
        assert_eq!(waiting.take(place(1, 6)), None, "5 goes first");
        assert!(waiting.take(place(1, 5)).is_some() && waiting.take(place(1, 6)).is_some());
        assert!(waiting.is_done(Source(1)));
    }

    #[test]
    fn what_finds_no_room_is_refused_and_what_is_dropped_makes_room() {
        let mut waiting = Waiting::new(&Cut::new(), 2 * (10 + OVERHEAD));
        assert_eq!(waiting.push(update(1, 1)), Taken::Done);
        assert_eq!(waiting.push(update(2, 1)), Taken::Done);
        waiting.order(place(1, 1));
        waiting.drop_fresh(Source(1));
        assert!(waiting.has(place(1, 1)), "it is in the log");
        waiting.drop_fresh(Source(2));
        assert!(!waiting.has(place(2, 1)));
        assert_eq!(waiting.push(update(2, 1)), Taken::Done);
        assert_eq!(waiting.push(update(2, 2)), Taken::Full);
    }

    #[test]
    fn late_updates_of_a_forgotten_source_are_no_hole() {
        let mut waiting = Waiting::new(&Cut::new(), 1000);
        assert_eq!(waiting.push(update(1, 1)), Taken::Done);
        waiting.forget(Source(1));
        assert_eq!(waiting.push(update(1, 2)), Taken::Done);
        assert!(!waiting.has(place(1, 2)) && !waiting.any_fresh());
    }
}
