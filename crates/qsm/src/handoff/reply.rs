//! The answer of a core to a command, and those who wait for it.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::error::{CloseReason, RequestError};

/// How much longer than the core a caller waits, so that the core's answer is the rule.
const REPLY_GRACE: Duration = Duration::from_millis(500);

/// How often one who waits for somebody else looks whether that one is still there.
const LOOK: Duration = Duration::from_millis(100);

/// Longest wait for an answer: a century would overflow the clock.
const TIMEOUT_MAX: Duration = Duration::from_secs(1 << 30);

/// Where the answer to a command goes; dropped without answer when the node ends.
pub(crate) type Reply<T> = SyncSender<Result<T, RequestError>>;

/// What a core was asked for, and will say.
pub(crate) struct Answer<'a, T> {
    /// Why its core has ended, if it has.
    closed: &'a OnceLock<CloseReason>,
    doing: &'static str,
    after: Duration,
    deadline: Instant,
    answer: Receiver<Result<T, RequestError>>,
}

impl<'a, T> Answer<'a, T> {
    /// An answer, and the place where it is to go.
    pub(crate) fn to_come(
        closed: &'a OnceLock<CloseReason>,
        doing: &'static str,
        timeout: Duration,
    ) -> (Reply<T>, Self) {
        let after = timeout.min(TIMEOUT_MAX);
        let (reply, answer) = sync_channel(1);
        let answer = Self {
            closed,
            doing,
            after,
            deadline: Instant::now() + after,
            answer,
        };
        (reply, answer)
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// As [`Answer::wait`], but gives up when nobody wants the answer any more.
    pub(crate) fn wait_unless(self, over: impl Fn() -> bool) -> Result<T, RequestError> {
        let Self { doing, after, .. } = self;
        let last = self.deadline + REPLY_GRACE;
        loop {
            let left = last.saturating_duration_since(Instant::now());
            match self.answer.recv_timeout(left.min(LOOK)) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(why_closed(self.closed)),
                Err(RecvTimeoutError::Timeout) if left > LOOK && !over() => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(RequestError::Timeout { doing, after });
                }
            }
        }
    }

    pub(crate) fn wait(self) -> Result<T, RequestError> {
        let Self { doing, after, .. } = self;
        let left = self.deadline.saturating_duration_since(Instant::now());
        let answer = self.answer.recv_timeout(left + REPLY_GRACE);
        answer.unwrap_or_else(|error| {
            Err(match error {
                RecvTimeoutError::Timeout => RequestError::Timeout { doing, after },
                RecvTimeoutError::Disconnected => why_closed(self.closed),
            })
        })
    }
}

fn why_closed(closed: &OnceLock<CloseReason>) -> RequestError {
    RequestError::Closed(closed.get().cloned().unwrap_or(CloseReason::ShutDown))
}
