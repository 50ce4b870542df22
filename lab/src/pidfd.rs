//! A process held by a descriptor: unlike a process id it never comes to mean another process.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Pidfd(OwnedFd);

impl Pidfd {
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
        let fd = i32::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us, so nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends a signal. `ESRCH` if the process has ended and been waited for; nothing happens to a
    /// zombie.
    pub(crate) fn signal(&self, signal: i32) -> io::Result<()> {
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the arguments are an open descriptor, two integers, and a null pointer, which
        // stands for "as kill() would".
        let done = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                none,
                0,
            )
        };
        if done == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Waits until the process has ended, at most `limit` (or for ever); whether it has.
    pub(crate) fn wait_end(&self, limit: Option<Duration>) -> io::Result<bool> {
        let start = Instant::now();
        loop {
            let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
            // Rounded up, so that the last wait does not become a busy loop.
            let ms = left.map_or(-1, |left| {
                i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
            });
            let mut watched = libc::pollfd {
                fd: self.0.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: the pointer is to one pollfd that we own, and the count is 1.
            let ready = unsafe { libc::poll(&raw mut watched, 1, ms) };
            if ready > 0 {
                return Ok(true);
            }
            if ready < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            } else if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
        }
    }
}
