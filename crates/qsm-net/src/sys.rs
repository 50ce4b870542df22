//! The few system calls of this crate, each wrapped once, so that the rest of the crate reads as safe code.
//!
//! Message batches (`recvmmsg`, `sendmmsg`) live beside their only users, in `receive.rs` and `send.rs`.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use crate::address::{Family, Raw};

/// A number in the type that the C library has for it: of lengths of control messages and of requests, the type of musl is
/// another than that of glibc.
///
/// # Panics
/// The number does not fit, which lengths of our buffers and numbers of requests always do.
pub(crate) fn fit<From, To: TryFrom<From>>(number: From) -> To {
    To::try_from(number).unwrap_or_else(|_| panic!("a number beyond its type in the C library"))
}

/// Turns the -1 of a system call into the `errno` it left.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// A non-blocking datagram socket.
pub(crate) fn udp_socket(family: Family) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(family.domain(), kind, 0) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option to a plain value (an integer or a `#[repr(C)]` structure of `libc`).
pub(crate) fn set_option<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`, which outlives the call; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            ptr::from_ref(&value).cast(),
            length,
        )
    };
    check(result).map(drop)
}

/// Reads an integer socket option.
pub(crate) fn get_option(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    let pointer = ptr::from_mut(&mut value).cast();
    // SAFETY: the pointer and the length describe `value`, which is writable and outlives the call.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, pointer, &mut length) })?;
    Ok(value)
}

/// Place of the drop count among the values of `SO_MEMINFO` (`SK_MEMINFO_DROPS`, linux/sock_diag.h).
const SK_MEMINFO_DROPS: usize = 8;
/// Number of values of `SO_MEMINFO` (`SK_MEMINFO_VARS`).
const SK_MEMINFO_VARS: usize = 9;

/// The kernel's count of what it dropped at this socket, exact at the time of the call (`SO_MEMINFO`).
pub(crate) fn drop_count(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut values = [0_u32; SK_MEMINFO_VARS];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `values`, which is writable and outlives the call.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &mut length,
        )
    })?;
    Ok(values[SK_MEMINFO_DROPS])
}

/// `SO_MEMINFO` of asm-generic/socket.h; the `libc` crate does not name it on every target.
const SO_MEMINFO: libc::c_int = 55;

/// Binds a socket.
pub(crate) fn bind(fd: BorrowedFd<'_>, to: &Raw) -> io::Result<()> {
    // SAFETY: the pointer and the length describe an address, which outlives the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(to).cast(), to.bytes()) }).map(drop)
}

/// Sets the peer of a socket; for datagrams nothing is sent.
pub(crate) fn connect(fd: BorrowedFd<'_>, to: &Raw) -> io::Result<()> {
    // SAFETY: the pointer and the length describe an address, which outlives the call.
    check(unsafe { libc::connect(fd.as_raw_fd(), ptr::from_ref(to).cast(), to.bytes()) }).map(drop)
}

/// The address a socket is bound to.
pub(crate) fn local_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    let mut raw = Raw::EMPTY;
    let mut length = Raw::ROOM_BYTES;
    // SAFETY: the pointer and the length describe `raw`, which is writable and outlives the call.
    check(unsafe {
        libc::getsockname(fd.as_raw_fd(), ptr::from_mut(&mut raw).cast(), &mut length)
    })?;
    Ok(raw.address())
}

/// Bytes in the send queue of a socket that no device has taken yet (`SIOCOUTQ`).
pub(crate) fn send_queue_bytes(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (the same number as SIOCOUTQ) writes one int to the pointer, which is valid.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, ptr::from_mut(&mut bytes)) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// A new epoll instance.
pub(crate) fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds (`EPOLL_CTL_ADD`) or changes (`EPOLL_CTL_MOD`) what epoll watches at `fd`. Closing a descriptor removes it.
pub(crate) fn epoll_set(
    epoll: BorrowedFd<'_>,
    operation: libc::c_int,
    fd: BorrowedFd<'_>,
    interest: libc::c_int,
    token: u64,
) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: interest as u32,
        u64: token,
    };
    // SAFETY: `event` is valid for the call; the kernel copies it.
    check(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), operation, fd.as_raw_fd(), &mut event) })
        .map(drop)
}

/// Lets waits at this epoll look at devices' queues for so long (`EPIOCSPARAMS`). Needs Linux 6.9 (`ENOTTY` before).
pub(crate) fn epoll_busy_poll(epoll: BorrowedFd<'_>, micros: u32) -> io::Result<()> {
    // SAFETY: epoll_params is plain data, for which zero is valid; zero is the kernel's default for the rest.
    let mut parameters: libc::epoll_params = unsafe { mem::zeroed() };
    parameters.busy_poll_usecs = micros;
    // SAFETY: the request reads a structure of this type, which is valid for the call.
    check(unsafe {
        libc::ioctl(
            epoll.as_raw_fd(),
            libc::EPIOCSPARAMS,
            ptr::from_ref(&parameters),
        )
    })
    .map(drop)
}

/// Waits for events with a nanosecond timeout; `None` waits forever. Needs Linux 5.11 (`ENOSYS` before).
pub(crate) fn epoll_pwait2(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let timespec = timeout.map(to_timespec);
    let pointer = timespec.as_ref().map_or(ptr::null(), ptr::from_ref);
    let capacity = events.len() as libc::c_long;
    // The raw call, because C libraries gained the function late (glibc 2.35). All arguments are passed as long.
    // SAFETY: events and timespec are valid for the call; a null signal mask of size 0 means "leave it alone".
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            libc::c_long::from(epoll.as_raw_fd()),
            events.as_mut_ptr(),
            capacity,
            pointer,
            ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Waits for events with a timeout in milliseconds, rounded up; `None` waits forever.
pub(crate) fn epoll_wait(
    epoll: BorrowedFd<'_>,
    events: &mut [libc::epoll_event],
    timeout: Option<Duration>,
) -> io::Result<usize> {
    let milliseconds = timeout.map_or(-1, |limit| {
        libc::c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
    });
    let capacity = libc::c_int::try_from(events.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the pointer and the capacity describe `events`, which is writable and outlives the call.
    let count = check(unsafe {
        libc::epoll_wait(
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            capacity,
            milliseconds,
        )
    })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Waits until `fd` is readable or the time passed. True if readable.
pub(crate) fn poll_readable(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
    poll(fd, libc::POLLIN, timeout)
}

/// Waits until `fd` takes something to send or the time passed. True if it does.
pub(crate) fn poll_writable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    poll(fd, libc::POLLOUT, Some(timeout))
}

fn poll(fd: BorrowedFd<'_>, events: libc::c_short, timeout: Option<Duration>) -> io::Result<bool> {
    let mut entry = libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    };
    let timespec = timeout.map(to_timespec);
    let limit = timespec.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: one pollfd is valid for the call, and the timespec if there is one; a null mask leaves signals alone.
    let count = check(unsafe { libc::ppoll(&mut entry, 1, limit, ptr::null()) })?;
    Ok(count > 0)
}

/// A new non-blocking eventfd with count 0.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds one to an eventfd. A full counter (2^64 - 2) is readable already, hence no error.
pub(crate) fn eventfd_add(fd: BorrowedFd<'_>) {
    let one = 1_u64;
    // SAFETY: eight readable bytes, as eventfd wants.
    let written = unsafe { libc::write(fd.as_raw_fd(), ptr::from_ref(&one).cast(), 8) };
    debug_assert!(written == 8 || io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock);
}

/// Sets an eventfd back to 0; true if it was above.
pub(crate) fn eventfd_take(fd: BorrowedFd<'_>) -> bool {
    let mut count = 0_u64;
    // SAFETY: eight writable bytes, as eventfd wants.
    let read = unsafe { libc::read(fd.as_raw_fd(), ptr::from_mut(&mut count).cast(), 8) };
    read == 8
}

pub(crate) fn to_timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        // Half a century is as good as for ever, and fits every clock.
        tv_sec: fit(duration.as_secs().min(i32::MAX as u64)),
        tv_nsec: libc::c_long::from(duration.subsec_nanos() as i32),
    }
}
