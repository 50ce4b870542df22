//! Counters of a core thread, beside those of the protocol and the sockets.

use std::time::Duration;

use qsm_proto::Instant;
use qsm_wire::membership::{GroupRow, NodeRow, RegionRow};

use crate::latency::Stage;

qsm_metrics::metrics! {
    /// Size of a cluster, as its membership service knows it.
    #[derive(Copy)]
    #[non_exhaustive]
    pub struct ClusterStats of "cluster" {
        /// Nodes.
        nodes: gauge(nodes),
        /// Of these, nodes that nobody waits for.
        nodes_away: gauge(nodes),
        /// Of these, nodes that the multicast of some other does not reach.
        nodes_deaf: gauge(nodes),
        /// Groups.
        groups: gauge(groups),
        /// Regions.
        regions: gauge(regions),
        /// Packets that a message to each group once would take.
        group_regions: gauge(packets),
    }
}

impl ClusterStats {
    pub(crate) fn new(nodes: &[NodeRow], groups: &[GroupRow], regions: &[RegionRow]) -> Self {
        let count = |is: fn(&NodeRow) -> bool| nodes.iter().filter(|row| is(row)).count() as u64;
        Self {
            nodes: nodes.len() as u64,
            nodes_away: count(|row| row.away.is_some()),
            nodes_deaf: count(|row| row.deaf),
            groups: groups.len() as u64,
            regions: regions.len() as u64,
            group_regions: groups.iter().map(|row| u64::from(row.regions)).sum(),
        }
    }
}

qsm_metrics::metrics! {
    /// Counters of a core thread since its start.
    #[derive(Copy)]
    #[non_exhaustive]
    pub struct RuntimeStats of "core" {
        /// Time since the core thread's start.
        uptime: maximum(seconds),
        /// Turns of its loop.
        turns: counter(turns),
        /// Turns begun asleep until something came.
        sleeps: counter(turns),
        /// Turns begun awake without work: under load more comes soon, and a spinning core never
        /// sleeps.
        awake: counter(turns),
        /// Turns in which receiving was cut short, for the sake of timers and sending.
        receive_cut: counter(turns),
        /// Datagrams handled before others that had come before them, because they were more
        /// urgent.
        received_first: counter(datagrams),
        /// Messages taken from publishers' queues.
        messages_pushed: counter(messages),
        /// Times that a publisher's thread sent what it had queued itself, while the core thread
        /// slept.
        sends_lent: counter(times),
        /// Messages pulled from feeds.
        messages_pulled: counter(messages),
        /// Messages of feeds that were not sent because they were too large.
        messages_refused: counter(messages),
        /// Times that a publisher or feed had to wait for the send window.
        window_full: counter(times),
        /// Messages put into subscriptions' queues.
        messages_queued: counter(messages),
        /// Upcalls made.
        upcalls: counter(calls),
        /// Messages dropped because a subscription's queue was full.
        slow_consumer_drops: counter(messages),
        /// Times that the queue of a subscription that holds senders up was full.
        readers_full: counter(times),
        /// Messages that no subscription wanted any more.
        messages_unwanted: counter(messages),
        /// Messages of another site that had come by another gateway of this one.
        relayed_again: counter(messages),
        /// Times that the send buffer was full and sending went on later.
        send_blocked: counter(times),
        /// Trains or datagrams that the system refused to send; the protocol repairs that.
        send_failed: counter(trains),
        /// The longest turn.
        turn_max: maximum(seconds),
    }
}

qsm_metrics::metrics! {
    /// Delays with which a core thread ran the protocol's timers, since its start. Late timers mean that
    /// the thread did not get its CPU, or had too much to do at once.
    #[non_exhaustive]
    pub struct TimerStats of "timer" {
        /// Times that timers were due and were run.
        runs: counter(times),
        /// Longest delay of a timer since the start.
        late_max: maximum(seconds),
        /// Longest delay of a timer in this second of the core thread's time and the one before.
        late_recent_max: maximum(seconds),
        /// Seconds in which timers were run, by the longest delay in each.
        late: histogram(seconds),
    }
}

