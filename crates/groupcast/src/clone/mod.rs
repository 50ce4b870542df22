//! Cloning inside the kernel: one call and one copy for a block of recipients.
//!
//! ```text
//!  user space        records: who, which headers, which private bytes     ─┐ shared memory
//!                    payload, written once to a tap device                 │
//!  ──────────────────────────│─────────────────────────────────────────────│────────────────
//!  kernel            ingress hook of the tap: for each record     ◀────────┘
//!                      write the record's bytes into the packet
//!                      send a clone of it to the record's interface ──▶ its own egress hooks,
//!                                                                       queueing discipline, wire
//! ```
//!
//! Recipients whose private bytes have the same lengths share a packet; groups are cut into runs
//! of those. A run is cut into blocks that the receiving side's queue can hold. What cannot be
//! cloned, and what a clone failed for, goes by the socket: then the kernel decides and names the
//! error.

mod asm;
mod bpf;
mod discard;
mod frame;
pub(crate) mod netlink;
mod program;
mod route;
mod tap;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use crate::backend::{Call, Portable, Unavailable};
use crate::capability;
use crate::clone::bpf::Arena;
use crate::clone::frame::{HEADERS_V4, HEADERS_V6, Mac, Packet, UDP_CHECKSUM_AT};
use crate::clone::netlink::Netlink;
use crate::clone::program::{
    APPEND_MAX, ARENA_BYTES, HEAD_MAX, RECORD_HEAD_AT, RECORD_MAX, RECORDS_AT, RECORDS_MAX,
    UNTOUCHED, control,
};
use crate::clone::route::Routes;
use crate::clone::tap::{Tap, VNET_BYTES};
use crate::error::Errno;
use crate::message::DATAGRAM_V4_MAX;
use crate::options::Options;
use crate::recipient::Recipient;
use crate::socket::{Faults, Socket, same_namespace};

pub use discard::Discard;
pub(crate) use tap::device_flags;

/// Flags that mean the same for a clone as for a send by the socket, or nothing for either.
const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CONFIRM;
/// The kernel's default, where the setting cannot be read.
const BACKLOG_DEFAULT: usize = 1000;
/// The kind of trains of UDP in `struct virtio_net_hdr`.
const SEGMENTS_UDP: u8 = 5;
/// The status that means a queue is getting full but has taken the packet (`NET_XMIT_CN`).
const CONGESTED: i32 = 2;

/// The back-end.
#[derive(Debug)]
pub(crate) struct Cloner {
    arena: Arena,
    program: OwnedFd,
    tap: Option<Tap>,
    /// How the tap is told that a packet is a train; `None`: it takes no trains (before Linux 6.2).
    trains: Option<u8>,
    routes: Routes,
    /// Most clones in one go.
    block: usize,
    /// Fewer recipients than this are cheaper by the socket.
    pub(crate) run_min: usize,
    /// Where each recipient's answer of the routing tables was in the last call.
    hints: Vec<u32>,
    ready: Vec<Ready>,
    rest: Vec<u32>,
    id: u16,
    pub(crate) counts: Counts,
}

/// What became of clones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Datagrams or trains cloned.
    pub(crate) cloned: u64,
    /// Packets written to the tap.
    pub(crate) blocks: u64,
    /// Clones that the device refused, so that the socket was asked.
    pub(crate) refused: u64,
    /// How often the program was found to be off the hook.
    pub(crate) hooks_lost: u64,
}

/// A recipient that can be cloned to.
#[derive(Debug, Clone, Copy)]
struct Ready {
    shape: Shape,
    index: u32,
    /// The next hop.
    target: Mac,
}

/// Recipients of the same shape share a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    v6: bool,
    prepend: u16,
    append: u16,
}

impl Shape {
    fn headers(self) -> usize {
        if self.v6 { HEADERS_V6 } else { HEADERS_V4 }
    }

    fn head(self) -> usize {
        self.headers() + usize::from(self.prepend)
    }
}

