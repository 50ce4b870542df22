//! Bounds of what is kept and held.

use std::time::Duration;

/// Bounds of what a keeper keeps of each group, and of what it sends. What exceeds one goes, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// Messages of each sender. 1,000.
    pub messages: usize,
    /// Bytes of all messages, with 96 bytes for each. 64 MiB.
    pub bytes: usize,
    /// Time for which a message is kept after it came. `None`, the default: no limit.
    pub age: Option<Duration>,
    /// Bytes a second that the keeper sends to all that join, on average; one message or chunk goes at once. 16 MiB.
    pub bytes_per_second: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            messages: 1000,
            bytes: 64 << 20,
            age: None,
            bytes_per_second: 16 << 20,
        }
    }
}

impl Bounds {
    /// The same with so many messages of each sender.
    #[must_use]
    pub fn messages(self, messages: usize) -> Self {
        Self { messages, ..self }
    }

    /// The same with so many bytes of each group.
    #[must_use]
    pub fn bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// The same for messages no older than this.
    #[must_use]
    pub fn age(self, age: Duration) -> Self {
        let age = Some(age);
        Self { age, ..self }
    }

    /// The same at another rate.
    #[must_use]
    pub fn bytes_per_second(self, bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second,
            ..self
        }
    }
}

/// Limits of a subscriber that joins, for each group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinLimits {
    /// Bytes of live messages that are held while earlier ones are fetched, with 160 bytes for each. Beyond, the sender
    /// with most of them is given up: [`MissingCause::Held`](crate::MissingCause::Held). 64 MiB.
    pub held_bytes: usize,
    /// Longest time without progress for which messages are asked for. 10 s.
    pub patience: Duration,
}

impl Default for JoinLimits {
    fn default() -> Self {
        Self {
            held_bytes: 64 << 20,
            patience: Duration::from_secs(10),
        }
    }
}

impl JoinLimits {
    /// The same with room for so many bytes.
    #[must_use]
    pub fn held_bytes(self, held_bytes: usize) -> Self {
        Self { held_bytes, ..self }
    }

    /// The same with another patience.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
}
