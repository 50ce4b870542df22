//! The receive ring: 64 buffers of 64 KiB, shared by all sockets of a port, filled by `recvmmsg` in batches of sixteen.
//!
//! ```text
//!   memory   | slot 0: 64 KiB      | slot 1: 64 KiB      | ...
//!              train: s s s s s l    single: d
//!              count 6, segment |s|  count 1, segment |d|
//! ```
//!
//! With UDP GRO a message is a train of equal datagrams, the last of which may be shorter; the size comes in a control
//! message. The ring only notes size and count, and a datagram is found by multiplication when it is asked for: nothing
//! is copied. Of long trains only four are received at a time, so that they are still in a core's L2 cache when they are
//! looked at; sixteen once more after a short message in between.
//!
//! Batches can be kept while others are received, as long as there are slots, so that their datagrams can be handled in
//! another order than they came. Buffers beyond the first batch are allocated when their slots are used for the first time.
//!
//! Buffers are counted. Whoever wants to keep a datagram of a long train keeps a count of its buffer
//! ([`Datagram::home`]); the slot gets another buffer then, and the held one is filled again after it was given back.
//!
//! A buffer of 64 KiB holds any datagram and any train (the kernel ends trains there), so truncation
//! does not happen on kernels known today; should it, the message is dropped whole and counted.

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use crate::address::Raw;
use crate::buffers::{BUFFER_BYTES, Buffers};
use crate::clock;
use crate::counters::RefusalCounters;
use crate::guard::Guarded;
use crate::sys;

/// Messages of all batches that are kept.
const SLOTS: usize = 64;
/// Messages of one batch.
pub(crate) const BATCH: usize = 16;
/// Messages of one batch where they are long trains: a quarter of a mebibyte is still in the core's L2 cache when its
/// datagrams are looked at.
const BATCH_LONG: usize = 4;
/// Room for the control messages: train size and drop count, of 24 bytes each, and a time of 32, or the codepoint of ECN,
/// of 24. No socket asks for both of these.
const CONTROL_BYTES: usize = 96;
/// Longest time that a datagram is believed to have waited: what seems longer was stamped before the clock was set.
const WAITED_MAX: Duration = Duration::from_secs(10);

/// One received datagram, lent from the receive ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub source: SocketAddr,
    /// Multicast address it was sent to; `None` for unicast.
    pub group: Option<SocketAddr>,
    /// Payload.
    pub bytes: &'a [u8],
    /// For a datagram of a train that fills at least half of its buffer: the buffer, and where in it `bytes` begin.
    /// Holding a count of it keeps the bytes as they are.
    pub home: Option<(&'a Arc<[u8]>, usize)>,
}

/// Where a port has a datagram, until it forgets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: u16,
    /// Of the second network's port.
    pub(crate) second: bool,
    /// Bytes at its end that it has no more since it was opened.
    pub(crate) tail: u8,
    pub(crate) index: u32,
}

impl Place {
    pub(crate) fn new(slot: usize, index: u32) -> Self {
        Self {
            // Below SLOTS.
            slot: slot as u16,
            second: false,
            tail: 0,
            index,
        }
    }

    pub(crate) fn slot(self) -> usize {
        usize::from(self.slot)
    }
}

/// What one call put into the ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filled {
    pub(crate) messages: usize,
    pub(crate) datagrams: u64,
    pub(crate) bytes: u64,
    pub(crate) trains: u64,
    pub(crate) truncated: u64,
    /// Datagrams with ECT(0) or CE in the header of IP, and those with CE, if the kernel says it.
    pub(crate) capable: u64,
    pub(crate) marked: u64,
    /// The kernel's drop counter of the socket, as of the last message that carried it.
    pub(crate) drops: Option<u32>,
    /// Time that the first message had waited at the socket, if the kernel says it.
    pub(crate) waited: Option<Duration>,
}

/// A received message: `count` datagrams of `segment` bytes each, the last perhaps shorter, `length` bytes in all.
#[derive(Clone, Copy, Debug)]
struct Slot {
    source: SocketAddr,
    group: Option<SocketAddr>,
    length: u32,
    segment: u32,
    count: u32,
    /// The two bits of ECN in the header of IP, the same in all datagrams of a train; 0 if the kernel does not say it.
    ecn: u8,
}

