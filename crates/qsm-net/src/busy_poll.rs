//! Busy polling: who waits for packets looks at the device's queue, and need not wait for its interrupt.
//!
//! There are two places to wait at: a socket that is read while it is empty (`SO_BUSY_POLL`), and epoll (`EPIOCSPARAMS`). A
//! port asks for both. The first takes a privilege, the second a newer kernel, so each may be refused without the other.
//! Devices without such a queue, loopback among them, change nothing.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::sys;

/// What came of asking for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyPoll {
    /// How long to look, as asked for.
    pub asked: Duration,
    /// The error number with which the kernel refused it for reading sockets, if it did: `EPERM` without `CAP_NET_ADMIN`
    /// where `net.core.busy_read` is less.
    pub reading_refused: Option<i32>,
    /// The same for waiting: `ENOTTY` before Linux 6.9, where `net.core.busy_poll` does it for all programs.
    pub waiting_refused: Option<i32>,
}

/// Asks for it when this socket is read; returns the error number of a refusal.
pub(crate) fn set_reading(socket: BorrowedFd<'_>, asked: Duration) -> Option<i32> {
    let micros = libc::c_int::try_from(asked.as_micros()).unwrap_or(libc::c_int::MAX);
    refusal(sys::set_option(
        socket,
        libc::SOL_SOCKET,
        SO_BUSY_POLL,
        micros,
    ))
}

/// Asks for it when this epoll waits; returns the error number of a refusal.
pub(crate) fn set_waiting(epoll: BorrowedFd<'_>, asked: Duration) -> Option<i32> {
    let micros = u32::try_from(asked.as_micros()).unwrap_or(u32::MAX);
    refusal(sys::epoll_busy_poll(epoll, micros.min(i32::MAX as u32)))
}

/// `SO_BUSY_POLL` of asm-generic/socket.h; the `libc` crate does not name it on every target.
const SO_BUSY_POLL: libc::c_int = 46;

fn refusal(result: io::Result<()>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}
