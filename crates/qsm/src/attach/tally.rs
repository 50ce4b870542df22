//! What is counted of each attached process.

use core::fmt;

use qsm_metrics::{Object, Row};

qsm_metrics::metrics! {
    /// Counters of an attached process.
    #[derive(Copy)]
    #[non_exhaustive]
    pub struct ClientStats of "client", counted in pub(super) Tally {
        /// Subscriptions it has.
        subscriptions: gauge(subscriptions),
        /// Publishers it has.
        publishers: gauge(publishers),
        /// Messages that it was given.
        delivered: counter(messages),
        /// Messages that found no room in its rings.
        dropped: counter(messages),
        /// Times it was woken for messages: at most once per turn of a core thread.
        wakes: counter(times),
        /// Messages taken from it.
        published: counter(messages),
        /// Times it has woken the engine for messages.
        doorbells: counter(times),
        /// Events that it was not told because it does not read them.
        events_dropped: counter(events),
        /// Messages copied into its rings, because it holds its share of the log, or its ring was full and it holds senders up.
        copied: counter(messages),
    }
}

qsm_metrics::metrics! {
    /// What a shared engine has done for others.
    #[derive(Copy)]
    #[non_exhaustive]
    pub struct ShareStats of "share", counted in pub(super) ShareTally {
        /// Processes attached now.
        clients: gauge(processes),
        /// Processes attached since the beginning.
        attached: counter(processes),
        /// Processes not let in.
        refused: counter(processes),
        /// Processes cut off for nonsense.
        cut_off: counter(processes),
    }
}

/// An attached process as its engine sees it. `Display` has a line for it and one for each metric
/// that is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientRow {
    /// Its number among those of this engine, from 1.
    pub client: u32,
    /// Its process.
    pub pid: u32,
    /// Its counters.
    pub stats: ClientStats,
}

impl ClientRow {
    /// The same as one JSON object, without line breaks.
    #[must_use]
    pub fn to_json(&self) -> String {
        Object::new()
            .count("client", self.client.into())
            .count("pid", self.pid.into())
            .metrics("stats", &self.stats)
            .to_string()
    }

    /// As they travel to the process itself.
    pub(super) fn values(&self) -> Vec<u64> {
        let who = [self.client, self.pid].map(u64::from);
        let stats = self.stats.rows();
        who.into_iter()
            .chain(stats.iter().map(Row::number))
            .collect()
    }

    /// Out of [`ClientRow::values`].
    pub(super) fn of_values(values: &[u64]) -> Self {
        let mut values = values.iter().copied();
        // Both were 32 bits long.
        let mut short = || values.next().unwrap_or_default() as u32;
        Self {
            client: short(),
            pid: short(),
            stats: values.collect(),
        }
    }
}

impl fmt::Display for ClientRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "attached process {}, pid {}:", self.client, self.pid)?;
        self.stats.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_travels_whole() {
        let values: Vec<u64> = (1..=11).collect();
        assert_eq!(ClientRow::of_values(&values).values(), values);
        assert_eq!(ClientRow::of_values(&[]), ClientRow::default());
    }

    #[test]
    fn a_row_is_text_and_json() {
        let row = ClientRow::of_values(&[1, 77, 0, 2, 300]);
        let text = row.to_string();
        assert!(text.starts_with("attached process 1, pid 77:\n"), "{text}");
        assert!(text.ends_with("           300  delivered: Messages that it was given.\n"));
        assert!(!text.contains("subscriptions"), "{text}");
        let json = row.to_json();
        assert!(json.starts_with(r#"{"client":1,"pid":77,"stats":{"subscriptions":0,"#));
        assert!(json.contains(r#""delivered":300,"#), "{json}");
    }
}
