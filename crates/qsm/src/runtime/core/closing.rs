//! The end of a core: nothing more is accepted, what was accepted is delivered, everybody is told.

use super::pending::{outstanding, with_away};
use super::{Closing, Core};
use crate::error::{CloseReason, Flushed};
use crate::handoff::reply::Reply;

impl Core {
    pub(super) fn shut_down(
        &mut self,
        deadline: std::time::Instant,
        reason: CloseReason,
        reply: Option<Reply<Flushed>>,
    ) {
        if self.closing.is_some() {
            // The first one decides; this one learns of the end when its place is dropped.
            return;
        }
        self.shared.begin_closing();
        self.sources.retire_feeds();
        self.sources.collect(self.now, &self.shared);
        self.closing = Some(Closing {
            deadline: self.clock.at(deadline),
            reason,
            reply,
            finishing: false,
        });
    }

    /// Brings the end of the node forward; says why when it is there.
    pub(super) fn go_on_closing(&mut self) -> Option<CloseReason> {
        let closing = self.closing.as_mut()?;
        if !closing.finishing && self.sources.is_empty() {
            closing.finishing = true;
            self.endpoint.close(self.now);
            self.transmitter
                .run(self.now, &mut self.endpoint, &mut self.port);
        }
        let own = closing.finishing && self.endpoint.is_closed() && !self.transmitter.has_more();
        // The others' goodbyes may need the membership service that runs here.
        let done = own && !(self.siblings.leads() && self.siblings.are_running());
        if !done && self.now < closing.deadline {
            return None;
        }
        if let Some(reply) = closing.reply.take() {
            let answer = if done {
                let told = &self.shared.told;
                let flushed = self.pending.voids.tell(told.before(), told);
                flushed.map(|flushed| with_away(flushed, self.now, &self.endpoint))
            } else {
                let left = outstanding(self.now, &self.endpoint, &self.sources, |_| true);
                Err(reply.timed_out_with(left))
            };
            reply.answer(answer);
        }
        Some(closing.reason.clone())
    }

    /// The node ends: everybody is told.
    pub(super) fn finish(&mut self, reason: CloseReason) {
        self.embedding.stop();
        self.end_recording();
        let snapshot = self.snapshot();
        self.routes.close(&reason);
        self.readers.close(&reason);
        self.shared.finish(reason, Some(snapshot));
    }
}
