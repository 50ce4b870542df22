//! A child's side of parity: what it keeps of its parent's packets to restore others by, and what it tells of losses.

use core::time::Duration;
use std::collections::VecDeque;

use qsm_parity::{Restorer, subtract_row};
use qsm_wire::Instant;

use crate::packet::{Missing, SessionId};
use crate::parity::{BLOCK_MAX, HEAD_BYTES, Parity};
use crate::shard::Shard;

/// Packets that are kept, the newest ones: of the blocks that parities may still be for.
const RECENT_MAX: usize = 64;
/// Bytes that they take at most.
const RECENT_BYTES_MAX: usize = 256 * 1024;
/// Parities that wait for more.
const HELD_MAX: usize = 8;
/// Numbers behind the newest parity's for which another one is expected.
const EXPECTED: u64 = 3 * BLOCK_MAX;
/// Time without parities after which nothing is kept.
const IDLE: Duration = Duration::from_secs(2);
/// Share by which the time that is waited for a parity falls with each.
const WEIGHT: u32 = 8;

/// A Data packet that has come, as it was sent.
#[derive(Debug)]
struct Recent {
    sequence: u64,
    at: Instant,
    bytes: Box<[u8]>,
}

/// A parity that was not enough yet.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    first: u64,
    covered: u16,
    row: u8,
    sum: Vec<u8>,
}

impl Held {
    fn parity(&self) -> Parity<'_> {
        Parity {
            first: self.first,
            covered: self.covered,
            row: self.row,
            sum: &self.sum,
        }
    }
}

/// Outcome of a parity, or of a packet that one had waited for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Restored {
    /// Data packets, checked, as they were sent; none that were here.
    pub(crate) packets: Vec<Vec<u8>>,
    /// Parities that have restored nothing, and are put away.
    pub(crate) unused: u64,
    /// Parities that contradict each other, or the packets that have come.
    pub(crate) malformed: u64,
}

/// Shelf of a child: packets and parities of its parent. Rules R-RELAY-74, R-RELAY-75.
#[derive(Debug)]
pub(crate) struct ParityShelf {
    session: SessionId,
    recent: VecDeque<Recent>,
    recent_bytes: usize,
    held: VecDeque<Held>,
    /// Newest number in a parity; 0: none has come lately.
    covered: u64,
    heard: Instant,
    /// Time from a block's first packet to its parity.
    wait: Duration,
    /// Packets that have not come as Data, of which the parent has not been told.
    missed: Option<Missing>,
}

impl ParityShelf {
    pub(crate) fn new(session: SessionId) -> Self {
        Self {
            session,
            recent: VecDeque::new(),
            recent_bytes: 0,
            held: VecDeque::new(),
            covered: 0,
            heard: Instant(0),
            wait: Duration::ZERO,
            missed: None,
        }
    }

    /// Takes a Data packet that was not here, as it was sent; one may have been waited for. Keeps it if parities have
    /// been coming. `lacks`: whether a packet of this number is missing.
    #[inline]
    pub(crate) fn data(
        &mut self,
        now: Instant,
        sequence: u64,
        bytes: &[u8],
        lacks: impl Fn(u64) -> bool,
    ) -> Restored {
        if self.covered == 0 {
            return Restored::default();
        }
        self.keep(now, sequence, bytes);
        let of_block = |held: &Held| held.parity().numbers().any(|number| number == sequence);
        let waits = self.held.iter().find(|held| of_block(held));
        match waits.map(|held| held.first) {
            Some(first) => self.restore(first, lacks),
            None => Restored::default(),
        }
    }

