use core::time::Duration;

use crate::send::PacketDelays;

/// Longest delays of messages in those parts of their way that a node's protocol can time by
/// itself, since they were taken last ([`Endpoint::take_delays`](crate::Endpoint::take_delays)).
/// Of each stream sent, one packet at a time is timed; of packets that were missing, each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delays {
    /// Time for which messages waited for others in their packet (R-DATA-15).
    pub batching: Duration,
    /// Time for which receivers' credit or the rate held packets that were ready (R-RATE-4), those
    /// that are held now included.
    pub admission: Duration,
    /// From finding a packet missing to having it, also if it was only overtaken.
    pub repair: Duration,
}

impl Delays {
    pub(crate) fn note_packet(&mut self, packet: PacketDelays) {
        self.batching = self.batching.max(packet.batching);
        self.admission = self.admission.max(packet.admission);
    }
}
