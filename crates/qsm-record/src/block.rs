//! Blocks of a file: a length and a checksum before each, so that one that is not whole is not read.
//!
//! ```text
//!   file:   "qsm-rec\n"  format (2 bytes)  block 0  block 1  …
//!   block:  length (4)  checksum (8)  body
//! ```
//!
//! All numbers begin with their lowest byte. The checksum is XXH3-64 of the body, seeded with the
//! block's number, so that a block in another's place is not taken for it.

use std::io::{self, Read};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::FORMAT;
use crate::error::ReadError;

const MAGIC: [u8; 8] = *b"qsm-rec\n";
/// Bytes before a block's body.
pub(crate) const HEAD_BYTES: usize = 12;

/// A file's first bytes.
pub(crate) fn file_head() -> Vec<u8> {
    [&MAGIC[..], &FORMAT.to_le_bytes()].concat()
}

/// Room for a block's head, to be filled by [`seal`].
pub(crate) fn begin(block: &mut Vec<u8>) {
    block.clear();
    block.resize(HEAD_BYTES, 0);
}

/// Completes a block. False: it is too long to be one.
pub(crate) fn seal(number: u64, block: &mut [u8]) -> bool {
    let (head, body) = block.split_at_mut(HEAD_BYTES);
    let Ok(length) = u32::try_from(body.len()) else {
        return false;
    };
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&xxh3_64_with_seed(body, number).to_le_bytes());
    true
}

/// Reads blocks one after the other.
#[derive(Debug)]
pub(crate) struct Blocks<R> {
    from: R,
    next: u64,
    offset: u64,
    body: Vec<u8>,
}

impl<R: Read> Blocks<R> {
    /// Reads the file's head.
    pub(crate) fn new(mut from: R) -> Result<Self, ReadError> {
        let mut head = Vec::new();
        let length = file_head().len();
        (&mut from).take(length as u64).read_to_end(&mut head)?;
        let (magic, format) = head
            .split_at_checked(MAGIC.len())
            .ok_or(ReadError::Foreign)?;
        if magic != MAGIC {
            return Err(ReadError::Foreign);
        }
        let format: [u8; 2] = format.try_into().map_err(|_| ReadError::Empty)?;
        match u16::from_le_bytes(format) {
            FORMAT => Ok(Self {
                from,
                next: 0,
                offset: length as u64,
                body: Vec::new(),
            }),
            found => Err(ReadError::Format { found }),
        }
    }

    /// Number of the block that was read last.
    pub(crate) fn number(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// The next block; `None`: there is no further whole one.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        let mut head = [0; HEAD_BYTES];
        if !fill(&mut self.from, &mut head)? {
            return Ok(None);
        }
        let (length, sum) = head.split_at(4);
        let length = length.try_into().map_or(0, u32::from_le_bytes);
        let sum = sum.try_into().map_or(0, u64::from_le_bytes);
        self.body.clear();
        let body = (&mut self.from).take(length.into());
        // A false length allocates no more than there is in the file.
        if body.take(length.into()).read_to_end(&mut self.body)? < length as usize {
            return Ok(None);
        }
        if xxh3_64_with_seed(&self.body, self.next) != sum {
            return Err(ReadError::Damaged {
                block: self.next,
                offset: self.offset,
            });
        }
        self.next += 1;
        self.offset += u64::from(length) + HEAD_BYTES as u64;
        Ok(Some(&self.body))
    }
}

/// Fills all of it; false if the input ends before.
fn fill(from: &mut impl Read, head: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(head) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// A whole block with this body.
pub(crate) fn whole(number: u64, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut block = Vec::new();
    begin(&mut block);
    body(&mut block);
    seal(number, &mut block);
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Put;

    fn file(bodies: &[&[u8]]) -> Vec<u8> {
        let mut file = file_head();
        for (number, body) in (0..).zip(bodies) {
            file.extend(whole(number, |block| block.extend_from_slice(body)));
        }
        file
    }

    fn read(file: &[u8]) -> (Vec<Vec<u8>>, Option<ReadError>) {
        let mut blocks = match Blocks::new(file) {
            Ok(blocks) => blocks,
            Err(error) => return (Vec::new(), Some(error)),
        };
        let mut read = Vec::new();
        loop {
            match blocks.next() {
                Ok(Some(body)) => read.push(body.to_vec()),
                Ok(None) => return (read, None),
                Err(error) => return (read, Some(error)),
            }
        }
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_read_up_to_its_last_whole_block() {
        let bodies: [&[u8]; 3] = [b"first", b"", b"third"];
        let file = file(&bodies);
        let ends: Vec<usize> = (0..=3)
            .map(|count| self::file(&bodies[..count]).len())
            .collect();
        for length in file_head().len()..=file.len() {
            let whole = ends.iter().filter(|end| **end <= length).count() - 1;
            let (read, error) = read(&file[..length]);
            assert_eq!(read, bodies[..whole], "{length}");
            assert!(error.is_none(), "{length}: {error:?}");
        }
    }

    #[test]
    fn a_changed_byte_is_named_with_its_block() {
        let bodies: [&[u8]; 3] = [b"first", b"second", b"third"];
        let file = file(&bodies);
        let before = self::file(&bodies[..1]).len();
        // Its checksum, or its body.
        for place in before + 4..before + HEAD_BYTES + bodies[1].len() {
            let mut other = file.clone();
            other[place] ^= 1;
            let (read, error) = read(&other);
            assert_eq!(read, bodies[..1]);
            let offset = before as u64;
            assert!(
                matches!(error, Some(ReadError::Damaged { block: 1, offset: at }) if at == offset),
                "{error:?}"
            );
        }
    }

    #[test]
    fn other_files_and_formats_are_told_apart() {
        assert!(matches!(read(b"").1, Some(ReadError::Foreign)));
        assert!(matches!(
            read(b"#!/bin/sh\necho").1,
            Some(ReadError::Foreign)
        ));
        assert!(matches!(read(b"qsm-rec\n").1, Some(ReadError::Empty)));
        let (_, error) = read(b"qsm-rec\n\x09\x00");
        assert!(matches!(error, Some(ReadError::Format { found: 9 })));
    }

    #[test]
    fn a_block_in_the_place_of_another_is_not_taken_for_it() {
        let mut file = file_head();
        file.extend(whole(1, |block| block.text("of another place")));
        assert!(matches!(
            read(&file).1,
            Some(ReadError::Damaged { block: 0, .. })
        ));
    }
}
