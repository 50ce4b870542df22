//! `qsm dissector`: what Wireshark needs to show the packets of this version.

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;

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
    output::write(qsm_dissector::dissector())
}
