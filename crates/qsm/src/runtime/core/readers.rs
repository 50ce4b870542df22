use std::sync::Arc;

use crate::error::{CloseReason, RecvError};
use crate::event::Event;
use crate::handoff::inbox::Inbox;

/// The application's readers of events.
#[derive(Default)]
pub(super) struct Readers {
    inboxes: Vec<Arc<Inbox<Event>>>,
    told: bool,
}

impl Readers {
    pub(super) fn add(&mut self, inbox: Arc<Inbox<Event>>) {
        self.inboxes.push(inbox);
    }

    pub(super) fn tell(&mut self, event: &Event) {
        self.inboxes.retain(|inbox| !inbox.is_over());
        for inbox in &self.inboxes {
            inbox.offer(0, || event.clone());
        }
        self.told = true;
    }

    pub(super) fn wake(&mut self) {
        if core::mem::take(&mut self.told) {
            self.inboxes.iter().for_each(|inbox| inbox.wake());
        }
    }

    pub(super) fn close(&mut self, reason: &CloseReason) {
        for inbox in self.inboxes.drain(..) {
            inbox.close(RecvError::Closed(reason.clone()));
        }
    }
}
