qsm_metrics::metrics! {
    /// Counters of a membership service since its start.
    #[derive(Copy)]
    pub struct ServiceStats of "service" {
        /// Batches applied.
        batches: counter(batches),
        /// Region views made.
        views: counter(views),
        /// Entries of the index from groups to regions that were changed.
        group_touches: counter(entries),
        /// Regions created.
        regions_created: counter(regions),
        /// Of these, private ones, for groups that one node alone receives.
        regions_private: counter(regions),
        /// Of these, merged ones, of nodes whose groups differ.
        regions_merged: counter(regions),
        /// Of these, common ones, of nodes that have other groups beside.
        regions_common: counter(regions),
        /// Members of merged regions that receive other groups there than before.
        shares_changed: counter(nodes),
        /// Regions whose groups were replaced while their address stayed.
        regions_regrouped: counter(regions),
        /// Plans of which groups go by private regions although several nodes have them.
        plans: counter(times),
        /// CPU time that plans count for a packet sent.
        plan_packet_ns: gauge(nanoseconds),
        /// CPU time that plans count for a packet at a node that does not want it.
        plan_unwanted_ns: gauge(nanoseconds),
        /// Reports of nodes of how much they publish to each group, for plans.
        rates_told: counter(messages),
        /// Descriptions of nodes, for lists (R-MEM-21).
        descriptions_told: counter(messages),
        /// Of these, ones that are none, or for which there was no memory: their nodes have no description.
        descriptions_refused: counter(messages),
        /// Regions closed.
        regions_closed: counter(regions),
        /// Regions that had to share an address because the budget was used up.
        addresses_shared: counter(regions),
        /// Nodes marked as leaving a region.
        moves: counter(nodes),
        /// Leaving members taken out because they did not drain in time.
        drains_expired: counter(nodes),
        /// Nodes admitted in a new life.
        admitted: counter(nodes),
        /// Nodes that nobody waited for from some time on, counted each time.
        away: counter(nodes),
        /// Nodes that were away and are waited for again, counted each time.
        returned: counter(nodes),
        /// Words of nodes that they have caught up, too soon after they had been back before.
        returns_too_soon: counter(requests),
        /// Nodes that other members did not reach although the service heard them, each time.
        kept_apart: counter(nodes),
        /// Nodes that senders had to wait for because they were slower than the others, each time.
        slow: counter(nodes),
        /// Nodes among them that went on from the present, as their groups say (R-RATE-12).
        slow_demoted: counter(nodes),
        /// Nodes among them that were shut out, as their groups say (R-RATE-12).
        slow_expelled: counter(nodes),
        /// Nodes that the multicast of some other did not reach, each time.
        deaf: counter(nodes),
        /// Times at which so many nodes were silent at once that none of them was excluded.
        many_silent: counter(times),
        /// Probes whose host said that no process is there, so that the node was excluded at once.
        refused_probes: counter(packets),
        /// Times at which the service itself had not run when it should have.
        late: counter(times),
        /// Nodes taken up as members that are away because others have reported them.
        unreported: counter(nodes),
        /// Nodes that went on in lives that another service knew.
        resumed: counter(nodes),
        /// Nodes that went on at another address.
        relocated: counter(nodes),
        /// Nodes excluded.
        excluded: counter(nodes),
        /// Probes sent.
        probes_sent: counter(packets),
        /// Of these, copies sent beside a probe because heartbeats of its node were missed.
        probes_copied: counter(packets),
        /// Requests refused.
        refused: counter(requests),
        /// Parts of lists sent to those who look without being a node.
        list_parts: counter(packets),
        /// Accounts of groups sent to them.
        groups_explained: counter(packets),
        /// Regions that moved because packets of other clusters came to their addresses (R-MEM-20).
        regions_readdressed: counter(regions),
        /// Times that the operator has changed the limit of repairs (R-NAK-16).
        repair_limits: counter(times),
        /// Their questions that went beyond the rate.
        lists_refused: counter(packets),
        /// Their questions that came before the service knew the cluster, or after it had yielded.
        lists_unready: counter(packets),
        /// Bytes of membership messages queued to nodes.
        message_bytes: counter(bytes),
        /// Sessions given up because their node did not keep up or broke the rules.
        sessions_broken: counter(sessions),
        /// Resets sent to sessions that are not known.
        resets_sent: counter(packets),
        /// Datagrams that are no packets of this protocol version.
        discard_malformed: counter(datagrams),
        /// Whose checksum does not match: damaged or cut short in the network.
        discard_damaged: counter(datagrams),
        /// Datagrams of another cluster.
        discard_cluster: counter(datagrams),
        /// Packets that a membership service has nothing to do with.
        discard_kind: counter(packets),
        /// Membership messages that cannot be read or came at the wrong time.
        discard_message: counter(messages),
        /// Session openings refused because the limit of nodes is reached.
        discard_nodes: counter(sessions),
    }
}
