//! Counters and times: cheap to take, declared once with unit and help.

use core::time::Duration;

pub use qsm_metrics::Histogram;

use crate::repetition::{Answer, Repetition};

qsm_metrics::metrics! {
    /// Counters of a node since its start.
    #[derive(Copy)]
    pub struct Stats of "node" {
        /// Messages accepted from the application.
        messages_published: counter(messages),
        /// Messages delivered to the application.
        messages_delivered: counter(messages),
        /// Bytes of messages delivered.
        bytes_delivered: counter(bytes),
        /// Messages of groups this node is not in, skipped.
        messages_filtered: counter(messages),
        /// Fresh data packets sent.
        data_sent: counter(packets),
        /// Seals of origin among them (R-SEC-30).
        seals_sent: counter(packets),
        /// Data packets received for the first time.
        data_received: counter(packets),
        /// Data packets received again and dropped.
        duplicates: counter(packets),
        /// Packets found missing.
        gaps: counter(packets),
        /// NAKs sent (fast plane).
        naks_sent: counter(packets),
        /// NAKs received.
        naks_received: counter(packets),
        /// NAKs passed on to another cacher.
        naks_forwarded: counter(packets),
        /// Packets asked of a sender because every live cacher misses them.
        sender_asked: counter(packets),
        /// Pulls sent (token plane).
        pulls_sent: counter(packets),
        /// Pulls received.
        pulls_received: counter(packets),
        /// Repairs sent as cacher, asked by NAK.
        repairs_cacher_sent: counter(packets),
        /// Repairs sent as cacher, asked by pull.
        repairs_pull_sent: counter(packets),
        /// Repairs pushed to a ring neighbour.
        repairs_push_sent: counter(packets),
        /// Repairs sent as the stream's sender.
        repairs_sender_sent: counter(packets),
        /// Of all repairs sent, those to the whole region.
        repairs_to_all: counter(packets),
        /// Bytes of repairs and parities sent; of one to the whole region, with the copies that it takes
        /// (R-REACH-4).
        repair_bytes: counter(bytes),
        /// Parities sent as cacher, each to the whole region.
        parities_sent: counter(packets),
        /// Parities of its own packets that a node sent unasked, each to the whole region (R-NAK-17).
        parities_ahead_sent: counter(packets),
        /// Parities received.
        parities_received: counter(packets),
        /// Parities dropped: they contradict each other, or the packets of their block.
        parities_refused: counter(packets),
        /// Missing packets that came by a cacher's repair.
        repaired_by_cacher: counter(packets),
        /// Missing packets that came by pull.
        repaired_by_pull: counter(packets),
        /// Missing packets that came by push.
        repaired_by_push: counter(packets),
        /// Missing packets that came from their sender again.
        repaired_by_sender: counter(packets),
        /// Missing packets that were restored out of a parity and the rest of their block.
        repaired_by_parity: counter(packets),
        /// Missing packets that came late but unrepaired.
        repaired_by_reorder: counter(packets),
        /// Repairs not sent because the budget was used up.
        repairs_over_budget: counter(packets),
        /// Repairs not sent because of the operator's limit (R-NAK-16).
        repairs_over_limit: counter(packets),
        /// Packets asked for that were not sent again because their messages had expired.
        repairs_expired: counter(packets),
        /// Packets sent again by the sender's last-resort timeout.
        last_resort: counter(packets),
        /// Packets sent although receivers had no room for them, because none of them holds senders below
        /// the rate that the operator gives (R-RATE-10).
        sent_beyond_window: counter(packets),
        /// Packets that this node does not wait for any more although receivers lack them (R-RATE-10).
        passed_over: counter(packets),
        /// Packets given up, because nobody has them any more.
        packets_lost: counter(packets),
        /// Of these, packets whose messages nobody could name: their sender is gone.
        packets_unknown: counter(packets),
        /// Packets given up, because their messages had expired.
        packets_expired: counter(packets),
        /// Packets given up that have come and cannot be proven (R-SEC-33).
        packets_unproven: counter(packets),
        /// Packets that their sender has not made, by its seals (R-SEC-31).
        packets_forged: counter(packets),
        /// Messages that were not delivered because their sender may not publish to their group (R-SEC-36).
        messages_barred: counter(messages),
        /// Messages reported as lost, but those that had expired.
        messages_lost: counter(messages),
        /// Messages reported as lost because they had expired before they came.
        messages_expired: counter(messages),
        /// Messages handed out ahead of their order, to subscriptions that want them so.
        messages_ahead: counter(messages),
        /// Messages told as lost to such subscriptions because they were missing for too long.
        messages_overdue: counter(messages),
        /// Questions to senders which messages were in packets given up.
        numbers_asked: counter(packets),
        /// Answers to such questions.
        numbers_answered: counter(packets),
        /// Answers that cannot be true, and were not believed.
        numbers_refused: counter(packets),
        /// Tokens of all regions.
        ring: group(RingStats),
        /// ACKs sent to senders.
        acks_sent: counter(packets),
        /// ACKs received as sender.
        acks_received: counter(packets),
        /// Heartbeats sent.
        heartbeats_sent: counter(packets),
        /// Stream queries sent.
        queries_sent: counter(packets),
        /// Speakers whose multicast did not reach this node although unicast did, each time.
        deaf: counter(nodes),
        /// Of these, those that were heard again, or were gone.
        hears_again: counter(nodes),
        /// Members that this node's multicast did not reach, each time.
        unheard: counter(nodes),
        /// Packets sent again by unicast, one for each member that this node's multicast does not reach.
        copies_sent: counter(packets),
        /// Packets received that were sent so.
        copies_received: counter(packets),
        /// Times that a member asked for such copies and got none, because others take as many as
        /// there may be.
        copies_refused: counter(packets),
        /// Words to the membership service that packets of another cluster come to a region's address.
        foreign_told: counter(messages),
        /// Questions whether multicast reaches this node.
        reach_asked: counter(packets),
        /// Answers to such questions, by multicast and by unicast.
        reach_answered: counter(packets),
        /// Control packets sent: all but data and repairs.
        control_sent: counter(packets),
        /// Control packets received.
        control_received: counter(packets),
        /// Words to the membership service that this node reads as fast as it can, or may not send
        /// what it has.
        strained: counter(messages),
        /// Time in which senders waited for readers of this node that took no more (R-DATA-13). Of
        /// several regions the sum.
        reader_waits: counter(seconds),
        /// Times that this node granted its senders less credit, because a queue stood at its socket
        /// (R-RATE-9).
        credit_cuts: counter(times),
        /// Credit that it grants now; 0 before the first look.
        credit_bytes: gauge(bytes),
        /// Time that datagrams had waited at least, when it looked last, if more than they may.
        standing_ns: maximum(nanoseconds),
        /// Nodes that control packets have come from since the newest view.
        peers: gauge(nodes),
        /// Messages accepted and not known to have reached everybody. A message to a group in
        /// several regions counts in each.
        pending_messages: gauge(messages),
        /// Bytes of the packets that hold pending messages.
        pending_bytes: gauge(bytes),
        /// Messages accepted and not sent yet.
        unsent_messages: gauge(messages),
        /// Bytes of packets that were not sent yet.
        unsent_bytes: gauge(bytes),
        /// Datagrams that are no packets of this protocol version.
        discard_malformed: counter(datagrams),
        /// Whose checksum does not match: damaged or cut short in the network.
        discard_damaged: counter(datagrams),
        /// Datagrams of this cluster that are protected, by a key or an admission that this node does not have.
        discard_sealed: counter(datagrams),
        /// Datagrams of an unknown version.
        discard_version: counter(datagrams),
        /// Datagrams of an unknown type.
        discard_kind: counter(datagrams),
        /// Datagrams of another cluster.
        discard_cluster: counter(datagrams),
        /// Own datagrams that came back.
        discard_own: counter(datagrams),
        /// Datagrams from nodes that are not in the view they speak of (dead incarnations too).
        discard_stranger: counter(datagrams),
        /// Packets of channels this node does not receive.
        discard_channel: counter(packets),
        /// Packets of views that are no longer, or not yet, of concern.
        discard_view: counter(packets),
        /// Packets too far ahead of what is contiguous.
        discard_ahead: counter(packets),
        /// Packets there was no memory for.
        discard_memory: counter(packets),
        /// Packets of senders whose key is not known, where messages wait for proof.
        discard_untrusted: counter(packets),
        /// Packets of more streams than the limit.
        discard_streams: counter(packets),
        /// Packets that a leaving or joining node need not deliver.
        discard_not_mine: counter(packets),
        /// Chunks that do not continue the message they belong to.
        discard_chunk: counter(chunks),
        /// Control packets dropped because a queue was full.
        outbox_full: counter(packets),
        /// Events dropped because nobody polled them.
        events_full: counter(events),
    }
}

