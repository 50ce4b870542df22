//! Options of commands whose node may be recorded.

use std::path::PathBuf;

use clap::Args;
use qsm::Builder;

use super::quantity::size;

/// Where a node's inputs are recorded.
#[derive(Debug, Clone, Args)]
pub struct RecordingOptions {
    /// Record all that the node is given to FILE, which is overwritten, for `qsm sim replay`. It has
    /// all messages in it, and is readable for this user only. Core threads but the first write
    /// FILE.2 and so on
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Most bytes of the file, with suffix k, M or G; then recording stops, and the node goes on
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = size)]
    pub record_limit: usize,
}

impl RecordingOptions {
    /// The node with these options.
    pub fn apply(&self, builder: Builder) -> Builder {
        let builder = builder.record_limit(self.record_limit as u64);
        match &self.record {
            Some(file) => builder.record(file),
            None => builder,
        }
    }
}
