//! A state that depends on every update and on their order.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use qsm_replica::{RestoreError, StateMachine};
use qsm_system::clock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a cell, and of what an update is made of.
const CELL: usize = 8;
/// Bytes of a snapshot before the cells: how many updates are in it, and their chain.
const HEAD: usize = 16;
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Lines to the director, each with the time.
#[derive(Debug, Clone)]
pub(crate) struct Told(pub(crate) Sender<String>);

impl Told {
    /// Says an event.
    pub(crate) fn say(&self, event: &str, rest: impl std::fmt::Display) {
        let micros = clock::nanos() / 1000;
        // Nobody may be interested any more.
        drop(self.0.send(format!("{event} {micros} {rest}")));
    }
}

/// Cells of which each update changes one, by what was there before.
#[derive(Debug)]
pub(crate) struct Cells {
    /// Updates applied.
    count: u64,
    /// A hash of all of them, in their order.
    chain: u64,
    cells: Vec<u8>,
    /// After so many updates the state is hashed and told; 0: never.
    mark: u64,
    told: Told,
    last: Option<Instant>,
    /// Longest time between two updates since the last mark.
    gap: Duration,
}

impl Cells {
    /// So many bytes of cells.
    pub(crate) fn new(bytes: usize, mark: u64, told: Told) -> Self {
        let mut cells = Vec::with_capacity(bytes);
        let mut value = 0_u64;
        while cells.len() + CELL <= bytes {
            value = value.wrapping_add(MIX);
            cells.extend_from_slice(&value.to_le_bytes());
        }
        Self {
            count: 0,
            chain: 0,
            cells,
            mark,
            told,
            last: None,
            gap: Duration::ZERO,
        }
    }

    /// Updates applied, and a hash of everything.
    pub(crate) fn hash(&self) -> (u64, u64) {
        (self.count, xxh3_64_with_seed(&self.cells, self.chain))
    }

    /// Says the hash, at a round number of updates.
    fn tell(&mut self) {
        let (count, hash) = self.hash();
        let gap = std::mem::take(&mut self.gap).as_micros();
        self.told.say("mark", format_args!("{count} {hash} {gap}"));
    }
}

impl StateMachine for Cells {
    fn apply(&mut self, update: &[u8]) {
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            self.gap = self.gap.max(now - last);
        }
        let number = update.first_chunk().map_or(0, |it| u64::from_le_bytes(*it));
        self.count += 1;
        self.chain = (self.chain.rotate_left(7) ^ number).wrapping_mul(MIX);
        let (cells, _) = self.cells.as_chunks_mut::<CELL>();
        let at = self.chain.checked_rem(cells.len() as u64).unwrap_or(0);
        if let Some(cell) = usize::try_from(at).ok().and_then(|at| cells.get_mut(at)) {
            let old = u64::from_le_bytes(*cell);
            *cell = (old.rotate_left(9) ^ self.chain).to_le_bytes();
        }
        if self.mark > 0 && self.count.is_multiple_of(self.mark) {
            self.tell();
        }
    }

    fn snapshot(&self, out: &mut Vec<u8>) {
        self.told.say("donates", self.cells.len());
        out.reserve_exact(HEAD + self.cells.len());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.chain.to_le_bytes());
        out.extend_from_slice(&self.cells);
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let (count, rest) = snapshot.split_first_chunk().ok_or(RestoreError)?;
        let (chain, cells) = rest.split_first_chunk().ok_or(RestoreError)?;
        self.told.say("arrived", cells.len());
        self.count = u64::from_le_bytes(*count);
        self.chain = u64::from_le_bytes(*chain);
        self.cells = cells.to_vec();
        self.last = None;
        Ok(())
    }

    fn digest(&self) -> Option<u64> {
        Some(self.chain)
    }
}
