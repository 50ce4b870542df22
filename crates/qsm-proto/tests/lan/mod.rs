//! One publisher and the members of a region on a link without delay or loss, all in one thread.
//!
//! The link stands in for the runtime, not for a network: it is not built on `qsm-testnet`, whose
//! queue allocates for every datagram and would be counted here.
//!
//! The link does for a node what the runtime does: trains lie in counted buffers that are used
//! again when nobody holds them, a long train is lent, a timer that is due is run. In steady state
//! it allocates nothing, so that what is counted here is the protocol's. What a node does for a
//! message is called by way of functions that are never inlined, so that a profiler can tell the
//! steps apart.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use qsm_proto::{Datagram, Deliver, Delivery, Destination, Endpoint, Instant, Stats, Transmit};
use qsm_wire::{GroupId, Kind};

use crate::cluster::{Cluster, address};

/// The publisher's place among the nodes.
pub(crate) const PUBLISHER: usize = 0;
/// Messages published before the link is looked at again.
const BURST: u64 = 64;
/// Messages published to one group before it is the next one's turn, if there are enough for all.
const BATCH: u64 = 16;
/// Time on a link of 1 Gbit/s for a byte.
const NANOSECONDS_PER_BYTE: u64 = 8;
/// What a train's buffer holds, as at the sockets.
const BUFFER_BYTES: usize = 1 << 16;

/// What was delivered to all members together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Delivered {
    pub(crate) messages: u64,
    /// Those that lay in the buffer that had just been received into.
    pub(crate) borrowed: u64,
    /// Those that had been left where they arrived, in a train's buffer, until it was their turn.
    pub(crate) left: u64,
}

/// A train on its way.
#[derive(Debug, Clone, Copy)]
struct Train {
    to: Destination,
    from: SocketAddr,
    bytes: usize,
    segment_bytes: usize,
}

pub(crate) struct Lan {
    pub(crate) now: Instant,
    nodes: Vec<(SocketAddr, Endpoint)>,
    groups: u32,
    /// The one whose turn it is.
    group: u32,
    /// Buffers for trains; the one at `current` holds the train on its way.
    buffers: Vec<Arc<[u8]>>,
    current: usize,
    /// One multicast packet in so many is lost; 0: none.
    pub(crate) lose_one_in: u64,
    multicast: u64,
    pub(crate) delivered: Delivered,
    /// Something that grows while the protocol works; how much of it grew on the way of data.
    pub(crate) meter: fn() -> u64,
    pub(crate) metered: u64,
}

impl Lan {
    /// A publisher that is no member, and so many members, all of the same groups.
    pub(crate) fn new(members: u64, groups: u32) -> Self {
        let cluster = Cluster::with_groups(groups, members, &[members + 1], |_| {});
        // The publisher has the highest number.
        let nodes = cluster.nodes.into_iter().rev();
        Self {
            now: cluster.now,
            nodes: nodes
                .map(|(node, endpoint)| (address(node), endpoint))
                .collect(),
            groups,
            group: 0,
            buffers: Vec::new(),
            current: 0,
            lose_one_in: 0,
            multicast: 0,
            delivered: Delivered::default(),
            meter: || 0,
            metered: 0,
        }
    }

    /// Publishes so many messages, to all groups in turn, as fast as 1 Gbit/s and the windows let
    /// it, and lets them arrive.
    pub(crate) fn run(&mut self, messages: u64, payload: &[u8]) {
        let mut left = messages;
        let batch = (messages / u64::from(self.groups)).clamp(1, BATCH);
        while left > 0 {
            let taken = self.publish(left.min(BURST), batch, payload);
            left -= taken;
            let bytes = taken.max(1) * payload.len() as u64;
            self.now = Instant(self.now.0 + bytes * NANOSECONDS_PER_BYTE);
            self.carry();
            self.run_timers();
        }
        self.settle();
    }

