use core::time::Duration;

use crate::Instant;

/// How many packets this node has asked for and not got yet, at most (R-NAK-10).
///
/// A node that was away misses thousands of packets at once. Were all asked for together, its
/// cachers would answer together, and their repairs would not fit into its socket. What it can
/// take is learned as TCP does (RFC 5681): the window grows with the repairs, and is halved when
/// too many of them do not come in time. Some are lost like other packets, which is no reason to
/// ask for less; and a window that nobody wants to be larger does not grow (RFC 7661).
#[derive(Debug)]
pub struct Appetite {
    window: u64,
    /// Up to here the window grows by one with every repair, beyond with every window of them.
    threshold: u64,
    /// Repairs since the window grew last.
    repaired: u64,
    /// More has been wanted of late than the window has room for.
    wanted: bool,
    /// Of the last one or two windows, [`SAMPLE`] at least: packets that came, and packets that did
    /// not come in time.
    came: u64,
    late: u64,
    halved: Instant,
}

/// At first: how far away its cachers are the node does not know yet, and it would ask for all of
/// this several times before the first repair can be there.
const START: u64 = 32;
/// So many are always asked for: losses of single packets are no reason to hold back.
const LEAST: u64 = 64;
/// More than the credit of any receiver.
const MOST: u64 = 1 << 16;
/// One of so many that does not come in time is too many. A network that loses 10 % loses 19 % of
/// requests and repairs.
const LATE_ONE_IN: u64 = 4;
/// Of how many packets that is judged: one lost request is one of several repairs.
const SAMPLE: u64 = 256;

impl Appetite {
    /// How many of these packets may be asked for while so many are.
    #[must_use]
    pub fn portion(&mut self, asked: u64, packets: u64) -> u64 {
        let room = self.window.saturating_sub(asked);
        self.wanted |= room < packets;
        room.min(packets)
    }

    /// A packet that was asked for has come.
    pub fn repaired(&mut self) {
        self.repaired += 1;
        if self.wanted && (self.window < self.threshold || self.repaired >= self.window) {
            self.window = (self.window + 1).min(MOST);
            self.repaired = 0;
        }
        self.came += 1;
        if self.came >= self.window.max(SAMPLE) {
            self.came /= 2;
            self.late /= 2;
            self.wanted = false;
        }
    }

    /// So many packets that were asked for have not come in time; `age`: those asked for before are
    /// no news for so long.
    pub fn starved(&mut self, now: Instant, age: Duration, packets: u64) {
        self.late = self.late.saturating_add(packets);
        let few = self.late.saturating_mul(LATE_ONE_IN) < self.came + self.late;
        if few || now.since(self.halved) < age {
            return;
        }
        self.halved = now;
        self.threshold = (self.window / 2).max(LEAST);
        self.window = self.window.min(self.threshold);
        self.repaired = 0;
        self.came = 0;
        self.late = 0;
    }
}

impl Default for Appetite {
    fn default() -> Self {
        Self {
            window: START,
            threshold: MOST,
            repaired: 0,
            wanted: false,
            came: 0,
            late: 0,
            halved: Instant(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_millis(2);

    /// Room for anything.
    fn room(appetite: &mut Appetite) -> u64 {
        appetite.portion(0, u64::MAX)
    }

    /// One that has grown to this window.
    fn grown(window: u64) -> Appetite {
        let mut appetite = Appetite::default();
        while room(&mut appetite) < window {
            appetite.repaired();
        }
        appetite
    }

    // Rule R-NAK-10.
    #[test]
    fn grows_with_repairs_and_is_halved_once_when_they_do_not_come() {
        let mut appetite = grown(4 * LEAST);
        assert_eq!(appetite.portion(10, u64::MAX), 4 * LEAST - 10);
        assert_eq!(appetite.portion(10, 5), 5);
        appetite.starved(Instant(5_000_000), AGE, 4 * LEAST);
        appetite.starved(Instant(6_000_000), AGE, 4 * LEAST);
        assert_eq!(room(&mut appetite), 2 * LEAST);
        for _ in 0..2 * LEAST {
            let _ = room(&mut appetite);
            appetite.repaired();
        }
        assert_eq!(room(&mut appetite), 2 * LEAST + 1);
        (0..10).for_each(|at| appetite.starved(Instant(10_000_000 * (at + 1)), AGE, LEAST));
        assert_eq!(room(&mut appetite), LEAST);
        assert_eq!(appetite.portion(LEAST + 1, 1), 0);
    }

    #[test]
    fn is_not_halved_by_a_network_that_loses_some() {
        let mut appetite = grown(4 * LEAST);
        for at in 0..10_000 {
            appetite.repaired();
            if at % 5 == 0 {
                appetite.starved(Instant(10_000_000 * at), AGE, 1);
            }
        }
        assert!(room(&mut appetite) >= 4 * LEAST);
    }

    #[test]
    fn does_not_grow_unless_more_is_wanted() {
        let mut appetite = Appetite::default();
        for _ in 0..10_000 {
            assert_eq!(appetite.portion(3, 1), 1);
            appetite.repaired();
        }
        assert_eq!(room(&mut appetite), START);
    }
}
