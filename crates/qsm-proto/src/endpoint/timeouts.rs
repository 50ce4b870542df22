//! Work that is due.

use super::Endpoint;
use crate::group_rates::STEP;
use crate::introduction::Counted;
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
        self.for_each_region(|cx| {
            cx.note_readers();
            cx.note_strain();
        });
        self.for_each_region(|cx| cx.answer_collected());
        self.regions
            .make_requests(&mut self.node, &mut self.membership, out);
        self.for_each_region(|cx| cx.give_up_unproven(out));
        self.regions.table.go_on_delivering(&mut self.node, out);
        self.for_each_region(|cx| cx.note_readers());
        self.for_each_region(|cx| cx.return_from_absence());
        self.for_each_region(|cx| cx.listen());
        self.for_each_region(|cx| {
            cx.ask_queries();
            cx.ask_numbers();
        });
        self.for_each_region(|cx| cx.handle_sender_timeout());
        self.for_each_region(|cx| cx.leave_drained());
        self.for_each_region(|cx| cx.part());
        self.for_each_region(|cx| cx.forget_ended());
        self.report_rates();
        self.say_description();
        self.report_group_rates();
        self.go_on_closing();
    }

    /// Says what this node is, for lists.
    pub(super) fn introduce(&mut self) {
        let (now, counted) = (self.node.now, self.counted());
        let reporter = self.reporter.as_mut();
        if let Some(about) = reporter.and_then(|reporter| reporter.admitted(now, counted)) {
            self.membership.introduce(now, about, &mut self.node.outbox);
        }
        if let Some(counts) = &mut self.group_counts {
            counts.admitted(now);
        }
        self.say_description();
    }

    /// Says the description that the application has given, if that is due.
    pub(super) fn say_description(&mut self) {
        let now = self.node.now;
        let reporter = self.reporter.as_mut();
        if let Some(text) = reporter.and_then(|reporter| reporter.describer.word(now)) {
            self.membership.describe(now, text, &mut self.node.outbox);
        }
    }

    /// Says how many messages it sends and receives, if that is due.
    fn report_rates(&mut self) {
        let (now, counted) = (self.node.now, self.counted());
        let reporter = self.reporter.as_mut();
        if let Some(rates) = reporter.and_then(|reporter| reporter.report(now, counted)) {
            self.membership.rated(now, rates, &mut self.node.outbox);
        }
    }

    /// Says how many messages it publishes to which groups, if that is due.
    fn report_group_rates(&mut self) {
        let (now, routes) = (self.node.now, &self.regions.routes);
        let Some(counts) = &mut self.group_counts else {
            return;
        };
        if let Some(place) = counts.place(now) {
            let published = routes.counts(place, STEP);
            if let Some(rates) = counts.look(now, routes.places(), published) {
                self.membership
                    .group_rated(now, rates, &mut self.node.outbox);
            }
        }
    }

    fn counted(&self) -> Counted {
        let stats = &self.node.stats;
        Counted {
            sent: stats.messages_published,
            received: stats.messages_delivered,
        }
    }
}
