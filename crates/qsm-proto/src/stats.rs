//! Counters: cumulative, monotone, cheap (R260). One declaration gives fields, names and help.

use core::ops::AddAssign;
use core::time::Duration;

macro_rules! counters {
    ($(#[$outer:meta])* $type:ident { $($(#[doc = $help:literal])* $name:ident,)* }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $type { $($(#[doc = $help])* pub $name: u64,)* }

        impl $type {
            /// Name, help text and value of every counter, in the order of declaration.
            pub fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($help),*), self.$name),)*].into_iter()
            }
        }

        impl AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// What a node has done since its start.
    Stats {
        /// Messages accepted from the application.
        messages_published,
        /// Messages delivered to the application.
        messages_delivered,
        /// Bytes of messages delivered.
        bytes_delivered,
        /// Messages of groups this node is not in, skipped.
        messages_filtered,
        /// Fresh data packets sent.
        data_sent,
        /// Data packets received for the first time.
        data_received,
        /// Data packets received again and dropped (R078).
        duplicates,
        /// Packets found missing.
        gaps,
        /// NAKs sent (fast plane).
        naks_sent,
        /// NAKs received.
        naks_received,
        /// NAKs passed on to another cacher.
        naks_forwarded,
        /// Packets asked of a sender because every live cacher misses them (R079).
        sender_asked,
        /// Pulls sent (token plane).
        pulls_sent,
        /// Pulls received.
        pulls_received,
        /// Repairs sent as cacher, asked by NAK.
        repairs_cacher_sent,
        /// Repairs sent as cacher, asked by pull.
        repairs_pull_sent,
        /// Repairs pushed to a ring neighbour (R076).
        repairs_push_sent,
        /// Repairs sent as the stream's sender.
        repairs_sender_sent,
        /// Missing packets that came by a cacher's repair.
        repaired_by_cacher,
        /// Missing packets that came by pull.
        repaired_by_pull,
        /// Missing packets that came by push.
        repaired_by_push,
        /// Missing packets that came from their sender again.
        repaired_by_sender,
        /// Missing packets that came late but unrepaired.
        repaired_by_reorder,
        /// Repairs not sent because the budget was used up (R210).
        repairs_over_budget,
        /// Packets sent again by the sender's last-resort timeout (R086).
        last_resort,
        /// Packets of dead senders given up.
        packets_lost,
        /// Messages reported as lost.
        messages_lost,
        /// Tokens received.
        tokens_received,
        /// Tokens sent, without repetitions.
        tokens_sent,
        /// Tokens repeated because no receipt came.
        tokens_repeated,
        /// Silent successors passed over (G05).
        tokens_bypassed,
        /// Rounds completed as region leader.
        rounds,
        /// Rounds abandoned as region leader because the token did not return.
        rounds_abandoned,
        /// Summaries sent or received.
        summaries,
        /// ACKs sent to senders.
        acks_sent,
        /// ACKs received as sender.
        acks_received,
        /// Heartbeats sent.
        heartbeats_sent,
        /// Stream queries sent.
        queries_sent,
        /// Control packets sent: all but data and repairs.
        control_sent,
        /// Control packets received.
        control_received,
        /// Nodes that control packets have come from.
        peers,
        /// Datagrams that are no packets of this protocol version.
        discard_malformed,
        /// Datagrams of an unknown version.
        discard_version,
        /// Datagrams of an unknown type.
        discard_kind,
        /// Datagrams of another cluster.
        discard_cluster,
        /// One's own datagrams come back.
        discard_own,
        /// Datagrams from nodes that are not in the view they speak of (dead incarnations too).
        discard_stranger,
        /// Packets of channels this node does not receive.
        discard_channel,
        /// Packets of views that are no longer, or not yet, of concern.
        discard_view,
        /// Packets too far ahead of what is contiguous.
        discard_ahead,
        /// Packets there was no memory for.
        discard_memory,
        /// Packets of more streams than the limit.
        discard_streams,
        /// Packets that a leaving or joining node need not deliver.
        discard_not_mine,
        /// Tokens, ACKs and summaries of older rounds.
        discard_stale,
        /// Chunks that do not continue the message they belong to.
        discard_chunk,
        /// Control packets dropped because a queue was full.
        outbox_full,
        /// Events dropped because nobody polled them.
        events_full,
    }
}

