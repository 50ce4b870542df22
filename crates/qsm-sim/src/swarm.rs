//! Swarm testing: everything about a run is drawn from its seed, including which kinds of faults
//! exist at all, so that rare combinations occur.

use core::time::Duration;

use crate::draw::draw;
use crate::options::SimOptions;
use crate::report::{Failure, Report};

/// How large drawn runs are at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwarmOptions {
    /// Nodes, at least 2.
    pub nodes_max: usize,
    /// Groups, at least 1.
    pub groups_max: usize,
    /// Messages of one flow.
    pub messages_max: u32,
    /// Changes of membership.
    pub churn_max: usize,
    /// Faults.
    pub faults_max: usize,
    /// How long faults and traffic last.
    pub duration: Duration,
    /// Whether well-formed forgeries may occur, after which only survival is checked.
    pub forgery: bool,
    /// Lets services plan regions of similar nodes (R-VIEW-16).
    pub merging: bool,
}

impl Default for SwarmOptions {
    /// Small runs for tests: a fraction of a second each.
    fn default() -> Self {
        Self {
            nodes_max: 8,
            groups_max: 5,
            messages_max: 150,
            churn_max: 8,
            faults_max: 5,
            duration: Duration::from_secs(12),
            forgery: false,
            merging: true,
        }
    }
}

impl SwarmOptions {
    /// Shorter runs in which well-formed forgeries occur.
    #[must_use]
    pub fn forging() -> Self {
        Self {
            forgery: true,
            duration: Duration::from_secs(6),
            ..Self::default()
        }
    }
}

/// The version of the draw: the same seed gives other runs under another version, so that a seed
/// is a bug report only together with it.
pub const DRAW: u32 = 18;

/// Draws a run from its seed and runs it. It runs without a trace, which costs time; a failure is
/// seen once more, with one.
///
/// # Errors
/// The first broken promise.
pub fn swarm(seed: u64, sizes: &SwarmOptions) -> Result<Report, Box<Failure>> {
    let options = draw(seed, sizes);
    let silent = SimOptions {
        trace_lines: 0,
        ..options.clone()
    };
    crate::run(silent).or_else(|_| {
        crate::run(options).map_err(|failure| {
            let forgery = if sizes.forgery { " --forgery" } else { "" };
            Box::new(Failure {
                replay: format!("qsm sim seed {seed} --draw {DRAW}{forgery}"),
                ..*failure
            })
        })
    })
}
