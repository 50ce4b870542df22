//! Looks at the stages of messages' ways, of a node with a latency budget (R241).

use std::time::Duration;

use qsm_proto::Instant;

use super::Core;
use crate::event::Event;
use crate::latency::Stage;

impl Core {
    /// Tells queues the time, if there is a budget; before anything is received.
    pub(super) fn begin_watching(&mut self) {
        if self.budget.is_some() {
            self.routes.begin_turn(self.now);
        }
    }

    /// A stage took so long.
    pub(super) fn watch(&mut self, stage: Stage, took: Duration) {
        let now = self.now;
        let watch = self.budget.as_mut();
        if let Some(over) = watch.and_then(|watch| watch.note(now, stage, took)) {
            self.readers.tell(&Event::OverBudget(over));
        }
    }

    /// Looks at all stages that are not told as they end, if that is due.
    pub(super) fn watch_stages(&mut self) {
        let now = self.now;
        if self.budget.as_mut().is_some_and(|watch| watch.is_due(now)) {
            self.look_at_stages();
        }
    }

    /// Looks at them at once, so that what is counted is up to date.
    pub(super) fn look_at_stages(&mut self) {
        let now = self.now;
        let Some(watch) = &self.budget else {
            return;
        };
        let reader = self.routes.overdue(now, watch.share(Stage::Subscription));
        let delays = self.endpoint.take_delays(now);
        let blocked = self.transmitter.take_blocked(now);
        for (stage, took) in [
            (Stage::Handoff, self.sources.take_handoff()),
            (Stage::Batching, delays.batching),
            (Stage::Admission, delays.admission),
            (Stage::SocketSend, blocked),
            (Stage::Repair, delays.repair),
            (Stage::Subscription, reader),
        ] {
            if !took.is_zero() {
                self.watch(stage, took);
            }
        }
    }

    /// When a message will have waited for its reader for longer than it may.
    pub(super) fn reader_timeout(&self) -> Option<Instant> {
        let watch = self.budget.as_ref()?;
        let share = watch.share(Stage::Subscription);
        let since = self.routes.waiting_since()?;
        let late = since.after(share).after(Duration::from_nanos(1));
        Some(late.max(watch.next_look()))
    }
}