    /// Takes a parity. Rule R-RELAY-74.
    pub(crate) fn parity(
        &mut self,
        now: Instant,
        parity: &Parity<'_>,
        lacks: impl Fn(u64) -> bool,
    ) -> Restored {
        self.heard = now;
        self.covered = parity.numbers().fold(self.covered, u64::max);
        let block = self.recent.iter().filter(|it| covers(parity, it.sequence));
        if let Some(began) = block.map(|it| it.at).min() {
            self.wait = now.since(began).max(self.wait * (WEIGHT - 1) / WEIGHT);
        }
        let mut outcome = Restored::default();
        if !parity.numbers().any(&lacks) {
            outcome.unused = 1 + self.put_away(parity.first);
            return outcome;
        }
        let held = Held {
            first: parity.first,
            covered: parity.covered,
            row: parity.row,
            sum: parity.sum.to_vec(),
        };
        if self.held.contains(&held) {
            return outcome;
        }
        if self.held.len() >= HELD_MAX {
            self.held.pop_front();
            outcome.unused = 1;
        }
        self.held.push_back(held);
        let restored = self.restore(parity.first, lacks);
        outcome.unused += restored.unused;
        Restored {
            unused: outcome.unused,
            ..restored
        }
    }

    /// Longest wait for a missing packet before it is asked for: none if no parity can be expected
    /// for it. Rule R-RELAY-75.
    pub(crate) fn patience(&self, sequence: u64) -> Option<Duration> {
        let expected = self.covered > 0 && sequence > self.covered;
        let soon = expected && sequence <= self.covered.saturating_add(EXPECTED);
        soon.then_some(self.wait + self.wait / 4)
    }

    /// Takes note of a packet that has not come as Data. Returns those that the parent is to be told of at once, since
    /// there is no room for more. Rule R-RELAY-70.
    pub(crate) fn missed(&mut self, sequence: u64) -> Option<Missing> {
        let missed = self.missed.as_mut();
        if missed.is_some_and(|missed| missed.push(sequence)) {
            return None;
        }
        self.missed.replace(Missing::one(sequence))
    }

    /// A packet that was here has come as Data: it was not lost, but overtaken by what has brought it.
    pub(crate) fn came(&mut self, sequence: u64) {
        let Some(missed) = &self.missed else {
            return;
        };
        let mut others = missed.iter().filter(|number| *number != sequence);
        self.missed = others.next().map(|first| {
            let mut left = Missing::one(first);
            others.for_each(|number| {
                left.push(number);
            });
            left
        });
    }

    /// The packets that the parent is to be told of.
    pub(crate) fn take_missed(&mut self) -> Option<Missing> {
        self.missed.take()
    }

    /// Keeps nothing any more, if no parity has come for a while.
    pub(crate) fn rest(&mut self, now: Instant) {
        if self.covered > 0 && now >= self.heard.after(IDLE) {
            let missed = self.missed.take();
            *self = Self {
                missed,
                ..Self::new(self.session)
            };
        }
    }

    pub(crate) fn allocated_bytes(&self) -> usize {
        let held: usize = self.held.iter().map(|held| held.sum.capacity()).sum();
        let lists =
            self.recent.capacity() * size_of::<Recent>() + self.held.capacity() * size_of::<Held>();
        size_of::<Self>() + lists + held + self.recent_bytes
    }

    fn keep(&mut self, now: Instant, sequence: u64, bytes: &[u8]) {
        self.recent_bytes += bytes.len();
        self.recent.push_back(Recent {
            sequence,
            at: now,
            bytes: bytes.into(),
        });
        while self.recent.len() > RECENT_MAX || self.recent_bytes > RECENT_BYTES_MAX {
            let oldest = self.recent.pop_front();
            self.recent_bytes -= oldest.map_or(0, |it| it.bytes.len());
        }
    }

    /// Puts away the parities of a block, and returns how many there were.
    fn put_away(&mut self, first: u64) -> u64 {
        let before = self.held.len();
        self.held.retain(|held| held.first != first);
        (before - self.held.len()) as u64
    }

