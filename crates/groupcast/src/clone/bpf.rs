//! The system call `bpf(2)`: maps, programs, links.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use crate::backend::Unavailable;

const MAP_CREATE: libc::c_long = 0;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const MAP_TYPE_ARRAY: u32 = 2;
const MAP_MMAPABLE: u32 = 1 << 10;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const ATTACH_TCX_INGRESS: u32 = 46;
/// The kernel asks for the licence because some functions are for GPL programs only; this program
/// calls none of them.
const LICENCE: &CStr = c"Dual MIT/GPL";
/// How often a load is tried that the verifier breaks off.
const TRIES_MAX: u32 = 10;
/// Room for the verifier's words. It is asked for them only after a refusal.
const LOG_BYTES: usize = 1 << 20;

/// The attributes of a call: `union bpf_attr`, as words of 32 bits.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Attributes([u32; 32]);

impl Attributes {
    fn new() -> Self {
        Self([0; 32])
    }

    fn word(mut self, at: usize, value: u32) -> Self {
        self.0[at / 4] = value;
        self
    }

    fn pointer<T>(self, at: usize, pointer: *const T) -> Self {
        let address = pointer.expose_provenance() as u64;
        self.word(at, address as u32)
            .word(at + 4, (address >> 32) as u32)
    }

    /// Makes a call that returns a descriptor.
    fn call(&self, command: libc::c_long) -> io::Result<OwnedFd> {
        // SAFETY: the attributes are live memory of the size given, zero where the command has no
        // field, and the pointers in them are to memory that outlives the call.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                ptr::from_ref(self),
                size_of::<Self>(),
            )
        };
        match i32::try_from(fd) {
            // SAFETY: the call has just made this descriptor for us alone.
            Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Memory that programs and this process share: an array map with one value, mapped.
#[derive(Debug)]
pub(super) struct Arena {
    map: OwnedFd,
    memory: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone on our side; nothing in it depends on the thread.
unsafe impl Send for Arena {}

impl Arena {
    /// Makes one of so many bytes, a multiple of the page size.
    pub(super) fn new(bytes: usize) -> Result<Self, Unavailable> {
        let refused = |e| Unavailable::kernel("make a map that can be mapped into memory", e);
        let map = Attributes::new()
            .word(0, MAP_TYPE_ARRAY)
            .word(4, 4)
            .word(8, u32::try_from(bytes).unwrap_or(u32::MAX))
            .word(12, 1)
            .word(16, MAP_MMAPABLE)
            .call(MAP_CREATE)
            .map_err(refused)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping at a place that the kernel chooses.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                map.as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(refused(io::Error::last_os_error()));
        }
        let memory = NonNull::new(memory.cast()).expect("mmap never maps address 0 by itself");
        Ok(Self { map, memory, bytes })
    }

    pub(super) fn map(&self) -> i32 {
        self.map.as_raw_fd()
    }

    /// Copies bytes to a place.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.bytes, "write within the arena");
        // SAFETY: source and target are live, within bounds by the assertion, and do not overlap:
        // nobody else has a reference to the mapping. The program does not run meanwhile, since
        // it runs only within our own write to the tap.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.as_ptr().add(at), bytes.len());
        }
    }

    pub(super) fn write_u32(&mut self, at: usize, value: u32) {
        self.write(at, &value.to_ne_bytes());
    }

    pub(super) fn read_u32(&self, at: usize) -> u32 {
        assert!(at + 4 <= self.bytes, "read within the arena");
        // SAFETY: within bounds by the assertion; volatile, since the kernel writes there.
        unsafe { self.memory.as_ptr().add(at).cast::<u32>().read_volatile() }
    }

    pub(super) fn read_u64(&self, at: usize) -> u64 {
        assert!(at + 8 <= self.bytes, "read within the arena");
        // SAFETY: within bounds by the assertion; volatile, since the kernel writes there.
        unsafe { self.memory.as_ptr().add(at).cast::<u64>().read_volatile() }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no reference into it exists.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

/// Loads a program for traffic control.
pub(super) fn load(code: &[u64], name: &CStr) -> Result<OwnedFd, Unavailable> {
    let mut attributes = Attributes::new()
        .word(0, PROG_TYPE_SCHED_CLS)
        .word(4, u32::try_from(code.len()).unwrap_or(u32::MAX))
        .pointer(8, code.as_ptr())
        .pointer(16, LICENCE.as_ptr());
    for (at, bytes) in name.to_bytes().chunks(4).take(4).enumerate() {
        let mut word = [0; 4];
        word[..bytes.len()].copy_from_slice(bytes);
        attributes = attributes.word(48 + 4 * at, u32::from_ne_bytes(word));
    }
    // The verifier gives way to signals, also to those that io_uring leaves for a moment.
    let mut tries = 0;
    let source = loop {
        match attributes.call(PROG_LOAD) {
            Ok(program) => return Ok(program),
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && tries < TRIES_MAX => {
                tries += 1;
            }
            Err(error) => break error,
        }
    };
    let mut log = vec![0_u8; LOG_BYTES];
    let told = attributes
        .word(24, 1)
        .word(28, LOG_BYTES as u32)
        .pointer(32, log.as_mut_ptr());
    if let Ok(program) = told.call(PROG_LOAD) {
        return Ok(program);
    }
    let text = CStr::from_bytes_until_nul(&log).unwrap_or_default();
    let text = text.to_string_lossy();
    let mut last: Vec<&str> = text.lines().rev().take(3).collect();
    last.reverse();
    Err(Unavailable::Kernel {
        action: "load an eBPF program",
        source,
        detail: last.join("; "),
    })
}

/// Attaches a program to what arrives at an interface, until the link is closed (Linux 6.6).
pub(super) fn attach_tcx_ingress(program: &OwnedFd, ifindex: u32) -> io::Result<OwnedFd> {
    Attributes::new()
        .word(0, program.as_raw_fd() as u32)
        .word(4, ifindex)
        .word(8, ATTACH_TCX_INGRESS)
        .call(LINK_CREATE)
}
