//! Requests for packets of one block that come together: whether parities serve those who ask better
//! than the packets do (R-NAK-15).
//!
//! ```text
//!  first two who ask ──► the packets, at once
//!  the third ──► waits ──┬─ parities of another cacher come ──► what they leave missing
//!  and the others        └─ time is over ──► parities to all, or the packets
//! ```
//!
//! A member that lacks n packets of a block needs n parities, whichever packets they are. A parity comes
//! to all, so as many are sent as three members need. The few that need more get packets besides.

use core::time::Duration;

use qsm_wire::{MemberIndex, Parity, StreamId, ViewNumber};

use crate::Instant;

/// Blocks of a region that are remembered at once; requests for packets of others are answered.
const BLOCKS_MAX: usize = 64;
/// Members that wait for a block, at most; others are answered.
const ASKERS_MAX: usize = 64;
/// Members that are answered at once, whatever they ask for.
const ANSWERED_AT_ONCE: usize = 2;
/// Members that wait, from which on parities are sent: each comes to all members.
const WAITING_MIN: usize = 3;

/// A packet that a member asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRequest {
    /// Its stream.
    pub(crate) stream: StreamId,
    /// The first packet of its block.
    pub(crate) first: u64,
    /// Its place in the block.
    pub(crate) index: u8,
    /// The view that the asker is a member of.
    pub(crate) view: ViewNumber,
    /// The member that asks.
    pub(crate) asker: MemberIndex,
}

/// Fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockAnswer {
    /// The packet is sent at once.
    Packet,
    /// The request waits for others.
    Wait,
    /// Parities that are on their way serve it.
    Served,
}

/// A member and what it has asked for, as bits.
#[derive(Debug, Clone, Copy)]
struct Asker {
    member: MemberIndex,
    asked: u32,
    waiting: u32,
}

#[derive(Debug)]
struct Block {
    stream: StreamId,
    first: u64,
    view: ViewNumber,
    /// When the first request of it came, or parities.
    since: Instant,
    /// When those that wait are answered; [`Instant::NEVER`]: nobody waits.
    due: Instant,
    /// Parities that have been sent, or have come from another cacher, as bits.
    rows: u32,
    askers: Vec<Asker>,
}

/// Members that have waited together for packets of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collected {
    /// The stream.
    pub(crate) stream: StreamId,
    /// The first packet of the block.
    pub(crate) first: u64,
    /// The view that they are members of.
    pub(crate) view: ViewNumber,
    /// Parities that they have got, as bits.
    pub(crate) rows: u32,
    /// Parities that are sent to them; 0: packets serve them better.
    pub(crate) parities: u32,
    /// Packets that each member needs if no parities are sent, as bits.
    pub(crate) packets: Vec<NeededPackets>,
}

impl Collected {
    /// Packets that each member needs although the parities are sent, as bits.
    pub(crate) fn beside_parities(&self) -> impl Iterator<Item = NeededPackets> {
        let needed = self.packets.iter();
        needed.map(|needed| NeededPackets {
            member: needed.member,
            packets: first_bits(needed.packets, needed.count().saturating_sub(self.parities)),
        })
    }
}

/// Packets that a member needs of a block, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeededPackets {
    pub(crate) member: MemberIndex,
    pub(crate) packets: u32,
}

impl NeededPackets {
    fn count(&self) -> u32 {
        self.packets.count_ones()
    }
}

/// Requests for packets of blocks, block by block.
#[derive(Debug)]
pub(crate) struct BlockRequests {
    blocks: Vec<Block>,
    due: Instant,
}

impl Default for BlockRequests {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            due: Instant::NEVER,
        }
    }
}