    /// Restores what is missing of a block, if its parities are enough.
    fn restore(&mut self, first: u64, lacks: impl Fn(u64) -> bool) -> Restored {
        let held = self.held.iter().filter(|held| held.first == first);
        let rows: Vec<Parity<'_>> = held.map(Held::parity).collect();
        let Some(one) = rows.first() else {
            return Restored::default();
        };
        let here = |number: &u64| self.recent.iter().any(|it| it.sequence == *number);
        let unknown: Vec<u64> = one.numbers().filter(|number| !here(number)).collect();
        if unknown.len() > rows.len() {
            return Restored::default();
        }
        let solved = self.solve(&rows[..unknown.len()], &unknown);
        let count = self.put_away(first);
        let Some(packets) = solved else {
            return Restored {
                malformed: count,
                ..Restored::default()
            };
        };
        let packets = unknown.iter().zip(packets);
        let packets = packets.filter(|(number, _)| lacks(**number));
        let packets: Vec<Vec<u8>> = packets.map(|(_, packet)| packet).collect();
        Restored {
            unused: count - packets.len() as u64,
            packets,
            malformed: 0,
        }
    }

    /// The unknown packets of a block, out of as many parities and those that have come; `None` if they do not fit.
    fn solve(&self, rows: &[Parity<'_>], unknown: &[u64]) -> Option<Vec<Vec<u8>>> {
        let Some(one) = rows.first() else {
            return Some(Vec::new());
        };
        let alike = |row: &Parity<'_>| (row.covered, row.sum.len()) == (one.covered, one.sum.len());
        if !rows.iter().all(alike) {
            return None;
        }
        let index = |number: u64| usize::try_from(number - one.first).unwrap_or(usize::MAX);
        let mut sums: Vec<Vec<u8>> = rows.iter().map(|row| row.sum.to_vec()).collect();
        for packet in self.recent.iter().filter(|it| covers(one, it.sequence)) {
            let shard = Shard::of(&packet.bytes)?;
            for (row, sum) in rows.iter().zip(&mut sums) {
                let (head, payload) = sum.split_at_mut_checked(HEAD_BYTES)?;
                if payload.len() < shard.payload.len() {
                    return None;
                }
                let (row, index) = (usize::from(row.row), index(packet.sequence));
                subtract_row(row, index, &shard.head, head);
                subtract_row(row, index, shard.payload, payload);
            }
        }
        let numbers: Vec<usize> = rows.iter().map(|row| row.row.into()).collect();
        let lost: Vec<usize> = unknown.iter().map(|number| index(*number)).collect();
        let restorer = Restorer::new(&numbers, &lost)?;
        let restore = |(at, number): (usize, &u64)| {
            let mut shard = vec![0; one.sum.len()];
            restorer.restore(at, sums.iter().map(Vec::as_slice), &mut shard);
            Shard::packet(self.session, *number, &shard)
        };
        unknown.iter().enumerate().map(restore).collect()
    }
}

fn covers(parity: &Parity<'_>, sequence: u64) -> bool {
    let index = sequence.checked_sub(parity.first);
    index.is_some_and(|index| index < BLOCK_MAX && parity.covered >> index & 1 == 1)
}

#[cfg(test)]
mod tests {
    use qsm_parity::add_row;

    use super::*;
    use crate::packet::{Body, Data, Packet};

    const SESSION: SessionId = SessionId {
        source: 7,
        group: 0xefc0_0001,
    };

    fn packet(sequence: u64) -> Vec<u8> {
        let payload = vec![sequence as u8; (sequence * 37 % 200) as usize];
        let data = Data {
            sequence,
            released: sequence / 2,
            payload: &payload,
        };
        let (session, body) = (SESSION, Body::Data(data));
        let mut bytes = Vec::new();
        Packet { session, body }.encode(&mut bytes);
        bytes
    }

    fn at(sequence: u64) -> Instant {
        Instant(sequence * 1_000_000)
    }

    /// Sum over the packets 33 to 48 but 40, which the parent lacked.
    fn sum(row: u8) -> Vec<u8> {
        let mut sum = vec![0; HEAD_BYTES + 200];
        let (head, payload) = sum.split_at_mut(HEAD_BYTES);
        for sequence in (33..=48).filter(|it| *it != 40) {
            let bytes = packet(sequence);
            let shard = Shard::of(&bytes).unwrap();
            let index = (sequence - 33) as usize;
            add_row(row.into(), index, &shard.head, head);
            add_row(row.into(), index, shard.payload, payload);
        }
        sum
    }

    fn parity(row: u8, sum: &[u8]) -> Parity<'_> {
        Parity {
            first: 33,
            covered: !(1 << 7),
            row,
            sum,
        }
    }