const EMPTY: Slot = Slot {
    source: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    group: None,
    length: 0,
    segment: 0,
    count: 0,
    ecn: 0,
};

#[derive(Debug)]
pub(crate) struct Ring {
    buffers: Buffers,
    slots: [Slot; SLOTS],
    filled: usize,
    /// Slots of batches before the last one.
    kept: usize,
    /// The messages received last from a multicast socket were long trains.
    long: bool,
    /// Sources keep their scopes.
    scoped: bool,
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// What the control messages of a message said.
#[derive(Clone, Copy, Debug, Default)]
struct Notes {
    segment: Option<u32>,
    drops: Option<u32>,
    /// The two bits of ECN in the header of IP.
    ecn: u8,
    /// When it came, by the clock of the wall.
    came: Option<Duration>,
}

impl Ring {
    pub(crate) fn new() -> Self {
        Self {
            buffers: Buffers::new(BATCH),
            slots: [EMPTY; SLOTS],
            filled: 0,
            kept: 0,
            long: false,
            scoped: false,
        }
    }

    /// A ring for a socket that is on no interface of its own, so that sources need their scopes.
    pub(crate) fn scoped() -> Self {
        Self {
            scoped: true,
            ..Self::new()
        }
    }

    /// Begins with an empty ring.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
        self.kept = 0;
    }

    /// Begins another batch behind what is there.
    pub(crate) fn keep(&mut self) {
        self.kept = self.filled;
    }

    /// Whether another batch can be kept besides what is there.
    pub(crate) fn has_room(&self) -> bool {
        self.filled + BATCH <= SLOTS
    }

    /// Messages that the batch has room for.
    pub(crate) fn room(&self) -> usize {
        let batch = if self.long { BATCH_LONG } else { BATCH };
        let batch = batch.saturating_sub(self.filled - self.kept);
        batch.min(SLOTS - self.filled)
    }

    /// Receives at most `limit` messages into free slots, without blocking. Nothing there is no error.
    pub(crate) fn fill(
        &mut self,
        fd: BorrowedFd<'_>,
        group: Option<SocketAddr>,
        limit: usize,
    ) -> io::Result<Filled> {
        let limit = limit.min(self.room());
        let mut names = [Raw::EMPTY; BATCH];
        let mut controls = [Control([0; CONTROL_BYTES]); BATCH];
        let mut vectors = [libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        }; BATCH];
        // SAFETY: mmsghdr is plain data, for which zero is valid.
        let mut messages: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for i in 0..limit {
            let buffer = self.buffers.writable(self.filled + i);
            vectors[i] = libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            };
            let header = &mut messages[i].msg_hdr;
            header.msg_name = ptr::from_mut(&mut names[i]).cast();
            header.msg_namelen = Raw::ROOM_BYTES;
            header.msg_iov = &mut vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = sys::fit(CONTROL_BYTES);
        }
        let count = receive_batch(fd, &mut messages[..limit])?;
        let mut filled = Filled {
            messages: count,
            ..Filled::default()
        };
        for (message, name) in messages.iter().zip(&names).take(count) {
            // SAFETY: the kernel filled this message, and its control buffer (`controls`) is alive.
            let notes = unsafe { read_notes(&message.msg_hdr) };
            let source = match self.scoped {
                true => name.scoped_address(),
                false => name.address(),
            };
            let slot = slot(message, source, group, notes);
            // The first one is the oldest.
            if filled.datagrams == 0 {
                filled.waited = notes.came.and_then(waited);
            }
            filled.add(slot, notes);
            self.slots[self.filled] = slot;
            self.filled += 1;
        }
        if group.is_some() && filled.messages > 0 {
            self.long = filled.bytes >= (filled.messages * BUFFER_BYTES / 2) as u64;
        }
        Ok(filled)
    }

    /// Changes one bit of a datagram, which the number chooses among its first bytes.
    pub(crate) fn flip(&mut self, place: Place, bit: u64, within: usize) {
        let content = &self.slots[place.slot()];
        let start = content.segment * place.index;
        let length = content.segment.min(content.length - start) as usize;
        let bits = 8 * length.min(within) as u64;
        let Some(bit) = bit.checked_rem(bits) else {
            return;
        };
        let at = start as usize + (bit / 8) as usize;
        self.buffers.writable(place.slot())[at] ^= 1 << (bit % 8);
    }

    /// A datagram's bytes, to be changed in place.
    pub(crate) fn writable(&mut self, place: Place) -> &mut [u8] {
        let content = &self.slots[place.slot()];
        let start = content.segment * place.index;
        let end = (start + content.segment).min(content.length);
        &mut self.buffers.writable(place.slot())[start as usize..end as usize]
    }

    /// The two bits of ECN with which a datagram has come.
    pub(crate) fn ecn(&self, place: Place) -> u8 {
        self.slots[place.slot()].ecn
    }

    /// Opens a datagram in place. Returns it as it is then, unless it is refused.
    pub(crate) fn open(
        &mut self,
        place: Place,
        guard: &mut Guarded,
        counters: &mut RefusalCounters,
    ) -> Option<Place> {
        let source = self.slots[place.slot()].source;
        let datagram = self.writable(place);
        let length = datagram.len();
        let left = guard.open(source, datagram, counters)?;
        let tail = u8::try_from(length.checked_sub(left)?).ok()?;
        Some(Place { tail, ..place })
    }

    /// Calls sources of the last batch by other names.
    pub(crate) fn rename(&mut self, mut name: impl FnMut(SocketAddr) -> SocketAddr) {
        for slot in &mut self.slots[self.kept..self.filled] {
            slot.source = name(slot.source);
        }
    }

    /// The datagrams of the last batch, in the order they came.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let slots = self.slots[..self.filled].iter().enumerate();
        let slots = slots.skip(self.kept);
        slots.flat_map(|(slot, content)| {
            (0..content.count).map(move |index| Place::new(slot, index))
        })
    }

    /// The datagrams of the last batch in the given order, or in the order they came.
    pub(crate) fn datagrams<'a>(&'a self, order: Option<&'a [Place]>) -> Datagrams<'a> {
        Datagrams {
            ring: self,
            slot: self.kept,
            index: 0,
            order: order.map(<[Place]>::iter),
        }
    }

    pub(crate) fn datagram(&self, place: Place) -> Datagram<'_> {
        let slot = place.slot();
        let content = &self.slots[slot];
        let start = content.segment * place.index;
        let end = (start + content.segment).min(content.length) - u32::from(place.tail);
        let buffer = self.buffers.buffer(slot);
        let lasting = content.count > 1 && content.length as usize >= BUFFER_BYTES / 2;
        Datagram {
            source: content.source,
            group: content.group,
            bytes: &buffer[start as usize..end as usize],
            home: lasting.then_some((buffer, start as usize)),
        }
    }
}

