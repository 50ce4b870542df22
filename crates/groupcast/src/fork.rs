//! Tells a process from those that were forked off it.
//!
//! A sender's records, device, ring and netlink sockets are shared with every process that is
//! forked off its own: two that used them at once would send each other's bytes. So everything of
//! that kind remembers its [`Origin`], and is neither used nor cleared away elsewhere.
//!
//! The mark is a page that the kernel empties in a forked process (Linux 4.14), which costs a load
//! to look at and, unlike the number of the process, is never taken for another one's. Its number
//! only grows from parent to child.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The process that something was made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin(u64);

impl Origin {
    /// The present process.
    pub(crate) fn here() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        static MARK: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
        let Some(mark) = MARK.get_or_init(make_mark) else {
            return Self(u64::from(std::process::id()));
        };
        let known = mark.load(Ordering::Acquire);
        if known != 0 {
            return Self(known);
        }
        let new = LAST.fetch_add(1, Ordering::AcqRel) + 1;
        let set = mark.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire);
        // Another thread may have been first.
        Self(set.map_or_else(|first| first, |_| new))
    }

    /// Tells whether that is the present one.
    pub(crate) fn is_here(self) -> bool {
        self == Self::here()
    }
}

/// Makes the page; `None` where the kernel does not empty it, so that the process's number must do.
fn make_mark() -> Option<&'static AtomicU64> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let bytes = size_of::<AtomicU64>();
    // SAFETY: a new mapping of zeroes at a place that the kernel chooses.
    let page = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page was mapped above and nothing refers to it; its last argument is advice.
    let wiped = unsafe { libc::madvise(page, bytes, libc::MADV_WIPEONFORK) };
    if wiped < 0 {
        // SAFETY: as above.
        unsafe { libc::munmap(page, bytes) };
        return None;
    }
    // SAFETY: zeroes are a valid value, a page is aligned, and it stays mapped until the process
    // ends; nothing else writes to it but the kernel, in a forked process before its first step.
    Some(unsafe { &*page.cast::<AtomicU64>() })
}
