//! All experiments: what is run, what is drawn, and by which rules it is judged.

mod added;
mod control;
mod feedback;
mod layouts;
mod overlap;
mod s0;
mod s2;
mod statistics;

use crate::experiment::Figure;

/// Every experiment, in the order of its number.
#[must_use]
pub fn all() -> Vec<&'static Figure> {
    let mut figures: Vec<&'static Figure> = s2::FIGURES
        .iter()
        .chain(s0::FIGURES)
        .chain(s0::tokens::FIGURES)
        .chain(added::FIGURES)
        .chain(feedback::FIGURES)
        .chain(layouts::FIGURES)
        .chain(control::FIGURES)
        .collect();
    figures.sort_by_key(|figure| figure.id);
    figures
}

/// The experiment with this number, and those that belong to it (`E18`, `E18b`); empty if there
/// is none.
#[must_use]
pub fn find(id: &str) -> Vec<&'static Figure> {
    let belongs = |figure: &&'static Figure| {
        let rest = figure.id.strip_prefix(id);
        rest.is_some_and(|rest| rest.chars().all(char::is_alphabetic))
    };
    all().into_iter().filter(belongs).collect()
}
