use crate::DecodeError;
use crate::raw::Reader;

/// A run of sequence numbers, never empty, never past `u64::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqRange {
    first: u64,
    count: u32,
}

impl SeqRange {
    /// Bytes of one range on the wire.
    pub(crate) const BYTES: usize = 12;

    /// The run `first..=last`; `None` when empty. A run longer than `u32::MAX` is cut at its end.
    #[must_use]
    pub fn new(first: u64, last: u64) -> Option<Self> {
        let count = last.checked_sub(first)?.checked_add(1)?;
        Some(Self {
            first,
            count: u32::try_from(count).unwrap_or(u32::MAX),
        })
    }

    /// The run of one number.
    #[must_use]
    pub fn one(sequence: u64) -> Self {
        Self {
            first: sequence,
            count: 1,
        }
    }

    /// Its smallest number.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Its largest number.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.first + u64::from(self.count - 1)
    }

    /// Whether the other lies within it.
    #[must_use]
    pub fn covers(&self, other: Self) -> bool {
        self.first <= other.first && other.last() <= self.last()
    }

    /// How many numbers it holds; at least 1.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether `sequence` is in the run.
    #[must_use]
    pub fn contains(&self, sequence: u64) -> bool {
        self.first <= sequence && sequence <= self.last()
    }

    /// The numbers that both hold.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        Self::new(self.first.max(other.first), self.last().min(other.last()))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let first = reader.u64()?;
        let count = reader.u32()?;
        let beyond = first
            .checked_add(u64::from(count))
            .ok_or(DecodeError::BadRange)?;
        if beyond == first {
            return Err(DecodeError::BadRange);
        }
        Ok(Self { first, count })
    }
}

/// Ranges in ascending order without overlap, as they stand in a packet.
#[derive(Debug, Clone, Copy)]
pub struct Ranges<'a> {
    bytes: &'a [u8],
}

impl<'a> Ranges<'a> {
    /// Most ranges one message may carry (R069: NAK sets are bounded; the rest counts as unknown).
    /// Rule R-PKT-3.
    pub const MAX: usize = 8;

    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>, count: u8) -> Result<Self, DecodeError> {
        if usize::from(count) > Self::MAX {
            return Err(DecodeError::BadLength);
        }
        let bytes = reader.bytes(usize::from(count) * SeqRange::BYTES)?;
        let mut check = Reader::new(bytes);
        let mut floor = 0;
        while !check.is_empty() {
            let range = SeqRange::read(&mut check)?;
            if range.first() < floor {
                return Err(DecodeError::BadRange);
            }
            floor = range.last() + 1;
        }
        Ok(Self { bytes })
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = SeqRange> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        core::iter::from_fn(move || SeqRange::read(&mut reader).ok())
    }

    /// How many there are, at most [`Ranges::MAX`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / SeqRange::BYTES
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl PartialEq for Ranges<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Ranges<'_> {}

/// Appends at most [`Ranges::MAX`] ranges and returns how many.
pub(crate) fn put_ranges(out: &mut Vec<u8>, ranges: &[SeqRange]) -> u8 {
    let kept = &ranges[..ranges.len().min(Ranges::MAX)];
    for range in kept {
        range.encode(out);
    }
    u8::try_from(kept.len()).unwrap_or(u8::MAX)
}
