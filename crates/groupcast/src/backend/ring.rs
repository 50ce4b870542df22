//! Sends by io_uring: a request per datagram, a few hundred requests per system call.

use std::io;
use std::os::fd::RawFd;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::backend::Unavailable;
use crate::error::Errno;

/// Requests per submission. Larger rings gain nothing and fall out of the cache.
const ENTRIES: u32 = 256;
/// Two completions per zero-copy request.
const COMPLETIONS: u32 = 4 * ENTRIES;

/// A ring of requests of its own.
pub(super) struct Ring {
    ring: IoUring,
    zero_copy: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("zero_copy", &self.zero_copy)
            .finish_non_exhaustive()
    }
}

impl Ring {
    pub(super) fn new(zero_copy: bool) -> Result<Self, Unavailable> {
        let refused = |e| Unavailable::kernel("set up an io_uring", e);
        let ring = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .build(ENTRIES)
            .map_err(refused)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(refused)?;
        let (code, action) = if zero_copy {
            (opcode::SendMsgZc::CODE, "use SENDMSG_ZC of io_uring")
        } else {
            (opcode::SendMsg::CODE, "use SENDMSG of io_uring")
        };
        if !probe.is_supported(code) {
            let missing = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
            return Err(Unavailable::kernel(action, missing));
        }
        Ok(Self { ring, zero_copy })
    }

    /// Whether an error means that the request, and not the datagram, could not be had.
    pub(super) fn refuses(&self, error: Errno) -> bool {
        let codes = [libc::ENOMEM, libc::ENOBUFS, libc::EOPNOTSUPP];
        error.code() == libc::ECANCELED || (self.zero_copy && codes.contains(&error.code()))
    }

    /// Sends what the headers describe and waits until the kernel needs the memory no more.
    pub(super) fn submit(
        &mut self,
        fd: RawFd,
        flags: i32,
        headers: &mut [libc::mmsghdr],
        results: &mut [Errno],
    ) {
        let step = ENTRIES as usize;
        for (headers, results) in headers.chunks_mut(step).zip(results.chunks_mut(step)) {
            for (at, header) in headers.iter_mut().enumerate() {
                let request = self.request(fd, flags, header).user_data(at as u64);
                // SAFETY: what the request points to lives until `await_all` has seen its end.
                let pushed = unsafe { self.ring.submission().push(&request) };
                if pushed.is_err() {
                    unreachable!("the ring has room for a chunk: it is empty between chunks");
                }
            }
            self.await_all(headers.len(), results);
        }
    }

    fn request(&self, fd: RawFd, flags: i32, header: &libc::mmsghdr) -> squeue::Entry {
        let fd = types::Fd(fd);
        let message = &raw const header.msg_hdr;
        let flags = flags as u32;
        if self.zero_copy {
            opcode::SendMsgZc::new(fd, message).flags(flags).build()
        } else {
            opcode::SendMsg::new(fd, message).flags(flags).build()
        }
    }

    /// Submits, and collects the results and, for zero copy, the notices that the pages are free.
    fn await_all(&mut self, requests: usize, results: &mut [Errno]) {
        let mut open = requests;
        while open > 0 {
            // An interrupted wait is begun again; a completion queue that is full for a moment is
            // emptied below.
            if let Err(error) = self.ring.submit_and_wait(1) {
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
