//! The paper's interface for C: `sendgroup()` with its signature and structures.
//!
//! A socket stays the caller's. What is kept about it (back-end, device, routes) is found again by
//! the descriptor, and made anew if the descriptor has come to stand for another socket meanwhile,
//! which the kernel's socket cookie tells.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::backend::BackEnd;
use crate::error::{Errno, Error};
use crate::message::Message;
use crate::recipient::{RECIPIENTS_MAX, Recipient, Via};
use crate::sender::Sender;
use crate::sockopt::cookie;

/// One recipient; `struct giovec` in `groupcast.h`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct GroupVector {
    /// Destination address.
    pub giov_dest: libc::sockaddr_in,
    /// The prepended data.
    pub giov_prepend: libc::iovec,
    /// The appended data.
    pub giov_append: libc::iovec,
}

/// A message and its recipients; `struct giobuf` in `groupcast.h`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct GroupBuffer {
    /// Shared data buffer.
    pub shared: libc::iovec,
    /// Per-recipient information: the first of as many as the call says.
    pub recinfo: [GroupVector; 1],
}

/// The place of no socket: senders have one here. Such a recipient's error is `EAFNOSUPPORT`.
const NO_SOCKET: Via = Via::Socket(u8::MAX);

type Shared = Arc<Mutex<Sender>>;

/// Senders by descriptor, each with the cookie of its socket.
static SENDERS: LazyLock<Mutex<HashMap<c_int, (u64, Shared)>>> = LazyLock::new(Mutex::default);

/// Sends `buf->shared` to `recnum` recipients; how many it left for, or -1 with `errno`.
///
/// # Safety
/// `buf` must point to a `giobuf` with `recnum` entries in `recinfo`, every `iovec` in it to
/// readable memory, and `gerrno`, unless null, to `recnum` integers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendgroup(
    sd: c_int,
    buf: *const GroupBuffer,
    recnum: usize,
    flags: c_int,
    gerrno: *mut c_int,
) -> c_int {
    if buf.is_null() {
        return fail(libc::EFAULT);
    }
    if recnum > RECIPIENTS_MAX {
        return fail(libc::E2BIG);
    }
    // SAFETY: the caller promises so many entries. The pointer is to the array within the whole
    // buffer, not to a reference to its first entry.
    let entries = unsafe { std::slice::from_raw_parts((&raw const (*buf).recinfo).cast(), recnum) };
    // SAFETY: the caller promises readable memory behind every vector.
    let recipients: Vec<_> = entries
        .iter()
        .map(|entry| unsafe { recipient(entry) })
        .collect();
    // SAFETY: as above.
    let payload = unsafe { bytes(&(*buf).shared) };
    let told = if gerrno.is_null() {
        None
    } else {
        // SAFETY: the caller promises so many integers, and `Errno` is laid out as one.
        Some(unsafe { std::slice::from_raw_parts_mut(gerrno.cast::<Errno>(), recnum) })
    };
    let sent = sender(sd).and_then(|sender| {
        let mut sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.send(&Message::new(payload).flags(flags), &recipients, told)
    });
    match sent {
        Ok(sent) => c_int::try_from(sent).unwrap_or(c_int::MAX),
        Err(error) => fail(code(&error)),
    }
}

/// The name of the back-end that sends by this socket; null with `errno` if it cannot be used.
#[unsafe(no_mangle)]
pub extern "C" fn sendgroup_backend(sd: c_int) -> *const c_char {
    match sender(sd) {
        Ok(sender) => {
            let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
            name(sender.back_end()).as_ptr()
        }
        Err(error) => {
            fail(code(&error));
            std::ptr::null()
        }
    }
}

/// Lets go of what is kept about a socket, and leaves `IP_RECVERR` as it was before. To be called
/// before the socket is closed; without it the socket's port may stay taken until another socket is
/// sent by for the first time.
#[unsafe(no_mangle)]
pub extern "C" fn sendgroup_forget(sd: c_int) {
    let mut senders = SENDERS.lock().unwrap_or_else(PoisonError::into_inner);
    senders.remove(&sd);
}

