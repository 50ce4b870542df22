//! Memory that one process writes and others read where it lies.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shared_memory::{BELL_BYTES, NO_MORE_WRITERS, SEALS, map, sealed, unmap};

/// Memory made by [`SharedMemory::create_for_readers`](crate::SharedMemory::create_for_readers), mapped to read; unmapped
/// when dropped.
///
/// Nobody can write to it but the process that made it, and that one is trusted: it must not write to what lies in a
/// slice that [`ReadOnlyMemory::bytes`] has lent. How it knows what is lent, both sides agree on; the slice's bytes must
/// not change while it lives.
#[derive(Debug)]
pub struct ReadOnlyMemory {
    start: NonNull<u8>,
    words: usize,
}

// SAFETY: it is only read, and the mapping is not tied to a thread.
unsafe impl Send for ReadOnlyMemory {}
// SAFETY: likewise.
unsafe impl Sync for ReadOnlyMemory {}

impl ReadOnlyMemory {
    /// Maps the memory behind a descriptor that came from the process that made it.
    ///
    /// # Errors
    /// It is not of this size, not sealed, others may write to it, or the system refuses.
    pub fn open(descriptor: OwnedFd, words: usize) -> io::Result<Self> {
        let file = sealed(descriptor, words, SEALS | NO_MORE_WRITERS)?;
        let start = map(file.as_fd(), words, libc::PROT_READ)?;
        Ok(Self { start, words })
    }

    /// So many words from one on; `None` if they lie outside.
    #[must_use]
    #[inline]
    pub fn load<const N: usize>(&self, at: usize) -> Option<[u64; N]> {
        let words = self.words().get(at..)?.get(..N)?;
        Some(core::array::from_fn(|place| {
            words[place].load(Ordering::Relaxed)
        }))
    }

    /// So many bytes from a word on, where they lie; `None` if they lie outside.
    #[must_use]
    #[inline]
    pub fn bytes(&self, at: usize, length: usize) -> Option<&[u8]> {
        let words = self.words().get(at..)?;
        if length > size_of_val(words) {
            return None;
        }
        // SAFETY: the bytes lie within the words just looked at, and live as long as `self`. Nobody writes to them
        // meanwhile, which the process that made the memory sees to: nobody else can.
        Some(unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), length) })
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words of 64 bits follow the bells, aligned because these fill a page, and live as long as
        // `self`. They are only loaded, by plain instructions on the platforms that Linux runs on with 64 bits.
        unsafe {
            let first = self.start.as_ptr().add(BELL_BYTES).cast();
            core::slice::from_raw_parts(first, self.words)
        }
    }
}

impl Drop for ReadOnlyMemory {
    fn drop(&mut self) {
        // SAFETY: made by `map` with as many words; no reference into it outlives `self`.
        unsafe { unmap(self.start, self.words) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;
    use crate::SharedMemory;

    #[test]
    fn readers_see_what_was_written_and_nothing_outside() {
        let (memory, descriptor) = SharedMemory::create_for_readers(512).unwrap();
        let reader = ReadOnlyMemory::open(descriptor, 512).unwrap();
        memory.words()[510].store(u64::from_le_bytes(*b"abcdefgh"), Ordering::Relaxed);
        memory.words()[511].store(7, Ordering::Relaxed);
        assert_eq!(reader.bytes(510, 5), Some(&b"abcde"[..]));
        assert_eq!(reader.load(511), Some([7]));
        assert_eq!(reader.load::<2>(511), None);
        assert_eq!(reader.bytes(511, 8).map(<[u8]>::len), Some(8));
        assert_eq!(reader.bytes(511, 9), None);
        assert_eq!(reader.bytes(512, 0), Some(&b""[..]));
        assert_eq!(reader.bytes(513, 0), None);
        assert_eq!(reader.bytes(usize::MAX, usize::MAX), None);
    }

    #[test]
    fn nobody_else_can_write_and_memory_that_others_can_write_to_is_refused() {
        let (memory, descriptor) = SharedMemory::create_for_readers(512).unwrap();
        assert!(SharedMemory::open(descriptor.try_clone().unwrap(), 512).is_err());
        let mut file = File::from(descriptor.try_clone().unwrap());
        assert!(file.write(&[1]).is_err() && file.set_len(0).is_err());
        assert!(ReadOnlyMemory::open(descriptor.try_clone().unwrap(), 511).is_err());
        assert!(ReadOnlyMemory::open(descriptor, 512).is_ok());
        memory.words()[0].store(1, Ordering::Relaxed);
        let (_memory, descriptor) = SharedMemory::create(512).unwrap();
        assert!(ReadOnlyMemory::open(descriptor, 512).is_err());
    }
}
