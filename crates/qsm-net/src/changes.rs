//! Word from the kernel that something about interfaces or their addresses has changed (rtnetlink).
//!
//! It costs nothing until something changes, and comes at once. Asking every second would wake an idle thread, delay a
//! busy one by the time that a list of all interfaces takes, and come late.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::sys;

/// Messages read at once; the rest is reported again.
const MESSAGES_AT_ONCE: usize = 64;

/// A socket that the kernel tells of changes on this host's network.
#[derive(Debug)]
pub(crate) struct Changes(OwnedFd);

impl Changes {
    pub(crate) fn open() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers are passed.
        let fd = sys::check(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: sockaddr_nl is plain data, for which zero is valid.
        let mut address: libc::sockaddr_nl = unsafe { mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups =
            (libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR) as u32;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the pointer and the length describe an address, which outlives the call.
        let bound = unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&address).cast(), length) };
        sys::check(bound)?;
        Ok(Self(fd))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Empties the socket. What exactly has changed is not read: whoever wants to know looks at how things are now.
    pub(crate) fn drain(&self) {
        for _ in 0..MESSAGES_AT_ONCE {
            // SAFETY: no byte is written to the null pointer; the rest of a message is dropped with it.
            let received =
                unsafe { libc::recv(self.0.as_raw_fd(), ptr::null_mut(), 0, libc::MSG_TRUNC) };
            // More than the socket had room for was a change all the same.
            let overrun = || io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS);
            if received < 0 && !overrun() {
                return;
            }
        }
    }
}