qsm_metrics::metrics! {
    /// Counters of a ring since its start.
    #[derive(Copy)]
    pub struct RingStats of "ring" {
        /// Tokens and calls received.
        tokens_received: counter(tokens),
        /// Tokens and calls sent, without repetitions.
        tokens_sent: counter(tokens),
        /// Tokens repeated because no receipt came.
        tokens_repeated: counter(tokens),
        /// Silent successors passed over.
        tokens_bypassed: counter(nodes),
        /// Rounds completed as region leader.
        rounds: counter(rounds),
        /// Completed rounds in which some member took no part.
        rounds_incomplete: counter(rounds),
        /// Rounds abandoned as region leader.
        rounds_abandoned: counter(rounds),
        /// Rings given up as their leader because the token did not return.
        rings_lost: counter(rings),
        /// Summaries sent or received.
        summaries: counter(packets),
        /// Tokens, receipts and summaries of other views, older rounds, or received before.
        stale: counter(packets),
        /// Packets of nodes that are not in the view or not in the ring.
        strangers: counter(packets),
        /// Smoothed time from sending a token to its receipt. Of several regions the longest.
        hop_ns: maximum(nanoseconds),
        /// Duration of the last round completed as region leader. Of several regions the longest.
        round_ns: maximum(nanoseconds),
    }
}

