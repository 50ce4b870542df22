//! Counters: cumulative, monotone, cheap (R260). One declaration gives fields, names and help.

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
    }
}
