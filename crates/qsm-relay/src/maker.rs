//! Parity that a parent sends ahead of requests to children whose own hop loses packets.
//!
//! ```text
//!   Lost ──► Hop: loss, quiet ──► rows ──┐
//!   Data ──────────────► Block: sums ────┴──► Parity, to the children that need this row
//! ```
//!
//! A packet of which no parity is wanted costs a comparison. While one is, a block takes two sums, each as long as its
//! longest packet; all children share it, and get as many of its rows as their hops need.

use core::time::Duration;
use std::collections::VecDeque;

use qsm_parity::add_row;
use qsm_wire::{Instant, nanoseconds};

use crate::links::Links;
use crate::packet::{Body, Limit, Missing, Packet, SessionId, WINDOW_MAX};
use crate::parity::{BLOCK_MAX, HEAD_BYTES, Parity};
use crate::shard::{PARITY_HEADER_BYTES, Shard};
use crate::track::TrackList;

/// Rows of a block at most: enough for all losses that are not heavy.
const ROWS_MAX: usize = 2;
/// Longest packet that is covered, with its header: what sums of one session take at most is twice this.
const COVERED_MAX: usize = 16_384;
/// Shortest round trip of a hop with parity: on a shorter one a repair is soon there.
const TRIP_MIN: Duration = Duration::from_millis(10);
/// Part of the shortest such round trip after which a block is closed that is not full.
const TRIP_PARTS: u32 = 4;
/// Packets of a sample.
const SAMPLE: u64 = 128;
/// Share of a sample in the smoothed loss: one in so many.
const WEIGHT: u64 = 8;
/// Loss below which there is no parity, packets of a million.
const LOSS_MIN_PPM: u64 = 1000;
/// A block may be beyond restoring in one case of so many: so one row is for 1 % of loss, since a second one takes more
/// of a full link than it spares.
const FAILING: u64 = 50;
/// Bytes of parity in a million of data at most.
const SHARE_MAX_PPM: u64 = 250_000;
/// Growth of that in ten round trips of the hop, from nothing: a source goes by the highest rate of the last ten
/// that came through, and has to follow where the link is full.
const SHARE_GROWTH_PPM: u64 = 20_000;
const GROWTH_TRIPS: u64 = 10;
/// Packets after heavy losses of which there is no parity.
const CALM: u64 = 2048;
/// Time after which a child has told of what it has got, at least.
const TOLD: Duration = Duration::from_secs(2);
const MILLION: u64 = 1_000_000;

/// A packet that a parent has made, and the children that get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copies {
    pub(crate) children: Links,
    pub(crate) bytes: Vec<u8>,
}

/// Hop to a child that has lost something on it.
#[derive(Debug)]
struct Hop {
    place: usize,
    trip: Duration,
    /// Packets that had been passed on when the sample began.
    began: u64,
    /// Packets of the sample that were lost.
    lost: u64,
    loss_ppm: u64,
    /// Until so many have been passed on there is no parity.
    quiet_until: u64,
    /// When it began to need parity, if it does.
    needs_since: Option<Instant>,
    /// Bytes that parities may take now.
    budget: u64,
}

impl Hop {
    fn new(place: usize, passed: u64) -> Self {
        Self {
            place,
            trip: Duration::ZERO,
            began: passed,
            lost: 0,
            loss_ppm: 0,
            quiet_until: 0,
            needs_since: None,
            budget: 0,
        }
    }

    /// Ends the sample, and what has been earned where nothing is needed any more.
    fn look(&mut self, passed: u64) {
        self.measure(passed);
        if self.rows(passed, BLOCK_MAX) == 0 {
            (self.needs_since, self.budget) = (None, 0);
        }
    }

    /// Earns what parities may take beside so many bytes of data, and saves up no more than `most`. Rule R-RELAY-72.
    fn earn(&mut self, now: Instant, passed: u64, bytes: u64, most: u64) {
        if self.rows(passed, BLOCK_MAX) == 0 {
            return;
        }
        let needs = now.since(*self.needs_since.get_or_insert(now));
        let growth = nanoseconds(needs).saturating_mul(SHARE_GROWTH_PPM);
        let share = growth / (nanoseconds(self.trip) * GROWTH_TRIPS).max(1);
        let earned = bytes * share.min(SHARE_MAX_PPM) / MILLION;
        self.budget = (self.budget + earned).min(most);
    }

