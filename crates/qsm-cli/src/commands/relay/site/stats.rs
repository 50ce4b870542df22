//! Account of a gateway.

qsm::metrics::metrics! {
    /// Account of a site's gateway since it was started.
    #[derive(Copy)]
    pub(super) struct SiteStats of "site", counted in pub(super) SiteCounts {
        /// Messages of this site that were put into its stream.
        messages_forwarded: counter(messages),
        /// Their bytes, without trailers.
        bytes_forwarded: counter(bytes),
        /// Messages of this site that are too long for a trailer behind them.
        too_long: counter(messages),
        /// Messages of this site that the gateway's own subscription has missed or dropped.
        missed: counter(messages),
        /// Packets that were not sent because no other site was there.
        unsent: counter(packets),
        /// Messages of other sites that were published here.
        messages_published: counter(messages),
        /// Messages of other sites that had come before.
        duplicates: counter(messages),
        /// Messages of other sites that have not come, as the numbers of those behind them show.
        missing: counter(messages),
        /// Messages of other sites for groups that this gateway does not serve.
        unwanted: counter(messages),
        /// Messages of other sites that this cluster did not take in time, or not at all.
        untaken: counter(messages),
        /// Packets of other sites that are lost.
        packets_lost: counter(packets),
        /// Packets and records that are none, or are of another site than expected.
        refused: counter(packets),
        /// Packets of other sites that cannot be opened: sealed by another key, or forged.
        unopened: counter(packets),
        /// Messages of this site that another gateway has brought back into its cluster.
        looped: counter(messages),
    }
}
