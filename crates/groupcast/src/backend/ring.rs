//! Sends by io_uring: a request per datagram, a few hundred requests per system call.
//!
//! A `SEND` request with an address costs less than a `SENDMSG` request: the kernel reads no
//! message header and no vector. A datagram of several parts is therefore put together in memory
//! of ours first, which for a datagram's size is cheaper than having the kernel gather it.

use std::io;
use std::os::fd::RawFd;

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};

use crate::backend::Unavailable;
use crate::error::Errno;
use crate::fork::Origin;

/// Requests per submission. Larger rings gain nothing and fall out of the cache.
const ENTRIES: u32 = 256;
/// Two completions per zero-copy request.
const COMPLETIONS: u32 = 4 * ENTRIES;
/// Sockets of the caller that the ring knows beforehand, which saves looking them up.
const SOCKETS_MAX: u32 = 8;
/// In place of a place: by the caller's socket.
pub(super) const BY_SOCKET: u32 = u32::MAX;
/// Longest datagram that is put together here; larger ones are gathered by the kernel.
const FLAT_MAX: usize = 9216;

/// A ring of requests of its own.
pub(super) struct Ring {
    ring: IoUring,
    mode: Mode,
    /// Sockets in the ring's table, by place.
    sockets: Vec<RawFd>,
    /// Places of the table behind those, for connected sockets.
    places: usize,
    /// Datagrams of several parts, put together, a place for each entry.
    flat: Vec<u8>,
    origin: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// `SENDMSG` requests: before Linux 6.1.
    Message,
    /// `SEND` requests with an address.
    Send,
    /// `SENDMSG_ZC` requests.
    ZeroCopy,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring whose table has places for so many connected sockets, or for as many as may be.
    pub(super) fn new(zero_copy: bool, places: usize) -> Result<Self, Unavailable> {
        let refused = |e| Unavailable::kernel("set up an io_uring", e);
        let ring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .build(ENTRIES)
            .map_err(refused)?;
        let mut probe = Probe::new();
        ring.submitter()
            .register_probe(&mut probe)
            .map_err(refused)?;
        // Addresses in `SEND` came with the same kernel as `SENDMSG_ZC`.
        let modern = probe.is_supported(opcode::SendMsgZc::CODE);
        let missing = |action| {
            let error = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
            Unavailable::kernel(action, error)
        };
        if zero_copy && !modern {
            return Err(missing("use SENDMSG_ZC of io_uring"));
        }
        if !probe.is_supported(opcode::SendMsg::CODE) {
            return Err(missing("use SENDMSG of io_uring"));
        }
        let mode = match (modern, zero_copy) {
            (_, true) => Mode::ZeroCopy,
            (true, false) => Mode::Send,
            (false, false) => Mode::Message,
        };
        // Without a table, descriptors are looked up for each request. No table may be larger than
        // the limit of descriptors.
        let sizes = std::iter::successors(Some(places), |places| (*places > 0).then(|| places / 2));
        let table = |places: &usize| {
            let size = SOCKETS_MAX + *places as u32;
            ring.submitter().register_files_sparse(size).is_ok()
        };
        let found = sizes.into_iter().find(table);
        Ok(Self {
            ring,
            mode,
            sockets: Vec::with_capacity(found.map_or(0, |_| SOCKETS_MAX as usize)),
            places: found.unwrap_or(0),
            flat: Vec::new(),
            origin: Origin::here(),
        })
    }

    /// Whether an error means that the request, and not the datagram, could not be had.
    pub(super) fn refuses(&self, error: Errno) -> bool {
        let codes = [libc::ENOMEM, libc::ENOBUFS, libc::EOPNOTSUPP];
        error.code() == libc::ECANCELED
            || (self.mode == Mode::ZeroCopy && codes.contains(&error.code()))
    }

    /// Places for connected sockets.
    pub(super) fn places(&self) -> usize {
        self.places
    }

    /// Puts a connected socket into a place. The ring holds it from then on.
    pub(super) fn put(&self, place: usize, fd: RawFd) -> io::Result<()> {
        let at = SOCKETS_MAX + place as u32;
        let put = self.ring.submitter().register_files_update(at, &[fd]);
        put.map(drop)
    }

    /// Closes the connected sockets in the first so many places.
    pub(super) fn clear_places(&self, count: usize) {
        let none = vec![-1; count];
        let submitter = self.ring.submitter();
        // What cannot be taken out is overwritten later.
        drop(submitter.register_files_update(SOCKETS_MAX, &none));
    }

