//! A thread that tells what happens to a node, and what the program waits for, while the rest of the
//! program waits.

use std::borrow::Cow;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use qsm_console::failure::{Code, Failure};
use qsm_console::figures;
use qsm_console::log::Note;
use qsm_console::notice::Notices;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// A wait is told of when it has taken so long, and then each time after so long.
const FIRST: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_secs(30);

/// Tells what happens to the node, also while the rest of the program waits for receivers.
pub(crate) struct Observer {
    waiting: Waiting,
    end: SyncSender<()>,
    thread: JoinHandle<Notices>,
}

impl Observer {
    /// Begins.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn start(mut notices: Notices) -> Result<Self, Failure> {
        let (end, ended) = sync_channel(1);
        let waiting = Waiting::default();
        let wait = waiting.clone();
        let watch = move || {
            loop {
                notices.drain();
                if let Some(line) = wait.line(Instant::now()) {
                    Note::info("waiting", &line).say();
                }
                if ended.recv_timeout(LOOK) != Err(RecvTimeoutError::Timeout) {
                    notices.drain();
                    return notices;
                }
            }
        };
        let thread = thread::Builder::new()
            .name("notices".to_owned())
            .spawn(watch)
            .map_err(|error| Failure::io("start a thread", &error))?;
        Ok(Self {
            waiting,
            end,
            thread,
        })
    }

    /// The wait of the program, to be told if it takes long.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Ends; returns what it has seen.
    pub(crate) fn end(self) -> Result<Notices, Failure> {
        // It listens until then.
        let _asked = self.end.send(());
        self.thread.join().map_err(|_| {
            let cause = "the thread that tells what happens has panicked";
            Failure::new(Code::Failure, cause, "report it with what it has written")
        })
    }
}

/// The wait of the program, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting(Arc<Mutex<Option<Wait>>>);

#[derive(Debug)]
struct Wait {
    what: Cow<'static, str>,
    since: Instant,
    say_at: Instant,
}

impl Waiting {
    /// It waits for this from now on.
    pub(crate) fn begin(&self, what: impl Into<Cow<'static, str>>) {
        let since = Instant::now();
        *self.wait() = Some(Wait {
            what: what.into(),
            since,
            say_at: since + FIRST,
        });
    }

    /// It waits no longer.
    pub(crate) fn end(&self) {
        *self.wait() = None;
    }

    /// Waits for this while `work` is done.
    pub(crate) fn during<T>(
        &self,
        what: impl Into<Cow<'static, str>>,
        work: impl FnOnce() -> T,
    ) -> T {
        self.begin(what);
        let done = work();
        self.end();
        done
    }

    fn wait(&self) -> MutexGuard<'_, Option<Wait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line, if one is due.
    fn line(&self, now: Instant) -> Option<String> {
        let mut wait = self.wait();
        let wait = wait.as_mut().filter(|wait| wait.say_at <= now)?;
        wait.say_at = now + AGAIN;
        let waited = figures::duration(now - wait.since);
        Some(format!("waiting for {}, {waited} so far", wait.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_once_and_then_rarely() {
        let waiting = Waiting::default();
        let start = Instant::now();
        assert_eq!(waiting.line(start + 2 * AGAIN), None);
        waiting.begin("rain");
        assert_eq!(waiting.line(start + FIRST / 2), None);
        let told = waiting.line(start + 2 * FIRST).unwrap_or_default();
        assert!(told.starts_with("waiting for rain, "), "{told}");
        assert_eq!(waiting.line(start + 2 * FIRST + AGAIN / 2), None);
        assert!(waiting.line(start + 3 * FIRST + AGAIN).is_some());
        waiting.end();
        assert_eq!(waiting.line(start + 9 * AGAIN), None);
    }
}