impl Cloner {
    /// Sets everything up in the calling thread's network namespace, which must be the sockets'.
    pub(crate) fn new(sockets: &[Socket]) -> Result<Self, Unavailable> {
        capability::require(
            capability::NET_ADMIN,
            "make a tap device and attach a program",
        )?;
        capability::require_bpf()?;
        let routes = Routes::new().map_err(|e| Unavailable::kernel("open a netlink socket", e))?;
        if !sockets
            .iter()
            .all(|socket| same_namespace(socket.fd(), routes.fd()))
        {
            return Err(Unavailable::OtherNamespace);
        }
        let arena = Arena::new(ARENA_BYTES)?;
        let program = bpf::load(&program::clone_program(arena.map()), c"groupcast")?;
        let tap = Tap::new(&program)?;
        Ok(Self {
            arena,
            program,
            // There are no records yet to clone it to.
            trains: takes_trains(&tap, SEGMENTS_UDP).then_some(SEGMENTS_UDP),
            tap: Some(tap),
            routes,
            block: block_max(),
            run_min: 2,
            hints: Vec::new(),
            ready: Vec::new(),
            rest: Vec::new(),
            id: 0,
            counts: Counts::default(),
        })
    }

    /// The device that packets are cloned from; `None` after it was lost and could not be made again.
    pub(crate) fn device(&self) -> Option<&str> {
        self.tap.as_ref().map(Tap::name)
    }

    /// A socket's options changed.
    pub(crate) fn forget(&mut self) {
        self.routes.forget();
    }

    /// An ICMP error came for this destination.
    pub(crate) fn forget_one(&mut self, to: std::net::SocketAddr, sockets: usize) {
        for socket in 0..sockets {
            let key = self.routes.key(to, socket as u8);
            self.routes.forget_one(&key);
        }
    }

    /// Sends to these recipients of the call; like [`Portable::send`], which it leaves to do what
    /// cannot be cloned.
    pub(crate) fn send(
        &mut self,
        call: &Call<'_>,
        indices: &[u32],
        errors: &mut [Errno],
        portable: &mut Portable,
        faults: &mut Faults,
        now_s: u64,
    ) {
        let train = call.message.several() && self.trains.is_none();
        if call.message.flags & !FLAGS != 0 || call.socket.options.special || train {
            return portable.send(call, indices, errors, faults);
        }
        let datagram = call.message.datagram_bytes().max(1);
        let segments = (DATAGRAM_V4_MAX / datagram).clamp(1, crate::backend::SEGMENTS_MAX);
        if call.message.payload.len() <= datagram * segments {
            self.routes.begin(now_s);
            return self.send_piece(call, indices, errors, portable, faults);
        }
        // A train longer than the kernel's limit: piece after piece, the first error counts.
        let mut first = vec![Errno::SENT; errors.len()];
        for piece in call.message.payload.chunks(datagram * segments) {
            let mut call = *call;
            call.message.payload = piece;
            self.routes.begin(now_s);
            self.send_piece(&call, indices, errors, portable, faults);
            for index in indices {
                let (first, error) = (&mut first[*index as usize], errors[*index as usize]);
                if first.sent() {
                    *first = error;
                }
            }
        }
        for index in indices {
            errors[*index as usize] = first[*index as usize];
        }
    }