impl BlockRequests {
    /// When [`BlockRequests::take_due`] has something.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Takes a request; `wait`: how long it may wait for others. `whole`: says whether all of the
    /// block is kept here. What has been asked for within a `round_trip` counts.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        round_trip: Duration,
        request: &BlockRequest,
        wait: Duration,
        whole: impl FnOnce() -> bool,
    ) -> BlockAnswer {
        let Some(block) = self.block(now, round_trip, request) else {
            return BlockAnswer::Packet;
        };
        let answer = block.note(request, now.after(wait), whole);
        let due = block.due;
        self.due = self.due.min(due);
        answer
    }

    /// A parity has come from another cacher. Members that have asked here have got it too.
    pub(crate) fn heard(
        &mut self,
        now: Instant,
        round_trip: Duration,
        view: ViewNumber,
        parity: &Parity<'_>,
    ) {
        self.forget_old(now, round_trip);
        let (stream, first) = (parity.stream, parity.first);
        let known = self.position(stream, first);
        let at = known.or_else(|| self.open(now, stream, first, view));
        if let Some(block) = at.map(|at| &mut self.blocks[at]) {
            block.note_row(now, parity.row);
        }
    }

    /// This node sends a parity of a block.
    pub(crate) fn sent(&mut self, now: Instant, stream: StreamId, first: u64, row: u8) {
        if let Some(at) = self.position(stream, first) {
            self.blocks[at].note_row(now, row);
        }
    }

    /// Members that have waited long enough.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Collected> {
        let due = |block: &&mut Block| block.due <= now;
        let collected = self.blocks.iter_mut().find(due).map(Block::collected);
        self.due = self
            .blocks
            .iter()
            .map(|block| block.due)
            .min()
            .unwrap_or(Instant::NEVER);
        collected
    }

    /// The block of a request, which is remembered from now on if there is room.
    fn block(
        &mut self,
        now: Instant,
        round_trip: Duration,
        request: &BlockRequest,
    ) -> Option<&mut Block> {
        self.forget_old(now, round_trip);
        let known = self.position(request.stream, request.first);
        let at = known.or_else(|| self.open(now, request.stream, request.first, request.view))?;
        self.blocks.get_mut(at)
    }

    /// Forgets blocks for which nobody waits and that are so old that they have been served, or are asked for again.
    fn forget_old(&mut self, now: Instant, round_trip: Duration) {
        self.blocks.retain(|block| {
            let waits = block.due != Instant::NEVER;
            waits || now.since(block.since) < round_trip
        });
    }

    fn position(&self, stream: StreamId, first: u64) -> Option<usize> {
        let mut blocks = self.blocks.iter();
        blocks.position(|block| block.first == first && block.stream == stream)
    }

    fn open(
        &mut self,
        now: Instant,
        stream: StreamId,
        first: u64,
        view: ViewNumber,
    ) -> Option<usize> {
        if self.blocks.len() >= BLOCKS_MAX {
            return None;
        }
        self.blocks.push(Block {
            stream,
            first,
            view,
            since: now,
            due: Instant::NEVER,
            rows: 0,
            askers: Vec::new(),
        });
        Some(self.blocks.len() - 1)
    }
}

impl Block {
    /// Takes a request, which may wait until `due`.
    fn note(
        &mut self,
        request: &BlockRequest,
        due: Instant,
        whole: impl FnOnce() -> bool,
    ) -> BlockAnswer {
        let Some(at) = self.place(request).filter(|_| self.view == request.view) else {
            return BlockAnswer::Packet;
        };
        let bit = 1 << request.index;
        self.askers[at].asked |= bit;
        if self.due != Instant::NEVER {
            self.askers[at].waiting |= bit;
            return BlockAnswer::Wait;
        }
        if self.askers[at].asked.count_ones() <= self.rows.count_ones() {
            return BlockAnswer::Served;
        }
        let distinct = self.askers.iter().fold(0, |all, one| all | one.asked);
        let several = self.askers.len() > ANSWERED_AT_ONCE && distinct.count_ones() > 1;
        if self.rows != 0 || !several || !whole() {
            return BlockAnswer::Packet;
        }
        self.askers[at].waiting |= bit;
        self.due = due;
        BlockAnswer::Wait
    }

    /// Place of the asker in the list, if there is room for it.
    fn place(&mut self, request: &BlockRequest) -> Option<usize> {
        let member = request.asker;
        let known = self.askers.iter().position(|one| one.member == member);
        if known.is_none() && self.askers.len() < ASKERS_MAX {
            self.askers.push(Asker {
                member,
                asked: 0,
                waiting: 0,
            });
            return Some(self.askers.len() - 1);
        }
        known
    }

    fn note_row(&mut self, now: Instant, row: u8) {
        self.rows |= 1 << row;
        self.since = now;
    }

