//! Waiting without the interpreter's lock, and so that Ctrl-C ends it.

use std::io;
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use qsm_binding::Bell;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The longest time that means what it says; longer ones, and none, are for ever.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// A time limit of Python: seconds, or `None` for ever.
pub(crate) fn limit(seconds: Option<f64>) -> PyResult<Duration> {
    let Some(seconds) = seconds else {
        return Ok(LONGEST);
    };
    if seconds.is_nan() || seconds < 0.0 {
        let text = format!("{seconds} is no time; give seconds from 0 on, or None for ever");
        return Err(PyValueError::new_err(text));
    }
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST);
    Ok(limit.min(LONGEST))
}

/// A signal that comes just before a wait begins does not end it: it is looked for so often.
const LOOK: Duration = Duration::from_secs(1);

/// Tells whether the descriptor is readable before the limit.
pub(crate) fn readable(
    py: Python<'_>,
    descriptor: BorrowedFd<'_>,
    limit: Duration,
) -> PyResult<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match py.detach(|| look(descriptor, left.min(LOOK))) {
            Ok(readable) if readable || left <= LOOK => return Ok(readable),
            // A signal may have come: Python's own handler may raise.
            Ok(_) | Err(Errno::INTR) => py.check_signals()?,
            Err(error) => return Err(io::Error::from(error).into()),
        }
    }
}

/// Drives a future, waiting outside the interpreter's lock.
pub(crate) fn finished<T>(py: Python<'_>, future: impl Future<Output = T>) -> PyResult<T> {
    let bell = Bell::new()?;
    let waker = bell.waker();
    let mut future = pin!(future);
    loop {
        bell.silence();
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Ok(done);
        }
        readable(py, bell.descriptor(), LONGEST)?;
    }
}

fn look(descriptor: BorrowedFd<'_>, left: Duration) -> Result<bool, Errno> {
    let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
    Ok(poll(&mut polled, Some(&left))? > 0)
}