    /// Ends the sample, if it has enough packets. Heavy losses are congestion, not a property of the link: they are
    /// not smoothed in, and end the parity for a while. Rule R-RELAY-73.
    fn measure(&mut self, passed: u64) {
        let packets = passed - self.began;
        if packets < SAMPLE {
            return;
        }
        let lost = self.lost.min(packets);
        let short = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let sample = Limit {
            packets: short(packets),
            lost: short(lost),
            ..Limit::default()
        };
        if sample.is_overloaded() {
            self.quiet_until = passed + CALM;
        } else {
            let ppm = lost * MILLION / packets;
            self.loss_ppm = (self.loss_ppm * (WEIGHT - 1) + ppm) / WEIGHT;
        }
        (self.began, self.lost) = (passed, 0);
    }

    /// Rows by which a block of so many packets can be restored but for one case in fifty: with one row two are lost of
    /// `packets` + 1 no oftener than that, with two three of 18 at 2 %. Rule R-RELAY-72.
    fn rows(&self, passed: u64, packets: u64) -> usize {
        if passed < self.quiet_until || self.loss_ppm < LOSS_MIN_PPM {
            return 0;
        }
        let pairs = packets * (packets + 1) / 2;
        let failing = pairs * self.loss_ppm * self.loss_ppm;
        if failing * FAILING <= MILLION * MILLION {
            1
        } else {
            ROWS_MAX
        }
    }

    fn is_of_interest(&self, passed: u64) -> bool {
        self.lost > 0 || self.loss_ppm >= LOSS_MIN_PPM / 2 || passed < self.quiet_until
    }
}

/// Block of packets that is open.
#[derive(Debug)]
struct Block {
    first: u64,
    covered: u16,
    until: Instant,
    sums: Vec<Vec<u8>>,
}

impl Block {
    /// Adds a packet; false if it is not of this block, or in it already.
    fn add(&mut self, sequence: u64, shard: &Shard<'_>) -> bool {
        let index = sequence.checked_sub(self.first);
        let Some(index) = index.filter(|index| *index < BLOCK_MAX) else {
            return false;
        };
        if self.covered >> index & 1 == 1 {
            return false;
        }
        self.covered |= 1 << index;
        let index = usize::try_from(index).unwrap_or(0);
        for (row, sum) in self.sums.iter_mut().enumerate() {
            let end = HEAD_BYTES + shard.payload.len();
            if sum.len() < end {
                sum.resize(end, 0);
            }
            let (head, payload) = sum.split_at_mut(HEAD_BYTES);
            add_row(row, index, &shard.head, head);
            add_row(row, index, shard.payload, payload);
        }
        true
    }

    fn is_full(&self) -> bool {
        self.covered >> (BLOCK_MAX - 1) & 1 == 1
    }
}

/// Maker of parities for the children of a session. Rules R-RELAY-70 to R-RELAY-73.
#[derive(Debug)]
pub(crate) struct ParityMaker {
    session: SessionId,
    hops: Vec<Hop>,
    /// Packets passed on since it was made.
    passed: u64,
    /// Which these are: what was missing here goes on as a Repair, and no hop below has lost it.
    sent: Option<TrackList>,
    /// Up to here that is not known any more.
    floor: u64,
    /// Up to here that is not of interest any more from then on.
    told: (u64, Instant),
    block: Option<Block>,
    made: VecDeque<Copies>,
}

impl ParityMaker {
    pub(crate) fn new(session: SessionId) -> Self {
        Self {
            session,
            hops: Vec::new(),
            passed: 0,
            sent: None,
            floor: 0,
            told: (0, Instant(0)),
            block: None,
            made: VecDeque::new(),
        }
    }

    /// Takes note of a Data packet that goes to all children, as it travels.
    #[inline]
    pub(crate) fn pass(&mut self, now: Instant, sequence: u64, packet: &[u8]) {
        self.passed += 1;
        let sent = self.sent.get_or_insert_with(|| {
            self.floor = sequence - 1;
            TrackList::behind(self.floor)
        });
        if !sent.reaches(sequence) {
            self.floor = sequence.saturating_sub(WINDOW_MAX / 2);
            sent.release(self.floor);
        }
        sent.record(sequence);
        if !self.hops.is_empty() {
            self.cover(now, sequence, packet);
        }
    }

