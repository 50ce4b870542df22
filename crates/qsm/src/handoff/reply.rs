//! The answer of a core to a command, and those who wait for it.

use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{CloseReason, Outstanding, RequestError};

/// How much longer than the core a caller waits, so that the core's answer is the rule.
const REPLY_GRACE: Duration = Duration::from_millis(500);

/// How often one who waits for somebody else looks whether that one is still there.
const LOOK: Duration = Duration::from_millis(100);

/// Longest wait for an answer: a century would overflow the clock.
const TIMEOUT_MAX: Duration = Duration::from_secs(1 << 30);

/// Where the core puts the answer to a command; dropped without answer when the node ends.
pub(crate) struct Reply<T>(Arc<Request<T>>);

/// The caller's end: what a core was asked for, and will say.
pub(crate) struct Answer<'a, T> {
    /// Why its core has ended, if it has.
    closed: &'a OnceLock<CloseReason>,
    deadline: Instant,
    request: Arc<Request<T>>,
}

/// State of a request that caller and core share.
struct Request<T> {
    /// The condition waited for, and the remedy.
    doing: &'static str,
    /// Time that the caller allowed.
    after: Duration,
    state: Mutex<State<T>>,
    changed: Condvar,
    /// The task that waits, if it is one. Locked after `state`.
    task: Mutex<Option<Waker>>,
}

/// ```text
///           answer()                 wait()
/// Waiting ───────────► Answered ───────────────► Over
///    │ │                                          ▲ ▲
///    │ └── the core drops its end ────────────────┘ │
///    └──── the caller gives up ─────────────────────┘
/// ```
///
/// The caller gives up only while it is waiting: an answer is either taken or refused, and never
/// lost between the two.
enum State<T> {
    Waiting,
    Answered(Result<T, RequestError>),
    Over,
}

impl<T> Request<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn task(&self) -> MutexGuard<'_, Option<Waker>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another state in place of waiting, and wakes who waits. False: nobody does.
    fn end(&self, with: State<T>) -> bool {
        let mut state = self.state();
        if !matches!(*state, State::Waiting) {
            return false;
        }
        *state = with;
        self.changed.notify_one();
        let task = self.task().take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
        true
    }

    fn timed_out(&self) -> RequestError {
        RequestError::Timeout {
            doing: self.doing,
            after: self.after,
            outstanding: None,
        }
    }
}

impl<T> Reply<T> {
    /// Answers. False: the caller has given up, and whatever was made for him is to be undone.
    pub(crate) fn answer(self, answer: Result<T, RequestError>) -> bool {
        self.0.end(State::Answered(answer))
    }

    /// Time that the caller allowed.
    pub(crate) fn after(&self) -> Duration {
        self.0.after
    }

    /// The error of a request whose time is over.
    pub(crate) fn timed_out(&self) -> RequestError {
        self.0.timed_out()
    }

