//! Counters of a replica.

qsm::metrics::metrics! {
    /// State of a replica, and its account since it joined.
    #[derive(Copy)]
    pub struct ReplicaStats of "replica" {
        /// Replicas that are live now: 1 or 0.
        live: gauge(replicas),
        /// Bytes of the state, if it tells them, as live objects do: keys, values, entries, letters.
        state_bytes: gauge(bytes),
        /// Times that it became live.
        binds: counter(binds),
        /// Of these, histories that it began because nobody was live.
        founded: counter(histories),
        /// Times that it was live and bound anew.
        rebinds: counter(binds),
        /// Snapshots that it gave up: donors fell silent, or what they sent did not fit.
        failed_attempts: counter(snapshots),
        /// Snapshots that it has begun to give to others.
        given_snapshots: counter(snapshots),
        /// Bytes of them that it has sent.
        given_bytes: counter(bytes),
        /// Questions for a snapshot that it did not answer, because eight others were served.
        busy: counter(questions),
        /// Snapshots that it has imported.
        taken_snapshots: counter(snapshots),
        /// Bytes of them.
        taken_bytes: counter(bytes),
        /// Questions for up to 16 chunks that were asked for before and did not come.
        asked_again: counter(questions),
        /// Updates that it has published.
        published: counter(updates),
        /// Updates that it has not published: it was not live, or the state refused them.
        refused: counter(updates),
        /// Updates of all replicas that it has applied, without those that came within a snapshot.
        applied: counter(updates),
        /// Updates that waited while a snapshot came.
        held: counter(updates),
        /// Bytes of such updates now, with 56 for each.
        held_bytes: gauge(bytes),
        /// Updates that it passed over: of another history, there already, or nonsense.
        passed_over: counter(updates),
        /// With a total order, times that it asked to be the next sequencer, when none was heard.
        elections: counter(elections),
        /// With a total order, terms of sequencers that it has followed, its own included.
        terms: counter(terms),
        /// Of these, terms in which it was the sequencer itself.
        own_terms: counter(terms),
        /// Words of other replicas that are nonsense.
        malformed: counter(words),
    }
}
