use std::collections::{BTreeMap, BTreeSet};

use qsm_proto::Instant;

/// At most one deadline per key; the next one is found without looking at the others.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    queue: BTreeSet<(Instant, K)>,
    at: BTreeMap<K, Instant>,
}

impl<K: Ord + Copy> Timers<K> {
    pub(crate) fn new() -> Self {
        Self {
            queue: BTreeSet::new(),
            at: BTreeMap::new(),
        }
    }

    pub(crate) fn set(&mut self, key: K, at: Option<Instant>) {
        let old = match at {
            Some(at) => self.at.insert(key, at),
            None => self.at.remove(&key),
        };
        if old == at {
            return;
        }
        if let Some(old) = old {
            self.queue.remove(&(old, key));
        }
        if let Some(at) = at {
            self.queue.insert((at, key));
        }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes one key whose deadline has come.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<K> {
        let (at, key) = *self.queue.first()?;
        if at > now {
            return None;
        }
        self.set(key, None);
        Some(key)
    }
}
