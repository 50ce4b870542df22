//! Who waits for packets that have not come this far yet.
//!
//! Of two cachers the one that reads faster finds a gap first, and asks the other for packets that
//! this one has still to read, or that are still on their way to it. Such a request must not be
//! lost: its retry would come long after the packet (R-NAK-11).

use qsm_wire::MemberIndex;

use super::Waiters;

/// A packet that others wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AwaitedPacket {
    pub(super) sequence: u64,
    /// Bit r: the cacher of rank r is known to miss it.
    pub(super) known_missing: u32,
    pub(super) waiters: Waiters,
}

/// Packets above the highest one seen, ascending.
#[derive(Debug, Default)]
pub(super) struct EarlyPackets {
    awaited: Vec<AwaitedPacket>,
}

impl EarlyPackets {
    /// Most packets remembered; requests for more are not, and come again as retries.
    pub(super) const MAX: usize = 256;

    /// These members wait for this packet.
    pub(super) fn add(&mut self, sequence: u64, known_missing: u32, waiters: &[MemberIndex]) {
        let at = self.awaited.partition_point(|one| one.sequence < sequence);
        let known = self
            .awaited
            .get(at)
            .is_some_and(|one| one.sequence == sequence);
        if !known {
            if self.awaited.len() >= Self::MAX {
                return;
            }
            let waiters = Waiters::default();
            self.awaited.insert(
                at,
                AwaitedPacket {
                    sequence,
                    known_missing: 0,
                    waiters,
                },
            );
        }
        let one = &mut self.awaited[at];
        one.known_missing |= known_missing;
        waiters.iter().for_each(|waiter| one.waiters.add(*waiter));
    }

    /// Forgets who misses them: they may have got them since.
    pub(super) fn forget_missing(&mut self) {
        let awaited = self.awaited.iter_mut();
        awaited.for_each(|one| one.known_missing = 0);
    }

    /// Forgets and returns those up to this packet.
    pub(super) fn take_upto(&mut self, sequence: u64) -> impl Iterator<Item = AwaitedPacket> + '_ {
        let count = self.awaited.partition_point(|one| one.sequence <= sequence);
        self.awaited.drain(..count)
    }

    /// Forgets and returns who waits for this packet, which is the first to come above all others.
    pub(super) fn take(&mut self, sequence: u64) -> Waiters {
        let none = self
            .awaited
            .first()
            .is_none_or(|one| one.sequence > sequence);
        if none {
            return Waiters::default();
        }
        let last = self.take_upto(sequence).last();
        last.filter(|one| one.sequence == sequence)
            .map_or_else(Waiters::default, |one| one.waiters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(one: &AwaitedPacket) -> Vec<u16> {
        one.waiters
            .members()
            .iter()
            .map(|member| member.0)
            .collect()
    }

    // Rule R-NAK-11.
    #[test]
    fn requests_for_one_packet_add_up_until_it_comes() {
        let mut early = EarlyPackets::default();
        early.add(9, 0b10, &[MemberIndex(1)]);
        early.add(7, 0, &[MemberIndex(3)]);
        early.add(9, 0b01, &[MemberIndex(2), MemberIndex(1)]);
        assert!(early.take(6).is_empty());
        let passed: Vec<AwaitedPacket> = early.take_upto(8).collect();
        assert_eq!((passed[0].sequence, members(&passed[0])), (7, vec![3]));
        let [nine] = early.take_upto(9).collect::<Vec<AwaitedPacket>>()[..] else {
            panic!("one packet is awaited");
        };
        assert_eq!((nine.known_missing, members(&nine)), (0b11, vec![1, 2]));
        assert!(early.take(u64::MAX).is_empty());
    }

    #[test]
    fn no_more_are_remembered_than_there_are_places() {
        let mut early = EarlyPackets::default();
        for sequence in (0..2 * EarlyPackets::MAX as u64).rev() {
            early.add(sequence, 0, &[MemberIndex(1)]);
        }
        assert_eq!(early.take_upto(u64::MAX).count(), EarlyPackets::MAX);
    }
}
