//! The page of what was measured, with the same as CSV and JSON beside it.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use serde_json::{Value, json};

use super::{Case, Part};
use crate::cluster::Failure;
use crate::figure::Figure;

/// File of all rows, of which the page and the CSV are made.
const ROWS: &str = "sites.json";

/// Rows of a case: one for each figure, or one that says why there are none.
#[must_use]
pub fn rows(part: Part, case: &Case, result: &Result<Vec<Figure>, Failure>) -> Vec<Value> {
    let (line, case) = (part.letter(), case.name());
    match result {
        Err(error) => {
            let why = error.to_string();
            vec![json!({ "line": line, "case": case, "failed": why, "verdict": "missed" })]
        }
        Ok(figures) => figures
            .iter()
            .map(|figure| {
                let [least, most] = figure.spread();
                json!({
                    "line": line,
                    "case": case,
                    "figure": figure.what,
                    "bar": figure.bar.to_string(),
                    "median": figure.median(),
                    "least": least,
                    "most": most,
                    "runs": figure.values,
                    "verdict": verdict(figure),
                })
            })
            .collect(),
    }
}

fn verdict(figure: &Figure) -> &'static str {
    match figure.is_kept() {
        Some(true) => "holds",
        Some(false) => "missed",
        None => "-",
    }
}

/// A row is of a bar that is not kept, or of a case that could not be tried.
#[must_use]
pub fn is_missed(row: &Value) -> bool {
    row["verdict"] == "missed"
}

/// A row of a table, for the terminal and the page.
#[must_use]
pub fn line(row: &Value) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or("-").to_owned();
    let number = |name: &str| row[name].as_f64().map_or_else(|| "-".to_owned(), short);
    if let Some(why) = row["failed"].as_str() {
        return format!("| {} | failed: {why} | | | | missed |", text("case"));
    }
    let spread = format!("{} to {}", number("least"), number("most"));
    let (case, figure, bar) = (text("case"), text("figure"), text("bar"));
    let (median, verdict) = (number("median"), text("verdict"));
    format!("| {case} | {figure} | {bar} | {median} | {spread} | {verdict} |")
}

/// A figure as it is read.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    }
}

/// Writes page, CSV and JSON into a folder. Parts that were not measured now are left as they were.
///
/// # Errors
/// A file cannot be read or written.
pub fn write(folder: &Path, measured: &[(Part, Vec<Value>)], machine: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let before = match fs::read_to_string(folder.join(ROWS)) {
        Ok(text) => serde_json::from_str(&text).map_err(io::Error::other)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Value::Null,
        Err(error) => return Err(error),
    };
    let mut parts = Vec::new();
    for part in Part::ALL {
        let now = measured.iter().find(|(one, _)| *one == part);
        let now = now.map(|(_, rows)| json!({ "machine": machine, "rows": rows }));
        let before = || before[part.letter()].clone();
        let rows = now.unwrap_or_else(before);
        if !rows.is_null() {
            parts.push((part, rows));
        }
    }
    let all = parts.iter().map(|(part, rows)| (part.letter(), rows));
    let all = serde_json::Map::from_iter(all.map(|(name, rows)| (name.to_owned(), rows.clone())));
    let text = serde_json::to_string_pretty(&all)?;
    fs::write(folder.join(ROWS), text + "\n")?;
    fs::write(folder.join("sites.csv"), csv(&parts))?;
    fs::write(folder.join("README.md"), page(&parts))
}

fn rows_of(part: &Value) -> impl Iterator<Item = &Value> {
    part["rows"].as_array().into_iter().flatten()
}

fn csv(parts: &[(Part, Value)]) -> String {
    let mut text = "line,case,figure,bar,median,least,most,verdict\n".to_owned();
    for row in parts.iter().flat_map(|(_, part)| rows_of(part)) {
        let names = [
            "line", "case", "figure", "bar", "median", "least", "most", "verdict",
        ];
        let cells = names.map(|name| match &row[name] {
            Value::String(text) => format!("\"{}\"", text.replace('"', "'")),
            Value::Null => String::new(),
            other => other.to_string(),
        });
        text += &cells.join(",");
        text.push('\n');
    }
    text
}

fn page(parts: &[(Part, Value)]) -> String {
    let mut text = "# Relays between sites, measured\n\n\
         Written by `make sites`: processes of `qsm relay` on hosts of a \
         [lab](../operate/lab.md), all on one machine. \
         [Measured between sites](../operate/relays.md#measured-between-sites) says how, and what \
         each figure means. A figure is the median of its runs, beside the least and the largest of \
         them; *in each* is asked of every run.\n"
        .to_owned();
    for (part, rows) in parts {
        let (title, machine) = (part.title(), rows["machine"].as_str().unwrap_or("-"));
        let head = "| case | figure | bar | median | least to most | verdict |";
        // Writing to a String cannot fail.
        write!(
            text,
            "\n## {title}\n\nMachine: {machine}.\n\n{head}\n|---|---|---|---|---|---|\n"
        )
        .unwrap_or_default();
        for row in rows_of(rows) {
            text += &line(row);
            text.push('\n');
        }
    }
    text + "\nAll figures: [sites.csv](sites.csv), [sites.json](sites.json).\n"
}