impl Filled {
    fn add(&mut self, slot: Slot, notes: Notes) {
        self.datagrams += u64::from(slot.count);
        self.trains += u64::from(slot.count > 1);
        if slot.count == 0 {
            self.truncated += 1;
        } else {
            self.bytes += u64::from(slot.length);
        }
        if slot.ecn & 2 != 0 {
            self.capable += u64::from(slot.count);
            self.marked += u64::from(slot.count) * u64::from(slot.ecn & 1);
        }
        self.drops = notes.drops.or(self.drops);
    }
}

/// Iterates over the datagrams of the last [`receive`](crate::Port::receive). Costs arithmetic only.
#[derive(Clone, Debug)]
pub struct Datagrams<'a> {
    ring: &'a Ring,
    slot: usize,
    index: u32,
    order: Option<slice::Iter<'a, Place>>,
}

impl<'a> Datagrams<'a> {
    /// Where the next one lies.
    fn next_place(&mut self) -> Option<Place> {
        if let Some(order) = &mut self.order {
            return order.next().copied();
        }
        while self.slot < self.ring.filled {
            if self.index < self.ring.slots[self.slot].count {
                self.index += 1;
                return Some(Place::new(self.slot, self.index - 1));
            }
            self.slot += 1;
            self.index = 0;
        }
        None
    }

    /// Each with its place, to be found again after other batches have been received
    /// (`Port::receive_more`).
    pub(crate) fn placed(mut self) -> impl Iterator<Item = (Place, Datagram<'a>)> {
        core::iter::from_fn(move || {
            let place = self.next_place()?;
            Some((place, self.ring.datagram(place)))
        })
    }
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = Datagram<'a>;

    fn next(&mut self) -> Option<Datagram<'a>> {
        let place = self.next_place()?;
        Some(self.ring.datagram(place))
    }
}

