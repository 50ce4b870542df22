//! The sequence as one replica has it: the order of updates whose content is here.

use std::collections::{BTreeMap, VecDeque};

use crate::word::{Anchor, Item, Place, Position, Step, Term, Voter};

/// Entry of the sequence: a step, and the term in which a sequencer put it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) term: Term,
    pub(crate) step: Step,
}

/// Entries behind an anchor, without a hole.
#[derive(Debug)]
pub(crate) struct Log {
    /// Position and term of the last entry that is not kept.
    base: Position,
    base_term: Term,
    entries: VecDeque<Entry>,
    /// The voters from each position on; one at least is at the base or before.
    voters: BTreeMap<Position, Vec<Voter>>,
}

impl Log {
    pub(crate) fn new(anchor: Anchor) -> Self {
        Self {
            base: anchor.position,
            base_term: anchor.term,
            entries: VecDeque::new(),
            voters: BTreeMap::from([(anchor.position, anchor.voters)]),
        }
    }

    pub(crate) fn base(&self) -> Position {
        self.base
    }

    pub(crate) fn last(&self) -> Position {
        self.base + self.entries.len() as u64
    }

    /// Term and position of the last entry: of two logs the one with more is further.
    pub(crate) fn end(&self) -> (Term, Position) {
        let term = self.entries.back().map_or(self.base_term, |last| last.term);
        (term, self.last())
    }

    pub(crate) fn get(&self, position: Position) -> Option<&Entry> {
        let index = position.checked_sub(self.base)?.checked_sub(1)?;
        self.entries.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn term_at(&self, position: Position) -> Option<Term> {
        if position == self.base {
            return Some(self.base_term);
        }
        self.get(position).map(|entry| entry.term)
    }

    /// The voters up to this position, and the position that made them so.
    pub(crate) fn voters_at(&self, position: Position) -> (Position, &[Voter]) {
        let found = self.voters.range(..=position).next_back();
        found.map_or((0, &[]), |(at, voters)| (*at, voters.as_slice()))
    }

    pub(crate) fn anchor(&self, position: Position) -> Option<Anchor> {
        Some(Anchor {
            position,
            term: self.term_at(position)?,
            voters: self.voters_at(position).1.to_vec(),
        })
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        if let Step::Voters(voters) = &entry.step {
            self.voters.insert(self.last() + 1, voters.clone());
        }
        self.entries.push_back(entry);
    }

    /// Takes the last entry away, unless it is at this position or before.
    pub(crate) fn pop_behind(&mut self, position: Position) -> Option<Entry> {
        let last = self.last();
        if last <= position {
            return None;
        }
        self.voters.remove(&last);
        self.entries.pop_back()
    }

    /// Forgets entries up to this position.
    pub(crate) fn forget(&mut self, position: Position) {
        while self.base < position {
            let Some(entry) = self.entries.pop_front() else {
                break;
            };
            (self.base, self.base_term) = (self.base + 1, entry.term);
        }
        let (current, _) = self.voters_at(self.base);
        self.voters = self.voters.split_off(&current);
    }

    /// The entries behind a position as they are written, so many at most.
    pub(crate) fn items(&self, behind: Position, items_max: usize) -> (Vec<Item>, Position) {
        let mut items: Vec<Item> = Vec::new();
        let mut position = behind;
        while let Some(entry) = self.get(position.saturating_add(1)) {
            let joined = items.last_mut().is_some_and(|item| item.append(entry));
            if !joined {
                if items.len() == items_max {
                    break;
                }
                items.push(Item::of(entry));
            }
            position += 1;
        }
        (items, position)
    }
}

impl Item {
    fn of(entry: &Entry) -> Self {
        Self {
            term: entry.term,
            step: entry.step.clone(),
            count: 1,
        }
    }

    /// Makes the run longer, if this entry follows it.
    fn append(&mut self, entry: &Entry) -> bool {
        let follows = match (&self.step, &entry.step) {
            (
                Step::Update(Place { source, number }),
                Step::Update(Place {
                    source: other,
                    number: next,
                }),
            ) => source == other && number.saturating_add(u64::from(self.count)) == *next,
            _ => false,
        };
        let joined = follows && self.term == entry.term && self.count < u32::MAX;
        self.count += u32::from(joined);
        joined
    }

    /// The entries of the run.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        (0..self.count).map(|index| {
            let step = match &self.step {
                Step::Update(place) => Step::Update(Place {
                    number: place.number.saturating_add(u64::from(index)),
                    ..*place
                }),
                other => other.clone(),
            };
            Entry {
                term: self.term,
                step,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::{Address, Source};

    fn update(term: Term, source: u64, number: u64) -> Entry {
        let source = Source(source);
        Entry {
            term,
            step: Step::Update(Place { source, number }),
        }
    }

    fn log() -> Log {
        Log::new(Anchor {
            position: 10,
            term: 1,
            voters: Vec::new(),
        })
    }

    #[test]
    fn entries_are_written_as_runs_and_read_as_they_were() {
        let mut log = log();
        let entries = [
            update(1, 1, 1),
            update(1, 1, 2),
            update(2, 1, 3),
            update(2, 2, 1),
            update(2, 2, 2),
            update(2, 1, 4),
        ];
        entries.iter().for_each(|entry| log.push(entry.clone()));
        let (items, last) = log.items(10, 100);
        assert_eq!((items.len(), last), (4, 16));
        let read: Vec<Entry> = items.iter().flat_map(Item::entries).collect();
        assert_eq!(read, entries);
        let (items, last) = log.items(11, 2);
        assert_eq!((items.len(), last), (2, 13));
    }

    #[test]
    fn voters_are_those_of_the_position() {
        let voters = |life: u64| {
            vec![Voter {
                address: Address(life),
                life: Source(life),
            }]
        };
        let mut log = log();
        for life in 1..4 {
            let step = Step::Voters(voters(life));
            log.push(Entry { term: 1, step });
            log.push(update(1, 9, life));
        }
        assert_eq!(log.voters_at(10), (10, &[][..]));
        assert_eq!(log.voters_at(14), (13, voters(2).as_slice()));
        log.forget(14);
        assert_eq!((log.base(), log.last()), (14, 16));
        assert_eq!(log.voters_at(14), (13, voters(2).as_slice()));
        while log.pop_behind(14).is_some() {}
        assert_eq!(log.voters_at(16), (13, voters(2).as_slice()));
        assert_eq!(log.end(), (1, 14));
    }
}