    /// Everybody has everything up to here, and will soon have told how.
    pub(crate) fn release(&mut self, now: Instant, upto: u64) {
        let (told, at) = self.told;
        if now < at {
            return;
        }
        self.told = (upto, now.after(TOLD));
        if let Some(sent) = &mut self.sent {
            sent.release(told);
            self.floor = self.floor.max(told);
        }
    }

    /// Forgets in time what [`Self::release`] was told of last.
    pub(crate) fn rest(&mut self, now: Instant) {
        self.release(now, self.told.0);
    }

    /// Takes a child's word on packets that have not come to it as Data; its round trip is this one, microseconds.
    /// Those count alone that were sent to it. Rule R-RELAY-70.
    pub(crate) fn lost(&mut self, place: usize, missing: &Missing, trip_us: u32) {
        let Some(track) = &self.sent else {
            return;
        };
        let sent = |number: &u64| *number > self.floor && !track.lacks(*number);
        let lost = missing.iter().filter(sent).count() as u64;
        let trip = Duration::from_micros(u64::from(trip_us));
        if trip < TRIP_MIN {
            self.forget(place);
        } else if lost > 0 {
            let passed = self.passed;
            let at = self.hops.iter().position(|hop| hop.place == place);
            let at = at.unwrap_or_else(|| {
                self.hops.push(Hop::new(place, passed));
                self.hops.len() - 1
            });
            let hop = &mut self.hops[at];
            hop.trip = trip;
            hop.lost += lost;
            hop.measure(passed);
        }
    }

    /// A child tells of heavy losses, on its hop or above: there is no parity for it for a while. Rule R-RELAY-73.
    pub(crate) fn quiet(&mut self, place: usize) {
        if let Some(hop) = self.hops.iter_mut().find(|hop| hop.place == place) {
            hop.quiet_until = self.passed + CALM;
        }
    }

    /// A child is gone, and its place may become another's.
    pub(crate) fn forget(&mut self, place: usize) {
        self.hops.retain(|hop| hop.place != place);
        for copies in &mut self.made {
            copies.children.remove(place);
        }
    }

    /// When the open block is to be closed.
    pub(crate) fn due(&self) -> Instant {
        self.block.as_ref().map_or(Instant::NEVER, |it| it.until)
    }

