//! The other cores of the node. They share nothing: what one has to say to another goes the way of
//! the application's commands, and is about starting, ending and the membership service only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::CloseReason;
use crate::handoff::command::Command;
use crate::handoff::shared::Shared;

/// How long the others may take to end when one has failed.
const END_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct Siblings {
    others: Box<[Arc<Shared>]>,
    /// This is the first core, which keeps the node's membership service if it has one.
    leads: bool,
}

impl Siblings {
    /// Those of the core in this place.
    pub(super) fn new(all: &[Arc<Shared>], place: usize) -> Self {
        let others = all.iter().enumerate().filter(|(other, _)| *other != place);
        Self {
            others: others.map(|(_, shared)| Arc::clone(shared)).collect(),
            leads: place == 0,
        }
    }

    pub(super) fn leads(&self) -> bool {
        self.leads
    }

    /// The first core, where that is another.
    pub(super) fn leader(&self) -> Option<&Shared> {
        let first = self.others.first().filter(|_| !self.leads);
        first.map(|shared| &**shared)
    }

    pub(super) fn are_running(&self) -> bool {
        self.others.iter().any(|other| other.closed().is_none())
    }

    pub(super) fn tell(&self, command: impl Fn() -> Command) {
        self.others.iter().for_each(|other| other.tell(command()));
    }

    /// This core has ended: for a failure, which ends the others, or else the first may be waiting
    /// for that.
    pub(super) fn end(&self, reason: &CloseReason) {
        if *reason == CloseReason::ShutDown {
            self.leader().into_iter().for_each(Shared::nudge);
            return;
        }
        let deadline = Instant::now() + END_TIMEOUT;
        self.tell(|| Command::Shutdown {
            deadline,
            reason: reason.clone(),
            reply: None,
        });
    }
}
