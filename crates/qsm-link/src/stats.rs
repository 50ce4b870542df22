qsm_metrics::metrics! {
    /// Account of the links at a port since it was opened.
    #[derive(Copy)]
    pub struct LinkStats of "relay_link" {
        /// Links open now.
        open: gauge(links),
        /// Links that were opened.
        opened: counter(links),
        /// Links that have ended, at either end or between.
        lost: counter(links),
        /// Peers that were refused: by their token, their name, or for want of room.
        refused: counter(links),
        /// Peers whose address has changed.
        moved: counter(links),
        /// Packets sealed.
        sealed: counter(packets),
        /// Packets opened.
        opened_packets: counter(packets),
        /// Packets for peers without an open link, which were not sent.
        unlinked: counter(packets),
        /// Datagrams that no peer has sealed, or of links that are gone.
        forged: counter(packets),
        /// Datagrams that had come before.
        replayed: counter(packets),
        /// Datagrams of peers from an address that is not theirs yet.
        strayed: counter(packets),
        /// Datagrams without protection where there is some, or the reverse.
        mismatched: counter(packets),
    }
}

qsm_metrics::metrics! {
    /// Account of the datagrams of a port that are too long to travel in one.
    #[derive(Copy)]
    pub struct PieceStats of "relay_piece" {
        /// Datagrams that were cut into pieces.
        cut: counter(packets),
        /// Datagrams that came in pieces, and are whole.
        joined: counter(packets),
        /// Datagrams that were given up because pieces were missing.
        incomplete: counter(packets),
        /// Datagrams that begin as pieces do and are none.
        malformed: counter(packets),
    }
}
