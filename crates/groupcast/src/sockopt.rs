//! Options of sockets, as the system calls have them.

use std::io;
use std::os::fd::RawFd;

pub(crate) fn check(returned: libc::c_int) -> io::Result<()> {
    if returned < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// An option that is an integer.
pub(crate) fn option(fd: RawFd, level: i32, name: i32) -> io::Result<i32> {
    let mut value: libc::c_int = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: both point to live memory, and `len` states the size of the first.
    check(unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

/// The number that tells a socket from all others, whatever its descriptor.
pub(crate) fn cookie(fd: RawFd) -> io::Result<u64> {
    wide_option(fd, libc::SO_COOKIE)
}

/// The number that tells a socket's network namespace from others (Linux 5.14).
pub(crate) fn namespace_cookie(fd: RawFd) -> io::Result<u64> {
    wide_option(fd, libc::SO_NETNS_COOKIE)
}

fn wide_option(fd: RawFd, name: i32) -> io::Result<u64> {
    let level = libc::SOL_SOCKET;
    let mut value: u64 = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: both point to live memory, and `len` states the size of the first.
    check(unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) })?;
    Ok(value)
}

/// Tells whether an option that is a piece of a packet is there, e.g. an extension header.
pub(crate) fn has_bytes(fd: RawFd, level: i32, name: i32) -> bool {
    let mut bytes = [0_u8; 64];
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: both point to live memory, and `len` states the size of the first.
    let read =
        unsafe { libc::getsockopt(fd, level, name, bytes.as_mut_ptr().cast(), &raw mut len) };
    read == 0 && len > 0
}

pub(crate) fn set_option(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer is to live memory of the length given.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) })
}
