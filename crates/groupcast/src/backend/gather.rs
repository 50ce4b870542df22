//! Message headers for many datagrams, in memory that is used again for the next call.
//!
//! Every datagram is up to three parts: the recipient's prepended bytes, the shared payload, its
//! appended bytes. They stay where the caller has them; the kernel gathers them. For a train the
//! parts repeat for every segment, and a control message states the segment's length.

use std::mem;

use crate::address::Name;
use crate::backend::Call;

/// Most datagrams, or trains, of one submission: the kernel's limit for `sendmmsg`.
pub(super) const CHUNK_MAX: usize = 1024;
/// Room for one control message with a 16-bit value, in units that keep it aligned.
const CONTROL_WORDS: usize = 3;

/// A piece of the payload for one recipient: a datagram or a train.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) recipient: u32,
    /// Where in the payload it begins and ends.
    pub(super) from: u32,
    pub(super) to: u32,
}

/// Arrays that `sendmmsg` takes.
#[derive(Default)]
pub(super) struct Gather {
    headers: Vec<libc::mmsghdr>,
    names: Vec<Name>,
    parts: Vec<libc::iovec>,
    /// How many parts each header has.
    counts: Vec<u32>,
    controls: Vec<[u64; CONTROL_WORDS]>,
}

// SAFETY: the pointers inside are only followed between `fill` and the end of the submission, which
// happen in one call on one thread.
unsafe impl Send for Gather {}

impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gather")
            .field("headers", &self.headers.len())
            .finish_non_exhaustive()
    }
}

impl Gather {
    /// Describes these jobs. The headers are good for as long as what `call` borrows.
    pub(super) fn fill(&mut self, call: &Call<'_>, jobs: &[Job]) -> &mut [libc::mmsghdr] {
        self.names.clear();
        self.parts.clear();
        self.counts.clear();
        self.controls.clear();
        for job in jobs {
            self.push(call, *job);
        }
        self.seal(jobs, call.message.datagram_bytes());
        &mut self.headers
    }

    fn push(&mut self, call: &Call<'_>, job: Job) {
        let recipient = call.recipients.at(job.recipient as usize);
        let payload = &call.message.payload[job.from as usize..job.to as usize];
        let first = self.parts.len();
        let datagram = call.message.datagram_bytes().max(1);
        let mut push = |bytes: &[u8]| {
            if !bytes.is_empty() {
                self.parts.push(libc::iovec {
                    iov_base: bytes.as_ptr().cast_mut().cast(),
                    iov_len: bytes.len(),
                });
            }
        };
        if payload.is_empty() {
            push(recipient.prepend);
            push(recipient.append);
        }
        if recipient.own_bytes() == 0 {
            push(payload);
        } else {
            for segment in payload.chunks(datagram) {
                push(recipient.prepend);
                push(segment);
                push(recipient.append);
            }
        }
        self.names.push(Name::new(recipient.to));
        self.counts
            .push(u32::try_from(self.parts.len() - first).unwrap_or(u32::MAX));
        let bytes = datagram + recipient.own_bytes();
        self.controls.push(segment_control(bytes));
    }

    /// Sets all pointers, now that the arrays do not move any more.
    fn seal(&mut self, jobs: &[Job], datagram: usize) {
        self.headers.clear();
        let mut part = 0;
        for (at, job) in jobs.iter().enumerate() {
            // SAFETY: plain data for which zeroes are valid.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            let hdr = &mut header.msg_hdr;
            hdr.msg_name = self.names[at].as_ptr().cast_mut().cast();
            hdr.msg_namelen = self.names[at].len();
            hdr.msg_iovlen = self.counts[at] as usize;
            hdr.msg_iov = self.parts.as_mut_ptr().wrapping_add(part);
            if (job.to - job.from) as usize > datagram {
                hdr.msg_control = self.controls[at].as_mut_ptr().cast();
                hdr.msg_controllen = size_of_val(&self.controls[at]);
            }
            part += self.counts[at] as usize;
            self.headers.push(header);
        }
    }
}

/// The control message `UDP_SEGMENT`.
fn segment_control(bytes: usize) -> [u64; CONTROL_WORDS] {
    let header = libc::cmsghdr {
        // 16 bytes of header and 2 of data; the buffer's third word is padding.
        cmsg_len: size_of::<libc::cmsghdr>() + size_of::<u16>(),
        cmsg_level: libc::SOL_UDP,
        cmsg_type: libc::UDP_SEGMENT,
    };
    let value = u16::try_from(bytes).unwrap_or(u16::MAX);
    let kind = (header.cmsg_level as u64) | ((header.cmsg_type as u64) << 32);
    [
        header.cmsg_len as u64,
        kind.to_le(),
        u64::from(value).to_le(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_message_is_laid_out_as_the_kernel_expects() {
        let words = segment_control(1400);
        // SAFETY: plain data for which zeroes are valid.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_control = words.as_ptr().cast_mut().cast();
        header.msg_controllen = size_of_val(&words);
        // SAFETY: the control buffer holds one message.
        let at = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
        // SAFETY: it is not null: the buffer is longer than a header.
        let message = unsafe { *at };
        assert_eq!(message.cmsg_level, libc::SOL_UDP);
        assert_eq!(message.cmsg_type, libc::UDP_SEGMENT);
        // SAFETY: CMSG_LEN only computes.
        assert_eq!(message.cmsg_len, unsafe { libc::CMSG_LEN(2) } as usize);
        // SAFETY: two bytes of data follow the header.
        let value = unsafe { libc::CMSG_DATA(at).cast::<u16>().read_unaligned() };
        assert_eq!(value, 1400);
    }
}