    /// Those that have waited do so no more.
    fn collected(&mut self) -> Collected {
        self.due = Instant::NEVER;
        let got = self.rows.count_ones();
        let mut packets = Vec::new();
        for asker in &mut self.askers {
            let waiting = core::mem::take(&mut asker.waiting);
            let needs = asker.asked.count_ones().saturating_sub(got);
            let needs = needs.min(waiting.count_ones());
            if needs > 0 {
                packets.push(NeededPackets {
                    member: asker.member,
                    packets: first_bits(waiting, needs),
                });
            }
        }
        Collected {
            stream: self.stream,
            first: self.first,
            view: self.view,
            rows: self.rows,
            parities: parities_worth(&packets),
            packets,
        }
    }
}

/// As many parities as [`WAITING_MIN`] members need, if that is fewer than the packets which they save; else 0.
fn parities_worth(needed: &[NeededPackets]) -> u32 {
    let mut needs: Vec<u32> = needed.iter().map(NeededPackets::count).collect();
    needs.sort_unstable_by(|one, other| other.cmp(one));
    let parities = needs.get(WAITING_MIN - 1).copied().unwrap_or(0);
    let asked = needed.iter().fold(0, |all, one| all | one.packets);
    match asked.count_ones() > parities {
        true => parities,
        false => 0,
    }
}

