//! One direction of a link: what happens to each packet, as a function of its time and a seed. No
//! clocks and no sockets, so that it is the same each time.

use std::collections::VecDeque;
use std::time::Duration;

use crate::ecn;
use crate::shape::{LINK_HELD_MAX, LinkShape};

/// Bytes of an Ethernet header, which is not counted.
pub(crate) const HEADER_BYTES: usize = 14;
const MILLION: u64 = 1_000_000;
const BILLION: u128 = 1_000_000_000;

/// Counters of one direction of a link, since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets that have come out at the far end.
    pub passed_packets: u64,
    /// Their bytes, with the header of IP.
    pub passed_bytes: u64,
    /// Packets that the link has lost at random.
    pub lost_packets: u64,
    /// Packets dropped since the queue was full, or [`LINK_HELD_MAX`] were on their way.
    pub overflowed_packets: u64,
    /// Packets that were marked since the queue was long.
    pub marked_packets: u64,
}

/// A packet on its way, an Ethernet frame.
#[derive(Debug)]
struct Held {
    /// When it comes out.
    due: Duration,
    frame: Vec<u8>,
}

/// One direction. Times are counted from any fixed moment.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) shape: LinkShape,
    counters: LinkCounters,
    /// State of the random numbers.
    random: u64,
    /// When the packet before has left the queue.
    free: Duration,
    /// In the order in which they come out.
    held: VecDeque<Held>,
}

impl Lane {
    /// A direction whose random numbers begin with the shape's seed and this one.
    pub(crate) fn new(shape: LinkShape, direction: u64) -> Self {
        let mut lane = Self {
            shape,
            counters: LinkCounters::default(),
            random: shape.seed,
            free: Duration::ZERO,
            held: VecDeque::new(),
        };
        lane.random = lane.draw().wrapping_add(direction);
        lane
    }

    pub(crate) fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// Takes a frame in. What settles neighbours' addresses is never lost at random.
    pub(crate) fn put(&mut self, now: Duration, frame: &[u8]) {
        let mut late = Duration::ZERO;
        if !is_of_neighbours(frame) {
            if self.draw() % MILLION < u64::from(self.shape.loss_ppm) {
                self.counters.lost_packets += 1;
                return;
            }
            let jitter = u64::try_from(self.shape.jitter.as_nanos()).unwrap_or(u64::MAX);
            late = Duration::from_nanos(self.draw() % jitter.saturating_add(1));
        }
        let bytes = packet_bytes(frame);
        let start = self.free.max(now);
        let waiting = self.waiting(start - now);
        if self.held.len() >= LINK_HELD_MAX || waiting + bytes > self.shape.queue {
            self.counters.overflowed_packets += 1;
            return;
        }
        let mut frame = frame.to_vec();
        if waiting > self.shape.mark {
            self.counters.marked_packets += u64::from(ecn::mark(&mut frame));
        }
        self.free = start + self.transmission(bytes);
        let before = self.held.back().map_or(Duration::ZERO, |held| held.due);
        self.held.push_back(Held {
            due: (self.free + self.shape.delay + late).max(before),
            frame,
        });
    }

    /// When the next frame comes out.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.held.front().map(|held| held.due)
    }

    /// A frame that has come out.
    pub(crate) fn take(&mut self, now: Duration) -> Option<Vec<u8>> {
        if self.next_due()? > now {
            return None;
        }
        let held = self.held.pop_front()?;
        self.counters.passed_packets += 1;
        self.counters.passed_bytes += packet_bytes(&held.frame);
        Some(held.frame)
    }

    /// Bytes in the queue, by the time that they take.
    fn waiting(&self, time: Duration) -> u64 {
        let rate = self.shape.rate.unwrap_or(0);
        let bytes = (time.as_nanos() * u128::from(rate)).div_ceil(BILLION);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    fn transmission(&self, bytes: u64) -> Duration {
        match self.shape.rate {
            Some(rate) => Duration::from_nanos(bytes.saturating_mul(BILLION as u64) / rate.max(1)),
            None => Duration::ZERO,
        }
    }

    /// `SplitMix64` (Steele, Lea and Flood 2014).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn packet_bytes(frame: &[u8]) -> u64 {
    frame.len().saturating_sub(HEADER_BYTES) as u64
}

/// Tells whether a link carries the frame at all: everything to one host, and to a group only what
/// settles neighbours' addresses.
pub(crate) fn is_carried(frame: &[u8]) -> bool {
    let to_group = frame.first().is_some_and(|byte| byte & 1 == 1);
    frame.len() > HEADER_BYTES && (!to_group || is_of_neighbours(frame))
}

