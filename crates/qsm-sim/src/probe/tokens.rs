//! The way of a region's tokens through its nodes, where one token visits all in turn.

use qsm_proto::Instant;

use super::millis;

/// Watches tokens leave nodes, and rounds end at the region's leader.
#[derive(Debug, Default)]
pub(super) struct TokenWatch {
    /// Tokens that each node has sent.
    sent: Vec<u64>,
    /// Rounds that the leader has completed.
    rounds: u64,
    passed: Option<Instant>,
    ended: Option<Instant>,
    seen: Hops,
}

/// Times between tokens, ms.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Hops {
    /// From one node's passing the token on to the next one's, neither of them a sender.
    pub(super) receivers: Vec<f64>,
    /// The same, to a sender's passing it on.
    pub(super) senders: Vec<f64>,
    /// From the end of one round to the end of the next.
    pub(super) intervals: Vec<f64>,
}

impl TokenWatch {
    /// Forgets the times seen so far, not what is under way; returns them.
    pub(super) fn take(&mut self) -> Hops {
        core::mem::take(&mut self.seen)
    }

    /// A node has sent that many tokens by now.
    pub(super) fn passes(&mut self, node: usize, sent: u64, now: Instant, sends: bool) {
        if self.sent.len() <= node {
            self.sent.resize(node + 1, 0);
        }
        if core::mem::replace(&mut self.sent[node], sent) >= sent {
            return;
        }
        let Some(last) = self.passed.replace(now) else {
            return;
        };
        let hops = if sends {
            &mut self.seen.senders
        } else {
            &mut self.seen.receivers
        };
        hops.push(millis(now.since(last)));
    }

    /// The leader has completed that many rounds by now; the next token begins a way of its own.
    pub(super) fn ends(&mut self, rounds: u64, now: Instant) {
        if core::mem::replace(&mut self.rounds, rounds) >= rounds {
            return;
        }
        self.passed = None;
        if let Some(last) = self.ended.replace(now) {
            self.seen.intervals.push(millis(now.since(last)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn hops_are_counted_within_a_round_and_intervals_between_rounds() {
        let mut watch = TokenWatch::default();
        watch.passes(0, 1, at(0), false);
        watch.passes(1, 1, at(2), false);
        watch.passes(1, 1, at(3), false);
        watch.passes(2, 1, at(52), true);
        watch.ends(1, at(55));
        watch.passes(0, 2, at(1000), false);
        watch.passes(1, 2, at(1004), false);
        watch.ends(2, at(1055));
        let hops = watch.take();
        assert_eq!(hops.receivers, [2.0, 4.0]);
        assert_eq!(hops.senders, [50.0]);
        assert_eq!(hops.intervals, [1000.0]);
        assert_eq!(watch.take(), Hops::default());
    }
}
