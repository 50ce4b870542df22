//! How much of a process's time goes into sending: samples of the kernel's stack.
//!
//! The kernel interrupts the process a few thousand times per second of its CPU time and notes
//! where it is (`perf_event_open`, software clock, so that it works in virtual machines). A sample
//! counts as sending if a system call that sends is on the stack, or a softirq that transmits: the
//! paper's `T_sc + T_irq + T_bh`. Time asleep makes no samples, so `T_sleep` needs no correction.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

const SAMPLES_PER_SECOND: u64 = 4000;
/// Data pages of each ring, a power of two.
const PAGES: usize = 64;
const PAGE_BYTES: usize = 4096;
const RECORD_SAMPLE: u32 = 9;
/// Kernel functions on the stack of whoever sends.
const SENDING: [&str; 7] = [
    "__sys_sendmsg",
    "__sys_sendmmsg",
    "__sys_sendto",
    "___sys_sendmsg",
    "io_send",
    "io_sendmsg",
    "net_tx_action",
];

/// Samples of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Profile {
    /// All of them: its CPU time.
    pub(crate) all: u64,
    /// Those spent sending.
    pub(crate) sending: u64,
}

/// Watches a process's threads, or one of them, for some time.
pub(crate) fn watch(pid: u32, only: Option<i32>, time: Duration) -> io::Result<Profile> {
    let symbols = Symbols::read()?;
    let mut rings = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = entry?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok());
        if let Some(thread) = thread.filter(|thread| only.is_none_or(|only| only == *thread)) {
            rings.push(Ring::open(thread)?);
        }
    }
    let mut profile = Profile::default();
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::sleep(Duration::from_millis(20));
        for ring in &mut rings {
            ring.read(&symbols, &mut profile);
        }
    }
    Ok(profile)
}

/// Address ranges of the functions in [`SENDING`].
struct Symbols(Vec<(u64, u64)>);

impl Symbols {
    fn read() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/kallsyms")?;
        let mut all: Vec<(u64, &str)> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                Some((address, words.nth(1)?))
            })
            .collect();
        all.sort_unstable();
        let ranges: Vec<_> = all
            .windows(2)
            .filter(|pair| SENDING.contains(&pair[0].1) && pair[0].0 != 0)
            .map(|pair| (pair[0].0, pair[1].0))
            .collect();
        if ranges.is_empty() {
            return Err(io::Error::other(
                "/proc/kallsyms hides the kernel's addresses: run as root",
            ));
        }
        Ok(Self(ranges))
    }

    fn sending(&self, address: u64) -> bool {
        let within = |(from, to): &(u64, u64)| (*from..*to).contains(&address);
        self.0.iter().any(within)
    }
}

/// The samples of one thread.
struct Ring {
    _event: OwnedFd,
    memory: *mut u8,
}

impl Ring {
    fn open(thread: i32) -> io::Result<Self> {
        const SOFTWARE: u32 = 1;
        const TASK_CLOCK: u64 = 1;
        const SAMPLE_CALLCHAIN: u64 = 1 << 5;
        /// Count by frequency, and leave the user's part of the stack out.
        const FLAGS: u64 = (1 << 10) | (1 << 22);
        // `struct perf_event_attr` in its first, 64-byte version, as words of 64 bits.
        let mut attributes = [0_u64; 8];
        attributes[0] = u64::from(SOFTWARE) | (64 << 32);
        attributes[1] = TASK_CLOCK;
        attributes[2] = SAMPLES_PER_SECOND;
        attributes[3] = SAMPLE_CALLCHAIN;
        attributes[5] = FLAGS;
        // SAFETY: the attributes are live and as long as they say.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                attributes.as_ptr(),
                thread,
                -1,
                -1,
                0,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made this descriptor for us alone.
        let event = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping at a place that the kernel chooses.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                (1 + PAGES) * PAGE_BYTES,
                protection,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            _event: event,
            memory: memory.cast(),
        })
    }

    /// A word of the first page, where the kernel keeps its and our position.
    fn position(&self, at: usize) -> *mut u64 {
        self.memory.wrapping_add(at).cast()
    }

    fn word(&self, at: u64) -> u64 {
        let within = at as usize % (PAGES * PAGE_BYTES);
        // SAFETY: within the data pages, aligned: records are multiples of 8 bytes long.
        unsafe { self.position(PAGE_BYTES + within).read_volatile() }
    }

    fn read(&mut self, symbols: &Symbols, profile: &mut Profile) {
        const HEAD_AT: usize = 1024;
        const TAIL_AT: usize = 1032;
        // SAFETY: fields of the mapping's first page.
        let head = unsafe { self.position(HEAD_AT).read_volatile() };
        fence(Ordering::Acquire);
        // SAFETY: as above.
        let mut tail = unsafe { self.position(TAIL_AT).read_volatile() };
        while tail < head {
            let header = self.word(tail);
            let bytes = header >> 48;
            if header as u32 == RECORD_SAMPLE {
                let frames = self.word(tail + 8).min(bytes / 8);
                let mut stack = (0..frames).map(|frame| self.word(tail + 16 + 8 * frame));
                profile.all += 1;
                profile.sending += u64::from(stack.any(|address| symbols.sending(address)));
            }
            tail += bytes.max(8);
        }
        fence(Ordering::Release);
        // SAFETY: as above; only we write this field.
        unsafe { self.position(TAIL_AT).write_volatile(tail) };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `open`, and no reference into it exists.
        unsafe { libc::munmap(self.memory.cast(), (1 + PAGES) * PAGE_BYTES) };
    }
}
