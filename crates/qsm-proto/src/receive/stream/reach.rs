//! Signs that a sender's multicast does not arrive here (R-REACH-1).

use super::ReceiveStream;

impl ReceiveStream {
    /// Highest packet that has come from the sender itself.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Whether the stream goes further than what has come from the sender itself, though its
    /// multicast may have been heard otherwise.
    pub(crate) fn is_unheard(&self) -> bool {
        let known = self.highest.max(self.announced);
        known >= self.start && known > self.arrived.max(self.sender.heard)
    }

    /// The sender's multicast is heard: what has not come from it so far was lost.
    pub(crate) fn note_heard(&mut self) {
        self.sender.heard = self.highest.max(self.announced);
    }
}
