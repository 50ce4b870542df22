use std::time::Instant;

/// A feed's answer when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pull {
    /// The buffer holds a message.
    Message,
    /// Nothing now. The feed is not asked again before [`FeedHandle::wake`].
    ///
    /// [`FeedHandle::wake`]: crate::FeedHandle::wake
    Idle,
    /// Nothing before then, if [`FeedHandle::wake`] does not say otherwise: a fixed rate without a
    /// thread of its own. How exactly the moment is met depends on what else the core has to do;
    /// one that sleeps is late by a wake-up.
    ///
    /// [`FeedHandle::wake`]: crate::FeedHandle::wake
    At(Instant),
    /// Nothing any more. The feed is dropped.
    End,
}

/// A source of messages that the core thread pulls from when it may send.
///
/// It runs on the core thread, between receiving and sending: it must be short and must not
/// block. Closures are feeds:
///
/// ```
/// use qsm::{Feed, Pull};
///
/// let mut left = 3u32;
/// let mut feed = move |message: &mut Vec<u8>| {
///     if left == 0 {
///         return Pull::End;
///     }
///     message.extend_from_slice(&left.to_le_bytes());
///     left -= 1;
///     Pull::Message
/// };
/// let mut buffer = Vec::new();
/// assert_eq!(feed.pull(&mut buffer), Pull::Message);
/// ```
pub trait Feed: Send {
    /// Writes the next message into the empty buffer, whose memory is used again and again.
    ///
    /// A message longer than [`Limits::message_bytes`](crate::Limits::message_bytes) is not sent,
    /// and counted in [`RuntimeStats::messages_refused`](crate::RuntimeStats::messages_refused).
    fn pull(&mut self, message: &mut Vec<u8>) -> Pull;
}

impl<F: FnMut(&mut Vec<u8>) -> Pull + Send> Feed for F {
    fn pull(&mut self, message: &mut Vec<u8>) -> Pull {
        self(message)
    }
}