/// ARP, or neighbour discovery of IPv6.
fn is_of_neighbours(frame: &[u8]) -> bool {
    /// Of IPv6's header, where its next header is named; and behind it the type of ICMPv6.
    const NEXT: usize = HEADER_BYTES + 6;
    const KIND: usize = HEADER_BYTES + 40;
    match frame.get(12..HEADER_BYTES) {
        Some([0x08, 0x06]) => true,
        // Solicitations and advertisements of ICMPv6 (RFC 4861).
        Some([0x86, 0xdd]) => {
            frame.get(NEXT) == Some(&58) && matches!(frame.get(KIND), Some(135 | 136))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A frame with so many bytes of IPv4, to one host.
    fn frame(bytes: usize) -> Vec<u8> {
        let mut frame = vec![0; HEADER_BYTES + bytes];
        frame[12] = 0x08;
        frame
    }

    /// When each of so many packets of 1,000 bytes comes out, that go in at once.
    fn passage(shape: LinkShape, packets: u32) -> (Vec<Duration>, LinkCounters) {
        let mut lane = Lane::new(shape, 0);
        (0..packets).for_each(|_| lane.put(MS, &frame(1000)));
        let mut out = Vec::new();
        while let Some(due) = lane.next_due() {
            assert!(lane.take(due - Duration::from_nanos(1)).is_none());
            assert!(lane.take(due).is_some());
            out.push(due);
        }
        (out, lane.counters())
    }

    #[test]
    fn a_rate_spaces_packets_and_a_queue_bounds_them() {
        let shape = LinkShape {
            delay: 50 * MS,
            rate: Some(1_000_000),
            queue: 3000,
            ..LinkShape::default()
        };
        let (out, counters) = passage(shape, 10);
        assert_eq!(out, [52 * MS, 53 * MS, 54 * MS]);
        assert_eq!((counters.passed_packets, counters.passed_bytes), (3, 3000));
        assert_eq!((counters.lost_packets, counters.overflowed_packets), (0, 7));
    }

    #[test]
    fn behind_a_long_queue_what_can_be_marked_is() {
        let shape = LinkShape {
            rate: Some(1_000_000),
            queue: 6000,
            mark: 2000,
            ..LinkShape::default()
        };
        let mut lane = Lane::new(shape, 0);
        let mut capable = frame(1000);
        (capable[14], capable[15]) = (0x45, 2);
        (0..3).for_each(|_| lane.put(MS, &capable));
        lane.put(MS, &frame(1000));
        (0..4).for_each(|_| lane.put(MS, &capable));
        let bits: Vec<u8> = lane.held.iter().map(|held| held.frame[15]).collect();
        assert_eq!(bits, [2, 2, 2, 0, 3, 3]);
        let counters = lane.counters();
        assert_eq!(
            (counters.marked_packets, counters.overflowed_packets),
            (2, 2)
        );
    }

    #[test]
    fn losses_and_jitter_are_those_of_the_seed() {
        let of = |seed| {
            let shape = LinkShape {
                delay: 20 * MS,
                jitter: 5 * MS,
                loss_ppm: 100_000,
                seed,
                ..LinkShape::default()
            };
            passage(shape, 2000)
        };
        let (out, counters) = of(7);
        assert_eq!((out.clone(), counters), of(7));
        assert_ne!((out.clone(), counters), of(8));
        assert_eq!(counters.passed_packets + counters.lost_packets, 2000);
        assert!((150..250).contains(&counters.lost_packets), "{counters:?}");
        assert!(out.is_sorted(), "nothing overtakes");
        assert!(out[0] >= 21 * MS && out[out.len() - 1] <= 26 * MS);
    }

    #[test]
    fn what_is_on_its_way_is_bounded_without_a_rate() {
        let shape = LinkShape {
            delay: MS,
            ..LinkShape::default()
        };
        let more = u32::try_from(LINK_HELD_MAX).unwrap() + 5;
        let (out, counters) = passage(shape, more);
        assert_eq!(out.len(), LINK_HELD_MAX);
        assert_eq!(counters.overflowed_packets, 5);
    }

    #[test]
    fn of_what_goes_to_groups_neighbour_discovery_alone_is_carried_and_never_lost() {
        let shape = LinkShape {
            loss_ppm: 1_000_000,
            ..LinkShape::default()
        };
        let mut lane = Lane::new(shape, 0);
        let mut arp = frame(28);
        arp[0] = 0xff;
        arp[13] = 0x06;
        let mut solicitation = frame(72);
        (solicitation[12], solicitation[13]) = (0x86, 0xdd);
        solicitation[0] = 0x33;
        (solicitation[20], solicitation[54]) = (58, 135);
        for neighbours in [&arp, &solicitation] {
            assert!(is_carried(neighbours));
            lane.put(MS, neighbours);
        }
        let mut multicast = frame(100);
        multicast[0] = 1;
        assert!(!is_carried(&multicast));
        assert!(!is_carried(&[]));
        assert!(is_carried(&frame(100)));
        lane.put(MS, &frame(100));
        assert_eq!(lane.held.len(), 2);
        assert_eq!(lane.counters().lost_packets, 1);
    }
}
