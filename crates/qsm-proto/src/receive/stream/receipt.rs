//! What a sender is to know before this node goes (R-MEM-14).

use super::ReceiveStream;

impl ReceiveStream {
    /// This node closes: what has arrived is to be acknowledged before it goes.
    pub(crate) fn close(&mut self) {
        self.closed_at = self.contiguous;
    }

    /// Whether the sender has been told of all that had arrived when this node began to close.
    pub(crate) fn receipted(&self) -> bool {
        let concerned = self.closed_at >= self.start && !self.sender.dead;
        !concerned || self.marks.stable_upto >= self.closed_at
    }
}
