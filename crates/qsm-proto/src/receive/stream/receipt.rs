//! What a sender is to know before this node goes (R-MEM-14).

use super::ReceiveStream;

impl ReceiveStream {
    /// This node closes: what has arrived is to be acknowledged before it goes.
    pub(crate) fn close(&mut self) {
        self.contiguous_at_close = self.contiguous;
    }

    /// Whether the sender has been told of all that had arrived when this node began to close.
    pub(crate) fn receipted(&self) -> bool {
        let concerned = self.contiguous_at_close >= self.start && !self.sender.dead;
        !concerned || self.marks.stable_upto >= self.contiguous_at_close
    }
}
