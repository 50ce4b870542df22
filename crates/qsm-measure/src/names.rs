//! The groups of a benchmark.

/// Where senders say that they have sent everything.
pub(crate) const END: &str = "bench/end";
/// Where a receiver sends messages back.
pub(crate) const ECHO: &str = "bench/echo";

/// More than there are of [`groups`].
const BEHIND: usize = 1 << 20;

/// The groups that messages are published to.
#[must_use]
pub(crate) fn groups(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("bench/{index}")).collect()
}

/// A group of a layout.
#[must_use]
pub(crate) fn of_layout(group: u32) -> String {
    format!("bench/layout/{group}")
}

/// The place of a group among those of [`groups`], or behind all of them.
#[must_use]
pub(crate) fn index(group: &str) -> Option<usize> {
    let rest = group.strip_prefix("bench/")?;
    match rest.strip_prefix("layout/") {
        Some(number) => Some(layout_index(number.parse().ok()?)),
        None => rest.parse().ok(),
    }
}

/// The same of a layout's group.
#[must_use]
pub(crate) fn layout_index(group: u32) -> usize {
    BEHIND + group as usize
}
