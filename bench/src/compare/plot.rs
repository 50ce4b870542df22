//! Plots of an axis: one line per system.

use crate::Failure;
use crate::plot::{Labels, Line, RAW, draw};

use super::cell::Axis;
use super::page::{Figure, Report, latency, rate};

/// The plot of an axis, as SVG; `None` if there is nothing to draw a line through.
pub(crate) fn svg(report: &Report, axis: Axis) -> Result<Option<String>, Failure> {
    if axis == Axis::Layout {
        return Ok(None);
    }
    let (figure, label): (Figure, _) = if axis == Axis::Latency {
        (|measures| latency(measures, |latency| latency.p99_us), "us")
    } else {
        (rate, "messages/s at every receiver")
    };
    let lines = lines(report, axis, figure);
    if lines.iter().all(|line| line.points.len() < 2) {
        return Ok(None);
    }
    let mut text = String::new();
    let labels = Labels {
        x: x_label(axis),
        y: label,
    };
    draw(&mut text, labels, &lines)?;
    Ok(Some(text))
}

fn lines(report: &Report, axis: Axis, figure: Figure) -> Vec<Line> {
    let cells = report.cells(axis);
    let mut palette = Line::colors();
    let line = |name: &'static str| {
        let points = cells.iter().filter_map(|cell| {
            // Places on a logarithmic axis: no loss is drawn as a hundredth of a percent.
            let x = cell.x().max(0.01);
            report.spread(name, *cell, figure).map(|spread| (x, spread))
        });
        let color = if name.starts_with("raw") {
            RAW
        } else {
            palette.next().unwrap_or(RAW)
        };
        Line {
            name,
            color,
            points: points.collect(),
        }
    };
    report.systems(axis).into_iter().map(line).collect()
}

fn x_label(axis: Axis) -> &'static str {
    match axis {
        Axis::Payload => "bytes of a message",
        Axis::Receivers | Axis::Unicast => "receivers",
        Axis::Groups => "groups",
        Axis::Senders => "senders",
        Axis::Latency => "messages/s",
        Axis::Layout => "layout",
        Axis::Loss => "% of packets lost at each receiver (0 at the left edge)",
    }
}
