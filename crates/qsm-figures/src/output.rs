//! What is written: for each figure a CSV file and a plot, and one page for all of them.

use core::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::catalogue;
use crate::data::{self, Data};
use crate::experiment::Figure;
use crate::papers::Mode;
use crate::plot;
use crate::prose;
use crate::results::{Results, short};
use crate::rules::{Check, Seen, Verdict};

/// What the page begins with.
const PREFACE: &str = include_str!("preface.txt");

/// A figure's judgement.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Does the seed-faithful protocol agree with the paper?
    pub agrees: Vec<Check>,
    /// Is modern mode better?
    pub better: Vec<Check>,
}

impl Outcome {
    /// There are rules, and every one holds.
    #[must_use]
    pub fn passed(&self) -> bool {
        let mut checks = self.agrees.iter().chain(&self.better).peekable();
        checks.peek().is_some() && checks.all(|check| check.verdict == Verdict::Yes)
    }
}

/// Applies a figure's rules to the data of all figures.
#[must_use]
pub fn judge(figure: &Figure, data: &Data) -> Outcome {
    let seen = |mode| Seen { data, figure, mode };
    Outcome {
        agrees: (figure.agrees)(&seen(Mode::Faithful)),
        better: (figure.better)(&seen(Mode::Modern)),
    }
}

/// Writes `E03.csv` and `E03.svg` into a folder.
///
/// # Errors
/// The folder cannot be written to.
pub fn write_figure(folder: &Path, figure: &'static Figure, results: &Results) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let data = Data::of(results, &[figure]);
    std::fs::write(
        folder.join(format!("{}.csv", figure.id)),
        data::csv(figure, &data),
    )?;
    let svg = plot::svg(figure, &data).map_err(io::Error::other)?;
    std::fs::write(folder.join(format!("{}.svg", figure.id)), svg)
}