    /// Sends what the headers describe and waits until the kernel needs the memory no more.
    ///
    /// `ways` are places of connected sockets or [`BY_SOCKET`]; what is behind its end goes by the
    /// caller's socket, too.
    pub(super) fn submit(
        &mut self,
        fd: RawFd,
        flags: i32,
        headers: &mut [libc::mmsghdr],
        results: &mut [Errno],
        ways: &[u32],
    ) {
        let step = ENTRIES as usize;
        let own = self.place(fd);
        let chunks = headers.chunks_mut(step).zip(results.chunks_mut(step));
        for (chunk, (headers, results)) in chunks.enumerate() {
            for (at, header) in headers.iter_mut().enumerate() {
                let way = ways.get(chunk * step + at).filter(|way| **way != BY_SOCKET);
                let place = way.map_or(own, |way| Some(SOCKETS_MAX + *way));
                let request = match place {
                    Some(place) => self
                        .request(types::Fd(place as i32), flags as u32, at, header)
                        .flags(squeue::Flags::FIXED_FILE),
                    None => self.request(types::Fd(fd), flags as u32, at, header),
                };
                // SAFETY: what the request points to lives until `await_all` has seen its end.
                let pushed = unsafe { self.ring.submission().push(&request.user_data(at as u64)) };
                if pushed.is_err() {
                    unreachable!("the ring has room for a chunk: it is empty between chunks");
                }
            }
            self.await_all(headers.len(), results);
        }
    }

    /// The place of a socket in the ring's table.
    fn place(&mut self, fd: RawFd) -> Option<u32> {
        let known = self.sockets.iter().position(|known| *known == fd);
        let place = known.or_else(|| {
            let place = self.sockets.len();
            let room = place < self.sockets.capacity();
            let submitter = self.ring.submitter();
            if !room
                || submitter
                    .register_files_update(place as u32, &[fd])
                    .is_err()
            {
                return None;
            }
            self.sockets.push(fd);
            Some(place)
        })?;
        u32::try_from(place).ok()
    }

    fn request(
        &mut self,
        fd: types::Fd,
        flags: u32,
        at: usize,
        header: &libc::mmsghdr,
    ) -> squeue::Entry {
        let message = &raw const header.msg_hdr;
        if self.mode == Mode::ZeroCopy {
            return opcode::SendMsgZc::new(fd, message).flags(flags).build();
        }
        if self.mode == Mode::Send
            && header.msg_hdr.msg_controllen == 0
            && let Some((bytes, len)) = self.flatten(at, &header.msg_hdr)
        {
            return opcode::Send::new(fd, bytes, len)
                .flags(flags as i32)
                .dest_addr(header.msg_hdr.msg_name.cast_const().cast())
                .dest_addr_len(header.msg_hdr.msg_namelen)
                .build();
        }
        opcode::SendMsg::new(fd, message).flags(flags).build()
    }

    /// A datagram in one piece; `None` if it is too long for that.
    fn flatten(&mut self, at: usize, header: &libc::msghdr) -> Option<(*const u8, u32)> {
        let count = header.msg_iovlen;
        // SAFETY: `Gather::fill` has set the pointer into its array of parts, with as many behind.
        let parts = unsafe { std::slice::from_raw_parts(header.msg_iov, count) };
        if let [part] = parts {
            return Some((
                part.iov_base.cast_const().cast(),
                u32::try_from(part.iov_len).ok()?,
            ));
        }
        let len: usize = parts.iter().map(|part| part.iov_len).sum();
        if len > FLAT_MAX {
            return None;
        }
        self.flat.resize(ENTRIES as usize * FLAT_MAX, 0);
        let place = &mut self.flat[at * FLAT_MAX..][..len];
        let mut to = 0;
        for part in parts {
            // SAFETY: the caller's memory, live for the call, as `Gather::fill` has described it.
            let bytes: &[u8] =
                unsafe { std::slice::from_raw_parts(part.iov_base.cast(), part.iov_len) };
            place[to..to + bytes.len()].copy_from_slice(bytes);
            to += bytes.len();
        }
        Some((place.as_ptr(), u32::try_from(len).ok()?))
    }

    /// Submits, and collects the results and, for zero copy, the notices that the pages are free.
    fn await_all(&mut self, requests: usize, results: &mut [Errno]) {
        let mut open = requests;
        while open > 0 {
            // An interrupted wait is begun again; a completion queue that is full for a moment is
            // emptied below.
            if let Err(error) = self.ring.submit_and_wait(open) {
                let passing = [libc::EINTR, libc::EAGAIN, libc::EBUSY];
                let code = error.raw_os_error().unwrap_or(0);
                assert!(
                    passing.contains(&code),
                    "io_uring refuses requests that it has accepted: {error}"
                );
            }
            for completion in self.ring.completion() {
                let more = cqueue::more(completion.flags());
                if !cqueue::notif(completion.flags())
                    && let Some(result) = results.get_mut(completion.user_data() as usize)
                    && completion.result() < 0
                {
                    *result = Errno::new(-completion.result());
                }
                if !more {
                    open -= 1;
                }
            }
        }
    }
}

/// The kernel would let go of the sockets only some time after the ring is closed, and their port
/// would stay taken until then. In a forked process the table is the other one's.
impl Drop for Ring {
    fn drop(&mut self) {
        if self.origin.is_here() {
            drop(self.ring.submitter().unregister_files());
        }
    }
}
