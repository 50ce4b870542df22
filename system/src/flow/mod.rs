//! Trials of flow between hosts: receivers that cannot follow, subscriptions that want different
//! things, senders that have more to send than receivers read.

pub mod modes;
pub mod overload;
pub mod paces;
pub mod saturation;

use std::path::Path;

use crate::cluster::{Cluster, Failure};
use crate::figure::{Figure, Finding, gather};
use crate::trial::{Outcome, compare};

use self::modes::Modes;
use self::overload::Overload;
use self::paces::PaceTrial;
use self::saturation::Saturation;

/// An experiment with figures that are judged.
#[derive(Debug, Clone)]
pub enum Case {
    /// A receiver of eight that cannot follow.
    Pace(PaceTrial),
    /// A group with four subscriptions that want different things.
    Modes(Modes),
    /// Senders that have twice as much to send as receivers read.
    Overload(Overload),
    /// A sender that has more to send than receivers read, with and without short queues.
    Saturation(Saturation),
}

impl Case {
    /// The trial that it is part of.
    #[must_use]
    pub fn trial(&self) -> &'static str {
        match self {
            Self::Pace(_) => "paces",
            Self::Modes(_) => "modes",
            Self::Overload(_) => "overload",
            Self::Saturation(_) => "saturation",
        }
    }

    /// Its name within the trial.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Pace(of) => of.name(),
            Self::Modes(of) => of.name(),
            Self::Overload(of) => of.name(),
            Self::Saturation(of) => of.name(),
        }
    }

    /// Runs it so many times with this program `system-node`; trials that do not count are made again.
    ///
    /// # Errors
    /// A process fails, or the machine's host is busy.
    pub fn run(&self, program: &Path, runs: usize) -> Result<Vec<Figure>, Failure> {
        gather(runs, || self.run_once(program))
    }

    fn run_once(&self, program: &Path) -> Result<Vec<Finding>, Failure> {
        match self {
            Self::Pace(of) => of.run(program),
            Self::Modes(of) => of.run(program),
            Self::Overload(of) => of.run(program),
            Self::Saturation(of) => of.run(program),
        }
    }
}

/// Ends publishing and all processes; returns what was lost, and what is missing without a word.
fn end(mut cluster: Cluster) -> Result<[Finding; 2], Failure> {
    let mut outcome = Outcome::default();
    compare(&mut cluster, &mut outcome)?;
    cluster.quit()?;
    Ok([
        Finding::none("messages told to be lost", outcome.lost),
        Finding::none("missing without a word", outcome.untold),
    ])
}
