//! The option of commands that count.

use clap::{Args, ValueEnum};

/// Form in which counters are said at the end.
#[derive(Debug, Clone, Copy, Args)]
pub struct StatsOptions {
    /// Say on stderr at the end what was counted, in this format; --verbose alone means text
    #[arg(long, value_name = "FORMAT", value_enum)]
    stats: Option<StatsFormat>,
}

/// Form of what was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StatsFormat {
    /// Lines for people, of what is not zero
    Text,
    /// One JSON object in a line
    Json,
    /// The text that Prometheus reads
    Prometheus,
}

impl StatsOptions {
    /// The format, if anything is to be said.
    #[must_use]
    pub fn format(self, verbose: bool) -> Option<StatsFormat> {
        let spoken = verbose.then_some(StatsFormat::Text);
        self.stats.or(spoken)
    }
}
