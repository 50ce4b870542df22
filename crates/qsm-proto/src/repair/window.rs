use core::time::Duration;

use crate::Instant;

/// How many packets this node has asked for and not got yet, at most (R-NAK-10).
///
/// A node that was away misses thousands of packets at once. Were all asked for together, its
/// cachers would answer together, and their repairs would not fit into its socket. What it can
/// take is learned as TCP does (RFC 5681): the window grows with every repair, and is halved when
/// repairs do not come in time.
#[derive(Debug)]
pub struct RequestWindow {
    window: u64,
    /// Up to here the window grows by one with every repair, beyond with every window of them.
    threshold: u64,
    /// Repairs since the window grew last.
    repaired: u64,
    halved: Instant,
    /// Packets that had come by then.
    received: u64,
    /// Packets that are missing were put off because the window was full.
    puts_off: bool,
    /// Something that was asked for has come since.
    has_opened: bool,
}

/// At first: how far away its cachers are the node does not know yet, and it would ask for all of
/// this several times before the first repair can be there.
const START: u64 = 32;
/// So many are always asked for: losses of single packets are no reason to hold back.
const LEAST: u64 = 64;
/// And one for so many packets that come meanwhile: beside them repairs are too few to fill a queue.
const LEAST_ONE_IN: u128 = 8;
/// More than the credit of any receiver.
const MOST: u64 = 1 << 16;

impl RequestWindow {
    /// How many more packets may be asked for while so many are.
    #[must_use]
    pub fn room(&self, asked: u64) -> u64 {
        self.window.saturating_sub(asked)
    }

    /// Notes that there was no room for a packet: it is asked for when there is.
    pub fn put_off(&mut self) {
        self.puts_off = true;
    }

    /// Tells whether what was put off may be asked for now, because something that was asked for has
    /// come.
    #[must_use]
    pub fn has_opened(&self) -> bool {
        self.has_opened
    }

    /// Takes up what was put off, as far as there is room; `rest`: there may be more of it.
    pub fn resume(&mut self, rest: bool) {
        self.has_opened = false;
        self.puts_off = rest;
    }

    /// A packet that was asked for has come.
    pub fn repaired(&mut self) {
        self.has_opened = self.puts_off;
        self.repaired += 1;
        if self.window < self.threshold || self.repaired >= self.window {
            self.window = (self.window + 1).min(MOST);
            self.repaired = 0;
        }
    }

    /// Packets that were asked for have not come in time; `age`: those asked for before are no
    /// news for so long. `received`: how many packets have come here so far.
    pub fn timed_out(&mut self, now: Instant, age: Duration, received: u64) {
        let passed = now.since(self.halved);
        if passed < age {
            return;
        }
        let fresh = u128::from(received.saturating_sub(self.received)) * age.as_nanos();
        let beside = fresh / passed.as_nanos().max(1) / LEAST_ONE_IN;
        let least = u64::try_from(beside).unwrap_or(MOST).clamp(LEAST, MOST);
        self.halved = now;
        self.received = received;
        self.threshold = (self.window / 2).max(least);
        self.window = self.window.min(self.threshold);
        self.repaired = 0;
    }
}

impl Default for RequestWindow {
    fn default() -> Self {
        Self {
            window: START,
            threshold: MOST,
            repaired: 0,
            halved: Instant(0),
            received: 0,
            puts_off: false,
            has_opened: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rule R-NAK-10.
    #[test]
    fn grows_with_repairs_and_is_halved_once_when_they_do_not_come() {
        let mut request_window = RequestWindow::default();
        assert_eq!(request_window.room(0), START);
        let upto = 4 * LEAST;
        (START..upto).for_each(|_| request_window.repaired());
        assert_eq!(request_window.room(10), upto - 10);
        let age = Duration::from_millis(2);
        request_window.timed_out(Instant(5_000_000), age, 0);
        request_window.timed_out(Instant(6_000_000), age, 0);
        assert_eq!(request_window.room(0), upto / 2);
        (0..upto / 2).for_each(|_| request_window.repaired());
        assert_eq!(request_window.room(0), upto / 2 + 1);
        (1..=10).for_each(|at| request_window.timed_out(Instant(10_000_000 * at), age, 0));
        assert_eq!(request_window.room(0), LEAST);
        assert_eq!(request_window.room(LEAST + 1), 0);
    }

    // Rule R-NAK-10.
    #[test]
    fn what_was_put_off_waits_for_a_repair_and_no_longer() {
        let mut request_window = RequestWindow::default();
        request_window.repaired();
        assert!(!request_window.has_opened(), "nothing waits");
        request_window.put_off();
        assert!(!request_window.has_opened());
        request_window.repaired();
        assert!(request_window.has_opened());
        request_window.resume(true);
        assert!(!request_window.has_opened());
        request_window.repaired();
        assert!(request_window.has_opened(), "there was more");
        request_window.resume(false);
        request_window.repaired();
        assert!(!request_window.has_opened());
    }

    // Rule R-NAK-10.
    #[test]
    fn beside_many_packets_that_come_losses_are_no_reason_to_hold_back() {
        let mut request_window = RequestWindow::default();
        (0..5000).for_each(|_| request_window.repaired());
        let age = Duration::from_millis(2);
        // A thousand packets in a millisecond, thus 2000 in the time of a retry.
        let starve = |request_window: &mut RequestWindow, ms: u64| {
            request_window.timed_out(Instant(ms * 1_000_000), age, ms * 1000);
        };
        (1..=10).for_each(|step| starve(&mut request_window, step * 10));
        assert_eq!(request_window.room(0), 2000 / 8);
        // And none for a second.
        (1..=10)
            .for_each(|step| request_window.timed_out(Instant(step * 1_000_000_000), age, 100_000));
        assert_eq!(request_window.room(0), LEAST);
    }
}
