//! As an application thread: sources that have something, and what the core is asked.

use std::time::{Duration, Instant};

use super::Shared;
use crate::error::RequestError;
use crate::handoff::command::Command;
use crate::handoff::reply::{Answer, Reply};

impl Shared {
    /// The source in this place has something to send.
    pub(crate) fn announce(&self, slot: u32) {
        self.ready.push(slot);
        self.waker.wake();
    }

    /// Lets the core look around.
    pub(crate) fn nudge(&self) {
        self.waker.wake();
    }

    /// Gives the core a command, without an answer.
    pub(crate) fn tell(&self, command: Command) {
        self.commands.push(command);
        if self.closed.get().is_some() {
            self.discard();
        } else {
            self.waker.wake();
        }
    }

    /// Gives the core a command and waits for the answer, `timeout` or as long as requests may
    /// take.
    pub(crate) fn ask<T>(
        &self,
        doing: &'static str,
        timeout: Option<Duration>,
        command: impl FnOnce(Reply<T>, Instant) -> Command,
    ) -> Result<T, RequestError> {
        self.request(doing, timeout, command)?.wait()
    }

    /// The same, without waiting yet: so one can ask several cores at once.
    pub(crate) fn request<T>(
        &self,
        doing: &'static str,
        timeout: Option<Duration>,
        command: impl FnOnce(Reply<T>, Instant) -> Command,
    ) -> Result<Answer<'_, T>, RequestError> {
        if self.on_core_thread() {
            return Err(RequestError::OnCoreThread);
        }
        let after = timeout.unwrap_or(self.request_timeout);
        let (reply, answer) = Answer::to_come(&self.closed, doing, after);
        self.tell(command(reply, answer.deadline()));
        Ok(answer)
    }
}
