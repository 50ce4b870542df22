qsm_metrics::metrics! {
    /// Account of a relay since it was made.
    #[derive(Copy)]
    pub struct RelayStats of "relay" {
        /// Data packets passed on to children.
        data_forwarded: counter(packets),
        /// Data packets that had come before.
        data_duplicates: counter(packets),
        /// Heartbeats not passed on, since the next packet was not overdue.
        heartbeats_held: counter(packets),
        /// Packets found missing here, by a gap or a heartbeat.
        losses_detected: counter(packets),
        /// Packets asked for upstream, repetitions included.
        nacked_upstream: counter(packets),
        /// Of these, repetitions.
        nacked_again: counter(packets),
        /// Packets that children have asked for.
        nacks_received: counter(packets),
        /// Of these, ones that made no NACK go on: it was under way already, or the repair was.
        nacks_suppressed: counter(packets),
        /// Packets that were asked of a child.
        repliers_elected: counter(packets),
        /// Repliers that kept silent, or lacked the packet themselves.
        repliers_failed: counter(packets),
        /// Repairs passed on.
        repairs_forwarded: counter(packets),
        /// Copies of them, one for each link.
        repair_copies: counter(packets),
        /// Repairs that nobody waited for.
        repairs_unneeded: counter(packets),
        /// Repairs out of the cache.
        cache_repairs: counter(packets),
        /// Packets that went out of the cache for newer ones.
        cache_evicted: counter(packets),
        /// Memory that the cache takes.
        cache_bytes: gauge(bytes),
        /// Parities that came.
        parity_received: counter(packets),
        /// Packets restored by them.
        parity_restored: counter(packets),
        /// Parities by which nothing was restored: nothing was lost, or too much.
        parity_unused: counter(packets),
        /// Parities that contradicted others, or what had come.
        parity_malformed: counter(packets),
        /// Parities sent, one for each child.
        parity_sent: counter(packets),
        /// Children that have come.
        children_joined: counter(children),
        /// Children that have been silent for too long.
        children_lost: counter(children),
        /// Children whose address has changed.
        children_moved: counter(children),
        /// Parents that were silent, and in whose place another one came.
        parents_changed: counter(parents),
        /// Longest time from the last word of such a parent to the first one of the next.
        orphaned_us: gauge(microseconds),
        /// Joins that have come back to the relay that they began at: parents form a loop.
        loops: counter(packets),
        /// Feedback of children on their rates.
        feedback_received: counter(packets),
        /// Feedback passed up, of the slowest child each.
        feedback_sent: counter(packets),
        /// Sessions of which nothing was left to know.
        sessions_ended: counter(sessions),
        /// Datagrams that are no packets of these formats, or damaged.
        malformed: counter(packets),
        /// Packets from somebody who may not send them, or of unknown sessions.
        refused: counter(packets),
        /// Children, sessions, packets asked for or packets to send beyond their limits.
        limited: counter(packets),
    }
}

qsm_metrics::metrics! {
    /// Account of a receiver since it was made.
    #[derive(Copy)]
    pub struct ReceiverStats of "relay_receiver" {
        /// Packets handed to the application.
        delivered: counter(packets),
        /// Packets that it will not get: released before it had them.
        lost: counter(packets),
        /// Packets that it had already.
        duplicates: counter(packets),
        /// Repairs that came, needed or not.
        repairs_received: counter(packets),
        /// Of these, ones of packets that it had.
        repairs_unneeded: counter(packets),
        /// Packets asked for, repetitions included.
        nacked: counter(packets),
        /// Parities that came.
        parity_received: counter(packets),
        /// Packets restored by them.
        parity_restored: counter(packets),
        /// Parities by which nothing was restored: nothing was lost, or too much.
        parity_unused: counter(packets),
        /// Parities that contradicted others, or what had come.
        parity_malformed: counter(packets),
        /// Parents that were silent, and in whose place another one came.
        parents_changed: counter(parents),
        /// Longest time from the last word of such a parent to the first one of the next.
        orphaned_us: gauge(microseconds),
        /// Samples of a round trip, some in each, in which more was lost than 2 % and chance explain.
        overloads: counter(samples),
        /// Feedback sent on what comes to this receiver.
        feedback_sent: counter(packets),
        /// Packets repaired for others.
        repairs_sent: counter(packets),
        /// Datagrams that are no packets of these formats, or damaged.
        malformed: counter(packets),
        /// Packets of other sessions, or not from its parent.
        refused: counter(packets),
        /// Packets to send beyond their limits.
        limited: counter(packets),
    }
}

qsm_metrics::metrics! {
    /// Account of a source since it was made.
    #[derive(Copy)]
    pub struct SourceStats of "relay_source" {
        /// Packets sent for the first time.
        sent: counter(packets),
        /// Packets that children have asked for.
        nacks_received: counter(packets),
        /// Of these, ones whose repair was under way.
        nacks_suppressed: counter(packets),
        /// Packets sent again.
        repairs_sent: counter(packets),
        /// Parities sent, one for each child.
        parity_sent: counter(packets),
        /// Packets that were asked for after they had been released.
        released_before: counter(packets),
        /// Children that have been silent for too long.
        children_lost: counter(children),
        /// Children whose address has changed.
        children_moved: counter(children),
        /// Feedback of children on their rates.
        feedback_received: counter(packets),
        /// Rate, if it is adapted to receivers, with the headers of IP and UDP.
        rate: gauge(bytes_per_second),
        /// Rate at which packets come to the slowest receiver, as the source's model has it.
        bandwidth: gauge(bytes_per_second),
        /// Round trip to the slowest receiver.
        round_trip_us: gauge(microseconds),
        /// The shortest one lately.
        least_us: gauge(microseconds),
        /// Packets that the slowest receiver has lost in its last round trip, in a million.
        loss_ppm: gauge(ppm),
        /// Sent, and not reported by the slowest receiver.
        in_flight: gauge(bytes),
        /// Times that others were found to keep a queue filled: then the source has a window as TCP has.
        rivals: counter(times),
        /// Times that it has made way for marks of congestion (ECN) that the slowest receiver has counted.
        marks: counter(times),
        /// Times that it has done without marks for a minute, since the way there breaks them.
        unmarkable: counter(times),
        /// Datagrams that are no packets of these formats, or damaged.
        malformed: counter(packets),
        /// Packets of other sessions, or of a kind that no child sends.
        refused: counter(packets),
        /// Children or packets to send beyond their limits.
        limited: counter(packets),
    }
}
