//! Points of the figures, from runs or from the CSV files that earlier runs have left.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::experiment::Figure;
use crate::papers::Mode;
use crate::results::{Point, Results};

/// The points of all curves of some figures.
#[derive(Debug, Default, PartialEq)]
pub struct Data {
    /// By figure, mode and curve.
    points: BTreeMap<(&'static str, Mode, usize), Vec<Point>>,
}

impl Data {
    /// Takes what was run for these figures.
    #[must_use]
    pub fn of(results: &Results, figures: &[&'static Figure]) -> Self {
        let mut data = Self::default();
        for figure in figures {
            for (mode, curve) in lines(figure) {
                let points = results.series(figure, mode, curve);
                data.points.insert((figure.id, mode, curve), points);
            }
        }
        data
    }

    /// Reads the CSV files of these figures; a figure without a file has no points.
    ///
    /// # Errors
    /// A file cannot be read, or is none of ours.
    pub fn read(folder: &Path, figures: &[&'static Figure]) -> io::Result<Self> {
        let mut data = Self::default();
        for figure in figures {
            let path = folder.join(format!("{}.csv", figure.id));
            if !path.exists() {
                continue;
            }
            let text = fs::read_to_string(&path)?;
            data.take(figure, &text).map_err(|line| {
                let name = path.display();
                io::Error::other(format!("{name} has a line that is not a point: {line}"))
            })?;
        }
        Ok(data)
    }

    /// Takes the points of a CSV file.
    fn take(&mut self, figure: &'static Figure, text: &str) -> Result<(), String> {
        let rows: Vec<Row> = text.lines().skip(1).filter_map(Row::parse).collect();
        let of_runs = rows.iter().filter_map(|row| row.point).map(|it| it.runs);
        let of_runs = of_runs.max().unwrap_or(0);
        for row in rows {
            let Some(point) = row.point else {
                return Err(row.line);
            };
            let curve = figure.curves.iter().position(|it| it.label == row.label);
            let curve = curve.ok_or(row.line)?;
            let points = self.points.entry((figure.id, row.mode, curve));
            points.or_default().push(Point { of_runs, ..point });
        }
        Ok(())
    }

    /// The points of a curve, in the order of x.
    #[must_use]
    pub fn series(&self, figure: &Figure, mode: Mode, curve: usize) -> &[Point] {
        let points = self.points.get(&(figure.id, mode, curve));
        points.map_or(&[], Vec::as_slice)
    }

    /// The most runs that a point of this figure has.
    #[must_use]
    pub fn runs(&self, figure: &Figure) -> usize {
        let points = lines(figure).flat_map(|(mode, curve)| self.series(figure, mode, curve));
        points.map(|point| point.runs).max().unwrap_or(0)
    }
}

/// Each curve in each mode.
fn lines(figure: &Figure) -> impl Iterator<Item = (Mode, usize)> {
    let curves = 0..figure.curves.len();
    curves.flat_map(|curve| Mode::BOTH.map(|mode| (mode, curve)))
}

/// A line of a CSV file that is about one of our two protocols.
struct Row {
    line: String,
    label: String,
    mode: Mode,
    point: Option<Point>,
}

impl Row {
    /// Nothing for what is about a paper's system.
    fn parse(line: &str) -> Option<Self> {
        let (label, rest) = line.strip_prefix('"')?.split_once("\",")?;
        let (mode, numbers) = rest.split_once(',')?;
        let mode = Mode::BOTH.into_iter().find(|it| it.name() == mode)?;
        Some(Self {
            line: line.to_owned(),
            label: label.to_owned(),
            mode,
            point: point(numbers),
        })
    }
}

fn point(numbers: &str) -> Option<Point> {
    let fields: Vec<f64> = numbers.split(',').map_while(|it| it.parse().ok()).collect();
    let [x, mean, ci, runs] = fields[..] else {
        return None;
    };
    let runs = runs as usize;
    Some(Point {
        x,
        mean,
        ci,
        runs,
        of_runs: runs,
    })
}

/// A figure's CSV file.
pub(crate) fn csv(figure: &Figure, data: &Data) -> String {
    let mut text = format!("curve,mode,{},mean,ci95,runs\n", quoted(figure.sweep.x));
    for (at, curve) in figure.curves.iter().enumerate() {
        for mode in Mode::BOTH {
            for point in data.series(figure, mode, at) {
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
