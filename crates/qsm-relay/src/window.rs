//! Window that a flow of TCP would have, by CUBIC (RFC 9438), in integers: for links whose queue others keep
//! filled.

use core::time::Duration;

use qsm_wire::Instant;

/// Part of the window that is left after a loss (RFC 9438, 4.6), of a hundred.
const LEFT_BY_LOSS: u64 = 70;
/// The same after a mark: queues that mark are short. RFC 8511 has 85 for CUBIC, which gets three times as much as one
/// that leaves 70, as kernels' does.
const LEFT_BY_MARK: u64 = 75;
/// The same after the first mark, of a window that fills no queue.
const LEFT_BY_FIRST_MARK: u64 = 90;
/// Packets that the window grows by in a round trip where that is more, in a hundred, as Reno does; RFC 9438, 4.3 has
/// 53, which is fair to Reno where all lose at the same time, and gets less where packets are paced.
const RENO_GROWTH: u128 = 100;
/// The same after a mark: all are marked at the same time.
const MARKED_GROWTH: u128 = 53;
/// Fewest packets of the window.
const PACKETS_MIN: u64 = 4;

/// Cause of a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Something was lost.
    Loss,
    /// Something was marked. Rule R-RELAY-80.
    Mark,
    /// Likewise, and the window is one that fills no queue.
    FirstMark,
}

/// Window in bytes. Rule R-RELAY-17.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    bytes: u64,
    /// Before the last cut.
    highest: u64,
    /// After it.
    lowest: u64,
    /// When it was.
    since: Instant,
    /// Its cause.
    by: Sign,
}

impl Window {
    /// A window of so many bytes, as if it had just been cut to them.
    pub(crate) fn new(now: Instant, bytes: u64) -> Self {
        Self {
            bytes,
            highest: bytes,
            lowest: bytes,
            since: now,
            by: Sign::Loss,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Cuts it.
    pub(crate) fn cut(&mut self, now: Instant, packet_bytes: u64, by: Sign) {
        self.by = by;
        let left = match by {
            Sign::Loss => LEFT_BY_LOSS,
            Sign::Mark => LEFT_BY_MARK,
            Sign::FirstMark => LEFT_BY_FIRST_MARK,
        };
        // A flow that has got less than the time before leaves more to others (RFC 9438, 4.7).
        self.highest = match self.bytes < self.highest {
            true => self.bytes / 200 * (100 + left),
            false => self.bytes,
        };
        self.bytes = (self.bytes / 100 * left).max(PACKETS_MIN * packet_bytes);
        (self.lowest, self.since) = (self.bytes, now);
    }

    /// Grows by the time since the last cut.
    pub(crate) fn grow(&mut self, now: Instant, packet_bytes: u64, round_trip: Duration) {
        let packet = packet_bytes.max(1);
        let ms = u64::try_from(now.since(self.since).as_millis()).unwrap_or(u64::MAX);
        let cubic = self.highest_at(ms, packet);
        let trip = round_trip.as_micros().max(1);
        let growth = match self.by {
            Sign::Loss => RENO_GROWTH,
            Sign::Mark | Sign::FirstMark => MARKED_GROWTH,
        };
        let reno = u128::from(packet) * growth * u128::from(ms) * 10 / trip;
        let reno = self
            .lowest
            .saturating_add(u64::try_from(reno).unwrap_or(u64::MAX));
        // At most half as much again in a round trip, and reports are some in each (RFC 9438, 4.4).
        let most = self.bytes.saturating_add(self.bytes / 8);
        self.bytes = cubic.max(reno).clamp(self.bytes, most.max(self.bytes));
    }

    /// Does not grow while there is nothing to send.
    pub(crate) fn pause(&mut self, now: Instant) {
        (self.lowest, self.highest, self.since) = (self.bytes, self.bytes, now);
    }

    /// W(t) = 0.4 (t - K)³ + W_max, in packets and seconds, K = ∛(0.75 W_max) (RFC 9438, 4.2).
    fn highest_at(&self, ms: u64, packet_bytes: u64) -> u64 {
        let lacks = u128::from(self.highest.saturating_sub(self.lowest));
        // ∛(lacks / 0.4), in milliseconds.
        let turn = cube_root(lacks * 2_500_000_000 / u128::from(packet_bytes));
        let way = i128::from(ms.min(1 << 30)) - i128::from(turn);
        let more = way * way * way * i128::from(packet_bytes) * 4 / 10_000_000_000;
        let bytes = i128::from(self.highest) + more;
        u64::try_from(bytes.max(0)).unwrap_or(u64::MAX)
    }
}

/// The greatest number whose cube is no more than this.
fn cube_root(of: u128) -> u32 {
    let mut root: u32 = 0;
    for bit in (0..32).rev() {
        let more = u128::from(root | 1 << bit);
        if more * more * more <= of {
            root |= 1 << bit;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(100);

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// R-RELAY-17: beside the equation in floating point.
    #[test]
    fn it_grows_as_cubic_does() {
        let packet = 1000;
        let mut window = Window::new(at(0), 1_000_000);
        window.cut(at(0), packet, Sign::Loss);
        assert_eq!(window.bytes(), 700_000);
        let turn = (1000.0_f64 * 0.75).cbrt();
        for ms in (0..15_000).step_by(25) {
            window.grow(at(ms), packet, TRIP);
            let seconds = ms as f64 / 1000.0;
            let expected = (0.4 * (seconds - turn).powi(3) + 1000.0) * 1000.0;
            let expected = expected.max(700_000.0 + 1000.0 * seconds * 10.0);
            let found = window.bytes() as f64;
            let close = (found - expected).abs() <= 3000.0;
            assert!(close, "{found}, not {expected} after {ms} ms");
        }
    }

    /// R-RELAY-80.
    #[test]
    fn a_mark_costs_less_than_a_loss_and_growth_is_slower_then() {
        let (mut lost, mut marked) = (Window::new(at(0), 100_000), Window::new(at(0), 100_000));
        lost.cut(at(0), 1000, Sign::Loss);
        marked.cut(at(0), 1000, Sign::Mark);
        assert_eq!((lost.bytes(), marked.bytes()), (70_000, 75_000));
        // Ten round trips.
        (1..=40).for_each(|part| lost.grow(at(part * 25), 1000, TRIP));
        (1..=40).for_each(|part| marked.grow(at(part * 25), 1000, TRIP));
        let grown = [lost.bytes() - 70_000, marked.bytes() - 75_000];
        assert!(grown[0] > grown[1] && grown[1] >= 5000, "{grown:?}");
    }

    #[test]
    fn it_does_not_grow_in_a_pause_nor_fall_below_some_packets() {
        let mut window = Window::new(at(0), 100_000);
        for ms in (0..60_000).step_by(25) {
            window.pause(at(ms));
        }
        assert_eq!(window.bytes(), 100_000);
        for _ in 0..20 {
            window.cut(at(60_000), 1000, Sign::Loss);
        }
        assert_eq!(window.bytes(), 4000);
    }

    #[test]
    fn a_cube_root_is_exact() {
        for (of, root) in [(0, 0), (1, 1), (7, 1), (8, 2), (26, 2), (27, 3)] {
            assert_eq!(cube_root(of), root);
        }
        assert_eq!(cube_root(u128::MAX), u32::MAX);
    }
}
