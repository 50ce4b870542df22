//! Sending with a limit of time.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use qsm::{Publisher, SendError};

/// Sends a message, and waits so long for room where there is none. Tells whether there was.
///
/// # Errors
/// As of [`Publisher::try_send`], but for a full queue.
pub fn send_within(
    publisher: &Publisher,
    message: &[u8],
    patience: Duration,
) -> Result<bool, SendError> {
    match publisher.try_send(message) {
        Err(SendError::Full) if !patience.is_zero() => {}
        Err(SendError::Full) => return Ok(false),
        sent => return sent.map(|()| true),
    }
    let deadline = Instant::now() + patience;
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut sending = pin!(publisher.send_async(message));
    loop {
        if let Poll::Ready(sent) = sending.as_mut().poll(&mut Context::from_waker(&waker)) {
            return sent.map(|()| true);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        thread::park_timeout(left);
    }
}

/// Wakes a thread that waits for room.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
