//! A device whose packets end before its wire, for measuring what sending alone costs.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use super::bpf::{self, Arena};
use super::program::discard_program;
use super::tap::{Hook, attach_filter};
use crate::backend::Unavailable;

/// The smallest arena: a page.
const PAGE_BYTES: usize = 4096;

/// A program on a device's egress hook that ends every packet and counts.
///
/// It stays attached until the device goes, so it is for devices made to be measured.
#[derive(Debug)]
pub struct Discard {
    arena: Arena,
    _program: OwnedFd,
}

impl Discard {
    /// Ends all packets that leave by the device of this name.
    ///
    /// # Errors
    /// [`Unavailable`] without the privileges, or without such a device.
    pub fn attach(device: &str) -> Result<Self, Unavailable> {
        let refused = |e| Unavailable::kernel("attach a program to the device", e);
        let name = CString::new(device)
            .map_err(|_| refused(io::Error::from_raw_os_error(libc::EINVAL)))?;
        // SAFETY: the name ends with a zero byte.
        let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if ifindex == 0 {
            return Err(refused(io::Error::last_os_error()));
        }
        let arena = Arena::new(PAGE_BYTES)?;
        let program = bpf::load(&discard_program(arena.map()), c"discard")?;
        attach_filter(&program, ifindex, Hook::Egress).map_err(refused)?;
        Ok(Self {
            arena,
            _program: program,
        })
    }

    /// Packets so far; a train that has not been cut counts as one.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.arena.read_u64(0)
    }

    /// Bytes so far, Ethernet headers included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.arena.read_u64(8)
    }
}