qsm_metrics::metrics! {
    /// Stages of messages' ways beside their shares of the latency budget, of a node that has one. In
    /// each stage one message is timed at a time, of packets that were missing each.
    #[derive(Copy)]
    #[non_exhaustive]
    pub struct LatencyStats of "latency" {
        /// Times that a message was longer in its publisher's queue than its stage's share.
        over_handoff: counter(times),
        /// Times that a message waited longer for others in its packet.
        over_batching: counter(times),
        /// Times that receivers' credit or the rate held a packet longer.
        over_admission: counter(times),
        /// Times that the kernel's send buffer was full for longer.
        over_socket_send: counter(times),
        /// Times that a datagram waited longer to be read.
        over_receive_buffer: counter(times),
        /// Times that a packet was missing for longer.
        over_repair: counter(times),
        /// Times that a message was longer in a subscription's queue.
        over_subscription: counter(times),
        /// Longest time of a message in its publisher's queue.
        longest_handoff: maximum(seconds),
        /// Longest time that a message waited for others in its packet.
        longest_batching: maximum(seconds),
        /// Longest time that receivers' credit or the rate held a packet.
        longest_admission: maximum(seconds),
        /// Longest time that the kernel's send buffer was full.
        longest_socket_send: maximum(seconds),
        /// Longest time that a datagram waited to be read.
        longest_receive_buffer: maximum(seconds),
        /// Longest time that a packet was missing.
        longest_repair: maximum(seconds),
        /// Longest time that a message was in a subscription's queue, of those that were there for longer
        /// than their share.
        longest_subscription: maximum(seconds),
    }
}

impl LatencyStats {
    /// A stage took so long; `over`: longer than its share.
    pub(crate) fn note(&mut self, stage: Stage, took: Duration, over: bool) {
        let (count, longest) = match stage {
            Stage::Handoff => (&mut self.over_handoff, &mut self.longest_handoff),
            Stage::Batching => (&mut self.over_batching, &mut self.longest_batching),
            Stage::Admission => (&mut self.over_admission, &mut self.longest_admission),
            Stage::SocketSend => (&mut self.over_socket_send, &mut self.longest_socket_send),
            Stage::ReceiveBuffer => (
                &mut self.over_receive_buffer,
                &mut self.longest_receive_buffer,
            ),
            Stage::Repair => (&mut self.over_repair, &mut self.longest_repair),
            Stage::Subscription => (&mut self.over_subscription, &mut self.longest_subscription),
            // No node judges it.
            Stage::Network => return,
        };
        *count += u64::from(over);
        *longest = took.max(*longest);
    }
}

qsm_metrics::metrics! {
    /// Memory that the protocol holds for packets. Queues of publishers and subscriptions, tables
    /// of groups and nodes, and buffers of the kernel are not in it.
    #[derive(Copy)]
    #[non_exhaustive]
    pub struct Memory of "memory" {
        /// Blocks of the send windows, which hold what was not sent yet, or is kept until all
        /// receivers have it.
        send_bytes: gauge(bytes),
        /// Most that these have been at the end of a turn. Of several core threads the sum of
        /// each one's most.
        send_bytes_peak: gauge(bytes),
        /// Packets received that are out of order, or cached for others, with the buffers that
        /// they lie in.
        receive_bytes: gauge(bytes),
        /// Most that these have been at the end of a turn. Of several core threads the sum of
        /// each one's most.
        receive_bytes_peak: gauge(bytes),
    }
}

qsm_metrics::metrics! {
    /// The queue of a subscription. Upcalls have none.
    #[derive(Copy)]
    #[non_exhaustive]
    pub struct SubscriptionStats of "subscription" {
        /// Messages that wait to be read; those of an attached process are not counted.
        queued_messages: gauge(messages),
        /// Bytes that wait to be read.
        queued_bytes: gauge(bytes),
        /// Messages dropped because the queue was full.
        dropped: counter(messages),
        /// Time for which the queue was full and held senders up, or was about to (`Overflow::Hold`).
        full: counter(seconds),
        /// Time since it began to be full, pauses of less than a second included; 0 if it has had room since.
        full_for: maximum(seconds),
    }
}

qsm_metrics::metrics! {
    /// The queue of a publisher. A feed has none.
    #[derive(Copy)]
    #[non_exhaustive]
    pub struct PublisherStats of "publisher" {
        /// Messages that wait to be sent.
        queued_messages: gauge(messages),
        /// Bytes that wait to be sent.
        queued_bytes: gauge(bytes),
        /// Publishers and feeds that have a message which the send window has no room for.
        blocked: gauge(publishers),
    }
}

