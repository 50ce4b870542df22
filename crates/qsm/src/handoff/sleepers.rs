//! Threads and tasks that wait for a queue to change, so that whoever changes it pays only when
//! somebody waits.
//!
//! Nothing is lost: a waiter announces itself and then looks again, under the lock; whoever
//! changed the queue looks for waiters after its change. One of the two sees the other.

use core::task::{Context, Poll, Waker};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    /// Threads in `wait` and tasks in `tasks`.
    waiting: AtomicUsize,
    /// Tasks to wake; as many as there are tasks that wait, because a task registers once.
    tasks: Mutex<Vec<Waker>>,
    changed: Condvar,
}

impl Sleepers {
    /// Tries until it succeeds, sleeping between; `None` when `deadline` passed.
    pub(crate) fn wait<T>(
        &self,
        deadline: Option<Instant>,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let mut tasks = self.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let result = loop {
            fence(Ordering::SeqCst);
            if let Some(result) = attempt() {
                break Some(result);
            }
            tasks = match deadline {
                None => self
                    .changed
                    .wait(tasks)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break None;
                    }
                    let waited = self.changed.wait_timeout(tasks, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Tries, and if it fails, has the task woken at the next change.
    pub(crate) fn poll<T>(
        &self,
        context: &Context<'_>,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Poll<T> {
        if let Some(result) = attempt() {
            return Poll::Ready(result);
        }
        let mut tasks = self.lock();
        if !tasks.iter().any(|task| task.will_wake(context.waker())) {
            tasks.push(context.waker().clone());
            self.waiting.fetch_add(1, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        attempt().map_or(Poll::Pending, Poll::Ready)
    }

    /// Lets all who wait look again.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut tasks = self.lock();
        let woken = core::mem::take(&mut *tasks);
        self.waiting.fetch_sub(woken.len(), Ordering::SeqCst);
        self.changed.notify_all();
        drop(tasks);
        woken.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waker>> {
        // The list is valid after any panic.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
