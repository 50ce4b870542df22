//! The operator's limit of what a node sends again (R-NAK-16): in every interval of 10 ms, and not in the
//! mean as a budget.

use qsm_wire::membership::RepairLimit;

use crate::Instant;

/// Milliseconds that are looked at: every interval of 10 ms that ends now lies within.
const SLOTS: usize = 11;
/// Tenths of 100 ms, in which what is new is counted.
const FRESH_SLOTS: usize = 10;
const MILLISECOND_NS: u64 = 1_000_000;
const FRESH_SLOT_NS: u64 = 10 * MILLISECOND_NS;
const MILLION: u64 = 1_000_000;

/// Bytes by the time at which they were counted, of the last few slots of time.
#[derive(Debug)]
struct Window<const SLOTS: usize> {
    slot_ns: u64,
    bytes: [u64; SLOTS],
    newest: u64,
}

impl<const SLOTS: usize> Window<SLOTS> {
    fn new(slot_ns: u64) -> Self {
        Self {
            slot_ns,
            bytes: [0; SLOTS],
            newest: 0,
        }
    }

    /// Forgets what is too old. Time does not go backwards.
    fn advance(&mut self, now: Instant) {
        let slot = (now.0 / self.slot_ns).max(self.newest);
        let passed = (slot - self.newest).min(SLOTS as u64);
        for offset in 1..=passed {
            self.bytes[Self::place(slot - passed + offset)] = 0;
        }
        self.newest = slot;
    }

    fn add(&mut self, now: Instant, bytes: u64) {
        self.advance(now);
        let counted = &mut self.bytes[Self::place(self.newest)];
        *counted = counted.saturating_add(bytes);
    }

