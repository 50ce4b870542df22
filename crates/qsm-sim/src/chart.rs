//! Message-sequence charts: one line down for each host, one arrow for each datagram that arrives.

use core::fmt::{self, Write};
use std::collections::BTreeMap;

use crate::trace::{Step, TraceRow};

/// Most steps that a chart shows: more is no picture.
pub const CHART_STEPS_MAX: usize = 400;

/// Between two lifelines.
const COLUMN: usize = 170;
/// Between two steps.
const ROW: usize = 18;
/// Left of the first lifeline, for the time.
const MARGIN: usize = 110;
const TOP: usize = 40;
/// What a label may take before it is cut.
const LABEL_CHARS: usize = 90;
/// A letter of a label, on average.
const LETTER: usize = 6;

/// Why there is no chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartError {
    /// So many steps are too many.
    TooLong(usize),
    /// There is nothing to show.
    Empty,
}

impl fmt::Display for ChartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(steps) => write!(
                f,
                "{steps} steps are too many for a chart, which shows {CHART_STEPS_MAX}; choose a \
                 shorter time"
            ),
            Self::Empty => f.write_str("nothing happened in that time; choose another"),
        }
    }
}

impl core::error::Error for ChartError {}

/// An SVG picture of these rows, in the order of their time.
///
/// # Errors
/// Too many rows, or none.
pub fn chart(rows: &[TraceRow]) -> Result<String, ChartError> {
    if rows.is_empty() {
        return Err(ChartError::Empty);
    }
    if rows.len() > CHART_STEPS_MAX {
        return Err(ChartError::TooLong(rows.len()));
    }
    let mut hosts: Vec<usize> = rows.iter().map(|row| row.host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let mut picture = Picture {
        text: String::new(),
        labels: String::new(),
        hosts,
        sent: BTreeMap::new(),
    };
    let drawn = picture.draw(rows);
    // Writing to a string cannot fail.
    debug_assert!(drawn.is_ok());
    Ok(picture.text)
}

struct Picture {
    text: String,
    /// Above all lines, so that none goes through them.
    labels: String,
    hosts: Vec<usize>,
    /// Where datagrams left: the host's place and the row.
    sent: BTreeMap<u64, (usize, usize)>,
}

impl Picture {
    fn draw(&mut self, rows: &[TraceRow]) -> fmt::Result {
        let width = self.width(rows);
        let height = TOP + (rows.len() + 2) * ROW;
        writeln!(
            self.text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n\
             <defs><marker id=\"tip\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"3\" \
             orient=\"auto\"><path d=\"M0,0 L7,3 L0,6 z\" fill=\"#333\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
        )?;
        for (place, host) in self.hosts.clone().into_iter().enumerate() {
            let x = column(place);
            let name = match host {
                0 => "membership service".to_owned(),
                host => format!("host {host}"),
            };
            writeln!(
                self.text,
                "<text x=\"{x}\" y=\"20\" text-anchor=\"middle\" font-weight=\"bold\">{name}</text>\
                 <line x1=\"{x}\" y1=\"28\" x2=\"{x}\" y2=\"{height}\" stroke=\"#bbb\"/>"
            )?;
        }
        let mut last = String::new();
        for (at, row) in rows.iter().enumerate() {
            let y = line(at);
            // Times are written where they change.
            let time = row.at.to_string();
            if last != time {
                writeln!(
                    self.text,
                    "<text x=\"6\" y=\"{}\" fill=\"#777\">{time}</text>",
                    y + 4
                )?;
                last = time;
            }
            self.step(row, y)?;
        }
        write!(self.text, "{}", self.labels)?;
        writeln!(self.text, "</svg>")
    }

    /// Room for the label that reaches farthest to the right.
    fn width(&self, rows: &[TraceRow]) -> usize {
        let ends = rows.iter().map(|row| {
            let place = self.hosts.binary_search(&row.host).unwrap_or(0);
            let letters = row.text.chars().count().min(LABEL_CHARS) + "delivers ".len();
            column(place) + letters * LETTER
        });
        let last = column(self.hosts.len());
        ends.max().unwrap_or(0).max(last)
    }

    fn step(&mut self, row: &TraceRow, y: usize) -> fmt::Result {
        let place = self.hosts.binary_search(&row.host).unwrap_or(0);
        let x = column(place);
        let label = escaped(&row.text);
        match row.step {
            Step::Sends { datagram, .. } => {
                self.sent.insert(datagram, (place, y));
                self.mark(x, y, "#333", "#333", &label)
            }
            Step::Receives { datagram, .. } => match self.sent.get(&datagram).copied() {
                Some((from, sent)) => {
                    let start = column(from);
                    writeln!(
                        self.text,
                        "<line x1=\"{start}\" y1=\"{sent}\" x2=\"{x}\" y2=\"{y}\" stroke=\"#333\" \
                         marker-end=\"url(#tip)\"/>"
                    )
                }
                None => self.mark(x, y, "none", "#333", &label),
            },
            Step::Misses { datagram, .. } => {
                let Some((from, sent)) = self.sent.get(&datagram).copied() else {
                    return self.mark(x, y, "none", "#c00", &label);
                };
                // It ends before the host, with a cross.
                let start = column(from);
                let end = (start + 3 * x) / 4;
                writeln!(
                    self.text,
                    "<line x1=\"{start}\" y1=\"{sent}\" x2=\"{end}\" y2=\"{y}\" stroke=\"#c00\" \
                     stroke-dasharray=\"4 3\"/><text x=\"{end}\" y=\"{}\" fill=\"#c00\" \
                     text-anchor=\"middle\">×</text>",
                    y + 4
                )
            }
            Step::Delivers => self.mark(x, y, "#080", "#080", &format!("delivers {label}")),
            Step::Event => self.mark(x, y, "#06c", "#06c", &label),
            Step::Note => self.mark(x, y, "#c60", "#c60", &label),
        }
    }

    fn mark(&mut self, x: usize, y: usize, fill: &str, color: &str, label: &str) -> fmt::Result {
        writeln!(
            self.text,
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{fill}\" stroke=\"{color}\"/>"
        )?;
        let (left, wide) = (x + 6, label.chars().count() * LETTER);
        writeln!(
            self.labels,
            "<rect x=\"{left}\" y=\"{}\" width=\"{wide}\" height=\"12\" fill=\"white\" \
             fill-opacity=\"0.8\"/><text x=\"{left}\" y=\"{}\" fill=\"{color}\">{label}</text>",
            y - 6,
            y + 4
        )
    }
}

fn column(place: usize) -> usize {
    MARGIN + place * COLUMN + 40
}

fn line(at: usize) -> usize {
    TOP + at * ROW
}

fn escaped(text: &str) -> String {
    let mut label = String::new();
    for character in text.chars().take(LABEL_CHARS) {
        match character {
            '<' => label.push_str("&lt;"),
            '>' => label.push_str("&gt;"),
            '&' => label.push_str("&amp;"),
            '"' => label.push_str("&quot;"),
            other => label.push(other),
        }
    }
    if text.chars().count() > LABEL_CHARS {
        label.push('…');
    }
    label
}

#[cfg(test)]
mod tests {
    use qsm_proto::Instant;

    use super::*;

    fn row(at: u64, host: usize, step: Step) -> TraceRow {
        TraceRow {
            at: Instant(at),
            host,
            step,
            text: "<Data>".to_owned(),
        }
    }

    #[test]
    fn arrows_lead_from_senders_to_receivers_and_losses_end_in_a_cross() {
        let sends = Step::Sends {
            datagram: 7,
            to: None,
            reason: None,
        };
        let (receives, misses) = (
            Step::Receives {
                datagram: 7,
                from: Some(1),
                reason: None,
            },
            Step::Misses {
                datagram: 7,
                from: Some(1),
                reason: None,
            },
        );
        let svg = chart(&[row(1, 1, sends), row(1, 3, misses), row(9, 2, receives)]).unwrap();
        assert_eq!(svg.matches("marker-end").count(), 1);
        assert_eq!(svg.matches('×').count(), 1);
        assert!(svg.contains("host 3") && svg.contains("&lt;Data&gt;"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }

    #[test]
    fn what_is_too_long_or_empty_is_refused() {
        assert_eq!(chart(&[]), Err(ChartError::Empty));
        let rows = vec![row(1, 1, Step::Note); CHART_STEPS_MAX + 1];
        assert_eq!(chart(&rows), Err(ChartError::TooLong(rows.len())));
    }
}
