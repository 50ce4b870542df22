//! Updates, and records of their order, that wait while a snapshot comes.

use std::collections::{BTreeMap, VecDeque};

use crate::word::{Cut, Head, History, Item, Record, Source, Update};

/// Bytes of an update beside its content.
const OVERHEAD: usize = size_of::<Update>();
/// Of the limit, the part that records may take besides. The oldest ones give way: who lacks them asks the sequencer.
const RECORDS_PART: usize = 4;

#[derive(Debug)]
pub(crate) struct Held {
    limit: usize,
    bytes: usize,
    updates: Vec<Update>,
    records: VecDeque<Record>,
    records_bytes: usize,
    /// Updates that came and were dropped for want of room: a snapshot must have them.
    needed: BTreeMap<(History, Source), u64>,
}

impl Held {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: 0,
            updates: Vec::new(),
            records: VecDeque::new(),
            records_bytes: 0,
            needed: BTreeMap::new(),
        }
    }

    /// False if there was no room: then everything is dropped, and a later snapshot is needed.
    pub(crate) fn push(&mut self, update: Update) -> bool {
        self.bytes += update.content.len() + OVERHEAD;
        self.updates.push(update);
        let fits = self.bytes <= self.limit;
        if !fits {
            for update in self.drain() {
                let needed = self
                    .needed
                    .entry((update.history, update.source))
                    .or_default();
                *needed = update.number.max(*needed);
            }
        }
        fits
    }

    /// Keeps a record. A sequencer keeps far fewer entries than a long snapshot takes to come.
    pub(crate) fn keep(&mut self, record: Record) {
        self.records_bytes += size(&record);
        self.records.push_back(record);
        while self.records_bytes > self.limit / RECORDS_PART {
            let Some(oldest) = self.records.pop_front() else {
                break;
            };
            self.records_bytes -= size(&oldest);
        }
    }

    pub(crate) fn take_records(&mut self) -> VecDeque<Record> {
        self.records_bytes = 0;
        std::mem::take(&mut self.records)
    }

    /// Tells whether nothing is missing between this snapshot and what is held of sources that matter.
    pub(crate) fn joins(&self, head: &Head, matters: impl Fn(Source) -> bool) -> bool {
        let mut reached: Cut = head.cut.clone();
        let of = |source: Source| reached.get(&source).copied().unwrap_or(0);
        let needed = self
            .needed
            .iter()
            .filter(|((history, source), _)| *history == head.history && matters(*source));
        if needed
            .into_iter()
            .any(|((_, source), number)| *number > of(*source))
        {
            return false;
        }
        for update in self
            .updates
            .iter()
            .filter(|update| update.history == head.history && matters(update.source))
        {
            let at = reached.entry(update.source).or_default();
            if update.number > *at + 1 {
                return false;
            }
            *at = update.number.max(*at);
        }
        true
    }

    /// Bytes of updates, with those around each.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn drain(&mut self) -> Vec<Update> {
        self.bytes = 0;
        std::mem::take(&mut self.updates)
    }

    pub(crate) fn clear(&mut self) {
        drop((self.drain(), self.take_records()));
        self.needed.clear();
    }
}

fn size(record: &Record) -> usize {
    size_of::<Record>() + record.items.len() * size_of::<Item>()
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// A snapshot that has these numbers of sources 1 and 2.
    fn head(numbers: [u64; 2]) -> Head {
        Head {
            history: HISTORY,
            updates: numbers.iter().sum(),
            cut: (1..).map(Source).zip(numbers).collect(),
            anchor: None,
        }
    }

    #[test]
    fn a_gap_between_snapshot_and_held_updates_is_found() {
        let mut held = Held::new(1 << 20);
        for (source, number) in [(1, 5), (2, 3), (1, 6)] {
            assert!(held.push(update(source, number)));
        }
        assert!(held.joins(&head([4, 2]), |_| true) && held.joins(&head([6, 9]), |_| true));
        assert!(
            !held.joins(&head([3, 2]), |_| true),
            "update 4 of source 1 is missing"
        );
        assert!(
            !held.joins(&head([4, 1]), |_| true),
            "update 2 of source 2 is missing"
        );
        assert!(held.push(update(1, 8)));
        assert!(
            !held.joins(&head([4, 2]), |_| true),
            "update 7 is missing among them"
        );
        assert!(held.joins(&head([7, 2]), |_| true));
        let other = History { id: 8, ..HISTORY };
        let snapshot = Head {
            history: other,
            ..head([0, 0])
        };
        assert!(
            held.joins(&snapshot, |_| true),
            "they are of another history"
        );
    }

    #[test]
    fn what_found_no_room_has_to_be_in_the_snapshot() {
        let mut held = Held::new(OVERHEAD + 15);
        assert!(held.push(update(1, 5)));
        assert!(!held.push(update(1, 6)));
        assert!(held.drain().is_empty());
        assert!(!held.joins(&head([5, 0]), |_| true) && held.joins(&head([6, 0]), |_| true));
        held.clear();
        assert!(held.joins(&head([0, 0]), |_| true));
    }
}
