//! Work that is due.

use super::Endpoint;
use crate::{Deliver, Instant};

impl Endpoint {
    /// Does what is due. Early and repeated calls do nothing.
    pub fn handle_timeout(&mut self, now: Instant, out: &mut dyn Deliver) {
        let now = self.advance(now);
        self.membership.handle_timeout(now, &mut self.node.outbox);
        self.pass_events_on();
        if !self.node.backlog.is_waiting() {
            self.for_each_region(|cx| cx.extend_streams(out));
        }
        self.for_each_region(|cx| cx.run_ring());
        self.for_each_region(|cx| cx.note_strain());
        self.regions
            .make_requests(&mut self.node, &mut self.membership, out);
        self.regions.table.go_on_delivering(&mut self.node, out);
        self.for_each_region(|cx| cx.return_from_absence());
        self.for_each_region(|cx| cx.listen());
        self.for_each_region(|cx| cx.ask_queries());
        self.for_each_region(|cx| cx.ask_numbers());
        self.for_each_region(|cx| cx.handle_sender_timeout());
        self.for_each_region(|cx| cx.leave_drained());
        self.for_each_region(|cx| cx.part());
        self.for_each_region(|cx| cx.forget_ended());
        self.go_on_closing();
    }
}
