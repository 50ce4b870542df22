//! The back-ends that need no privileges: they send every datagram by the socket itself, and
//! differ only in how a prepared array of message headers is handed over.

use std::os::fd::RawFd;

use crate::backend::connected::Connected;
use crate::backend::gather::{CHUNK_MAX, Gather, Job};
use crate::backend::ring::Ring;
use crate::backend::{BackEnd, Call, Unavailable};
use crate::error::Errno;
use crate::message::DATAGRAM_V4_MAX;
use crate::socket::Faults;

/// Most segments of one train: the limit of kernels before 6.9, and enough (the gain levels off
/// at 32).
pub(crate) const SEGMENTS_MAX: usize = 64;
/// How often one datagram is tried again because an error of an earlier one was in its way.
const RETRIES_MAX: usize = 4;

/// Sends by the socket.
#[derive(Debug)]
pub(crate) struct Portable {
    engine: Engine,
    gather: Gather,
    jobs: Vec<Job>,
    results: Vec<Errno>,
}

/// How headers are handed over.
#[derive(Debug)]
enum Engine {
    Loop,
    Batch,
    Ring(Box<Ring>),
    Connected(Box<Connected>),
}

impl Portable {
    /// Sets a back-end up.
    pub(crate) fn new(back_end: BackEnd) -> Result<Self, Unavailable> {
        let engine = match back_end {
            BackEnd::Loop => Engine::Loop,
            BackEnd::Ring => Engine::Ring(Box::new(Ring::new(false, 0)?)),
            BackEnd::RingZeroCopy => Engine::Ring(Box::new(Ring::new(true, 0)?)),
            BackEnd::Connected => Engine::Connected(Box::new(Connected::new()?)),
            BackEnd::Batch | BackEnd::Clone => Engine::Batch,
        };
        Ok(Self::of(engine))
    }

    /// The one that can be had everywhere.
    pub(crate) fn batch() -> Self {
        Self::of(Engine::Batch)
    }

    fn of(engine: Engine) -> Self {
        Self {
            engine,
            gather: Gather::default(),
            jobs: Vec::new(),
            results: Vec::new(),
        }
    }

    /// A socket's options changed.
    pub(crate) fn forget(&mut self) {
        if let Engine::Connected(connected) = &mut self.engine {
            connected.forget();
        }
    }

    /// Datagrams and trains handed to connected sockets so far.
    pub(crate) fn connected(&self) -> u64 {
        match &self.engine {
            Engine::Connected(connected) => connected.sent,
            Engine::Loop | Engine::Batch | Engine::Ring(_) => 0,
        }
    }

    /// Sends to these recipients of the call and writes what became of each into `errors`.
    pub(crate) fn send(
        &mut self,
        call: &Call<'_>,
        indices: &[u32],
        errors: &mut [Errno],
        faults: &mut Faults,
    ) {
        let mut jobs = std::mem::take(&mut self.jobs);
        jobs.clear();
        for index in indices {
            errors[*index as usize] = Errno::SENT;
            push_jobs(call, *index, &mut jobs);
        }
        if let Engine::Connected(connected) = &mut self.engine {
            connected.begin(call, jobs.len());
        }
        for chunk in jobs.chunks(CHUNK_MAX) {
            self.results.clear();
            self.results.resize(chunk.len(), Errno::SENT);
            let headers = self.gather.fill(call, chunk);
            self.engine.submit(call, chunk, headers, &mut self.results);
            for (at, job) in chunk.iter().enumerate() {
                if self.results[at].sent() {
                    continue;
                }
                let settled = self.settle(call, *job, self.results[at], faults);
                let error = &mut errors[job.recipient as usize];
                if error.sent() {
                    *error = settled;
                }
            }
        }
        self.jobs = jobs;
    }

    /// What really became of a job that failed.
    fn settle(&mut self, call: &Call<'_>, job: Job, error: Errno, faults: &mut Faults) -> Errno {
        let mut error = error;
        let mut refused = self.engine.refuses(error);
        for _ in 0..RETRIES_MAX {
            // The error may be one of an earlier datagram, to somebody else.
            let foreign = call.socket.drain(faults) > 0;
            if !foreign && !refused {
                break;
            }
            refused = false;
            error = self.send_one(call, job);
            if error.sent() {
                return error;
            }
        }
        let several = (job.to - job.from) as usize > call.message.datagram_bytes();
        let uncut = [libc::EINVAL, libc::EIO, libc::EMSGSIZE].contains(&error.code());
        if several && uncut {
            return self.send_cut(call, job, faults);
        }
        error
    }

