//! What is written: for each figure a CSV file and a plot, and one page for all of them.

use core::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::experiment::Figure;
use crate::papers::Mode;
use crate::plot;
use crate::results::{Check, Results, Seen, short};

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
    /// Every rule holds.
    #[must_use]
    pub fn passed(&self) -> bool {
        passed(&self.agrees) && passed(&self.better)
    }
}

fn passed(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.passed)
}

/// Applies a figure's rules.
#[must_use]
pub fn judge(figure: &Figure, results: &Results) -> Outcome {
    let seen = |mode| Seen {
        results,
        figure,
        mode,
    };
    Outcome {
        agrees: (figure.agrees)(&seen(Mode::Faithful)),
        better: (figure.better)(&seen(Mode::Modern)),
    }
}

/// Writes `E03.csv` and `E03.svg` into a folder.
///
/// # Errors
/// The folder cannot be written to.
pub fn write_figure(folder: &Path, figure: &Figure, results: &Results) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(
        folder.join(format!("{}.csv", figure.id)),
        csv(figure, results),
    )?;
    let svg = plot::svg(figure, results).map_err(io::Error::other)?;
    std::fs::write(folder.join(format!("{}.svg", figure.id)), svg)
}

fn csv(figure: &Figure, results: &Results) -> String {
    let mut text = format!("curve,mode,{},mean,ci95,runs\n", quoted(figure.sweep.x));
    for (at, curve) in figure.curves.iter().enumerate() {
        for mode in Mode::BOTH {
            for point in results.series(figure, mode, at) {
                let row = format!(
                    "{},{},{},{:.6},{:.6},{}\n",
                    quoted(curve.label),
                    mode.name(),
                    point.x,
                    point.mean,
                    point.ci,
                    point.runs
                );
                text.push_str(&row);
            }
        }
        for reference in figure.references.iter().filter(|line| line.curve == at) {
            for (x, y) in reference.points {
                let row = format!(
                    "{},{} (paper),{x},{y},,\n",
                    quoted(curve.label),
                    reference.label
                );
                text.push_str(&row);
            }
        }
    }
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "'"))
}

/// Writes the page `README.md`.
///
/// # Errors
/// The folder cannot be written to.
pub fn write_page(folder: &Path, figures: &[&'static Figure], results: &Results) -> io::Result<()> {
    let mut page = String::from(PREFACE);
    let outcomes: Vec<(&Figure, Outcome)> = figures
        .iter()
        .map(|figure| (*figure, judge(figure, results)))
        .collect();
    summary(&mut page, &outcomes, results);
    for (figure, outcome) in &outcomes {
        let seconds = results.seconds_of.get(figure.sweep.name);
        section(&mut page, figure, outcome, seconds.copied().unwrap_or(0.0));
    }
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("README.md"), page)
}

fn summary(page: &mut String, outcomes: &[(&Figure, Outcome)], results: &Results) {
    let papers = outcomes.iter().filter(|(figure, _)| figure.of_a_paper());
    let agrees = papers.clone().filter(|(_, outcome)| holds(&outcome.agrees));
    let (papers, agree) = (papers.count(), agrees.count());
    let ruled = outcomes.iter().map(|(_, outcome)| &outcome.better);
    let ruled = ruled.filter(|rules| !rules.is_empty());
    let better = ruled.clone().filter(|rules| holds(rules)).count();
    let speed = results.virtual_seconds / results.seconds.max(1e-9);
    let mega = results.inputs as f64 / results.seconds.max(1e-9) / 1e6;
    add(
        page,
        format_args!(
            "## Summary\n\nOf {papers} experiments of the papers {agree} agree by the rules below, \
             which compare means; {} are our own. Of {} for which there is a rule modern mode is \
             better in {better}. The simulator handled {:.0} virtual seconds of \
             clusters in {:.0} processor seconds: {speed:.1} virtual seconds per second and core on \
             average, {mega:.2} million inputs of nodes per second and core.\n\n\
             | experiment | source | agrees | modern is better |\n|---|---|---|---|\n",
            outcomes.len() - papers,
            ruled.count(),
            results.virtual_seconds,
            results.seconds,
        ),
    );
    for (figure, outcome) in outcomes {
        add(
            page,
            format_args!(
                "| [{} {}](#{}) | {} | {} | {} |\n",
                figure.id,
                figure.title,
                figure.id.to_lowercase(),
                figure.source,
                word(&outcome.agrees),
                word(&outcome.better)
            ),
        );
    }
    for failure in &results.failures {
        add(page, format_args!("\nA run failed: {failure}\n"));
    }
}

fn section(page: &mut String, figure: &Figure, outcome: &Outcome, seconds: f64) {
    add(
        page,
        format_args!(
            "\n## {id}\n\n{title}; {source}. Varied: {x}. Runs took {seconds:.0} s of processor time.\n\n![{title}]({id}.svg)\n\n\
             **The paper**: {paper}\n\n**Seed-faithful** ({agrees}):\n\n",
            id = figure.id,
            title = figure.title,
            source = figure.source,
            x = figure.sweep.x,
            paper = figure.paper,
            agrees = word(&outcome.agrees),
        ),
    );
    list(page, &outcome.agrees);
    add(
        page,
        format_args!("\n**Modern** (better: {}):\n\n", word(&outcome.better)),
    );
    list(page, &outcome.better);
    add(
        page,
        format_args!(
            "\n{} Data: [{id}.csv]({id}.csv).\n",
            figure.note,
            id = figure.id
        ),
    );
}

fn list(page: &mut String, checks: &[Check]) {
    for check in checks {
        let mark = if check.passed { "" } else { "**no:** " };
        add(page, format_args!("- {mark}{}\n", check.said));
    }
}

fn word(checks: &[Check]) -> &'static str {
    match (checks.is_empty(), passed(checks)) {
        (true, _) => "no rule",
        (false, true) => "yes",
        (false, false) => "no",
    }
}

/// There are rules, and all hold.
fn holds(checks: &[Check]) -> bool {
    !checks.is_empty() && passed(checks)
}

fn add(page: &mut String, text: core::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    page.write_fmt(text).unwrap_or_default();
}

/// A line about a figure for a terminal.
#[must_use]
pub fn line(figure: &Figure, results: &Results) -> String {
    let outcome = judge(figure, results);
    let mut text = format!(
        "{} {}: agrees {}, modern better {}",
        figure.id,
        figure.title,
        word(&outcome.agrees),
        word(&outcome.better)
    );
    for (at, curve) in figure.curves.iter().enumerate() {
        for mode in Mode::BOTH {
            let points = results.series(figure, mode, at);
            let points = points
                .iter()
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
        let mark = if check.passed { "ok" } else { "NO" };
        text.push_str(&format!("\n  {mark} {}", check.said));
    }
    text
}