    /// A shelf that has heard a parity before, and all packets of the block but these and 40.
    fn shelf(lost: &[u64]) -> ParityShelf {
        let mut shelf = ParityShelf::new(SESSION);
        let before = Parity {
            first: 17,
            covered: 1,
            ..parity(0, &[0; HEAD_BYTES])
        };
        shelf.parity(at(17), &before, |_| false);
        for sequence in (18..=48).filter(|it| *it != 40 && !lost.contains(it)) {
            let outcome = shelf.data(at(sequence), sequence, &packet(sequence), |_| true);
            assert_eq!(outcome, Restored::default());
        }
        shelf
    }

    fn restored(numbers: &[u64]) -> Restored {
        Restored {
            packets: numbers.iter().map(|it| packet(*it)).collect(),
            ..Restored::default()
        }
    }

    /// R-RELAY-74.
    #[test]
    fn as_many_parities_as_packets_are_lost_bring_them_back() {
        for lost in [&[33][..], &[48], &[40, 44], &[33, 47], &[34, 35]] {
            let mut shelf = shelf(lost);
            let lacks = |number| lost.contains(&number);
            let needed: Vec<u64> = lost.iter().copied().filter(|it| *it != 40).collect();
            let (one, two) = (sum(0), sum(1));
            let mut outcome = shelf.parity(at(49), &parity(1, &two), lacks);
            if needed.len() == 2 {
                assert_eq!(outcome, Restored::default(), "{lost:?}");
                let again = shelf.parity(at(49), &parity(1, &two), lacks);
                assert_eq!(again, Restored::default(), "the same again");
                outcome = shelf.parity(at(49), &parity(0, &one), lacks);
            }
            assert_eq!(outcome, restored(&needed), "{lost:?}");
            assert!(shelf.held.is_empty());
        }
    }

    /// R-RELAY-74: a packet that was overtaken by the parity.
    #[test]
    fn a_late_packet_makes_a_parity_enough() {
        let mut shelf = shelf(&[34, 35]);
        let lacks = |number| number == 34 || number == 35;
        let outcome = shelf.parity(at(49), &parity(0, &sum(0)), lacks);
        assert_eq!(outcome, Restored::default());
        let outcome = shelf.data(at(50), 35, &packet(35), |number| number == 34);
        assert_eq!(outcome, restored(&[34]));
    }

    /// R-RELAY-74: what was repaired meanwhile is not kept, so that it takes a parity, and is not restored again.
    #[test]
    fn what_has_come_as_a_repair_is_not_restored() {
        let mut shelf = shelf(&[34, 35]);
        let sums = [sum(0), sum(1)];
        let outcome = shelf.parity(at(49), &parity(0, &sums[0]), |number| number == 34);
        assert_eq!(outcome, Restored::default());
        let outcome = shelf.parity(at(49), &parity(1, &sums[1]), |number| number == 34);
        let unused = 1;
        let alone = restored(&[34]);
        assert_eq!(outcome, Restored { unused, ..alone });
    }

    /// R-RELAY-74.
    #[test]
    fn a_parity_of_what_is_here_is_put_away() {
        let mut shelf = shelf(&[34, 35]);
        let unused = |unused| Restored {
            unused,
            ..Restored::default()
        };
        let sums = [sum(0), sum(1)];
        let outcome = shelf.parity(at(49), &parity(0, &sums[0]), |number| number == 34);
        assert_eq!(outcome, Restored::default(), "the repair of 35 is not kept");
        let outcome = shelf.parity(at(49), &parity(1, &sums[1]), |_| false);
        assert_eq!(outcome, unused(2));
        for first in 0..20 {
            let foreign = Parity {
                first: 1000 + first,
                ..parity(0, &sums[0])
            };
            let pushed_out = u64::from(first >= HELD_MAX as u64);
            let outcome = shelf.parity(at(60), &foreign, |_| true);
            assert_eq!(
                outcome,
                unused(pushed_out),
                "of a block of which nothing is here"
            );
        }
    }