qsm_metrics::metrics! {
    /// Times that a node has measured since its start.
    pub struct Times of "node" {
        /// From finding a packet missing to having it.
        repair: histogram(seconds),
        /// From sending a packet first to the word that everybody has it, at its sender.
        stable: histogram(seconds),
        /// From sending a token to its receipt by the successor, repetitions included.
        token_hop: histogram(seconds),
        /// Rounds of tokens, from opening to result, at the leader of a region.
        token_round: histogram(seconds),
    }
}

/// The round trip before anything is known.
const ROUND_TRIP_START: Duration = Duration::from_micros(200);
/// The longest round trip that is assumed, or learned from repairs that took several requests.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(100);
/// What disorder is believed as long as the round trip is not known.
const DISORDER_MAX: Duration = Duration::from_millis(2);

/// What is known of the time that repairs take.
#[derive(Debug, Clone, Default)]
pub struct RepairTimes {
    /// From finding a gap to its repair.
    pub lasted: Histogram,
    /// The longest since it was taken.
    longest: Duration,
    round_trip_ns: u64,
    disorder_ns: u64,
    /// What a round trip is taken for before the first repair; zero: nothing is known.
    assumed: Duration,
    /// Requests that repairs have taken.
    requests: Repetition,
}

impl RepairTimes {
    /// A packet has come that had been missing for so long.
    pub fn note_lasted(&mut self, time: Duration) {
        self.lasted.record(time);
        self.longest = self.longest.max(time);
    }

    /// The longest of these times since they were taken last.
    pub fn take_longest(&mut self) -> Duration {
        core::mem::take(&mut self.longest)
    }

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
    /// next retry later, and that the next sample longer; were the last one, a round trip longer than
    /// the first retry would never be measured, and everything asked for several times. So it is the
    /// last one if that agrees with what is known, or neither; and the one before if no packet comes
    /// for a single request any more: then retries come too soon. What took longer than any round
    /// trip was an outage.
    pub fn note_retried(&mut self, requests: u8, [last, before]: [Duration; 2]) {
        let sample = self.note_answer(requests.into(), last, before);
        if sample <= ROUND_TRIP_MAX {
            self.smooth(sample);
        }
    }

    /// A repair came that long after the only request for it.
    pub fn note_round_trip(&mut self, sample: Duration) {
        self.note_answer(1, sample, sample);
        self.smooth(sample);
    }

    fn note_answer(&mut self, sendings: u32, last: Duration, earlier: Duration) -> Duration {
        let answer = Answer {
            sendings,
            last,
            earlier,
        };
        let known = Duration::from_nanos(self.round_trip_ns);
        self.requests.note(known, answer)
    }

    /// Requests for a packet that are no sign of silence: about twice as many as repairs have
    /// lately taken.
    #[must_use]
    pub fn steady(&self) -> u8 {
        u8::try_from(self.requests.steady()).unwrap_or(u8::MAX)
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
        (0..20).for_each(|_| times.note_retried(2, [Duration::from_millis(4); 2]));
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
            times.note_retried(2, [fast, fast * 4]);
            times.note_round_trip(fast);
        }
        assert_eq!(times.round_trip(), fast);
        (0..100).for_each(|_| times.note_retried(2, [fast, slow]));
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
}
