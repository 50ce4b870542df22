//! The groups of a benchmark.

/// Where senders say that they have sent everything.
pub(crate) const END: &str = "bench/end";
/// Where a receiver sends messages back.
pub(crate) const ECHO: &str = "bench/echo";

/// The groups that messages are published to.
#[must_use]
pub(crate) fn groups(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("bench/{index}")).collect()
}

/// The place of a group among those of [`groups`].
#[must_use]
pub(crate) fn index(group: &str) -> Option<usize> {
    group.strip_prefix("bench/")?.parse().ok()
}