/// Time since then; `None` if the clock has been set since.
fn waited(came: Duration) -> Option<Duration> {
    let waited = clock::wall_time().checked_sub(came)?;
    (waited <= WAITED_MAX).then_some(waited)
}

fn slot(
    message: &libc::mmsghdr,
    source: SocketAddr,
    group: Option<SocketAddr>,
    notes: Notes,
) -> Slot {
    let length = message.msg_len;
    let segment = notes
        .segment
        .filter(|&segment| segment > 0 && segment < length)
        .unwrap_or(length);
    let truncated = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
    // An empty datagram is one datagram; a truncated message is none.
    let count = if truncated {
        0
    } else {
        length.div_ceil(segment.max(1)).max(1)
    };
    Slot {
        source,
        group,
        length,
        segment,
        count,
        ecn: notes.ecn,
    }
}

fn receive_batch(fd: BorrowedFd<'_>, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
    loop {
        // SAFETY: each message points to a name, one vector with its buffer, and a control buffer, which the caller keeps
        // alive and does not touch during the call; the count is the number of messages.
        let count = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as libc::c_uint,
                sys::fit(libc::MSG_DONTWAIT),
                ptr::null_mut(),
            )
        };
        if let Ok(count) = usize::try_from(count) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock => return Ok(0),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

/// # Safety
/// The header must have been filled by the kernel, and its control buffer must be alive.
unsafe fn read_notes(header: &libc::msghdr) -> Notes {
    let mut notes = Notes::default();
    // SAFETY: by contract the control buffer is as the kernel left it; the macros stay within its length. A message carries
    // four bytes, one (IP_TOS), or a timespec, read without assuming alignment.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(control) = next.as_ref() {
            let value = || ptr::read_unaligned(libc::CMSG_DATA(next).cast::<u32>());
            match (control.cmsg_level, control.cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => notes.segment = Some(value()),
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => notes.drops = Some(value()),
                (libc::IPPROTO_IP, libc::IP_TOS) => notes.ecn = *libc::CMSG_DATA(next) & 3,
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => notes.ecn = (value() & 3) as u8,
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time = ptr::read_unaligned(libc::CMSG_DATA(next).cast::<libc::timespec>());
                    notes.came = Some(clock::time_of(time));
                }
                _ => {}
            }
            next = libc::CMSG_NXTHDR(header, control);
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: u32, flags: libc::c_int) -> libc::mmsghdr {
        // SAFETY: plain data, for which zero is valid.
        let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
        message.msg_len = length;
        message.msg_hdr.msg_flags = flags;
        message
    }

    fn lengths(length: u32, segment: Option<u32>, flags: libc::c_int) -> Vec<usize> {
        let notes = Notes {
            segment,
            ..Notes::default()
        };
        let mut ring = Ring::new();
        ring.slots[0] = slot(&message(length, flags), EMPTY.source, None, notes);
        ring.filled = 1;
        let walked: Vec<usize> = ring
            .datagrams(None)
            .map(|datagram| datagram.bytes.len())
            .collect();
        let places: Vec<Place> = ring.places().collect();
        let listed: Vec<usize> = ring
            .datagrams(Some(&places))
            .map(|datagram| datagram.bytes.len())
            .collect();
        assert_eq!(walked, listed);
        walked
    }

    #[test]
    fn a_clock_that_was_set_says_nothing() {
        let now = clock::wall_time();
        assert_eq!(waited(now + Duration::from_secs(100)), None);
        assert_eq!(waited(now.saturating_sub(WAITED_MAX * 2)), None);
        assert!(waited(now).is_some_and(|waited| waited < WAITED_MAX));
    }

    #[test]
    fn splits_trains_by_arithmetic() {
        assert_eq!(lengths(1000, None, 0), [1000]);
        assert_eq!(lengths(1000, Some(1000), 0), [1000]);
        assert_eq!(lengths(1000, Some(500), 0), [500, 500]);
        assert_eq!(lengths(1001, Some(500), 0), [500, 500, 1]);
        assert_eq!(lengths(0, None, 0), [0]);
        assert_eq!(lengths(10, Some(0), 0), [10]);
        assert_eq!(lengths(10, Some(20), 0), [10]);
        assert_eq!(lengths(65_536, Some(1), 0).len(), 65_536);
        assert!(lengths(65_536, Some(1000), libc::MSG_TRUNC).is_empty());
    }
}