    fn send_piece(
        &mut self,
        call: &Call<'_>,
        indices: &[u32],
        errors: &mut [Errno],
        portable: &mut Portable,
        faults: &mut Faults,
    ) {
        self.rest.clear();
        self.sort_out(call, indices);
        let mut left = self.send_blocks(call, errors);
        while !left.is_empty() {
            self.sort_out(call, &left);
            left = self.send_blocks(call, errors);
        }
        if !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            portable.send(call, &rest, errors, faults);
            self.rest = rest;
        }
    }

    /// Clones to those who are ready, as long as what is known about ways holds; who is left when
    /// it no longer does. An interface that is going down swallows packets without an error.
    fn send_blocks(&mut self, call: &Call<'_>, errors: &mut [Errno]) -> Vec<u32> {
        let ready = std::mem::take(&mut self.ready);
        let mut left = Vec::new();
        let mut blocks = 0;
        for run in ready.chunk_by(|a, b| a.shape == b.shape) {
            if run.len() < self.run_min {
                self.rest.extend(run.iter().map(|ready| ready.index));
                continue;
            }
            let stride = stride(run[0].shape);
            let block = self
                .block
                .min((ARENA_BYTES - RECORDS_AT - RECORD_MAX) / stride);
            for block in run.chunks(block) {
                if !left.is_empty() || (blocks > 0 && self.routes.changed()) {
                    left.extend(block.iter().map(|ready| ready.index));
                    continue;
                }
                self.send_block(call, block, errors);
                blocks += 1;
            }
        }
        self.ready = ready;
        left
    }

    /// Decides for each recipient whether it can be cloned to, and sorts those by shape.
    fn sort_out(&mut self, call: &Call<'_>, indices: &[u32]) {
        self.ready.clear();
        if self.hints.len() < call.recipients.len() {
            self.hints.resize(call.recipients.len(), u32::MAX);
        }
        if self.tap.is_none() {
            self.rest.extend_from_slice(indices);
            return;
        }
        let datagram = call.message.datagram_bytes();
        let several = call.message.several();
        let mut sorted = true;
        for index in indices {
            let recipient = call.recipients.at(*index as usize);
            let shape = shape(&recipient, several, datagram);
            let bytes = datagram + recipient.own_bytes();
            let key = self.routes.key(recipient.to, call.socket_index);
            let hint = &mut self.hints[*index as usize];
            let way = shape.and_then(|shape| {
                let (direct, target) = self.routes.way(&key, hint, &call.socket.options)?;
                (shape.headers() - 14 + bytes <= direct.mtu).then_some((shape, target))
            });
            match way {
                Some((shape, target)) => {
                    sorted &= self.ready.last().is_none_or(|last| last.shape <= shape);
                    self.ready.push(Ready {
                        shape,
                        index: *index,
                        target,
                    });
                }
                None => self.rest.push(*index),
            }
        }
        if !sorted {
            self.ready.sort_by_key(|ready| ready.shape);
        }
    }

    /// Clones one packet to a block of recipients.
    fn send_block(&mut self, call: &Call<'_>, block: &[Ready], errors: &mut [Errno]) {
        let stride = stride(block[0].shape);
        let id = self.next_id(call.socket);
        for (at, ready) in block.iter().enumerate() {
            self.write_record(call, *ready, id, RECORDS_AT + at * stride);
        }
        self.write_control(call, block);
        let runs = self.arena.read_u32(control::RUNS);
        self.counts.blocks += 1;
        let lost = match self.trigger(call, block[0]) {
            Ok(()) => self.arena.read_u32(control::RUNS) == runs,
            Err(error) if tap::is_lost(&error) => true,
            Err(_) => {
                // It takes this packet for none of its kind, or the memory is short: the socket
                // sends, and the next packet may pass.
                return self.rest.extend(block.iter().map(|ready| ready.index));
            }
        };
        if lost {
            self.rest.extend(block.iter().map(|ready| ready.index));
            self.renew_hook();
            return;
        }
        for (at, ready) in block.iter().enumerate() {
            let status = self.arena.read_u32(RECORDS_AT + at * stride + 4) as i32;
            if status == 0 || status == CONGESTED {
                errors[ready.index as usize] = Errno::SENT;
                self.counts.cloned += 1;
            } else {
                self.counts.refused += 1;
                self.rest.push(ready.index);
            }
        }
    }

    /// Writes a recipient's record.
    fn write_record(&mut self, call: &Call<'_>, ready: Ready, id: u16, record_at: usize) {
        let recipient = call.recipients.at(ready.index as usize);
        let direct = self.routes.at(self.hints[ready.index as usize]);
        let headers = direct.head.finish(&Packet {
            target: ready.target,
            port: recipient.to.port(),
            body_bytes: call.message.payload.len() + recipient.own_bytes(),
            id,
        });
        // All in one piece of constant length: what is too much of the headers is overwritten by
        // what follows them.
        let mut record = [0; RECORD_HEAD_AT + HEADERS_V6];
        record[..4].copy_from_slice(&direct.ifindex.to_ne_bytes());
        record[4..8].copy_from_slice(&UNTOUCHED.to_ne_bytes());
        record[8..].copy_from_slice(&headers);
        self.arena.write(record_at, &record);
        if recipient.own_bytes() > 0 {
            let own_at = record_at + RECORD_HEAD_AT + ready.shape.headers();
            self.arena.write(own_at, recipient.prepend);
            self.arena
                .write(record_at + append_from(ready.shape), recipient.append);
        }
    }

    fn write_control(&mut self, call: &Call<'_>, block: &[Ready]) {
        let shape = block[0].shape;
        let options = &call.socket.options;
        let fields = [
            (control::COUNT, block.len()),
            (control::STRIDE, stride(shape)),
            (control::HEAD_BYTES, shape.head()),
            (
                control::APPEND_AT,
                shape.head() + call.message.payload.len(),
            ),
            (control::APPEND_BYTES, usize::from(shape.append)),
            (control::APPEND_FROM, append_from(shape)),
            (control::MARK, options.mark as usize),
            (control::PRIORITY, options.priority as usize),
        ];
        for (at, value) in fields {
            self.arena.write_u32(at, value as u32);
        }
    }

    /// Writes the packet to the tap, on which the program runs.
    fn trigger(&self, call: &Call<'_>, first: Ready) -> io::Result<()> {
        let shape = first.shape;
        let own = call.recipients.at(first.index as usize);
        let direct = self.routes.at(self.hints[first.index as usize]);
        let headers = direct.head.finish(&Packet {
            target: first.target,
            port: own.to.port(),
            body_bytes: call.message.payload.len() + own.own_bytes(),
            id: 0,
        });
        let parts = [
            &headers[..shape.headers()],
            own.prepend,
            call.message.payload,
            own.append,
        ];
        let segment = call.message.datagram_bytes() as u16;
        let train = self.trains.filter(|_| call.message.several());
        let offload = offload(shape, train.map(|kind| (kind, segment)));
        self.write_packet(&offload, &parts)
    }

    fn write_packet(&self, offload: &[u8; VNET_BYTES], parts: &[&[u8]]) -> io::Result<()> {
        match &self.tap {
            Some(tap) => tap.write(offload, parts),
            None => Err(io::Error::from_raw_os_error(libc::ENODEV)),
        }
    }

    /// Somebody has taken the program off, or the device away: once more from the beginning.
    fn renew_hook(&mut self) {
        self.counts.hooks_lost += 1;
        self.tap = None;
        // The calling thread may be in another namespace by now, whose interfaces have other
        // indices: a tap there would clone to strangers.
        if Netlink::new(0).is_ok_and(|here| same_namespace(here.fd(), self.routes.fd())) {
            self.tap = Tap::new(&self.program).ok();
        }
    }

    /// Packets that routers may fragment need an identification that changes.
    fn next_id(&mut self, socket: &Socket) -> u16 {
        if socket.options.dont_fragment {
            return 0;
        }
        self.id = self.id.wrapping_add(1);
        self.id
    }
}