    /// The same of a flush or a shutdown, with what is left.
    pub(crate) fn timed_out_with(&self, left: Outstanding) -> RequestError {
        RequestError::Timeout {
            doing: self.0.doing,
            after: self.0.after,
            outstanding: Some(Box::new(left)),
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        self.0.end(State::Over);
    }
}

impl<'a, T> Answer<'a, T> {
    /// An answer, and the place where it is to go. `doing` says what is waited for, and the remedy.
    pub(crate) fn to_come(
        closed: &'a OnceLock<CloseReason>,
        doing: &'static str,
        timeout: Duration,
    ) -> (Reply<T>, Self) {
        let after = timeout.min(TIMEOUT_MAX);
        let request = Arc::new(Request {
            doing,
            after,
            state: Mutex::new(State::Waiting),
            changed: Condvar::new(),
            task: Mutex::new(None),
        });
        let answer = Self {
            closed,
            deadline: Instant::now() + after,
            request: Arc::clone(&request),
        };
        (Reply(request), answer)
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// As [`Answer::wait`], but gives up when nobody wants the answer any more.
    pub(crate) fn wait_unless(self, over: impl Fn() -> bool) -> Result<T, RequestError> {
        self.wait_in_steps(LOOK, over)
    }

    pub(crate) fn wait(self) -> Result<T, RequestError> {
        self.wait_in_steps(Duration::MAX, || false)
    }

    /// As [`Answer::wait`], for tasks. That it comes in time is the core's affair alone.
    pub(crate) async fn arrive(self) -> Result<T, RequestError> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Result<T, RequestError>> {
        let mut state = self.request.state();
        match core::mem::replace(&mut *state, State::Over) {
            State::Answered(answer) => Poll::Ready(answer),
            State::Over => Poll::Ready(Err(self.why_closed())),
            State::Waiting => {
                *state = State::Waiting;
                *self.request.task() = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn wait_in_steps(&self, step: Duration, over: impl Fn() -> bool) -> Result<T, RequestError> {
        let last = self.deadline + REPLY_GRACE;
        loop {
            let left = last.saturating_duration_since(Instant::now());
            let pause = if over() {
                Duration::ZERO
            } else {
                left.min(step)
            };
            if let Some(answer) = self.look(pause) {
                return answer;
            }
        }
    }

    /// Waits so long for the answer; without a pause, gives up if there is none.
    fn look(&self, pause: Duration) -> Option<Result<T, RequestError>> {
        let mut state = self.request.state();
        if matches!(*state, State::Waiting) && !pause.is_zero() {
            let waited = self.request.changed.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match core::mem::replace(&mut *state, State::Over) {
            State::Answered(answer) => Some(answer),
            State::Over => Some(Err(self.why_closed())),
            State::Waiting if pause.is_zero() => Some(Err(self.request.timed_out())),
            State::Waiting => {
                *state = State::Waiting;
                None
            }
        }
    }

    fn why_closed(&self) -> RequestError {
        let reason = self.closed.get().cloned();
        RequestError::Closed(reason.unwrap_or(CloseReason::ShutDown))
    }
}

impl<T> Drop for Answer<'_, T> {
    fn drop(&mut self) {
        *self.request.state() = State::Over;
    }
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn request(closed: &OnceLock<CloseReason>, timeout: Duration) -> (Reply<u32>, Answer<'_, u32>) {
        Answer::to_come(closed, "waiting for a number", timeout)
    }

    #[test]
    fn both_ends_name_the_same_timeout() {
        let (closed, timeout) = (OnceLock::new(), Duration::from_millis(1));
        let error = RequestError::Timeout {
            doing: "waiting for a number",
            after: timeout,
            outstanding: None,
        };
        let (reply, answer) = request(&closed, timeout);
        assert_eq!(reply.timed_out(), error);
        assert_eq!(answer.wait_unless(|| true), Err(error));
    }

    #[test]
    fn an_answer_is_taken_also_by_a_caller_who_is_about_to_give_up() {
        let closed = OnceLock::new();
        let (reply, answer) = request(&closed, LONG);
        assert!(reply.answer(Ok(7)));
        assert_eq!(answer.wait_unless(|| true), Ok(7));
    }

    #[test]
    fn the_core_learns_that_the_caller_has_given_up() {
        let closed = OnceLock::new();
        let (reply, answer) = request(&closed, LONG);
        answer.wait_unless(|| true).unwrap_err();
        assert!(!reply.answer(Ok(7)));
        let (reply, answer) = request(&closed, LONG);
        drop(answer);
        assert!(!reply.answer(Ok(7)));
    }

    #[test]
    fn a_caller_learns_why_there_will_be_no_answer() {
        let cause = "the socket is gone".to_owned();
        let closed = OnceLock::from(CloseReason::Io { cause });
        let (reply, answer) = request(&closed, LONG);
        drop(reply);
        let reason = closed.get().unwrap().clone();
        assert_eq!(answer.wait(), Err(RequestError::Closed(reason)));
    }

    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_task_is_woken_by_the_answer_and_by_its_absence() {
        let closed = OnceLock::new();
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let (reply, answer) = request(&closed, LONG);
        let mut arrival = pin!(answer.arrive());
        assert!(arrival.as_mut().poll(&mut context).is_pending());
        assert!(reply.answer(Ok(7)));
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        assert_eq!(arrival.as_mut().poll(&mut context), Poll::Ready(Ok(7)));
        let (reply, answer) = request(&closed, LONG);
        let mut arrival = pin!(answer.arrive());
        assert!(arrival.as_mut().poll(&mut context).is_pending());
        drop(reply);
        assert_eq!(woken.0.load(Ordering::SeqCst), 2);
        let ended = Err(RequestError::Closed(CloseReason::ShutDown));
        assert_eq!(arrival.as_mut().poll(&mut context), Poll::Ready(ended));
    }

    #[test]
    fn the_core_learns_that_a_task_has_given_up() {
        let closed = OnceLock::new();
        let (reply, answer) = request(&closed, LONG);
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut arrival = pin!(answer.arrive());
            assert!(arrival.as_mut().poll(&mut context).is_pending());
        }
        assert!(!reply.answer(Ok(7)));
    }

    /// Whatever the order of a late answer and a caller's giving up: it is taken, or refused.
    #[test]
    fn no_answer_is_lost_between_the_two_ends() {
        let closed = OnceLock::new();
        for round in 0..2000 {
            let (reply, answer) = request(&closed, LONG);
            let (accepted, got) = std::thread::scope(|scope| {
                let core = scope.spawn(move || reply.answer(Ok(round)));
                let got = answer.wait_unless(|| true);
                (core.join().unwrap(), got)
            });
            assert_eq!(accepted, got == Ok(round));
        }
    }
}