/// Writes the page `README.md` from the CSV files in the folder, and what failed.
///
/// # Errors
/// A CSV file cannot be read, or the folder cannot be written to.
pub fn write_page(folder: &Path, figures: &[&'static Figure], results: &Results) -> io::Result<()> {
    let mut text = page(folder, figures)?;
    for failure in &results.failures {
        add(&mut text, format_args!("\nA run failed: {failure}\n"));
    }
    std::fs::write(folder.join("README.md"), text)
}

/// The page about these figures, from the CSV files in the folder.
///
/// # Errors
/// A file cannot be read, or the prose names numbers that no figure has.
pub fn page(folder: &Path, figures: &[&'static Figure]) -> io::Result<String> {
    let data = Data::read(folder, figures)?;
    let mut text = prose::filled(PREFACE, &data).map_err(io::Error::other)?;
    let outcomes: Vec<(&Figure, Outcome)> = figures
        .iter()
        .map(|figure| (*figure, judge(figure, &data)))
        .collect();
    summary(&mut text, &outcomes);
    for (figure, outcome) in &outcomes {
        section(&mut text, figure, outcome, &data).map_err(io::Error::other)?;
    }
    Ok(text)
}

/// Number of experiments with each verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// All rules hold.
    pub yes: usize,
    /// Of these: a constant of the machines was fitted to what the rule looks at.
    pub fitted: usize,
    /// Some rule is within its interval, none is broken.
    pub undecided: usize,
    /// Some rule is broken.
    pub no: usize,
    /// There is no rule.
    pub no_rule: usize,
}

impl Tally {
    fn count(&mut self, figure: &Figure, checks: &[Check]) {
        match verdict(checks) {
            None => self.no_rule += 1,
            Some(Verdict::Yes) => {
                self.yes += 1;
                self.fitted += usize::from(!figure.fitted.is_empty());
            }
            Some(Verdict::Undecided) => self.undecided += 1,
            Some(Verdict::No) => self.no += 1,
        }
    }

    /// Of the papers' experiments or of our own, by their rules on the seed-faithful protocol or
    /// on modern mode.
    fn of(outcomes: &[(&Figure, Outcome)], papers: bool, mode: Mode) -> Self {
        let mut tally = Self::default();
        for (figure, outcome) in outcomes.iter().filter(|it| it.0.of_a_paper() == papers) {
            let checks = match mode {
                Mode::Faithful => &outcome.agrees,
                Mode::Modern => &outcome.better,
            };
            tally.count(figure, checks);
        }
        tally
    }

    fn said(&self) -> String {
        format!(
            "yes in {}, undecided in {}, no in {}, no rule in {}",
            self.yes, self.undecided, self.no, self.no_rule
        )
    }
}

/// Counts how the papers' experiments agree, from the CSV files in the folder.
///
/// # Errors
/// A file cannot be read.
pub fn agreement(folder: &Path) -> io::Result<Tally> {
    let figures = catalogue::all();
    let data = Data::read(folder, &figures)?;
    let outcomes: Vec<(&Figure, Outcome)> = figures
        .iter()
        .map(|figure| (*figure, judge(figure, &data)))
        .collect();
    Ok(Tally::of(&outcomes, true, Mode::Faithful))
}

fn summary(page: &mut String, outcomes: &[(&Figure, Outcome)]) {
    let tally = |papers, mode| Tally::of(outcomes, papers, mode);
    let agrees = tally(true, Mode::Faithful);
    let papers = outcomes.iter().filter(|it| it.0.of_a_paper()).count();
    add(
        page,
        format_args!(
            "## Summary\n\nThe papers' experiments: {papers}. The seed-faithful protocol agrees with \
             the paper: {}; of those that agree {} have a constant that was fitted to the same \
             observation. Modern mode is better: {}.\n\n",
            agrees.said(),
            agrees.fitted,
            tally(true, Mode::Modern).said(),
        ),
    );
    table(page, outcomes, true);
    add(
        page,
        format_args!(
            "\nOur own experiments: {}. The seed-faithful protocol does what is expected of it: {}. \
             Modern mode reaches its aim: {}.\n\n",
            outcomes.len() - papers,
            tally(false, Mode::Faithful).said(),
            tally(false, Mode::Modern).said(),
        ),
    );
    table(page, outcomes, false);
}

fn table(page: &mut String, outcomes: &[(&Figure, Outcome)], papers: bool) {
    let heads = if papers {
        "agrees | modern is better"
    } else {
        "seed-faithful as expected | modern reaches its aim"
    };
    add(
        page,
        format_args!("| experiment | source | {heads} |\n|---|---|---|---|\n"),
    );
    for (figure, outcome) in outcomes.iter().filter(|it| it.0.of_a_paper() == papers) {
        add(
            page,
            format_args!(
                "| [{} {}](#{}) | {} | {} | {} |\n",
                figure.id,
                figure.title,
                figure.id.to_lowercase(),
                figure.source,
                agreed(figure, outcome),
                word(&outcome.better)
            ),
        );
    }
}

fn section(
    page: &mut String,
    figure: &Figure,
    outcome: &Outcome,
    data: &Data,
) -> Result<(), String> {
    let expected = if figure.of_a_paper() {
        "The paper"
    } else {
        "Expected"
    };
    add(
        page,
        format_args!(
            "\n## {id}\n\n{title}; {source}. Varied: {x}. Runs for each point: {runs}.\n\n\
             ![{title}]({id}.svg)\n\n**{expected}**: {paper}\n",
            id = figure.id,
            title = figure.title,
            source = figure.source,
            x = figure.sweep.x,
            runs = data.runs(figure),
            paper = figure.paper,
        ),
    );
    if !figure.fitted.is_empty() {
        add(
            page,
            format_args!("\n**Fitted to it**: {}\n", figure.fitted),
        );
    }
    list(
        page,
        "Seed-faithful",
        agreed(figure, outcome),
        &outcome.agrees,
    );
    list(page, "Modern", word(&outcome.better), &outcome.better);
    let note = prose::filled(figure.note, data).map_err(|it| format!("{}: {it}", figure.id))?;
    let gap = if note.is_empty() { "" } else { " " };
    add(
        page,
        format_args!("\n{note}{gap}Data: [{id}.csv]({id}.csv).\n", id = figure.id),
    );
    Ok(())
}

fn list(page: &mut String, name: &str, word: &str, checks: &[Check]) {
    add(page, format_args!("\n**{name}**: {word}\n"));
    for (at, check) in checks.iter().enumerate() {
        let mark = match check.verdict {
            Verdict::Yes => "",
            Verdict::Undecided => "**undecided:** ",
            Verdict::No => "**no:** ",
        };
        let gap = if at == 0 { "\n" } else { "" };
        add(page, format_args!("{gap}- {mark}{}\n", check.said));
    }
}

/// The verdict of all rules together, if there are any.
fn verdict(checks: &[Check]) -> Option<Verdict> {
    checks.iter().map(|check| check.verdict).max()
}

fn word(checks: &[Check]) -> &'static str {
    match verdict(checks) {
        None => "no rule",
        Some(Verdict::Yes) => "yes",
        Some(Verdict::Undecided) => "undecided",
        Some(Verdict::No) => "no",
    }
}

fn agreed(figure: &Figure, outcome: &Outcome) -> &'static str {
    match word(&outcome.agrees) {
        "yes" if !figure.fitted.is_empty() => "yes, fitted",
        word => word,
    }
}

fn add(page: &mut String, text: core::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    page.write_fmt(text).unwrap_or_default();
}

/// A line about a figure for a terminal.
#[must_use]
pub fn line(figure: &Figure, results: &Results) -> String {
    let data = Data::of(results, &catalogue::all());
    let outcome = judge(figure, &data);
    let mut text = format!(
        "{} {}: agrees {}, modern better {}",
        figure.id,
        figure.title,
        agreed(figure, &outcome),
        word(&outcome.better)
    );
    for (at, curve) in figure.curves.iter().enumerate() {
        for mode in Mode::BOTH {
            let points = data.series(figure, mode, at).iter();
            let points = points
                .map(|point| format!("{}:{}±{}", point.x, short(point.mean), short(point.ci)));
            let points: Vec<String> = points.collect();
            text.push_str(&format!(
                "\n  {} [{}] {}",
                curve.label,
                mode.name(),
                points.join(" ")
            ));
        }
    }
    for check in outcome.agrees.iter().chain(&outcome.better) {
        let mark = match check.verdict {
            Verdict::Yes => "ok",
            Verdict::Undecided => "??",
            Verdict::No => "NO",
        };
        text.push_str(&format!("\n  {mark} {}", check.said));
    }
    text
}