fn name(back_end: BackEnd) -> &'static CStr {
    match back_end {
        BackEnd::Loop => c"loop",
        BackEnd::Batch => c"sendmmsg",
        BackEnd::Ring => c"io_uring",
        BackEnd::RingZeroCopy => c"io_uring-zc",
        BackEnd::Connected => c"connected",
        BackEnd::Clone => c"ebpf",
    }
}

fn sender(sd: c_int) -> Result<Shared, Error> {
    let own = cookie(sd).map_err(|e| Error::system("identify the socket", e))?;
    let mut senders = SENDERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, sender)) = senders.get(&sd)
        && *known == own
    {
        return Ok(Arc::clone(sender));
    }
    // What is kept about sockets that were closed meanwhile would hold their ports.
    senders.retain(|sd, (known, _)| cookie(*sd).is_ok_and(|cookie| cookie == *known));
    let sender = Arc::new(Mutex::new(Sender::borrowing(sd)?));
    senders.insert(sd, (own, Arc::clone(&sender)));
    Ok(sender)
}

/// # Safety
/// The vectors must point to readable memory for as long as the result is used.
unsafe fn recipient<'a>(entry: &GroupVector) -> Recipient<'a> {
    let to = &entry.giov_dest;
    let ip = Ipv4Addr::from(to.sin_addr.s_addr.to_ne_bytes());
    let family = i32::from(to.sin_family);
    let to = SocketAddr::new(ip.into(), u16::from_be(to.sin_port));
    // As the kernel has it: an address without a family is one of IPv4.
    let via = match family {
        libc::AF_INET | libc::AF_UNSPEC => Via::Family,
        _ => NO_SOCKET,
    };
    // SAFETY: the caller's promise.
    let own = unsafe { (bytes(&entry.giov_prepend), bytes(&entry.giov_append)) };
    Recipient::new(to).via(via).prepend(own.0).append(own.1)
}

/// # Safety
/// The vector must point to readable memory for as long as the result is used.
unsafe fn bytes<'a>(vector: &libc::iovec) -> &'a [u8] {
    if vector.iov_len == 0 || vector.iov_base.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(vector.iov_base.cast(), vector.iov_len) }
}

fn code(error: &Error) -> c_int {
    match error {
        Error::NoRecipients => libc::EDESTADDRREQ,
        Error::TooManyRecipients { .. } => libc::E2BIG,
        Error::PayloadTooLarge { .. } => libc::EMSGSIZE,
        Error::UnsupportedFlags { .. } => libc::EOPNOTSUPP,
        Error::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        Error::ErrorsTooShort { .. } | Error::NoSocket => libc::EINVAL,
        Error::Unavailable(_) => libc::ENOSYS,
    }
}

/// Sets `errno`.
fn fail(code: c_int) -> c_int {
    // SAFETY: the location of the calling thread's `errno`.
    unsafe { *libc::__errno_location() = code };
    -1
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn is_kept(of: u64) -> bool {
        let senders = SENDERS.lock().unwrap();
        senders.values().any(|(cookie, _)| *cookie == of)
    }

    #[test]
    fn a_socket_that_was_closed_is_let_go_of_when_another_is_first_sent_by() {
        let first = UdpSocket::bind("127.0.0.1:0").unwrap();
        // Bound before the first is closed, so that it has another descriptor.
        let second = UdpSocket::bind("127.0.0.1:0").unwrap();
        let known = cookie(first.as_raw_fd()).unwrap();
        sender(first.as_raw_fd()).unwrap();
        assert!(is_kept(known));
        drop(first);
        let other = cookie(second.as_raw_fd()).unwrap();
        sender(second.as_raw_fd()).unwrap();
        assert!(is_kept(other) && !is_kept(known));
        sendgroup_forget(second.as_raw_fd());
        assert!(!is_kept(other));
    }
}