    fn sum(&self) -> u64 {
        self.bytes
            .iter()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn place(slot: u64) -> usize {
        usize::try_from(slot % SLOTS as u64).unwrap_or(0)
    }
}

/// The limit, and what has been sent again lately.
///
/// A node that decides may have to wait for a CPU before the packets leave. So they count until they have left, and
/// then as if they had left at the first time that is known to be after that.
#[derive(Debug)]
pub struct RepairGate {
    limit: RepairLimit,
    /// Bytes that have left, by the time at which they had at the latest.
    sent: Window<SLOTS>,
    /// Bytes that are on their way out: when they leave is not known yet.
    leaving: u64,
    /// Bytes that have left since this time: the clock has not been read after that.
    left: u64,
    left_since: Instant,
    /// Bytes of new packets, sent and received.
    fresh: Window<FRESH_SLOTS>,
}

impl RepairGate {
    /// A gate by this limit; `None`: there is no bound.
    #[must_use]
    pub fn new(limit: RepairLimit) -> Option<Self> {
        (limit != RepairLimit::default()).then(|| Self {
            limit,
            sent: Window::new(MILLISECOND_NS),
            leaving: 0,
            left: 0,
            left_since: Instant::default(),
            fresh: Window::new(FRESH_SLOT_NS),
        })
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> RepairLimit {
        self.limit
    }

    /// New packets have been sent or received.
    pub fn note_fresh(&mut self, now: Instant, bytes: u64) {
        if self.limit.share_ppm > 0 {
            self.fresh.add(now, bytes);
        }
    }

    /// Tells whether so many bytes may be sent again now. One repair may, if nothing was in the interval.
    pub fn allows(&mut self, now: Instant, bytes: u64) -> bool {
        self.settle(now);
        self.sent.advance(now);
        let sent = self.sent.sum().saturating_add(self.leaving + self.left);
        sent == 0 || sent.saturating_add(bytes) <= self.most(now)
    }

    /// They are going to be.
    pub fn note_leaving(&mut self, bytes: u64) {
        self.leaving = self.leaving.saturating_add(bytes);
    }

    /// Nothing is on its way out any more, as of this reading of the clock or later.
    pub fn note_left(&mut self, now: Instant) {
        self.settle(now);
        let leaving = core::mem::take(&mut self.leaving);
        self.left = self.left.saturating_add(leaving);
        self.left_since = now;
    }

    /// Counts what had left before the clock was read again.
    fn settle(&mut self, now: Instant) {
        if self.left > 0 && now > self.left_since {
            self.sent.add(now, core::mem::take(&mut self.left));
        }
    }

    /// Bytes that may be sent again in 10 ms.
    fn most(&mut self, now: Instant) -> u64 {
        let RepairLimit {
            bytes_per_second,
            share_ppm,
        } = self.limit;
        let by_rate = match bytes_per_second {
            0 => u64::MAX,
            rate => rate / 100,
        };
        let by_share = match u64::from(share_ppm) {
            0 => u64::MAX,
            share => {
                self.fresh.advance(now);
                self.fresh.sum() / 10 * share / MILLION
            }
        };
        by_rate.min(by_share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1000;

    fn rate(bytes_per_second: u64) -> RepairGate {
        let limit = RepairLimit {
            bytes_per_second,
            share_ppm: 0,
        };
        RepairGate::new(limit).unwrap()
    }

    fn at(micros: u64) -> Instant {
        Instant(micros * 1000)
    }

    fn send(gate: &mut RepairGate, micros: u64, bytes: u64) {
        gate.note_leaving(bytes);
        gate.note_left(at(micros));
    }

    /// Times at which packets were let through, of which one is tried each 100 µs.
    fn let_through(gate: &mut RepairGate, tries: u64) -> Vec<u64> {
        let mut passed = Vec::new();
        for micros in (0..tries).map(|try_| 100 * try_) {
            if gate.allows(at(micros), PACKET) {
                send(gate, micros, PACKET);
                passed.push(micros);
            }
        }
        passed
    }

    // Rule R-NAK-16.
    #[test]
    fn no_interval_of_ten_milliseconds_has_more_than_the_limit() {
        let passed = let_through(&mut rate(500_000), 10_000);
        for begin in &passed {
            let within = passed
                .iter()
                .filter(|at| (*begin..begin + 10_000).contains(at));
            assert!(within.count() <= 5, "from {begin} us on");
        }
        // Counted by milliseconds, it gives nearly all of it.
        assert!(passed.len() >= 450, "{}", passed.len());
    }

    /// Times at which repairs reach the wire of a sender that has each as soon as the gate lets it pass, and gets
    /// the CPU so late after each decision, in turn. Each turn reads the clock once, when it begins.
    fn at_the_wire(gate: &mut RepairGate, waits: &[u64]) -> Vec<u64> {
        let (mut wire, mut clock) = (Vec::new(), 0);
        for wait in waits.iter().cycle() {
            if clock > 1_000_000 {
                break;
            }
            let turn = at(clock);
            let mut passed = 0;
            while gate.allows(turn, PACKET) {
                gate.note_leaving(PACKET);
                passed += 1;
            }
            clock += wait;
            wire.extend(core::iter::repeat_n(clock, passed));
            gate.note_left(turn);
            clock += 50;
        }
        wire
    }

    // Rule R-NAK-16.
    #[test]
    fn a_sender_that_gets_its_turn_late_keeps_the_limit_at_the_wire() {
        let turns: [&[u64]; 5] = [
            &[0],
            &[9900, 0],
            &[9900, 10, 10, 10],
            &[300, 7000, 20, 4000, 9000, 10],
            &[12_000, 1, 1, 1, 900],
        ];
        for waits in turns {
            let wire = at_the_wire(&mut rate(500_000), waits);
            for begin in &wire {
                let within = wire
                    .iter()
                    .filter(|at| (*begin..begin + 10_000).contains(at));
                let within = within.count();
                assert!(within <= 5, "{waits:?}: {within} from {begin} us on");
            }
            // A second has a hundred times that; who is late sends less.
            assert!(wire.len() >= 150, "{waits:?}: {}", wire.len());
        }
    }

    // Rule R-NAK-16.
    #[test]
    fn one_repair_passes_however_small_the_limit_is() {
        let passed = let_through(&mut rate(1), 1000);
        assert_eq!(passed.len(), 10, "one in 11 ms: {passed:?}");
        assert!(rate(1).allows(at(0), 100 * PACKET), "with its copies");
    }

    // Rule R-NAK-16.
    #[test]
    fn what_waits_for_a_cpu_counts_from_when_it_has_left() {
        let mut gate = rate(500_000);
        for _ in 0..5 {
            assert!(gate.allows(at(0), PACKET));
            gate.note_leaving(PACKET);
        }
        // It left some time before 8 ms, when the clock was read again.
        assert!(!gate.allows(at(7900), 1));
        gate.note_left(at(0));
        assert!(!gate.allows(at(8000), 1));
        assert!(!gate.allows(at(17_900), 1));
        assert!(gate.allows(at(19_000), 5 * PACKET));
    }

    // Rule R-NAK-16.
    #[test]
    fn a_share_follows_what_is_new() {
        let limit = RepairLimit {
            bytes_per_second: 0,
            share_ppm: 100_000,
        };
        let mut gate = RepairGate::new(limit).unwrap();
        // 1 MB in 100 ms: a tenth of it is 10 kB in 10 ms.
        for ms in 0..100 {
            gate.note_fresh(at(1000 * ms), 10_000);
        }
        let mut packets = 0;
        while gate.allows(at(99_000), PACKET) {
            send(&mut gate, 99_000, PACKET);
            packets += 1;
        }
        assert_eq!(packets, 10);
        // A tenth of a second without anything new: one repair, as ever.
        gate.note_left(at(100_000));
        assert!(gate.allows(at(300_000), PACKET));
        send(&mut gate, 300_000, PACKET);
        assert!(!gate.allows(at(300_000), 1));
        // Both bounds hold.
        let both = RepairLimit {
            bytes_per_second: 100_000,
            share_ppm: 1_000_000,
        };
        let mut gate = RepairGate::new(both).unwrap();
        gate.note_fresh(at(0), 1_000_000_000);
        gate.note_leaving(PACKET);
        assert!(!gate.allows(at(0), 1));
    }

    #[test]
    fn no_bound_is_no_gate() {
        assert!(RepairGate::new(RepairLimit::default()).is_none());
        assert_eq!(rate(7).limit().bytes_per_second, 7);
    }
}
