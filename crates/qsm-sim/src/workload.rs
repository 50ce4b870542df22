//! What applications do: who publishes how much, who enters and leaves which group when.

use core::time::Duration;

use qsm_wire::membership::Role;

/// A publisher's stream of messages to one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The publisher's host.
    pub host: usize,
    /// The group.
    pub group: usize,
    /// When it begins.
    pub start: Duration,
    /// Mean time between two bursts; each is drawn from half to one and a half of it.
    pub interval: Duration,
    /// Messages at once.
    pub burst: u32,
    /// Messages in all.
    pub messages: u32,
}

impl Flow {
    /// 300 messages, 10 ms apart, from the second second on.
    #[must_use]
    pub fn new(host: usize, group: usize) -> Self {
        Self {
            host,
            group,
            start: Duration::from_secs(1),
            interval: Duration::from_millis(10),
            burst: 1,
            messages: 300,
        }
    }
}

/// A change of membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Churn {
    /// Whose.
    pub host: usize,
    /// The group.
    pub group: usize,
    /// The role taken up or given up.
    pub role: Role,
    /// Whether it is taken up.
    pub enter: bool,
}
