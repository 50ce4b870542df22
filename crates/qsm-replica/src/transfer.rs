//! Snapshots in chunks: at the donor, and at the joiner.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

use crate::word::{Address, Chunk, Fetch, Head, write};

/// Bytes of a chunk, but the last.
pub(crate) const CHUNK_BYTES: usize = 128 * 1024;
/// Chunks that are asked for at once.
pub(crate) const WINDOW: u32 = 16;
/// Of those, chunks that are still to come when the next ones are asked for. All that may be on their way have to fit
/// into a publisher's queue, of 4 MiB if the program says nothing else: what does not is dropped.
pub(crate) const AHEAD: u32 = 8;
/// Joiners served at once; more are told nothing, and ask another donor or again.
const SERVED_MAX: usize = 8;
/// A joiner that has not asked for so long is gone.
const IDLE: Duration = Duration::from_secs(10);

/// Snapshots that joiners are fetching.
#[derive(Debug, Default)]
pub(crate) struct Donor {
    served: BTreeMap<u64, Served>,
    /// Transfers that were begun, and questions that were not answered, in all.
    pub(crate) begun: u64,
    pub(crate) busy: u64,
}

#[derive(Debug)]
struct Served {
    snapshot: Arc<Snapshot>,
    asked: Duration,
}

/// A state with its cut, as bytes.
#[derive(Debug)]
pub(crate) struct Snapshot {
    head: Head,
    bytes: Vec<u8>,
    whole: u128,
}

impl Snapshot {
    /// Of a state that is written once, behind its head: it may be long.
    pub(crate) fn new(head: Head, state: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = write(&head);
        state(&mut bytes);
        let whole = xxh3_128(&bytes);
        Self { head, bytes, whole }
    }

    fn chunk(&self, from: Address, transfer: u64, index: u32) -> Option<Chunk> {
        let chunks = self.bytes.chunks(CHUNK_BYTES);
        let total = u32::try_from(chunks.len()).ok()?;
        let content = self.bytes.chunks(CHUNK_BYTES).nth(index as usize)?;
        Some(Chunk {
            from,
            transfer,
            whole: self.whole,
            chunks: total,
            index,
            hash: xxh3_64(content),
            content: content.to_vec(),
        })
    }
}

impl Donor {
    pub(crate) fn forget_idle(&mut self, now: Duration) {
        self.served
            .retain(|_, served| now.saturating_sub(served.asked) < IDLE);
    }

    pub(crate) fn clear(&mut self) {
        self.served.clear();
    }

    /// The chunks asked for, out of the snapshot of this transfer; `state` is written at the first question. Joiners
    /// that ask at the same cut share one.
    pub(crate) fn answer(
        &mut self,
        fetch: &Fetch,
        now: Duration,
        head: &Head,
        state: impl FnOnce(&mut Vec<u8>),
    ) -> Vec<Chunk> {
        if !self.served.contains_key(&fetch.transfer) {
            if self.served.len() >= SERVED_MAX {
                self.busy += 1;
                return Vec::new();
            }
            let same = self
                .served
                .values()
                .find(|other| other.snapshot.head == *head);
            let snapshot = match same {
                Some(other) => Arc::clone(&other.snapshot),
                None => Arc::new(Snapshot::new(head.clone(), state)),
            };
            let asked = now;
            self.begun += 1;
            self.served
                .insert(fetch.transfer, Served { snapshot, asked });
        }
        let Some(served) = self.served.get_mut(&fetch.transfer) else {
            return Vec::new();
        };
        served.asked = now;
        let last = fetch.first.saturating_add(WINDOW);
        (fetch.first..last)
            .map_while(|index| served.snapshot.chunk(fetch.to, fetch.transfer, index))
            .collect()
    }
}

/// A snapshot that a joiner has in part.
#[derive(Debug)]
pub(crate) struct Partial {
    whole: u128,
    chunks: u32,
    /// The first chunks of it, as many as `there`.
    bytes: Vec<u8>,
    there: u32,
    hash: Running,
    /// Chunks behind one that is missing.
    early: BTreeMap<u32, Vec<u8>>,
}

impl Partial {
    pub(crate) fn new(chunk: &Chunk) -> Self {
        Self {
            whole: chunk.whole,
            chunks: chunk.chunks,
            bytes: Vec::with_capacity(chunk.chunks as usize * CHUNK_BYTES),
            there: 0,
            hash: Running::default(),
            early: BTreeMap::new(),
        }
    }

    /// Of the same state at the same cut: another donor can go on with it.
    pub(crate) fn fits(&self, chunk: &Chunk) -> bool {
        self.whole == chunk.whole && self.chunks == chunk.chunks
    }

    /// Takes a chunk in; false if its bytes have changed.
    pub(crate) fn take(&mut self, chunk: Chunk) -> bool {
        if chunk.content.len() > CHUNK_BYTES || xxh3_64(&chunk.content) != chunk.hash {
            return false;
        }
        if (self.there..self.chunks).contains(&chunk.index) {
            self.early.insert(chunk.index, chunk.content);
        }
        while let Some(content) = self.early.remove(&self.there) {
            self.hash.0.update(&content);
            self.bytes.extend_from_slice(&content);
            self.there += 1;
        }
        true
    }

    /// The first chunk that is missing.
    pub(crate) fn missing(&self) -> Option<u32> {
        (self.there < self.chunks).then_some(self.there)
    }

    /// The whole, if it is the one that was promised.
    pub(crate) fn whole(self) -> Option<Vec<u8>> {
        (self.hash.0.digest128() == self.whole).then_some(self.bytes)
    }
}

/// A hash of bytes as they come, so that there is nothing to wait for at the end.
#[derive(Default)]
struct Running(Box<Xxh3>);

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::{Cut, History};

    const LENGTH: usize = 5 * CHUNK_BYTES + 7;

    /// The chunks of a snapshot, and what it is made of.
    fn chunks() -> (Vec<Chunk>, Vec<u8>) {
        let history = History {
            generation: 1,
            id: 7,
        };
        let head = Head {
            history,
            updates: 3,
            cut: Cut::new(),
            anchor: None,
        };
        let bytes: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
        let state = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
        let snapshot = Snapshot::new(head, state);
        let chunk = |index| snapshot.chunk(Address(1), 2, index);
        let all = (0..).map_while(chunk).collect();
        (all, snapshot.bytes)
    }

    #[test]
    fn chunks_make_the_whole_in_whatever_order_and_how_often_they_come() {
        let (chunks, bytes) = chunks();
        let mut partial = Partial::new(&chunks[3]);
        for index in [3, 1, 3, 5, 0, 2, 0] {
            assert!(partial.fits(&chunks[index]) && partial.take(chunks[index].clone()));
        }
        assert_eq!(partial.missing(), Some(4));
        assert!(partial.take(chunks[4].clone()));
        assert_eq!(partial.missing(), None);
        assert_eq!(partial.whole(), Some(bytes));
    }

    #[test]
    fn changed_bytes_are_refused_in_a_chunk_and_in_the_whole() {
        let (mut chunks, _) = chunks();
        let mut partial = Partial::new(&chunks[0]);
        chunks[1].content[5] ^= 1;
        assert!(!partial.take(chunks[1].clone()));
        chunks[1].hash = xxh3_64(&chunks[1].content);
        assert!(chunks.into_iter().all(|chunk| partial.take(chunk)));
        assert_eq!(partial.whole(), None);
    }
}
