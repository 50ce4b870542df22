//! Work that waits, done by a thread for a task.

use core::future::poll_fn;
use core::mem;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::RequestError;

/// The result of a thread to come. If it is dropped before, the thread goes on, and drops its result.
pub(crate) struct Errand<T>(Arc<Mutex<Progress<T>>>);

enum Progress<T> {
    Running(Option<Waker>),
    Done(T),
    /// Its result is taken, or there is none because the thread has panicked.
    Over,
}

/// The thread's end.
struct Runner<T>(Arc<Mutex<Progress<T>>>);

impl<T: Send + 'static> Errand<Result<T, RequestError>> {
    /// Starts the work.
    pub(crate) fn start(
        work: impl FnOnce() -> Result<T, RequestError> + Send + 'static,
    ) -> Result<Self, RequestError> {
        let progress = Arc::new(Mutex::new(Progress::Running(None)));
        let runner = Runner(Arc::clone(&progress));
        let thread = thread::Builder::new().name("qsm-errand".to_owned());
        let started = thread.spawn(move || runner.end(Progress::Done(work())));
        started.map_err(|error| RequestError::Refused {
            reason: format!("cannot start a thread: {error}; check `ulimit -u`"),
        })?;
        Ok(Self(progress))
    }

    /// Waits for the result, yielding to other tasks.
    pub(crate) async fn result(self) -> Result<T, RequestError> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Result<T, RequestError>> {
        let mut progress = lock(&self.0);
        match mem::replace(&mut *progress, Progress::Over) {
            Progress::Done(result) => Poll::Ready(result),
            Progress::Over => Poll::Ready(Err(RequestError::Refused {
                reason: "the thread that asked has panicked; report it with what it has written"
                    .to_owned(),
            })),
            Progress::Running(_) => {
                *progress = Progress::Running(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<T> Runner<T> {
    /// Leaves the result, and wakes the task.
    fn end(&self, with: Progress<T>) {
        let before = mem::replace(&mut *lock(&self.0), with);
        if let Progress::Running(Some(task)) = before {
            task.wake();
        }
    }
}

impl<T> Drop for Runner<T> {
    fn drop(&mut self) {
        let running = matches!(*lock(&self.0), Progress::Running(_));
        if running {
            self.end(Progress::Over);
        }
    }
}

fn lock<T>(progress: &Mutex<Progress<T>>) -> MutexGuard<'_, Progress<T>> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use std::sync::mpsc::channel;
    use std::task::Wake;
    use std::thread::Thread;

    use super::*;

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut context) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }

    #[test]
    fn a_task_gets_the_result_of_the_thread() {
        let (go, gone) = channel();
        let errand = Errand::start(move || Ok(gone.recv())).unwrap();
        go.send(7).unwrap();
        assert_eq!(block_on(errand.result()), Ok(Ok(7)));
    }

    #[test]
    fn a_panic_of_the_thread_is_an_error_of_the_task() {
        let errand = Errand::start(|| -> Result<(), _> { panic!("on purpose") }).unwrap();
        let error = block_on(errand.result()).unwrap_err();
        assert!(error.to_string().contains("panicked"), "{error}");
    }
}
