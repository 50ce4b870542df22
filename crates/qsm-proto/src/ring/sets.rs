//! Bounded sets of sequence numbers: what a node asks for, and what it says it misses.

use qsm_wire::{Ranges, SeqRange};

/// Up to [`Ranges::MAX`] runs of sequence numbers, ascending and apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeSet {
    ranges: [SeqRange; Ranges::MAX],
    len: usize,
}

impl RangeSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ranges: [SeqRange::one(0); Ranges::MAX],
            len: 0,
        }
    }

    /// Adds a run behind all others; `false`, and nothing done, when the set is full.
    pub fn push(&mut self, range: SeqRange) -> bool {
        let Some(place) = self.ranges.get_mut(self.len) else {
            return false;
        };
        *place = range;
        self.len += 1;
        true
    }

    /// The runs, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[SeqRange] {
        &self.ranges[..self.len]
    }

    /// How many runs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn shorten(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Default for RangeSet {
    fn default() -> Self {
        Self::new()
    }
}

impl FromIterator<SeqRange> for RangeSet {
    /// Takes the first runs; those beyond the limit are left out.
    fn from_iter<I: IntoIterator<Item = SeqRange>>(iter: I) -> Self {
        let mut set = Self::new();
        for range in iter.into_iter().take(Ranges::MAX) {
            set.push(range);
        }
        set
    }
}

/// What somebody misses of the packets of one partition up to a cutoff. A set that is `cut` says
/// nothing about what lies beyond its last run (R069): neither that it is missed nor that it is
/// there. An empty set that is cut says nothing at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct NakSet {
    pub(super) ranges: RangeSet,
    pub(super) cut: bool,
}

impl NakSet {
    /// The set of somebody about whom nothing is known.
    pub(super) fn unknown() -> Self {
        Self {
            ranges: RangeSet::new(),
            cut: true,
        }
    }

    pub(super) fn new(ranges: &[SeqRange], cut: bool) -> Self {
        Self {
            ranges: ranges.iter().copied().collect(),
            cut: cut || ranges.len() > Ranges::MAX,
        }
    }

    /// At most `len` runs of it.
    pub(super) fn shortened(mut self, len: usize) -> Self {
        if self.ranges.len() > len {
            self.ranges.shorten(len);
            self.cut = true;
        }
        self
    }

    /// Up to where the set tells missing from present.
    fn horizon(&self, cutoff: u64) -> u64 {
        match (self.cut, self.ranges.as_slice().last()) {
            (false, _) => cutoff,
            (true, Some(last)) => last.last().min(cutoff),
            (true, None) => 0,
        }
    }

    /// What is missing here and not missing in `other`, as far as both sets tell.
    pub(super) fn without(&self, other: &Self, cutoff: u64) -> Vec<SeqRange> {
        let limit = self.horizon(cutoff).min(other.horizon(cutoff));
        let mut pieces = Vec::new();
        for range in self.ranges.as_slice() {
            subtract(range, other.ranges.as_slice(), limit, &mut pieces);
        }
        pieces
    }

    /// What is missing in both, as far as both sets tell.
    pub(super) fn common(&self, other: &Self, cutoff: u64) -> Self {
        let limit = self.horizon(cutoff).min(other.horizon(cutoff));
        let mut both = Self {
            ranges: RangeSet::new(),
            cut: self.cut || other.cut,
        };
        for mine in self.ranges.as_slice() {
            for theirs in other.ranges.as_slice() {
                let shared = mine
                    .intersection(theirs)
                    .and_then(|range| SeqRange::new(range.first(), range.last().min(limit)));
                if let Some(range) = shared
                    && !both.ranges.push(range)
                {
                    both.cut = true;
                    return both;
                }
            }
        }
        both
    }
}

/// Appends what of `range` up to `limit` is in none of `holes` (ascending).
fn subtract(range: &SeqRange, holes: &[SeqRange], limit: u64, pieces: &mut Vec<SeqRange>) {
    let last = range.last().min(limit);
    let mut first = range.first();
    for hole in holes {
        if hole.last() < first {
            continue;
        }
        if hole.first() > last {
            break;
        }
        if let Some(before) = hole.first().checked_sub(1) {
            pieces.extend(SeqRange::new(first, before));
        }
        let Some(behind) = hole.last().checked_add(1) else {
            return;
        };
        first = behind;
    }
    pieces.extend(SeqRange::new(first, last));
}
