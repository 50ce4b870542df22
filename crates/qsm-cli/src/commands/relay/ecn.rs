//! Use of marks of congestion in the header of IP (ECN).

use clap::ValueEnum;

/// Use of ECN by a source or relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ecn {
    /// Packets leave so that a queue can mark them, for as long as that works
    On,
    /// No packet leaves so that a queue could mark it, and one that comes with a mark is taken for lost
    Off,
}
