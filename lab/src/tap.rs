//! A network interface whose packets a program reads and writes (TAP).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::LabError;
use crate::namespace::Namespace;

const DEVICE: &str = "/dev/net/tun";

/// An interface that is there until this is dropped.
#[derive(Debug)]
pub(crate) struct Tap {
    file: File,
}

impl Tap {
    /// Makes the interface `name` in a namespace.
    pub(crate) fn new(namespace: &Namespace, name: &str) -> Result<Self, LabError> {
        let _inside = namespace.enter()?;
        let failed = |e| LabError::system(format!("open {DEVICE}, of which links are made"), e);
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open(DEVICE).map_err(failed)?;
        make(&file, name)
            .map_err(|e| LabError::system(format!("make the interface {name} by {DEVICE}"), e))?;
        Ok(Self { file })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The next packet of the kernel's, an Ethernet frame, if there is one.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        (&self.file).read(buffer).ok()
    }

    /// Hands the kernel a frame. What it does not take is lost, as in a network.
    pub(crate) fn write(&self, frame: &[u8]) {
        (&self.file).write_all(frame).unwrap_or_default();
    }
}

fn make(file: &File, name: &str) -> io::Result<()> {
    // SAFETY: `ifreq` is plain data for which all zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One byte stays zero and ends the name.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open, and TUNSETIFF reads and writes an `ifreq` that we own.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
