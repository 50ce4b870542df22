use crate::DecodeError;
use crate::raw::Reader;

/// How far the cachers of each partition have got with a stream, in the order of the partitions;
/// 0 says nothing of one. The feedback of R094, which tokens and ACKs carry only where it is
/// switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks<'a> {
    bytes: &'a [u8],
}

impl<'a> Marks<'a> {
    /// Most partitions that are spoken of; nothing is said of further ones.
    pub const MAX: usize = 128;

    const EACH: usize = 8;

    /// None, as usual.
    pub const NONE: Self = Self { bytes: &[] };

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let count = usize::from(reader.u8()?);
        if count > Self::MAX {
            return Err(DecodeError::BadLength);
        }
        Ok(Self {
            bytes: reader.bytes(count * Self::EACH)?,
        })
    }

    /// What may follow at the end of a packet. A list that is there is not empty.
    pub(crate) fn read_rest(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if reader.is_empty() {
            return Ok(Self::NONE);
        }
        let marks = Self::read(reader)?;
        if marks.is_empty() {
            return Err(DecodeError::BadLength);
        }
        Ok(marks)
    }

    /// The marks, partition by partition.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        core::iter::from_fn(move || reader.u64().ok())
    }

    /// How many partitions are spoken of.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / Self::EACH
    }

    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of so many lists with so many marks in all; nothing if no mark is set.
    #[must_use]
    pub fn encoded_bytes(lists: usize, marks: usize) -> usize {
        if marks == 0 {
            return 0;
        }
        lists + marks * Self::EACH
    }

    pub(crate) fn encode(marks: &[u64], out: &mut Vec<u8>) {
        let marks = &marks[..marks.len().min(Self::MAX)];
        out.push(u8::try_from(marks.len()).unwrap_or(0));
        for mark in marks {
            out.extend_from_slice(&mark.to_le_bytes());
        }
    }
}
