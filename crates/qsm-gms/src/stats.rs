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
    /// What a membership service has done since its start (R260).
    ServiceStats {
        /// Batches applied.
        batches,
        /// Region views made.
        views,
        /// Entries of the index from groups to regions that were changed.
        group_touches,
        /// Regions created.
        regions_created,
        /// Regions whose groups were replaced while their address stayed (R044).
        regions_regrouped,
        /// Regions closed.
        regions_closed,
        /// Regions that had to share an address because the budget was used up (R231).
        addresses_shared,
        /// Nodes marked as leaving a region.
        moves,
        /// Leaving members taken out because they did not drain in time.
        drains_expired,
        /// Nodes admitted in a new life.
        admitted,
        /// Nodes excluded.
        excluded,
        /// Probes sent.
        probes_sent,
        /// Requests refused.
        refused,
        /// Bytes of membership messages queued to nodes.
        message_bytes,
        /// Sessions given up because their node did not keep up or broke the rules.
        sessions_broken,
        /// Resets sent to sessions that are not known.
        resets_sent,
        /// Datagrams that are no packets of this protocol version.
        discard_malformed,
        /// Datagrams of another cluster.
        discard_cluster,
        /// Packets that a membership service has nothing to do with.
        discard_kind,
        /// Membership messages that cannot be read or came at the wrong time.
        discard_message,
        /// Session openings refused because the limit of nodes is reached.
        discard_nodes,
    }
}