/// The shape of a recipient's packet; `None` if it does not fit a record.
fn shape(recipient: &Recipient<'_>, several: bool, datagram: usize) -> Option<Shape> {
    let shape = Shape {
        v6: recipient.to.is_ipv6(),
        prepend: u16::try_from(recipient.prepend.len()).ok()?,
        append: u16::try_from(recipient.append.len()).ok()?,
    };
    // Private bytes in every segment of a train would have to be written into the middle of it.
    let fits = !several || recipient.own_bytes() == 0;
    let empty = datagram + recipient.own_bytes() == 0;
    (fits
        && !empty
        && stands_for_itself(recipient.to.ip())
        && shape.head() <= HEAD_MAX
        && usize::from(shape.append) <= APPEND_MAX)
        .then_some(shape)
}

/// Whether an address is that of one host. Groups are not, and the kernel takes addresses that are
/// all zeroes for its own, and those of IPv4 in the form of IPv6 for those of IPv4.
fn stands_for_itself(to: IpAddr) -> bool {
    let mapped = matches!(to, IpAddr::V6(to) if to.to_ipv4_mapped().is_some());
    !mapped && !to.is_multicast() && !to.is_unspecified()
}

/// Where in a record the appended bytes are.
fn append_from(shape: Shape) -> usize {
    (RECORD_HEAD_AT + shape.head()).next_multiple_of(8)
}

/// Bytes from one record to the next.
fn stride(shape: Shape) -> usize {
    (append_from(shape) + usize::from(shape.append)).next_multiple_of(8)
}