    /// Closes the open block, if its time is over.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if now >= self.due() {
            self.close();
        }
    }

    /// Tells whether parities wait to be sent.
    pub(crate) fn has_made(&self) -> bool {
        !self.made.is_empty()
    }

    /// The next parity, and who gets it.
    pub(crate) fn pop(&mut self) -> Option<Copies> {
        self.made.pop_front()
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        let sums = self.block.iter().flat_map(|block| &block.sums);
        let sums: usize = sums.map(Vec::capacity).sum();
        let made: usize = self.made.iter().map(|it| it.bytes.capacity()).sum();
        let sent = self.sent.as_ref().map_or(0, TrackList::allocated_bytes);
        size_of::<Self>() + self.hops.capacity() * size_of::<Hop>() + sent + sums + made
    }

    fn cover(&mut self, now: Instant, sequence: u64, packet: &[u8]) {
        let over =
            |block: &Block| now >= block.until || sequence >= block.first.saturating_add(BLOCK_MAX);
        if self.block.as_ref().is_some_and(over) {
            self.close();
        }
        let shard = Shard::of(packet).filter(|_| packet.len() <= COVERED_MAX);
        let Some(shard) = shard else {
            return;
        };
        if self.block.is_none() {
            self.block = self.open(now, sequence);
        }
        let Some(block) = &mut self.block else {
            return;
        };
        if !block.add(sequence, &shard) {
            return;
        }
        let longest = block.sums.iter().map(|sum| cost(sum)).max().unwrap_or(0);
        let most = longest * ROWS_MAX as u64;
        for hop in &mut self.hops {
            hop.earn(now, self.passed, packet.len() as u64, most);
        }
        if block.is_full() {
            self.close();
        }
    }

    /// A block that begins with this packet, if some child needs one.
    fn open(&mut self, now: Instant, sequence: u64) -> Option<Block> {
        let passed = self.passed;
        self.hops.iter_mut().for_each(|hop| hop.look(passed));
        self.hops.retain(|hop| hop.is_of_interest(passed));
        let hops = self.hops.iter();
        let needs = hops.map(|hop| (hop, hop.rows(self.passed, BLOCK_MAX)));
        let needs: Vec<(&Hop, usize)> = needs.filter(|(_, rows)| *rows > 0).collect();
        let rows = needs.iter().map(|(_, rows)| *rows).max()?;
        let trip = needs.iter().map(|(hop, _)| hop.trip).min()?;
        Some(Block {
            first: sequence,
            covered: 0,
            until: now.after(trip / TRIP_PARTS),
            sums: vec![vec![0; HEAD_BYTES]; rows],
        })
    }

    /// Makes the rows that children need, as far as their budgets go.
    fn close(&mut self) {
        let Some(block) = self.block.take() else {
            return;
        };
        let passed = self.passed;
        let packets = u64::from(block.covered.count_ones());
        for (row, sum) in block.sums.iter().enumerate() {
            let mut children = Links::default();
            let gets = |hop: &&mut Hop| hop.rows(passed, packets) > row && hop.budget >= cost(sum);
            for hop in self.hops.iter_mut().filter(gets) {
                hop.budget -= cost(sum);
                children.insert(hop.place);
            }
            if children.is_empty() {
                break;
            }
            let parity = Body::Parity(Parity {
                first: block.first,
                covered: block.covered,
                row: u8::try_from(row).unwrap_or(u8::MAX),
                sum,
            });
            let (session, body) = (self.session, parity);
            let mut bytes = Vec::new();
            Packet { session, body }.encode(&mut bytes);
            self.made.push_back(Copies { children, bytes });
        }
    }
}