    /// Lets time pass until everything is stable.
    pub(crate) fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.nodes[PUBLISHER].1.is_stable() {
                return;
            }
            self.now = self.now.after(Duration::from_micros(100));
            self.run_timers();
        }
        panic!("not stable: {:#?}", self.stats(PUBLISHER));
    }

    /// The publisher and the first member.
    pub(crate) fn into_nodes(self) -> [Endpoint; 2] {
        let mut nodes = self.nodes.into_iter().map(|(_, node)| node);
        core::array::from_fn(|_| nodes.next().unwrap())
    }

    pub(crate) fn stats(&self, node: usize) -> Stats {
        self.nodes[node].1.stats()
    }

    /// A counter, summed over the members.
    pub(crate) fn members(&self, count: impl Fn(&Stats) -> u64) -> u64 {
        let members = &self.nodes[PUBLISHER + 1..];
        members.iter().map(|(_, node)| count(&node.stats())).sum()
    }

    /// Publishes so many messages, or as many as the window takes; says how many.
    fn publish(&mut self, messages: u64, batch: u64, payload: &[u8]) -> u64 {
        let mut left = messages;
        while left > 0 {
            let group = GroupId(self.group);
            self.group = (self.group + 1) % self.groups;
            let batch = left.min(batch);
            let before = (self.meter)();
            let publisher = &mut self.nodes[PUBLISHER].1;
            let taken = step_publish(publisher, self.now, (group, payload), batch);
            self.metered += (self.meter)() - before;
            left -= taken;
            if taken < batch {
                break;
            }
        }
        messages - left
    }

    fn run_timers(&mut self) {
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at].1;
            if node.next_timeout().is_some_and(|due| due <= self.now) {
                node.handle_timeout(self.now, &mut ignore);
            }
            while node.poll_event().is_some() {}
        }
        self.carry();
    }

    /// Carries datagrams until nobody has any.
    fn carry(&mut self) {
        loop {
            let mut quiet = true;
            for at in 0..self.nodes.len() {
                while let Some(train) = self.transmit(at) {
                    quiet = false;
                    self.arrive(train);
                }
            }
            if quiet {
                return;
            }
        }
    }

    /// Takes a node's next train off it.
    fn transmit(&mut self, at: usize) -> Option<Train> {
        self.current = free_buffer(&mut self.buffers);
        let (from, node) = &mut self.nodes[at];
        let before = (self.meter)();
        let next = if at == PUBLISHER {
            step_transmit(node, self.now)
        } else {
            node.poll_transmit(self.now)
        }?;
        self.metered += (self.meter)() - before;
        let buffer = Arc::get_mut(&mut self.buffers[self.current]).unwrap();
        buffer[..next.bytes.len()].copy_from_slice(next.bytes);
        Some(Train {
            to: next.to,
            from: *from,
            bytes: next.bytes.len(),
            segment_bytes: next.segment_bytes,
        })
    }

    fn arrive(&mut self, train: Train) {
        let buffer = Arc::clone(&self.buffers[self.current]);
        let multicast = train.to.is_group();
        for at in 0..self.nodes.len() {
            let own = self.nodes[at].0;
            let reached = if multicast {
                at != PUBLISHER
            } else {
                own == train.to.address()
            };
            if !reached || own == train.from {
                continue;
            }
            let mut start = 0;
            while start < train.bytes {
                let end = (start + train.segment_bytes).min(train.bytes);
                let lent = train.bytes > train.segment_bytes && train.bytes >= BUFFER_BYTES / 2;
                if !(multicast && self.loses()) {
                    self.pass_on((at, train.from), &buffer, start..end, lent);
                }
                start = end;
            }
        }
    }

    fn loses(&mut self) -> bool {
        self.multicast += 1;
        self.lose_one_in > 0 && self.multicast.is_multiple_of(self.lose_one_in)
    }

    fn pass_on(
        &mut self,
        (at, from): (usize, SocketAddr),
        buffer: &Arc<[u8]>,
        range: Range<usize>,
        lent: bool,
    ) {
        let bytes = &buffer[range.clone()];
        let kind = Kind::peek(bytes);
        let datagram = if lent {
            Datagram::lent(buffer, range)
        } else {
            bytes.into()
        };
        let node = &mut self.nodes[at].1;
        if kind == Some(Kind::Data) {
            let mut count = Count {
                delivered: &mut self.delivered,
                place: bytes.as_ptr_range(),
                buffers: &self.buffers,
            };
            let before = (self.meter)();
            step_data(node, self.now, (from, datagram), &mut count);
            self.metered += (self.meter)() - before;
        } else if kind == Some(Kind::Token) {
            step_token(node, self.now, (from, datagram));
        } else {
            node.handle_datagram(self.now, from, datagram, &mut ignore);
        }
    }
}

/// Counts what is delivered out of the datagram that is being received.
struct Count<'a> {
    delivered: &'a mut Delivered,
    place: Range<*const u8>,
    buffers: &'a [Arc<[u8]>],
}

impl Count<'_> {
    #[cold]
    fn was_left(&self, bytes: &Range<*const u8>) -> bool {
        let mut buffers = self.buffers.iter().map(|buffer| buffer.as_ptr_range());
        buffers.any(|place| place.start <= bytes.start && bytes.end <= place.end)
    }
}

impl Deliver for Count<'_> {
    fn deliver(&mut self, message: Delivery<'_>) {
        let bytes = message.bytes.as_ptr_range();
        let inside = self.place.start <= bytes.start && bytes.end <= self.place.end;
        self.delivered.messages += 1;
        self.delivered.borrowed += u64::from(inside);
        if !inside {
            self.delivered.left += u64::from(self.was_left(&bytes));
        }
    }
}

fn ignore(_: Delivery<'_>) {}

// What a profiler counts, by these names.

#[inline(never)]
fn step_publish(
    publisher: &mut Endpoint,
    now: Instant,
    (group, payload): (GroupId, &[u8]),
    messages: u64,
) -> u64 {
    let Ok(mut publication) = publisher.publication(now, group) else {
        return 0;
    };
    let taken = (0..messages).take_while(|_| publication.push(payload, &mut ignore).is_ok());
    taken.count() as u64
}

#[inline(never)]
fn step_transmit(publisher: &mut Endpoint, now: Instant) -> Option<Transmit<'_>> {
    publisher.poll_transmit(now)
}

#[inline(never)]
fn step_data(
    member: &mut Endpoint,
    now: Instant,
    (from, datagram): (SocketAddr, Datagram<'_>),
    count: &mut Count<'_>,
) {
    member.handle_datagram(now, from, datagram, count);
}

#[inline(never)]
fn step_token(member: &mut Endpoint, now: Instant, (from, datagram): (SocketAddr, Datagram<'_>)) {
    member.handle_datagram(now, from, datagram, &mut ignore);
}

/// A buffer that nobody holds.
fn free_buffer(buffers: &mut Vec<Arc<[u8]>>) -> usize {
    let free = buffers
        .iter()
        .position(|buffer| Arc::strong_count(buffer) == 1);
    free.unwrap_or_else(|| {
        buffers.push(Arc::from(vec![0; BUFFER_BYTES]));
        buffers.len() - 1
    })
}