/// The header in front of the packet that says what the device has yet to do:
/// `struct virtio_net_hdr`; for a train with its kind and the bytes of a segment.
fn offload(shape: Shape, train: Option<(u8, u16)>) -> [u8; VNET_BYTES] {
    const NEEDS_CHECKSUM: u8 = 1;
    let mut bytes = [0; VNET_BYTES];
    bytes[0] = NEEDS_CHECKSUM;
    bytes[2..4].copy_from_slice(&(shape.head() as u16).to_ne_bytes());
    if let Some((kind, segment)) = train {
        bytes[1] = kind;
        bytes[4..6].copy_from_slice(&segment.to_ne_bytes());
    }
    let udp_at = shape.headers() as u16 - 8;
    bytes[6..8].copy_from_slice(&udp_at.to_ne_bytes());
    bytes[8..10].copy_from_slice(&UDP_CHECKSUM_AT.to_ne_bytes());
    bytes
}

/// Tells whether the tap takes a train of this kind, for which an empty list of records is tried.
fn takes_trains(tap: &Tap, kind: u8) -> bool {
    let body = [0; 2];
    let packet = Packet {
        target: [2; 6],
        port: 9,
        body_bytes: body.len(),
        id: 0,
    };
    let headers = trial_head().finish(&packet);
    let train = offload(TRIAL_SHAPE, Some((kind, 1)));
    tap.write(&train, &[&headers[..HEADERS_V4], &body]).is_ok()
}

/// The shape of packets that are cloned to nobody, or to nobody but the tap.
const TRIAL_SHAPE: Shape = Shape {
    v6: false,
    prepend: 0,
    append: 0,
};

/// The headers of such packets.
fn trial_head() -> frame::Head {
    let any = std::net::SocketAddr::from(([198, 18, 0, 1], 9));
    let options = Options {
        local: any,
        ttl: 1,
        tos: 0,
        mark: 0,
        priority: 0,
        device: 0,
        unicast_device: 0,
        user: 0,
        dont_fragment: true,
        special: false,
    };
    frame::Head::new([2; 6], any.ip(), any.ip(), &options)
}

/// Most clones in one go. A clone to a software device (veth, loopback) waits in a queue of the CPU
/// until the program is done; what exceeds that queue is dropped (5,000 clones in one go lost 80 %
/// with the default of 1,000). Half of it is left to others.
fn block_max() -> usize {
    let path = "/proc/sys/net/core/netdev_max_backlog";
    let backlog = fs::read_to_string(path)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(BACKLOG_DEFAULT);
    (backlog / 2).clamp(1, RECORDS_MAX)
}

/// Sends to the tap itself, where nobody reads, to learn what a clone costs.
impl Cloner {
    pub(crate) fn calibrate(
        &mut self,
        groups: [usize; 2],
        rounds: usize,
        payload_bytes: usize,
    ) -> crate::calibrate::Cost {
        let payload = vec![0; payload_bytes];
        let head = trial_head();
        let ifindex = self.tap.as_ref().map_or(0, Tap::ifindex);
        let costs = crate::calibrate::measure(groups, rounds, 1, |_, group| {
            let shape = TRIAL_SHAPE;
            let packet = Packet {
                target: [2; 6],
                port: 9,
                body_bytes: payload.len(),
                id: 0,
            };
            for at in 0..group {
                let record_at = RECORDS_AT + at * stride(shape);
                let headers = head.finish(&packet);
                self.arena.write_u32(record_at, ifindex);
                self.arena
                    .write(record_at + RECORD_HEAD_AT, &headers[..HEADERS_V4]);
            }
            self.arena.write_u32(control::COUNT, group as u32);
            self.arena.write_u32(control::STRIDE, stride(shape) as u32);
            self.arena
                .write_u32(control::HEAD_BYTES, shape.head() as u32);
            self.arena.write_u32(control::APPEND_BYTES, 0);
            let headers = head.finish(&packet);
            let written = self.write_packet(&[0; VNET_BYTES], &[&headers[..HEADERS_V4], &payload]);
            // What is measured is what it costs; a call finds out that the device is lost.
            drop(written);
        });
        costs[0]
    }
}
