//! Sockets between processes of one host: messages with their borders kept (`SOCK_SEQPACKET`), descriptors to go with
//! them, and who the other side is.
//!
//! Whether a call waits is said with each call, never by a flag of the descriptor: what is set at one end by a process
//! that is not to be trusted cannot make the other end wait.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::sys::{self, check, set_option, to_timespec};

/// Descriptors that come with one message at most; more are closed by the kernel.
const DESCRIPTORS_MAX: usize = 4;
/// Connections that wait to be accepted.
const BACKLOG: libc::c_int = 64;
const CONTROL_BYTES: usize = 64;

/// Who is at the other end of a socket, as the kernel noted when it connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

/// One end of a connection within the host.
#[derive(Debug)]
pub struct LocalSocket(OwnedFd);

impl LocalSocket {
    /// Connects to whoever listens at this path.
    ///
    /// # Errors
    /// `NotFound`: there is no such file. `ConnectionRefused`: nobody listens there any more.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let socket = socket()?;
        let (address, length) = address(path)?;
        // SAFETY: the pointer and the length describe an address, which outlives the call.
        check(unsafe {
            libc::connect(socket.as_raw_fd(), ptr::from_ref(&address).cast(), length)
        })?;
        Ok(Self(socket))
    }

    /// Two ends of a new connection.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let mut ends = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: room for two descriptors.
        check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
        // SAFETY: both were just made and nobody else owns them.
        let [one, other] = ends.map(|fd| Self(unsafe { OwnedFd::from_raw_fd(fd) }));
        Ok((one, other))
    }

    /// Sends one message; waits while the other side has no room.
    ///
    /// # Errors
    /// The connection has ended, or the message is too long for it.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        self.send_flagged(message, 0)
    }

    /// Sends one message if there is room for it.
    ///
    /// # Errors
    /// `WouldBlock` when there is none; the connection has ended.
    pub fn try_send(&self, message: &[u8]) -> io::Result<()> {
        self.send_flagged(message, libc::MSG_DONTWAIT)
    }

    /// Sends one message and, with it, copies of these descriptors.
    ///
    /// # Errors
    /// As [`LocalSocket::send`]; or there are too many.
    pub fn send_with(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let raw: Vec<libc::c_int> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        if raw.len() > DESCRIPTORS_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut part = slice(message.as_ptr().cast_mut(), message.len());
        let mut control = [0_u64; CONTROL_BYTES / 8];
        let mut header = header(&mut part, &mut control);
        let bytes = size_of_val(raw.as_slice()) as u32;
        // SAFETY: the header describes `part` and `control`, which outlive the call. `control` is aligned and has room
        // for the descriptors allowed, so the first control message and its data lie within it.
        check(unsafe {
            header.msg_controllen = sys::fit(libc::CMSG_SPACE(bytes));
            let first = libc::CMSG_FIRSTHDR(&header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = sys::fit(libc::CMSG_LEN(bytes));
            ptr::copy_nonoverlapping(raw.as_ptr(), libc::CMSG_DATA(first).cast(), raw.len());
            libc::sendmsg(self.0.as_raw_fd(), &header, libc::MSG_NOSIGNAL) as libc::c_int
        })?;
        Ok(())
    }

    /// Waits for the next message and says how long it is; descriptors that come with it are closed. 0: the connection
    /// has ended.
    ///
    /// # Errors
    /// The message is longer than the buffer (`InvalidData`), or a [timeout](LocalSocket::set_timeout) passed.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = beyond_reset(|| {
            // SAFETY: the pointer and the length describe the buffer, which is writable.
            unsafe {
                libc::recv(
                    self.0.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    libc::MSG_TRUNC,
                )
            }
        });
        whole(received, buffer.len())
    }

    /// As [`LocalSocket::recv`], and takes descriptors that come with the message.
    ///
    /// # Errors
    /// As [`LocalSocket::recv`].
    pub fn recv_with(&self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut part = slice(buffer.as_mut_ptr(), buffer.len());
        let mut control = [0_u64; CONTROL_BYTES / 8];
        let mut header = header(&mut part, &mut control);
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC;
        let received = beyond_reset(|| {
            // SAFETY: the header describes `part` and `control`, which are writable and outlive the call.
            unsafe { libc::recvmsg(self.0.as_raw_fd(), &mut header, flags) }
        });
        let descriptors = match received {
            0.. => take_descriptors(&header),
            _ => Vec::new(),
        };
        Ok((whole(received, buffer.len())?, descriptors))
    }

    /// Receiving fails with `WouldBlock` after so long; `None` waits for ever.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        let timespec = to_timespec(timeout.unwrap_or_default());
        let value = libc::timeval {
            tv_sec: timespec.tv_sec,
            tv_usec: timespec.tv_nsec / 1000,
        };
        set_option(self.0.as_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, value)
    }

    /// Ends the connection for both sides: whoever waits at either end is told. What was sent can still be received.
    pub fn shutdown(&self) {
        // SAFETY: no pointers are passed. An error says that it had ended already.
        unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RDWR) };
    }

    /// Ends receiving at this end: whoever waits here is told. The other side can send nothing more, and hears of it when
    /// it tries; what this end sends still arrives.
    pub fn shutdown_receiving(&self) {
        // SAFETY: no pointers are passed. An error says that it had ended already.
        unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RD) };
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// The system refuses.
    pub fn peer(&self) -> io::Result<Peer> {
        let mut peer = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let mut length = size_of_val(&peer) as libc::socklen_t;
        // SAFETY: the pointer and the length describe `peer`, which is writable and outlives the call.
        check(unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                ptr::from_mut(&mut peer).cast(),
                &mut length,
            )
        })?;
        Ok(Peer {
            pid: peer.pid.unsigned_abs(),
            uid: peer.uid,
        })
    }

    fn send_flagged(&self, message: &[u8], flags: libc::c_int) -> io::Result<()> {
        // SAFETY: the pointer and the length describe the message, which the kernel only reads.
        let sent = unsafe {
            libc::send(
                self.0.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                flags | libc::MSG_NOSIGNAL,
            )
        };
        // A message goes whole or not at all.
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl AsFd for LocalSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for LocalSocket {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

/// Accepts connections at a path, which is removed when this is dropped.
#[derive(Debug)]
pub struct LocalListener {
    socket: OwnedFd,
    path: PathBuf,
    /// Held as long as this listens, so that a file left over by a process that was killed is told from one in use.
    lock: File,
    open: AtomicBool,
}

impl LocalListener {
    /// Listens at this path; what a process that has ended left there is removed. The file has these permissions
    /// before anybody can connect. Beside it stays an empty file `PATH.lock`.
    ///
    /// # Errors
    /// `AddrInUse`: another process listens there. `AlreadyExists`: there is something that is no socket.
    /// `InvalidInput`: the path is too long (107 bytes). Others as the system says.
    pub fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        let (address, length) = address(path)?;
        let lock = lock(path)?;
        match fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
            Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let socket = socket()?;
        // SAFETY: the pointer and the length describe an address, which outlives the call.
        check(unsafe { libc::bind(socket.as_raw_fd(), ptr::from_ref(&address).cast(), length) })?;
        let listener = Self {
            socket,
            path: path.to_owned(),
            lock,
            open: AtomicBool::new(true),
        };
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        // SAFETY: no pointers are passed.
        check(unsafe { libc::listen(listener.socket.as_raw_fd(), BACKLOG) })?;
        Ok(listener)
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// `InvalidInput` after [`LocalListener::shutdown`]; others as the system says.
    pub fn accept(&self) -> io::Result<LocalSocket> {
        let raw = self.socket.as_raw_fd();
        // SAFETY: no address is asked for.
        let fd = check(unsafe {
            libc::accept4(raw, ptr::null_mut(), ptr::null_mut(), libc::SOCK_CLOEXEC)
        })?;
        // SAFETY: the descriptor was just made and nobody else owns it.
        Ok(LocalSocket(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Ends all waiting; nobody can connect any more, and the path is free for others.
    pub fn shutdown(&self) {
        if !self.open.swap(false, Ordering::SeqCst) {
            return;
        }
        // SAFETY: no pointers are passed.
        unsafe { libc::shutdown(self.socket.as_raw_fd(), libc::SHUT_RDWR) };
        // It may be gone with its folder.
        drop(fs::remove_file(&self.path));
        // Last, so that what was removed is not another's. SAFETY: no pointers are passed.
        unsafe { libc::flock(self.lock.as_raw_fd(), libc::LOCK_UN) };
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// The user that this process acts as.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Takes the lock beside a path. The file stays: to remove it would let a second process lock another one.
fn lock(path: &Path) -> io::Result<File> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(beside)?;
    // SAFETY: no pointers are passed.
    let locked = check(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) });
    match locked {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::ErrorKind::AddrInUse.into())
        }
        other => other.map(|_| file),
    }
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: plain data, for which zero is valid.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    let bytes = path.as_os_str().as_bytes();
    // The last one stays zero and ends the path.
    if bytes.is_empty() || bytes.contains(&0) || bytes.len() >= address.sun_path.len() {
        let text = "a path of a local socket has 1 to 107 bytes";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok((address, size_of_val(&address) as libc::socklen_t))
}

fn slice(start: *mut u8, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: start.cast(),
        iov_len: length,
    }
}

/// A header of one part, with room for control messages.
fn header(part: &mut libc::iovec, control: &mut [u64; CONTROL_BYTES / 8]) -> libc::msghdr {
    // SAFETY: plain data, for which zero is valid.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_iov = part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = sys::fit(CONTROL_BYTES);
    header
}

/// Receives once more after the error that tells, before what had still been sent, that the other side has closed
/// without reading all.
fn beyond_reset(mut receive: impl FnMut() -> isize) -> isize {
    match receive() {
        -1 if io::Error::last_os_error().kind() == io::ErrorKind::ConnectionReset => receive(),
        received => received,
    }
}

fn whole(received: isize, room: usize) -> io::Result<usize> {
    let length = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    if length > room {
        let text = "a message longer than any that may come";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(length)
}

fn take_descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut taken = Vec::new();
    // SAFETY: the kernel has filled in the control messages of this header, which lie in the buffer that it names; each
    // descriptor in them is new and owned by nobody else.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            if ((*at).cmsg_level, (*at).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let bytes = sys::fit::<_, usize>((*at).cmsg_len) - libc::CMSG_LEN(0) as usize;
                let first: *const libc::c_int = libc::CMSG_DATA(at).cast();
                let count = bytes / size_of::<libc::c_int>();
                taken.extend(
                    (0..count).map(|place| OwnedFd::from_raw_fd(first.add(place).read_unaligned())),
                );
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Seek, Write};
    use std::thread;

    use super::*;

    fn place(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("qsm-local-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder.join("socket")
    }

    fn clear(path: &Path) {
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn messages_keep_their_borders_and_carry_descriptors() {
        let (one, other) = LocalSocket::pair().unwrap();
        let path = place("carry");
        let mut file = File::create_new(&path).unwrap();
        file.write_all(b"inside").unwrap();
        let readable = File::open(&path).unwrap();
        one.send(b"first").unwrap();
        one.send_with(b"second", &[readable.as_fd()]).unwrap();
        let mut buffer = [0; 8];
        let (length, none) = other.recv_with(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], none.len()), (&b"first"[..], 0));
        let (length, mut came) = other.recv_with(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], came.len()), (&b"second"[..], 1));
        let mut file = File::from(came.remove(0));
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "inside");
        clear(&path);
    }

    #[test]
    fn too_long_late_or_too_much_is_an_error_and_the_end_is_a_length_of_zero() {
        let (one, other) = LocalSocket::pair().unwrap();
        let mut buffer = [0; 4];
        one.send(b"12345").unwrap();
        let error = other.recv(&mut buffer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        other.set_timeout(Some(Duration::from_millis(1))).unwrap();
        let error = other.recv(&mut buffer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        other.set_timeout(None).unwrap();
        let full = (0..1_000_000).find_map(|_| one.try_send(&[0; 1000]).err());
        assert_eq!(full.unwrap().kind(), ErrorKind::WouldBlock);
        let (one, other) = LocalSocket::pair().unwrap();
        one.send(b"bye").unwrap();
        one.shutdown();
        assert_eq!(other.recv(&mut buffer).unwrap(), 3);
        assert_eq!(other.recv(&mut buffer).unwrap(), 0);
        assert!(other.send(b"x").is_err());
        let (one, other) = LocalSocket::pair().unwrap();
        other.send(b"not read").unwrap();
        one.send(b"why").unwrap();
        drop(one);
        assert_eq!(other.recv_with(&mut buffer).unwrap().0, 3);
        assert_eq!(other.recv(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn an_end_that_receives_nothing_more_can_still_send() {
        let (one, other) = LocalSocket::pair().unwrap();
        let mut buffer = [0; 4];
        thread::scope(|scope| {
            let waiting = scope.spawn(|| one.recv(&mut [0; 4]));
            one.shutdown_receiving();
            assert_eq!(waiting.join().unwrap().unwrap(), 0);
        });
        assert!(other.send(b"x").is_err());
        one.send(b"late").unwrap();
        assert_eq!(other.recv(&mut buffer).unwrap(), 4);
        one.shutdown();
        assert_eq!(other.recv(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn a_listener_knows_its_peers_and_ends_when_told() {
        let path = place("peers");
        let listener = LocalListener::bind(&path, 0o600).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let client = LocalSocket::connect(&path).unwrap();
        let accepted = listener.accept().unwrap();
        let me = Peer {
            pid: std::process::id(),
            uid: effective_user(),
        };
        assert_eq!((client.peer().unwrap(), accepted.peer().unwrap()), (me, me));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| listener.accept().map(drop));
            listener.shutdown();
            assert_eq!(
                waiting.join().unwrap().unwrap_err().kind(),
                ErrorKind::InvalidInput
            );
        });
        drop(listener);
        assert!(!path.exists());
        clear(&path);
    }

    #[test]
    fn a_path_in_use_is_refused_and_one_left_over_is_taken() {
        let path = place("twice");
        let first = LocalListener::bind(&path, 0o600).unwrap();
        let error = LocalListener::bind(&path, 0o600).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        // As if it had been killed: the file stays, the lock does not.
        let kept = path.with_file_name("kept");
        fs::hard_link(&path, &kept).unwrap();
        drop(first);
        fs::rename(&kept, &path).unwrap();
        let refused = LocalSocket::connect(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let second = LocalListener::bind(&path, 0o600).unwrap();
        LocalSocket::connect(&path).unwrap();
        drop(second);
        fs::write(&path, b"mine").unwrap();
        let error = LocalListener::bind(&path, 0o600).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let long = path.with_file_name("x".repeat(200));
        let error = LocalListener::bind(&long, 0o600).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        clear(&path);
    }
}
