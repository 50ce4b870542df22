//! Signs that a sender's multicast does not arrive here (R-REACH-1).

use super::ReceiveStream;

impl ReceiveStream {
    /// Highest packet that has come from the sender itself.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// By how many packets the stream goes further than what has come from the sender itself, since
    /// its multicast was heard otherwise.
    pub(crate) fn unheard(&self) -> u64 {
        let known = self.highest.max(self.announced);
        let heard = self.arrived.max(self.sender.heard);
        match known >= self.start {
            true => known.saturating_sub(heard),
            false => 0,
        }
    }

    /// The sender's multicast is heard: what has not come from it so far was lost.
    pub(crate) fn note_heard(&mut self) {
        self.sender.heard = self.highest.max(self.announced);
    }
}
