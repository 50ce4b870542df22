//! Memory that processes of one host share, and sleeping on a word of it.
//!
//! A `memfd` is mapped whole, and read and written as atomic words only. So what another process does to it at the same
//! time is never undefined behaviour, only a value that was not expected, and whoever does not trust the other side
//! checks each value that it has read. The size is sealed before the descriptor is given away: nobody can cut the file
//! short and let an access end in SIGBUS.
//!
//! ```text
//!   0            4096                                     4096 + 8 · words
//!   ├─ bells ────┼─ words ─────────────────────────────────┤
//!     32 bits each, to sleep on (futex)    64 bits each
//! ```
//!
//! Words are copied one by one: a byte-wise copy of memory that another process may be writing to has no meaning in
//! Rust. It costs some 40 ns for 1000 bytes instead of 20.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use crate::sys::{check, to_timespec};

/// Bytes before the words: a page of its own, so that sleeping and waking does not disturb data.
pub(crate) const BELL_BYTES: usize = 4096;
/// Bells of one memory.
const BELLS: usize = BELL_BYTES / size_of::<AtomicU32>();
/// Neither shorter nor longer, for ever.
pub(crate) const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
/// Nor written to by anybody who has not mapped it yet.
pub(crate) const NO_MORE_WRITERS: libc::c_int = libc::F_SEAL_FUTURE_WRITE;

/// Memory shared with other processes; unmapped when dropped.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    words: usize,
}

// SAFETY: all access is by shared references to atomics; the mapping is not tied to a thread.
unsafe impl Send for SharedMemory {}
// SAFETY: likewise.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// New memory of so many words, all zero, and the descriptor by which another process maps it.
    ///
    /// # Errors
    /// The system refuses: no descriptors left, or no memory.
    pub fn create(words: usize) -> io::Result<(Self, OwnedFd)> {
        Self::create_sealed(words, SEALS)
    }

    /// As [`SharedMemory::create`], for others to read only, as [`ReadOnlyMemory`](crate::ReadOnlyMemory): whoever gets
    /// the descriptor can neither map it to write nor write to it, whatever its rights (Linux 5.1).
    ///
    /// # Errors
    /// As [`SharedMemory::create`].
    pub fn create_for_readers(words: usize) -> io::Result<(Self, OwnedFd)> {
        Self::create_sealed(words, SEALS | NO_MORE_WRITERS)
    }

    fn create_sealed(words: usize, seals: libc::c_int) -> io::Result<(Self, OwnedFd)> {
        let bytes = bytes_of(words)?;
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a string that ends with zero.
        let fd = check(unsafe { libc::memfd_create(c"qsm".as_ptr(), flags) })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(bytes as u64)?;
        // Before it is sealed: this mapping may be the last that can be written to.
        let start = map(file.as_fd(), words, libc::PROT_READ | libc::PROT_WRITE)?;
        let memory = Self { start, words };
        // SAFETY: no pointers are passed.
        check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
        Ok((memory, file.into()))
    }

    /// Maps the memory behind a descriptor that came from another process.
    ///
    /// # Errors
    /// It is not of this size, not sealed, or the system refuses.
    pub fn open(descriptor: OwnedFd, words: usize) -> io::Result<Self> {
        let file = sealed(descriptor, words, SEALS)?;
        let start = map(file.as_fd(), words, libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(Self { start, words })
    }

    /// The words to sleep on.
    #[must_use]
    pub fn bells(&self) -> &[AtomicU32] {
        // SAFETY: the mapping begins with this many aligned words of 32 bits and lives as long as `self`; nothing
        // refers to them but as atomics of this size.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr().cast(), BELLS) }
    }

    /// The words for data.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words of 64 bits follow the bells, aligned because these fill a page, and live as long as
        // `self`; nothing refers to them but as atomics of this size.
        unsafe {
            let first = self.start.as_ptr().add(BELL_BYTES).cast();
            core::slice::from_raw_parts(first, self.words)
        }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: made by `map` with as many words; no reference into it outlives `self`.
        unsafe { unmap(self.start, self.words) };
    }
}

/// The file behind a descriptor, if it has this size and at least these seals.
pub(crate) fn sealed(descriptor: OwnedFd, words: usize, seals: libc::c_int) -> io::Result<File> {
    let bytes = bytes_of(words)?;
    let file = File::from(descriptor);
    // SAFETY: no pointers are passed.
    let found = check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) })?;
    if file.metadata()?.len() != bytes as u64 || found & seals != seals {
        let text = "shared memory of another size than was said, or not sealed";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(file)
}

/// Maps bells and words of a sealed file.
pub(crate) fn map(
    file: BorrowedFd<'_>,
    words: usize,
    access: libc::c_int,
) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the system's choice; the size is sealed, so all of it stays backed.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes_of(words)?,
            access,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)
}

/// Ends a mapping.
///
/// # Safety
/// It was made by [`map`] with as many words, and nothing refers to it any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, words: usize) {
    let bytes = BELL_BYTES + words * size_of::<AtomicU64>();
    // SAFETY: the whole mapping, as the caller says.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

fn bytes_of(words: usize) -> io::Result<usize> {
    let bytes = words
        .checked_mul(size_of::<AtomicU64>())
        .and_then(|bytes| bytes.checked_add(BELL_BYTES))
        .filter(|bytes| isize::try_from(*bytes).is_ok());
    bytes.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "too much memory"))
}

/// Sleeps until somebody wakes this word, unless it is not `expected` at this moment. May return early.
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timespec = timeout.map(to_timespec);
    let pointer = timespec.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: word and timespec are valid for the call. Not FUTEX_PRIVATE: other processes wake it.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            pointer,
        );
    }
}

/// Wakes all who sleep on this word, in any process. Never blocks.
pub fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is valid for the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            libc::c_int::MAX,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn both_mappings_are_the_same_memory() {
        let (memory, descriptor) = SharedMemory::create(1000).unwrap();
        let other = SharedMemory::open(descriptor, 1000).unwrap();
        memory.words()[999].store(7, Ordering::Relaxed);
        memory.bells()[BELLS - 1].store(8, Ordering::Relaxed);
        assert_eq!(other.words()[999].load(Ordering::Relaxed), 7);
        assert_eq!(other.bells()[BELLS - 1].load(Ordering::Relaxed), 8);
        assert_eq!(other.words().len(), 1000);
    }

    #[test]
    fn what_can_be_cut_short_or_has_another_size_is_refused() {
        let (_memory, descriptor) = SharedMemory::create(512).unwrap();
        let file = File::from(descriptor.try_clone().unwrap());
        assert!(file.set_len(0).is_err(), "sealed");
        assert!(file.set_len(1 << 20).is_err(), "sealed");
        assert!(SharedMemory::open(descriptor, 513).is_err());
        let plain = std::env::temp_dir().join(format!("qsm-plain-{}", std::process::id()));
        let file = File::create(&plain).unwrap();
        file.set_len(BELL_BYTES as u64).unwrap();
        assert!(SharedMemory::open(file.into(), 0).is_err());
        std::fs::remove_file(plain).unwrap();
        assert!(SharedMemory::create(usize::MAX).is_err());
    }

    #[test]
    fn a_word_that_has_changed_is_not_slept_on() {
        let word = AtomicU32::new(1);
        futex_wait(&word, 0, None);
        futex_wait(&word, 1, Some(Duration::from_micros(1)));
        futex_wake(&word);
    }
}
