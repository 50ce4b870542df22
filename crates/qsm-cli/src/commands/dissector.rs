//! `qsm dissector`: what Wireshark needs to show the packets of this version.

use std::io::{Write, stdout};

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;

/// Arguments of `qsm dissector`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm dissector > ~/.local/lib/wireshark/plugins/quicksilver.lua"
    "qsm dissector > /tmp/quicksilver.lua && tshark -X lua_script:/tmp/quicksilver.lua -i eth0 -Y qsm"
))]
pub(crate) struct DissectorArgs {}

/// Writes the dissector to standard output.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn run() -> Result<(), Failure> {
    let written = stdout().write_all(qsm_dissector::dissector().as_bytes());
    written.map_err(|error| Failure::io("write the dissector", &error))
}
