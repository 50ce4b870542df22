qsm_metrics::metrics! {
    /// Counters of a membership service that admits nodes by tokens.
    #[derive(Copy)]
    pub struct AdmissionStats of "admission" {
        /// Handshakes that were begun: their cookie was right, and there was room.
        begun: counter(handshakes),
        /// Handshakes by which somebody was admitted.
        admitted: counter(handshakes),
        /// Handshakes by which somebody was refused, and told why.
        refused: counter(handshakes),
        /// Handshakes that could not go on.
        broken: counter(handshakes),
        /// Handshakes that were not done in time.
        expired: counter(handshakes),
        /// Handshakes for which there was no room, or that came too fast from one address.
        denied: counter(handshakes),
        /// Sessions that are open.
        sessions: gauge(sessions),
        /// Nodes that were shut out: their token was revoked, or expired.
        expelled: counter(nodes),
        /// Epochs that were activated.
        epochs: counter(epochs),
        /// Members that did not receipt the key of an epoch in time.
        silent: counter(members),
        /// Questions of strangers for the service that had no answer: more than 256 in a quarter of a second, or too short.
        unanswered: counter(questions),
        /// News of strangers that were refused, or of lists, that were dropped: more than 4,096 waited to be read.
        news_dropped: counter(news),
        /// Parts of lists of revocations that members were told, of 1,024 bytes at most.
        list_parts: counter(parts),
        /// Other services of the cluster with whom this one has shaken hands.
        rivals: counter(handshakes),
    }
}
