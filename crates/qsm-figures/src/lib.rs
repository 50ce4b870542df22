//! The experiments of the papers on QSM, run in the simulator: the protocol as the papers print
//! it beside the one that runs by default, on machines that cost what the papers' machines cost.
//!
//! ```text
//!  catalogue ──► sweeps ──► runner: all cores ──► results ──► CSV, SVG
//!                                                             │
//!                              rules: agrees? better? ◄──── data ──► one page, its numbers
//! ```
//!
//! Figures are judged by rules in the [`catalogue`], not by eye, and by confidence intervals, not
//! by means: what lies across a rule's bound is undecided. What events cost is in one table in
//! [`papers`], the same for all experiments of one paper; each figure names what was fitted to it.

#![forbid(unsafe_code)]

pub mod catalogue;
mod data;
mod estimate;
mod experiment;
mod output;
pub mod papers;
mod plot;
mod prose;
mod results;
mod rules;
mod runner;

pub use data::Data;
pub use estimate::Estimate;
pub use experiment::{Curve, Figure, Load, Reference, Sweep};
pub use output::{Outcome, Tally, agreement, judge, line, page, write_figure, write_page};
pub use results::{Point, Results};
pub use rules::{Check, Seen, Verdict};
pub use runner::{Progress, Silent, run};