    /// R-RELAY-74, R-RELAY-1.
    #[test]
    fn a_parity_that_is_wrong_restores_nothing() {
        let whole = sum(0);
        let lacks = |number| number == 34;
        let malformed = |malformed| Restored {
            malformed,
            ..Restored::default()
        };
        for at_byte in 0..HEAD_BYTES {
            let mut changed = whole.clone();
            changed[at_byte] ^= 1;
            let outcome = shelf(&[34]).parity(at(49), &parity(0, &changed), lacks);
            assert_eq!(outcome, malformed(1), "byte {at_byte}");
        }
        let short = &whole[..HEAD_BYTES + 30];
        let outcome = shelf(&[34]).parity(at(49), &parity(0, short), lacks);
        assert_eq!(outcome, malformed(1), "shorter than others");
        let mut shelf = shelf(&[34, 35]);
        let lacks = |number| number == 34 || number == 35;
        shelf.parity(at(49), &parity(0, &whole), lacks);
        let outcome = shelf.parity(at(49), &parity(1, &[0; 300]), lacks);
        assert_eq!(outcome, malformed(2), "of different lengths");
    }

    /// R-RELAY-75.
    #[test]
    fn a_packet_is_waited_for_as_long_as_its_parity_may_come() {
        let mut shelf = ParityShelf::new(SESSION);
        assert_eq!(shelf.patience(50), None);
        shelf = self::shelf(&[]);
        shelf.parity(at(50), &parity(0, &sum(0)), |_| false);
        let wait = Duration::from_millis(17);
        assert_eq!(shelf.patience(48), None, "it has come");
        assert_eq!(shelf.patience(49), Some(wait + wait / 4));
        assert_eq!(shelf.patience(48 + EXPECTED), Some(wait + wait / 4));
        assert_eq!(
            shelf.patience(49 + EXPECTED),
            None,
            "none has come for long"
        );
    }

    /// R-RELAY-74.
    #[test]
    fn packets_are_kept_while_parities_come_and_no_more_than_the_limits_say() {
        let mut shelf = ParityShelf::new(SESSION);
        shelf.data(at(1), 1, &packet(1), |_| true);
        assert!(shelf.recent.is_empty());
        shelf = self::shelf(&[]);
        for sequence in 49..200 {
            shelf.data(at(sequence), sequence, &packet(sequence), |_| true);
        }
        assert_eq!(shelf.recent.len(), RECENT_MAX);
        for sequence in 200..230 {
            shelf.data(at(sequence), sequence, &[0; 16_384], |_| true);
        }
        assert!(shelf.recent_bytes <= RECENT_BYTES_MAX);
        assert!(shelf.allocated_bytes() > RECENT_BYTES_MAX / 2);
        shelf.rest(at(2016));
        assert!(!shelf.recent.is_empty());
        shelf.rest(at(2017));
        assert!(shelf.recent.is_empty() && shelf.allocated_bytes() < 500);
    }

    /// R-RELAY-70.
    #[test]
    fn losses_are_told_when_there_is_no_room_for_more() {
        let mut shelf = ParityShelf::new(SESSION);
        assert!((1..=8).all(|at| shelf.missed(at * 2).is_none()));
        let told = shelf.missed(18).expect("eight ranges");
        assert_eq!(told.iter().count(), 8);
        let told = shelf.missed(5).expect("not behind the last one");
        assert_eq!(told.iter().collect::<Vec<_>>(), [18]);
        assert_eq!(shelf.take_missed(), Some(Missing::one(5)));
        assert_eq!(shelf.take_missed(), None);
    }

    /// R-RELAY-70.
    #[test]
    fn what_was_only_overtaken_is_not_told() {
        let mut shelf = ParityShelf::new(SESSION);
        for sequence in [4, 5, 9] {
            shelf.missed(sequence);
        }
        shelf.came(5);
        shelf.came(6);
        let told = shelf.take_missed().expect("two");
        assert_eq!(told.iter().collect::<Vec<_>>(), [4, 9]);
        shelf.missed(11);
        shelf.came(11);
        assert_eq!(shelf.take_missed(), None);
    }
}
