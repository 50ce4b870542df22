//! What was published and what was received, message by message, in a form that can be compared.
//!
//! Each message is hashed; a stream's hash is the SHA-256 over the hashes of its messages, in the
//! order of their numbers. So a sender can say the hash of any part of what it published, also of
//! what came after a receiver's restart.

use std::collections::HashMap;

use qsm::{GroupId, MessageRef, Origin};
use qsm_console::digest::{Hash, hex, sha256};
use sha2::{Digest as _, Sha256};

use crate::messages::{End, Published, Range, Stream};

/// What a sender published.
#[derive(Debug)]
pub(crate) struct Ledger {
    groups: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Its place in the plan.
    group: usize,
    /// Of all messages in turn.
    hashes: Vec<Hash>,
    mark: u64,
}

impl Ledger {
    /// For these groups of the plan.
    #[must_use]
    pub(crate) fn new(groups: &[usize]) -> Self {
        let entry = |&group| Entry {
            group,
            hashes: Vec::new(),
            mark: 0,
        };
        Self {
            groups: groups.iter().map(entry).collect(),
        }
    }

    /// A message was accepted for the group in this place of those given to [`Ledger::new`].
    pub(crate) fn add(&mut self, place: usize, message: &[u8]) {
        if let Some(entry) = self.groups.get_mut(place) {
            entry.hashes.push(sha256(message));
        }
    }

    /// Remembers how far each group is.
    pub(crate) fn mark(&mut self) {
        for entry in &mut self.groups {
            entry.mark = entry.hashes.len() as u64;
        }
    }

    /// What was published, by group.
    #[must_use]
    pub(crate) fn published(&self) -> Vec<Published> {
        let row = |entry: &Entry| Published {
            group: entry.group,
            count: entry.hashes.len() as u64,
            mark: entry.mark,
        };
        self.groups.iter().map(row).collect()
    }

    /// The hash of a part; of nothing if there is no such part.
    #[must_use]
    pub(crate) fn hash(&self, range: Range) -> String {
        let entry = self.groups.iter().find(|entry| entry.group == range.group);
        let part = entry.and_then(|entry| {
            let first = usize::try_from(range.first.checked_sub(1)?).ok()?;
            let last = usize::try_from(range.last).ok()?;
            entry.hashes.get(first..last)
        });
        let mut hash = Sha256::new();
        for message in part.unwrap_or_default() {
            hash.update(message);
        }
        hex(&hash.finalize())
    }
}

/// What a receiver received.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    places: HashMap<String, usize>,
    streams: HashMap<(GroupId, Origin), Received>,
    /// Messages in all.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
struct Received {
    place: usize,
    first: u64,
    last: u64,
    count: u64,
    hash: Sha256,
}

impl Tally {
    /// For groups with these names and places in the plan.
    #[must_use]
    pub(crate) fn new(names: impl IntoIterator<Item = (String, usize)>) -> Self {
        Self {
            places: names.into_iter().collect(),
            ..Self::default()
        }
    }

    /// A message came.
    pub(crate) fn add(&mut self, message: MessageRef<'_>) {
        self.messages += 1;
        self.bytes += message.bytes.len() as u64;
        let places = &self.places;
        let stream = self
            .streams
            .entry((message.group_id, message.sender))
            .or_insert_with(|| {
                // A group that was never asked for has no place, and is found when compared.
                let place = places.get(message.group).copied().unwrap_or(usize::MAX);
                Received {
                    place,
                    first: message.number,
                    last: message.number,
                    count: 0,
                    hash: Sha256::new(),
                }
            });
        // Out of order, the numbers or the hash will not fit.
        stream.last = message.number;
        stream.count += 1;
        stream.hash.update(sha256(message.bytes));
    }

    /// Whether everything up to these numbers has come.
    #[must_use]
    pub(crate) fn has_reached(&self, ends: &[End]) -> bool {
        let streams = self.streams.iter();
        let reached: HashMap<(usize, String), u64> = streams
            .map(|((_, sender), stream)| ((stream.place, sender.to_string()), stream.last))
            .collect();
        ends.iter().all(|end| {
            let last = reached.get(&(end.group, end.sender.clone()));
            last.is_some_and(|&last| last >= end.last)
        })
    }

    /// What has come, by group and sender.
    #[must_use]
    pub(crate) fn streams(&self) -> Vec<Stream> {
        let row = |((_, sender), stream): (&(GroupId, Origin), &Received)| Stream {
            group: stream.place,
            sender: sender.to_string(),
            first: stream.first,
            last: stream.last,
            count: stream.count,
            hash: hex(&stream.hash.clone().finalize()),
        };
        self.streams.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_the_ledger_has_a_hash_of_its_own() {
        let mut ledger = Ledger::new(&[5]);
        for message in [&b"one"[..], b"two", b"three"] {
            ledger.add(0, message);
        }
        ledger.mark();
        ledger.add(0, b"four");
        let published = Published {
            group: 5,
            count: 4,
            mark: 3,
        };
        assert_eq!(ledger.published(), [published]);
        let hash = |first, last| {
            ledger.hash(Range {
                group: 5,
                first,
                last,
            })
        };
        let two = [sha256(b"two"), sha256(b"three")].concat();
        assert_eq!(hash(2, 3), hex(&sha256(&two)));
        assert_ne!(hash(2, 3), hash(2, 4));
        assert_eq!(hash(1, 5), hex(&sha256(b"")));
        assert_eq!(hash(0, 1), hex(&sha256(b"")));
    }
}