impl Memory {
    /// So many bytes are held now.
    pub(crate) fn note(&mut self, send_bytes: usize, receive_bytes: usize) {
        (self.send_bytes, self.receive_bytes) = (send_bytes as u64, receive_bytes as u64);
        self.send_bytes_peak = self.send_bytes_peak.max(self.send_bytes);
        self.receive_bytes_peak = self.receive_bytes_peak.max(self.receive_bytes);
    }
}

/// Delays of timers, second by second.
#[derive(Debug, Default)]
pub(crate) struct TimerDelays {
    stats: TimerStats,
    /// The second that the longest delay below is of, from the core's start.
    second: u64,
    /// Longest delay in it, if timers were run.
    longest: Option<Duration>,
    /// Longest delay in the second before.
    before: Duration,
}

impl TimerDelays {
    /// A timer was run now that was due then.
    pub(crate) fn ran(&mut self, now: Instant, due: Instant) {
        self.advance(now);
        let late = now.since(due);
        self.stats.runs += 1;
        self.stats.late_max = self.stats.late_max.max(late);
        self.longest = self.longest.max(Some(late));
    }

    /// Counted until now.
    pub(crate) fn stats(&mut self, now: Instant) -> TimerStats {
        self.advance(now);
        let recent = self.longest.unwrap_or_default().max(self.before);
        TimerStats {
            late_recent_max: recent,
            ..self.stats.clone()
        }
    }

    fn advance(&mut self, now: Instant) {
        let second = now.since(Instant(0)).as_secs();
        if second <= self.second {
            return;
        }
        let longest = self.longest.take();
        if let Some(late) = longest {
            self.stats.late.record(late);
        }
        let follows = second == self.second + 1;
        self.before = longest.filter(|_| follows).unwrap_or_default();
        self.second = second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A time, milliseconds after the start.
    fn at(millis: u32) -> Instant {
        Instant(0).after(MS * millis)
    }

    #[test]
    fn the_latest_timer_of_the_last_second_is_told_and_then_forgotten() {
        let mut delays = TimerDelays::default();
        delays.ran(at(100), at(98));
        delays.ran(at(950), at(943));
        delays.ran(at(960), at(960));
        let recent = |delays: &mut TimerDelays, now| delays.stats(at(now)).late_recent_max;
        assert_eq!(recent(&mut delays, 999), MS * 7);
        assert_eq!(recent(&mut delays, 1000), MS * 7);
        // The whole second before now is told, whatever came since.
        delays.ran(at(1500), at(1499));
        assert_eq!(recent(&mut delays, 1949), MS * 7);
        assert_eq!(recent(&mut delays, 2000), MS);
        assert_eq!(recent(&mut delays, 3000), Duration::ZERO);
        let stats = delays.stats(at(3000));
        assert_eq!((stats.runs, stats.late_max), (4, MS * 7));
    }

    #[test]
    fn each_second_with_timers_counts_once_by_its_latest() {
        let mut delays = TimerDelays::default();
        for (now, late) in [(10, 1), (120, 40), (130, 2), (7_000, 3), (7_900, 0)] {
            delays.ran(at(now), at(now - late));
        }
        // The second that goes on is not counted yet, and a silent one never.
        assert_eq!(delays.stats(at(7_950)).late.count(), 1);
        let late = delays.stats(at(20_000)).late;
        assert_eq!((late.count(), late.sum()), (2, MS * 43));
        assert!(late.quantile(500) < MS * 4 && late.quantile(1000) >= MS * 40);
        assert_eq!(delays.stats(at(20_000)).late_recent_max, Duration::ZERO);
    }

    #[test]
    fn peaks_of_memory_stay_when_memory_is_given_back() {
        let mut memory = Memory::default();
        for (send, receive) in [(100, 7), (500, 3), (20, 40), (0, 0)] {
            memory.note(send, receive);
        }
        assert_eq!((memory.send_bytes, memory.receive_bytes), (0, 0));
        let peaks = (memory.send_bytes_peak, memory.receive_bytes_peak);
        assert_eq!(peaks, (500, 40));
    }
}
