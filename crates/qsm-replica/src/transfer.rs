//! Snapshots in chunks: at the donor, and at the joiner.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::word::{Address, Chunk, Fetch, Head, write};

/// Bytes of a chunk, but the last.
pub(crate) const CHUNK_BYTES: usize = 128 * 1024;
/// Chunks that are asked for at once.
pub(crate) const WINDOW: u32 = 8;
/// Joiners served at once; more are told nothing, and ask another donor or again.
const SERVED_MAX: usize = 8;
/// A joiner that has not asked for so long is gone.
const IDLE: Duration = Duration::from_secs(10);

/// Snapshots that joiners are fetching.
#[derive(Debug, Default)]
pub(crate) struct Donor {
    served: BTreeMap<u64, Served>,
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
    pub(crate) fn new(head: Head, state: &[u8]) -> Self {
        let mut bytes = write(&head);
        bytes.extend_from_slice(state);
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

    /// The chunks asked for, out of the snapshot of this transfer; `take` makes it at the first question. Joiners
    /// that ask at the same cut share one.
    pub(crate) fn answer(
        &mut self,
        fetch: &Fetch,
        now: Duration,
        head: &Head,
        take: impl FnOnce() -> Vec<u8>,
    ) -> Vec<Chunk> {
        if !self.served.contains_key(&fetch.transfer) {
            if self.served.len() >= SERVED_MAX {
                return Vec::new();
            }
            let same = self
                .served
                .values()
                .find(|other| other.snapshot.head == *head);
            let snapshot = match same {
                Some(other) => Arc::clone(&other.snapshot),
                None => Arc::new(Snapshot::new(head.clone(), &take())),
            };
            let asked = now;
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
    chunks: Vec<Option<Vec<u8>>>,
}

impl Partial {
    pub(crate) fn new(chunk: &Chunk) -> Self {
        Self {
            whole: chunk.whole,
            chunks: vec![None; chunk.chunks as usize],
        }
    }

    /// Of the same state at the same cut: another donor can go on with it.
    pub(crate) fn fits(&self, chunk: &Chunk) -> bool {
        self.whole == chunk.whole && self.chunks.len() == chunk.chunks as usize
    }

    /// Takes a chunk in; false if its bytes have changed.
    pub(crate) fn take(&mut self, chunk: Chunk) -> bool {
        let right = xxh3_64(&chunk.content) == chunk.hash;
        if let Some(place) = self.chunks.get_mut(chunk.index as usize).filter(|_| right) {
            *place = Some(chunk.content);
        }
        right
    }

    /// The first chunk that is missing.
    pub(crate) fn missing(&self) -> Option<u32> {
        let at = self.chunks.iter().position(Option::is_none)?;
        u32::try_from(at).ok()
    }

    /// The whole, if it is the one that was promised.
    pub(crate) fn whole(self) -> Option<Vec<u8>> {
        let bytes = self
            .chunks
            .into_iter()
            .flatten()
            .flatten()
            .collect::<Vec<_>>();
        (xxh3_128(&bytes) == self.whole).then_some(bytes)
    }
}