/// How long things took: a histogram with four steps per doubling, from 1 µs to about an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; Self::STEPS],
    sum: Duration,
}

impl Histogram {
    const STEPS: usize = 128;

    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: [0; Self::STEPS],
            sum: Duration::ZERO,
        }
    }

    /// Counts one duration.
    pub fn record(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros())
            .unwrap_or(u64::MAX)
            .max(1);
        let octave = micros.ilog2();
        let quarter = if octave < 2 {
            0
        } else {
            (micros >> (octave - 2)) & 3
        };
        let at = u64::from(octave) * 4 + quarter;
        let at = usize::try_from(at)
            .unwrap_or(Self::STEPS)
            .min(Self::STEPS - 1);
        self.counts[at] += 1;
        self.sum = self.sum.saturating_add(duration);
    }

    /// Counts what another has counted.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All durations together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The duration that this share of all (in parts per thousand) did not exceed, rounded up to
    /// the step's end; zero when nothing was counted.
    #[must_use]
    pub fn quantile(&self, permille: u64) -> Duration {
        let rank = (self.count() * permille).div_ceil(1000);
        let mut passed = 0;
        for (at, count) in (0u64..).zip(self.counts) {
            passed += count;
            if passed >= rank && rank > 0 {
                let micros = (4 + at % 4 + 1) << (at / 4);
                return Duration::from_micros(micros.div_ceil(4));
            }
        }
        Duration::ZERO
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The round trip before anything is known.
const ROUND_TRIP_START: Duration = Duration::from_micros(200);
/// The longest round trip that is assumed, or learned from repairs that took several requests.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(100);
/// From so many repairs in a row on that took several requests, retries come too soon.
const RETRIED_MAX: u32 = 16;
/// What disorder is believed as long as the round trip is not known.
const DISORDER_MAX: Duration = Duration::from_millis(2);

/// What is known of the time that repairs take.
#[derive(Debug, Clone, Default)]
pub struct RepairTimes {
    /// From finding a gap to its repair.
    pub lasted: Histogram,
    round_trip_ns: u64,
    disorder_ns: u64,
    /// What a round trip is taken for before the first repair; zero: nothing is known.
    assumed: Duration,
    /// So many of the latest repairs in a row took several requests.
    retried: u32,
}

impl RepairTimes {
    /// How late packets come that were overtaken, but not lost: the largest such time of late, at
    /// most a round trip. As long as no repair was faster than the packet itself, the round trip
    /// is not known.
    #[must_use]
    pub fn disorder(&self) -> Duration {
        let most = match self.round_trip_ns {
            0 => DISORDER_MAX,
            nanos => Duration::from_nanos(nanos),
        };
        Duration::from_nanos(self.disorder_ns).min(most)
    }

    /// A packet came that long after one that was sent after it. The estimate rises at once and
    /// falls slowly.
    pub fn note_disorder(&mut self, sample: Duration) {
        let sample = crate::nanoseconds(sample);
        let faded = self.disorder_ns - self.disorder_ns / 64;
        self.disorder_ns = faded.max(sample);
    }

    /// The smoothed time from a NAK to its repair; a fifth of a millisecond before the first.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        match self.round_trip_ns {
            0 => ROUND_TRIP_START,
            nanos => Duration::from_nanos(nanos),
        }
    }

    /// How long to wait for a repair at least: a round trip, before the first what is assumed.
    #[must_use]
    pub fn patience(&self) -> Duration {
        match self.round_trip_ns {
            0 => self.assumed.max(self.round_trip()),
            _ => self.round_trip(),
        }
    }

    /// So long takes the way to the membership service and back. Members of a region may be as far
    /// from each other, and the first requests would be repeated before they can be answered. They
    /// are not made later: only an answer shows that members are near.
    pub fn assume(&mut self, round_trip: Duration) {
        self.assumed = round_trip.min(ROUND_TRIP_MAX);
    }

    /// A repair came so long after the last of several requests and the one before; which one it
    /// answers cannot be told (Karn). Were the one before believed, each that is lost would make the
    /// next retry later; were the last one, a round trip longer than the first retry would never be
    /// measured, and everything asked for several times. So it is the last one, unless the repair
    /// came too soon for that, or every packet is asked for again: then retries come too soon. What
    /// took longer than any round trip was an outage.
    pub fn note_retried(&mut self, [last, before]: [Duration; 2]) {
        self.retried = self.retried.saturating_add(1);
        let slow = self.retried >= RETRIED_MAX || last * 2 < self.round_trip();
        let sample = if slow { before } else { last };
        if sample <= ROUND_TRIP_MAX {
            self.smooth(sample);
        }
    }

    /// A repair came that long after the only request for it.
    pub fn note_round_trip(&mut self, sample: Duration) {
        self.retried = 0;
        self.smooth(sample);
    }

    /// Smooths one sample in, with a weight of an eighth.
    fn smooth(&mut self, sample: Duration) {
        let sample = crate::nanoseconds(sample).max(1);
        self.round_trip_ns = match self.round_trip_ns {
            0 => sample,
            old => old - old / 8 + sample / 8,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disorder_is_learned_at_once_forgotten_slowly_and_at_most_a_round_trip() {
        let mut times = RepairTimes::default();
        times.note_disorder(Duration::from_micros(700));
        assert_eq!(times.disorder(), Duration::from_micros(700));
        times.note_round_trip(Duration::from_millis(4));
        times.note_disorder(Duration::from_millis(2));
        times.note_disorder(Duration::from_micros(10));
        let disorder = times.disorder();
        assert!(disorder > Duration::from_micros(1900) && disorder < Duration::from_millis(2));
        (0..1000).for_each(|_| times.note_disorder(Duration::from_micros(10)));
        assert!(times.disorder() < Duration::from_micros(20));
        (0..20).for_each(|_| times.note_retried([Duration::from_millis(4); 2]));
        times.note_disorder(Duration::from_secs(1));
        assert_eq!(times.disorder(), Duration::from_millis(4));
    }

    // Rule R-NAK-5.
    #[test]
    fn a_lost_request_does_not_make_round_trips_longer_and_slow_ones_are_learned() {
        let mut times = RepairTimes::default();
        let [fast, slow] = [1, 50].map(Duration::from_millis);
        (0..100).for_each(|_| times.note_round_trip(fast));
        for _ in 0..10 {
            times.note_retried([fast, fast * 4]);
            times.note_round_trip(fast);
        }
        assert_eq!(times.round_trip(), fast);
        (0..100).for_each(|_| times.note_retried([fast, slow]));
        assert!(times.round_trip() > slow * 9 / 10);
    }

    // Rule R-NAK-5.
    #[test]
    fn what_is_assumed_of_a_round_trip_holds_until_one_is_measured() {
        let mut times = RepairTimes::default();
        assert_eq!(times.patience(), ROUND_TRIP_START);
        times.assume(Duration::from_millis(40));
        assert_eq!(times.patience(), Duration::from_millis(40));
        assert_eq!(times.round_trip(), ROUND_TRIP_START);
        times.assume(Duration::from_secs(7));
        assert_eq!(times.patience(), ROUND_TRIP_MAX);
        times.assume(Duration::ZERO);
        assert_eq!(times.patience(), ROUND_TRIP_START);
        times.note_round_trip(Duration::from_micros(90));
        times.assume(Duration::from_millis(40));
        let both = [times.patience(), times.round_trip()];
        assert_eq!(both, [Duration::from_micros(90); 2]);
    }

    #[test]
    fn what_two_histograms_counted_is_as_if_one_had() {
        let (mut one, mut parts) = (Histogram::new(), [Histogram::new(), Histogram::new()]);
        for micros in 1..=1000 {
            let duration = Duration::from_micros(micros);
            one.record(duration);
            parts[usize::from(micros > 300)].record(duration);
        }
        let [mut sum, more] = parts;
        sum.merge(&more);
        assert_eq!(sum, one);
    }

    #[test]
    fn quantiles_are_within_a_quarter_of_the_truth() {
        let mut histogram = Histogram::new();
        (1..=1000).for_each(|micros| histogram.record(Duration::from_micros(micros)));
        for (permille, truth) in [(500, 500), (990, 990), (10, 10)] {
            let got = histogram.quantile(permille).as_micros();
            assert!(
                got >= truth && got <= truth * 5 / 4 + 1,
                "{permille}: {got}"
            );
        }
    }
}