/// The lowest of these bits, so many.
fn first_bits(mut bits: u32, count: u32) -> u32 {
    while bits.count_ones() > count {
        bits &= !(1 << (31 - bits.leading_zeros()));
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(4);
    const WAIT: Duration = Duration::from_millis(2);

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn ask(requests: &mut BlockRequests, now: Instant, asker: u16, index: u8) -> BlockAnswer {
        let request = BlockRequest {
            stream: StreamId::default(),
            first: 16,
            index,
            view: ViewNumber(3),
            asker: MemberIndex(asker),
        };
        requests.note(now, RTT, &request, WAIT, || true)
    }

    fn parity(row: u8) -> Parity<'static> {
        Parity {
            stream: StreamId::default(),
            first: 16,
            count: 16,
            row,
            sum: &[0; 6],
        }
    }

    fn needed(member: u16, packets: u32) -> NeededPackets {
        NeededPackets {
            member: MemberIndex(member),
            packets,
        }
    }

    // Rule R-NAK-15.
    #[test]
    fn two_members_are_answered_at_once_and_the_third_waits_for_others() {
        let mut requests = BlockRequests::default();
        assert_eq!(ask(&mut requests, at(1), 1, 3), BlockAnswer::Packet);
        assert_eq!(ask(&mut requests, at(1), 2, 4), BlockAnswer::Packet);
        assert_eq!(ask(&mut requests, at(1), 1, 5), BlockAnswer::Packet);
        assert_eq!(ask(&mut requests, at(1), 3, 5), BlockAnswer::Wait);
        assert_eq!(ask(&mut requests, at(2), 3, 6), BlockAnswer::Wait);
        assert_eq!(ask(&mut requests, at(2), 4, 3), BlockAnswer::Wait);
        assert_eq!(ask(&mut requests, at(2), 5, 3), BlockAnswer::Wait);
        assert_eq!((requests.due(), requests.take_due(at(2))), (at(3), None));
        let collected = requests.take_due(at(3)).unwrap();
        assert_eq!(collected.parities, 1);
        assert_eq!(
            collected.packets,
            [needed(3, 0b110_0000), needed(4, 0b1000), needed(5, 0b1000)]
        );
        let beside: Vec<_> = collected.beside_parities().collect();
        assert_eq!(beside, [needed(3, 0b10_0000), needed(4, 0), needed(5, 0)]);
        assert_eq!(
            (requests.due(), requests.take_due(at(9))),
            (Instant::NEVER, None)
        );
    }

    // Rule R-NAK-15.
    #[test]
    fn a_second_parity_is_sent_where_three_members_need_it() {
        for needing_two in 0..6 {
            let mut requests = BlockRequests::default();
            for asker in 1..9 {
                ask(&mut requests, at(1), asker, asker as u8);
            }
            for asker in 3..3 + needing_two {
                ask(&mut requests, at(2), asker, 10);
            }
            let collected = requests.take_due(at(3)).unwrap();
            let parities = if needing_two < 3 { 1 } else { 2 };
            assert_eq!(collected.parities, parities, "{needing_two}");
            let beside = collected.beside_parities();
            let beside = beside.filter(|needed| needed.packets != 0).count();
            let alone = if needing_two < 3 { needing_two } else { 0 };
            assert_eq!(beside, usize::from(alone));
        }
    }

    // Rule R-NAK-15.
    #[test]
    fn the_same_packet_is_sent_to_all_who_miss_it() {
        let mut requests = BlockRequests::default();
        for asker in 0..9 {
            assert_eq!(ask(&mut requests, at(1), asker, 3), BlockAnswer::Packet);
        }
        assert_eq!(ask(&mut requests, at(1), 1, 4), BlockAnswer::Wait);
    }

    // Rule R-NAK-15.
    #[test]
    fn requests_that_come_one_after_the_other_do_not_wait() {
        let mut requests = BlockRequests::default();
        for asker in 0..9 {
            let now = at(u64::from(asker) * 4);
            assert_eq!(
                ask(&mut requests, now, asker, asker as u8),
                BlockAnswer::Packet
            );
        }
    }

    // Rule R-NAK-15.
    #[test]
    fn what_another_cacher_has_sent_serves_those_who_wait_here() {
        let mut requests = BlockRequests::default();
        (1..=4).for_each(|asker| {
            ask(&mut requests, at(1), asker, asker as u8);
        });
        ask(&mut requests, at(1), 4, 9);
        requests.heard(at(2), RTT, ViewNumber(3), &parity(2));
        let collected = requests.take_due(at(3)).unwrap();
        assert_eq!((collected.rows, collected.parities), (0b100, 0));
        assert_eq!(collected.packets, [needed(4, 0b1_0000)]);
        // Those who ask now have crossed it on the way.
        assert_eq!(ask(&mut requests, at(4), 7, 1), BlockAnswer::Served);
        assert_eq!(ask(&mut requests, at(4), 7, 2), BlockAnswer::Packet);
        // And who asks a round trip later has not got it.
        assert_eq!(ask(&mut requests, at(6), 7, 1), BlockAnswer::Packet);
    }

    // Rule R-NAK-15.
    #[test]
    fn parities_are_sent_only_where_they_are_fewer_than_the_packets() {
        let mut requests = BlockRequests::default();
        ask(&mut requests, at(1), 1, 1);
        ask(&mut requests, at(1), 2, 2);
        for asker in [3, 4, 5] {
            assert_eq!(ask(&mut requests, at(1), asker, 5), BlockAnswer::Wait);
        }
        let collected = requests.take_due(at(3)).unwrap();
        assert_eq!((collected.parities, collected.packets.len()), (0, 3));
        // Each of two members has its own.
        for (asker, index) in [(6, 6), (7, 7)] {
            assert_eq!(ask(&mut requests, at(4), asker, index), BlockAnswer::Wait);
        }
        let collected = requests.take_due(at(9)).unwrap();
        assert_eq!((collected.parities, collected.packets.len()), (0, 2));
    }

    #[test]
    fn remembers_so_many_blocks_and_members_and_no_more() {
        let mut requests = BlockRequests::default();
        let ask_of = |requests: &mut BlockRequests, first, asker| {
            let request = BlockRequest {
                stream: StreamId::default(),
                first,
                index: (asker % 7) as u8,
                view: ViewNumber(3),
                asker: MemberIndex(asker),
            };
            requests.note(at(1), RTT, &request, WAIT, || true)
        };
        for first in 1..1000 {
            ask_of(&mut requests, first * 16, 1);
        }
        assert_eq!(requests.blocks.len(), BLOCKS_MAX);
        for asker in 0..1000 {
            ask_of(&mut requests, 16, asker);
        }
        assert_eq!(requests.blocks[0].askers.len(), ASKERS_MAX);
        assert_eq!(ask_of(&mut requests, 16, 5000), BlockAnswer::Packet);
    }

    #[test]
    fn a_block_that_is_not_whole_here_is_served_packet_by_packet() {
        let mut requests = BlockRequests::default();
        for asker in 1..9 {
            let request = BlockRequest {
                stream: StreamId::default(),
                first: 16,
                index: asker,
                view: ViewNumber(3),
                asker: MemberIndex(asker.into()),
            };
            let answer = requests.note(at(1), RTT, &request, WAIT, || false);
            assert_eq!(answer, BlockAnswer::Packet);
        }
    }
}
