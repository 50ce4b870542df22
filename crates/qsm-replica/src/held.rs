//! Updates that wait while a snapshot comes.

use std::collections::BTreeMap;

use crate::word::{Cut, Head, History, Source, Update};

/// What an update takes beside its content, bytes.
const OVERHEAD: usize = size_of::<Update>();

#[derive(Debug)]
pub(crate) struct Held {
    limit: usize,
    bytes: usize,
    updates: Vec<Update>,
    /// Updates that came and were dropped for want of room: a snapshot must have them.
    needed: BTreeMap<(History, Source), u64>,
}

impl Held {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: 0,
            updates: Vec::new(),
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

    /// Whether nothing is missing between this snapshot and what is held.
    pub(crate) fn joins(&self, head: &Head) -> bool {
        let mut reached: Cut = head.cut.clone();
        let of = |source: Source| reached.get(&source).copied().unwrap_or(0);
        let needed = self
            .needed
            .iter()
            .filter(|((history, _), _)| *history == head.history);
        if needed
            .into_iter()
            .any(|((_, source), number)| *number > of(*source))
        {
            return false;
        }
        for update in self
            .updates
            .iter()
            .filter(|update| update.history == head.history)
        {
            let at = reached.entry(update.source).or_default();
            if update.number > *at + 1 {
                return false;
            }
            *at = update.number.max(*at);
        }
        true
    }

    pub(crate) fn drain(&mut self) -> Vec<Update> {
        self.bytes = 0;
        std::mem::take(&mut self.updates)
    }

    pub(crate) fn clear(&mut self) {
        drop(self.drain());
        self.needed.clear();
    }
}
