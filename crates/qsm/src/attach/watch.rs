//! Tasks that wait for a ring. A bell in shared memory wakes threads only, so one thread for each
//! ring that tasks have waited for sleeps in their place, and wakes them.

use core::task::{Context, Poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use crate::handoff::sleepers::Sleepers;

/// Sleeps until the ring has changed in the way that tasks wait for, or until the end; then true.
pub(super) type Sleep = Box<dyn Fn() -> bool + Send>;

/// Those who wait for a ring.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The thread was started, or could not be.
    started: OnceLock<bool>,
    common: Arc<Common>,
}

#[derive(Debug, Default)]
struct Common {
    /// A task waits; the thread is to sleep for it.
    armed: AtomicBool,
    over: AtomicBool,
    thread: Sleepers,
    tasks: Sleepers,
}

impl Watch {
    /// Tries, and if it fails, has the task woken at the next change. `sleep` makes the thread's
    /// part, the first time.
    pub(super) fn poll<T>(
        &self,
        context: &Context<'_>,
        attempt: impl FnMut() -> Option<T>,
        sleep: impl FnOnce() -> Sleep,
    ) -> Poll<T> {
        let polled = self.common.tasks.poll(context, attempt);
        if polled.is_pending() {
            let started = self.started.get_or_init(|| self.start(sleep()));
            if *started {
                self.common.armed.store(true, Ordering::SeqCst);
                self.common.thread.wake();
            } else {
                // Without a thread the task asks again and again.
                context.waker().wake_by_ref();
            }
        }
        polled
    }

    fn start(&self, sleep: Sleep) -> bool {
        let common = Arc::clone(&self.common);
        let thread = thread::Builder::new().name("qsm-watch".to_owned());
        thread.spawn(move || common.run(&sleep)).is_ok()
    }
}

impl Common {
    fn run(&self, sleep: &Sleep) {
        loop {
            let asked = || {
                let over = self.over.load(Ordering::SeqCst);
                (over || self.armed.swap(false, Ordering::SeqCst)).then_some(over)
            };
            // Without a deadline a wait ends only with a result.
            if self.thread.wait(None, asked).unwrap_or(true) {
                return;
            }
            let ended = sleep();
            self.tasks.wake();
            if ended {
                return;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.common.over.store(true, Ordering::SeqCst);
        self.common.thread.wake();
    }
}