/// Bytes of the packet with this sum.
fn cost(sum: &[u8]) -> u64 {
    (PARITY_HEADER_BYTES + sum.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Data;

    const SESSION: SessionId = SessionId {
        source: 7,
        group: 0xefc0_0001,
    };
    const TRIP_US: u32 = 40_000;

    fn packet(sequence: u64, payload: usize) -> Vec<u8> {
        let payload = vec![sequence as u8; payload];
        let data = Data {
            sequence,
            released: 0,
            payload: &payload,
        };
        let (session, body) = (SESSION, Body::Data(data));
        let mut bytes = Vec::new();
        Packet { session, body }.encode(&mut bytes);
        bytes
    }

    /// A parent that passes on packets, one each millisecond.
    struct Parent {
        maker: ParityMaker,
        sent: u64,
        data_bytes: u64,
        parities: Vec<Copies>,
    }

    impl Parent {
        fn new() -> Self {
            Self {
                maker: ParityMaker::new(SESSION),
                sent: 0,
                data_bytes: 0,
                parities: Vec::new(),
            }
        }

        fn pass(&mut self, packets: u64, payload: usize) {
            for _ in 0..packets {
                self.sent += 1;
                let bytes = packet(self.sent, payload);
                self.data_bytes += bytes.len() as u64;
                let now = Instant(self.sent * 1_000_000);
                self.maker.handle_timeout(now);
                self.maker.pass(now, self.sent, &bytes);
                self.parities
                    .extend(core::iter::from_fn(|| self.maker.pop()));
            }
        }

        /// Passes on packets, of which one in so many does not come to these children.
        fn lose(&mut self, packets: u64, one_in: u64, places: &[usize]) {
            for _ in 0..packets / one_in {
                self.pass(one_in, 100);
                for place in places {
                    self.maker
                        .lost(*place, &Missing::one(self.sent - 3), TRIP_US);
                }
            }
        }

        /// Bytes of parity that a child has got.
        fn parity_bytes(&self, place: usize) -> u64 {
            let to = |it: &&Copies| it.children.contains(place);
            let parities = self.parities.iter().filter(to);
            parities.map(|it| it.bytes.len() as u64).sum()
        }

        fn count(&self, place: usize) -> usize {
            let to = |it: &&Copies| it.children.contains(place);
            self.parities.iter().filter(to).count()
        }
    }

    /// R-RELAY-70.
    #[test]
    fn only_a_child_that_loses_packets_on_a_long_hop_gets_parity() {
        let mut parent = Parent::new();
        for _ in 0..30 {
            parent.pass(100, 100);
            let lost = Missing::one(parent.sent);
            parent.maker.lost(1, &lost, TRIP_US);
            parent.maker.lost(2, &lost, 9_999);
        }
        assert_eq!([0, 2].map(|place| parent.count(place)), [0, 0]);
        assert!(parent.count(1) > 100, "{}", parent.count(1));
        assert!(
            parent
                .parities
                .iter()
                .all(|it| it.children == Links::one(1))
        );
    }

    /// R-RELAY-70.
    #[test]
    fn what_was_lost_above_does_not_count() {
        let mut parent = Parent::new();
        for _ in 0..30 {
            parent.pass(50, 100);
            // It came late, and as a Repair.
            parent.sent += 1;
            parent.pass(49, 100);
            parent
                .maker
                .lost(1, &Missing::one(parent.sent - 49), TRIP_US);
            parent
                .maker
                .lost(1, &Missing::one(parent.sent + 9), TRIP_US);
        }
        assert_eq!((parent.parities.len(), parent.maker.hops.len()), (0, 0));
        let track = |parent: &Parent| parent.maker.allocated_bytes() - size_of::<ParityMaker>();
        assert!(track(&parent) > 0);
        for second in [10, 11, 12] {
            parent
                .maker
                .release(Instant(second * 1_000_000_000), parent.sent);
            assert_eq!(parent.maker.floor >= parent.sent, second == 12);
        }
        let word = Missing::one(parent.sent - 60);
        (0..1000).for_each(|_| parent.maker.lost(1, &word, TRIP_US));
        assert!(parent.maker.hops.is_empty(), "it is forgotten");
    }

    #[test]
    fn a_leap_beyond_any_window_takes_no_memory() {
        let mut maker = ParityMaker::new(SESSION);
        for sequence in [1, 3, u64::MAX / 2, u64::MAX - 1] {
            maker.pass(Instant(1), sequence, &packet(sequence, 10));
            maker.lost(1, &Missing::one(2), TRIP_US);
        }
        assert!(maker.hops.is_empty() && maker.allocated_bytes() < 10_000);
    }

    /// R-RELAY-72.
    #[test]
    fn rows_follow_from_the_loss_and_the_packets_of_a_block() {
        let rows = |loss_ppm: u64, packets: u64| {
            let hop = Hop {
                loss_ppm,
                ..Hop::new(0, 0)
            };
            hop.rows(0, packets)
        };
        assert_eq!([0, 999, 1000].map(|loss| rows(loss, 16)), [0, 0, 1]);
        assert_eq!(
            [12_000, 12_200, 20_000].map(|loss| rows(loss, 16)),
            [1, 2, 2]
        );
        assert_eq!([4, 12, 13].map(|packets| rows(15_000, packets)), [1, 1, 2]);
    }

    /// R-RELAY-72: packets of any length, as fast as they may come, and two children at a time.
    #[test]
    fn parity_takes_a_quarter_of_the_data_at_most() {
        for payloads in [[100; 4], [0; 4], [1000, 0, 0, 0], [10, 20, 30, 1400]] {
            let mut parent = Parent::new();
            let mut bytes = [0; 2];
            for round in 0..400 {
                for payload in payloads {
                    parent.pass(1, payload);
                }
                if round % 14 == 0 {
                    let lost = Missing::one(parent.sent - 1);
                    parent.maker.lost(1, &lost, TRIP_US);
                    parent.maker.lost(2, &lost, 12_000);
                }
                bytes[0] += parent.parity_bytes(1);
                bytes[1] += parent.parity_bytes(2);
                parent.parities.clear();
                let most = parent.data_bytes / 4;
                assert!(bytes.iter().all(|bytes| *bytes <= most), "{bytes:?}");
            }
            assert!(bytes.iter().all(|bytes| *bytes > 0), "{payloads:?}");
        }
    }

    /// R-RELAY-72: by two percent of the data in ten round trips, which are 400 ms here.
    #[test]
    fn parity_grows_from_nothing() {
        let mut parent = Parent::new();
        let mut shares = Vec::new();
        while parent.parities.is_empty() {
            parent.lose(100, 50, &[1]);
        }
        for _ in 0..12 {
            let data = parent.data_bytes;
            parent.parities.clear();
            parent.lose(400, 50, &[1]);
            let parity: usize = parent.parities.iter().map(|it| it.bytes.len()).sum();
            shares.push(parity as f64 / (parent.data_bytes - data) as f64);
        }
        let grown = |(at, share): (usize, &f64)| *share <= 0.02 * (at + 2) as f64;
        assert!(shares.iter().enumerate().all(grown), "{shares:?}");
        assert!(shares[11] > 0.12, "{shares:?}");
    }

    /// R-RELAY-72: the sums of one block are for all, and each child gets what it needs of them.
    #[test]
    fn children_share_the_sums_of_a_block() {
        let mut parent = Parent::new();
        for _ in 0..40 {
            parent.lose(100, 25, &[1]);
            parent.lose(100, 100, &[1, 2]);
        }
        parent.parities.clear();
        parent.lose(200, 200, &[1, 2]);
        let (one, two) = (parent.count(1), parent.count(2));
        assert!(two > 0 && one > two, "{one} {two}");
        assert!(parent.parities.len() < one + two, "copies of the same");
    }

    /// R-RELAY-73.
    #[test]
    fn heavy_losses_end_parity_for_a_while() {
        let mut parent = Parent::new();
        parent.lose(2000, 100, &[1]);
        assert!(parent.count(1) > 0);
        // Thirty packets of one queue.
        let mut burst = Missing::one(parent.sent - 29);
        (0..29).for_each(|at| assert!(burst.push(parent.sent - 28 + at)));
        parent.maker.lost(1, &burst, TRIP_US);
        parent.pass(SAMPLE, 100);
        parent.parities.clear();
        parent.pass(CALM - SAMPLE, 100);
        assert_eq!(parent.count(1), 0, "its loss is one percent as before");
        let data = parent.data_bytes;
        parent.lose(1200, 100, &[1]);
        let share = parent.parity_bytes(1) as f64 / (parent.data_bytes - data) as f64;
        assert!(share > 0.0 && share < 0.05, "{share}: it begins anew");
        parent.maker.quiet(1);
        parent.parities.clear();
        parent.lose(1500, 100, &[1]);
        assert_eq!(parent.count(1), 0, "it has said so");
    }

    /// R-RELAY-72: a quarter of the round trip after its first packet.
    #[test]
    fn a_block_that_is_not_full_is_closed_in_time() {
        let mut parent = Parent::new();
        parent.lose(5000, 100, &[1]);
        parent.maker.handle_timeout(parent.maker.due());
        parent.maker.pop();
        parent.pass(5, 100);
        let due = parent.maker.due();
        assert_eq!(due, Instant((parent.sent - 4 + 10) * 1_000_000));
        parent.maker.handle_timeout(Instant(due.0 - 1));
        assert!(parent.maker.pop().is_none());
        parent.maker.handle_timeout(due);
        let copies = parent.maker.pop().expect("a parity");
        let Ok(Packet {
            body: Body::Parity(parity),
            ..
        }) = Packet::decode(&copies.bytes)
        else {
            panic!("no parity")
        };
        let numbers: Vec<u64> = parity.numbers().collect();
        assert_eq!(numbers, (parent.sent - 4..=parent.sent).collect::<Vec<_>>());
        assert_eq!(parent.maker.due(), Instant::NEVER);
    }

    #[test]
    fn loss_that_ends_ends_parity_and_is_forgotten() {
        let mut parent = Parent::new();
        parent.lose(1000, 100, &[1]);
        parent.pass(4000, 100);
        parent.parities.clear();
        parent.pass(1000, 100);
        assert_eq!((parent.count(1), parent.maker.hops.len()), (0, 0));
        assert!(parent.maker.allocated_bytes() < 1000);
    }
}
