//! The limit of all that a node sends, over all its regions and groups (R-RATE-13).
//!
//! Everything that leaves costs time, by its bytes; new messages leave while less than a millisecond
//! is owed. Tokens, repairs and everything else go first and wait for nothing, so new messages have
//! what these leave.

use core::time::Duration;

use crate::Instant;

/// Time that may be owed, and so most of what new messages may send at once.
const BURST: Duration = Duration::from_millis(1);
const SECOND_NS: u128 = 1_000_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct SendLimit {
    bytes_per_second: u64,
    /// When all that has left is paid for.
    paid: Instant,
    /// New messages wait for it.
    holds: bool,
}

impl SendLimit {
    /// A limit of so many bytes per second; `None`: there is none.
    pub(crate) fn new(bytes_per_second: u64) -> Option<Self> {
        (bytes_per_second > 0).then_some(Self {
            bytes_per_second,
            paid: Instant(0),
            holds: false,
        })
    }

    /// New packets may leave now.
    pub(crate) fn is_open(&self, now: Instant) -> bool {
        self.opens() <= now
    }

    /// New packets that may leave together, at least one, where one takes so many bytes with its copies.
    pub(crate) fn train(&self, packet_bytes: usize) -> usize {
        (self.burst_bytes() / packet_bytes.max(1)).max(1)
    }

    /// New messages wait for it, or not.
    pub(crate) fn hold(&mut self, waits: bool) {
        self.holds = waits;
    }

    /// When those that wait may leave.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.holds.then(|| self.opens())
    }

    /// Bytes of the time that may be owed.
    fn burst_bytes(&self) -> usize {
        let bytes = u128::from(self.bytes_per_second) * BURST.as_nanos() / SECOND_NS;
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// So many bytes have left by now.
    pub(crate) fn spend(&mut self, now: Instant, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let time = u128::from(bytes) * SECOND_NS / u128::from(self.bytes_per_second);
        let time = Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX));
        self.paid = self.paid.max(now).after(time);
    }

    /// When new packets may leave, if nothing else leaves before.
    pub(crate) fn opens(&self) -> Instant {
        Instant(self.paid.0.saturating_sub(crate::nanoseconds(BURST)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Bytes of new packets that leave by the millisecond, where `others` takes so many bytes in each
    /// millisecond, and all that waits is asked for each 100 µs.
    fn sent(others: u64, packet: u64) -> Vec<u64> {
        let mut limit = SendLimit::new(1_000_000).unwrap();
        let mut by_ms = vec![0; 100];
        for step in 0..1000_u64 {
            let now = Instant(step * MS / 10);
            limit.spend(now, others / 10);
            while limit.is_open(now) {
                limit.spend(now, packet);
                by_ms[usize::try_from(step / 10).unwrap()] += packet;
            }
        }
        by_ms
    }

    // Rule R-RATE-13.
    #[test]
    fn no_ten_milliseconds_have_more_than_the_limit_and_one_burst() {
        for others in [0, 300, 900] {
            let by_ms = sent(others, 250);
            for window in by_ms.windows(10) {
                let new: u64 = window.iter().sum();
                assert!(new + others * 10 <= 10_000 + 1000 + 250, "{others}: {new}");
            }
            // What is allowed is used.
            let new: u64 = by_ms.iter().sum();
            assert!(new + others * 100 >= 99_000, "{others}: {new}");
        }
        assert_eq!(sent(1100, 250)[20..], [0; 80], "others take it all");
    }

    #[test]
    fn what_waits_may_leave_when_the_rest_is_paid() {
        let mut limit = SendLimit::new(1_000_000).unwrap();
        assert!(limit.is_open(Instant(0)) && limit.due().is_none());
        limit.spend(Instant(0), 5000);
        assert!(!limit.is_open(Instant(4 * MS - 1)) && limit.due().is_none());
        limit.hold(true);
        assert_eq!(limit.due(), Some(Instant(4 * MS)));
        assert!(limit.is_open(Instant(4 * MS)));
        assert_eq!([250, 400, 5000].map(|bytes| limit.train(bytes)), [4, 2, 1]);
        assert!(SendLimit::new(0).is_none());
    }
}