    fn send_one(&mut self, call: &Call<'_>, job: Job) -> Errno {
        let header = &mut self.gather.fill(call, &[job])[0];
        send_header(call.socket.fd(), call.message.flags, header)
    }

    /// Sends a train as single datagrams: the device cannot cut it, or its segments exceed the MTU.
    fn send_cut(&mut self, call: &Call<'_>, job: Job, faults: &mut Faults) -> Errno {
        let step = u32::try_from(call.message.datagram_bytes()).unwrap_or(u32::MAX);
        let mut first_error = Errno::SENT;
        let mut from = job.from;
        while from < job.to {
            let to = from.saturating_add(step).min(job.to);
            let piece = Job { from, to, ..job };
            let mut error = self.send_one(call, piece);
            if !error.sent() && call.socket.drain(faults) > 0 {
                error = self.send_one(call, piece);
            }
            if first_error.sent() {
                first_error = error;
            }
            from = to;
        }
        first_error
    }
}

/// Cuts a message into what the kernel takes in one piece.
fn push_jobs(call: &Call<'_>, index: u32, jobs: &mut Vec<Job>) {
    let len = call.message.payload.len();
    let datagram = call.message.datagram_bytes().max(1);
    let own = call.recipients.at(index as usize).own_bytes();
    let segments = (DATAGRAM_V4_MAX / (datagram + own)).clamp(1, SEGMENTS_MAX);
    let step = if call.message.several() {
        datagram * segments
    } else {
        len.max(1)
    };
    let mut from = 0;
    loop {
        let to = (from + step).min(len);
        jobs.push(Job {
            recipient: index,
            from: u32::try_from(from).unwrap_or(u32::MAX),
            to: u32::try_from(to).unwrap_or(u32::MAX),
        });
        from = to;
        if from >= len {
            return;
        }
    }
}

impl Engine {
    fn submit(
        &mut self,
        call: &Call<'_>,
        jobs: &[Job],
        headers: &mut [libc::mmsghdr],
        results: &mut [Errno],
    ) {
        let (fd, flags) = (call.socket.fd(), call.message.flags);
        match self {
            Self::Loop => {
                for (header, result) in headers.iter_mut().zip(results) {
                    *result = send_header(fd, flags, header);
                }
            }
            Self::Batch => send_batch(fd, flags, headers, results),
            Self::Ring(ring) => ring.submit(fd, flags, headers, results, &[]),
            Self::Connected(connected) => connected.submit(call, jobs, headers, results),
        }
    }

    /// Whether an error is about the way of sending and not about the datagram.
    fn refuses(&self, error: Errno) -> bool {
        match self {
            Self::Loop | Self::Batch => false,
            Self::Ring(ring) => ring.refuses(error),
            // Whatever it is, the caller's socket decides.
            Self::Connected(_) => true,
        }
    }
}

fn send_header(fd: RawFd, flags: i32, header: &mut libc::mmsghdr) -> Errno {
    loop {
        // SAFETY: the header was filled by `Gather::fill` from live data.
        let sent = unsafe { libc::sendmsg(fd, &raw const header.msg_hdr, flags) };
        if sent >= 0 {
            return Errno::SENT;
        }
        let error = Errno::last();
        if error.code() != libc::EINTR {
            return error;
        }
    }
}

pub(super) fn send_batch(
    fd: RawFd,
    flags: i32,
    headers: &mut [libc::mmsghdr],
    results: &mut [Errno],
) {
    let mut at = 0;
    while at < headers.len() {
        let left = &mut headers[at..];
        let count = u32::try_from(left.len()).unwrap_or(u32::MAX);
        // SAFETY: the headers were filled by `Gather::fill` from live data, and there are `count`.
        let sent = unsafe { libc::sendmmsg(fd, left.as_mut_ptr(), count, flags) };
        match usize::try_from(sent) {
            // Stopped early or not, the next round begins behind what was sent; if that one fails,
            // it is the first of its round, and only then the kernel tells the error.
            Ok(sent) => at += sent.max(1),
            Err(_) => {
                let error = Errno::last();
                if error.code() != libc::EINTR {
                    results[at] = error;
                    at += 1;
                }
            }
        }
    }
}
