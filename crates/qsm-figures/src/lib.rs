//! The experiments of the papers on QSM, run in the simulator: the protocol as the papers print
//! it beside the one that runs by default, on machines that cost what the papers' machines cost.
//!
//! ```text
//!  catalogue ──► sweeps ──► runner: all cores ──► results ──► rules: agrees? better?
//!                                                    └──► CSV, SVG, one page
//! ```
//!
//! Figures are judged by rules in the [`catalogue`], not by eye. Nothing is fitted per experiment:
//! what events cost is in one table in [`papers`], everything else comes from the protocol.

#![forbid(unsafe_code)]

pub mod catalogue;
mod experiment;
mod output;
pub mod papers;
mod plot;
mod results;
mod runner;

pub use experiment::{Curve, Figure, Load, Reference, Sweep};
pub use output::{Outcome, judge, line, write_figure, write_page};
pub use results::{Check, Point, Results, Seen};
pub use runner::{Progress, Silent, run};
