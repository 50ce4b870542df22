//! What an experiment is: a sweep over one quantity, curves drawn from it, and rules by which it
//! agrees with its paper.

use qsm_proto::Seed;
use qsm_sim::probe::{ClusterOptions, Measured};

use crate::papers::Mode;
use crate::rules::{Check, Seen};

/// How the runs of a sweep come about.
#[derive(Debug, Clone, Copy)]
pub enum Load {
    /// A cluster of nodes, measured; `None`: not run in this mode at this value.
    Cluster(fn(Mode, f64) -> Option<ClusterOptions>),
    /// Something else, which reports what it counts by name.
    Direct(fn(Mode, f64, Seed) -> Result<Measured, String>),
}

/// One quantity varied, everything else fixed. Several figures may be drawn from one sweep.
#[derive(Debug)]
pub struct Sweep {
    /// Its name, unique.
    pub name: &'static str,
    /// What is varied.
    pub x: &'static str,
    /// Its values.
    pub values: &'static [f64],
    /// Runs for each value.
    pub seeds: u64,
    /// What is run.
    pub load: Load,
}

/// A quantity read from each run.
#[derive(Debug)]
pub struct Curve {
    /// What it is, with its unit.
    pub label: &'static str,
    /// How to get it.
    pub of: fn(&Measured) -> f64,
}

/// Values printed in a paper, of a system that does not run here.
#[derive(Debug)]
pub struct Reference {
    /// Which system.
    pub label: &'static str,
    /// On which curve's plot.
    pub curve: usize,
    /// (x, y).
    pub points: &'static [(f64, f64)],
}

/// An experiment of a paper, or of our own.
#[derive(Debug)]
pub struct Figure {
    /// Its number in the list of experiments.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Which figure or section of which paper.
    pub source: &'static str,
    /// Observation of the paper, or our aim.
    pub paper: &'static str,
    /// Which constants of the machines were chosen so that this observation comes out; empty: none.
    pub fitted: &'static str,
    /// What is run.
    pub sweep: &'static Sweep,
    /// The horizontal axis is logarithmic.
    pub log_x: bool,
    /// What is drawn.
    pub curves: &'static [Curve],
    /// What the paper says of other systems.
    pub references: &'static [Reference],
    /// The rules by which the seed-faithful runs agree with the paper; empty where none could fail.
    pub agrees: fn(&Seen<'_>) -> Vec<Check>,
    /// The rules by which modern mode is better; empty where none could fail.
    pub better: fn(&Seen<'_>) -> Vec<Check>,
    /// Why results deviate, and what modern mode does better; its numbers come from the data
    /// (`{E09.4@0.2}`).
    pub note: &'static str,
}

impl Figure {
    /// A paper describes it.
    #[must_use]
    pub fn of_a_paper(&self) -> bool {
        !self.source.starts_with("our own")
    }
}
