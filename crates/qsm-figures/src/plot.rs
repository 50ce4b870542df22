//! Plots: one panel per curve, one line per protocol, bars for confidence intervals.

use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::data::Data;
use crate::experiment::Figure;
use crate::papers::Mode;
use crate::results::{Point, short};

const WIDTH: u32 = 640;
const PANEL: u32 = 300;
const TITLE: u32 = 34;
const FAITHFUL: RGBColor = RGBColor(0xb0, 0x3a, 0x2e);
const MODERN: RGBColor = RGBColor(0x1f, 0x61, 0x8d);
const PAPER: RGBColor = RGBColor(0x80, 0x80, 0x80);

/// One line of a panel.
struct Line {
    label: String,
    color: RGBColor,
    points: Vec<Point>,
}

/// Draws a figure; the SVG's text.
///
/// # Errors
/// What the drawing library says.
pub(crate) fn svg(figure: &Figure, data: &Data) -> Result<String, String> {
    let mut text = String::new();
    let panels = figure.curves.len();
    let height = TITLE + PANEL * u32::try_from(panels).unwrap_or(1);
    draw(figure, data, &mut text, height).map_err(|error| error.to_string())?;
    Ok(text)
}

fn draw(
    figure: &Figure,
    data: &Data,
    text: &mut String,
    height: u32,
) -> Result<(), Box<dyn core::error::Error>> {
    let root = SVGBackend::with_string(text, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = format!("{}: {}", figure.id, figure.title);
    let root = root.titled(&title, ("sans-serif", 16))?;
    for (curve, area) in root
        .split_evenly((figure.curves.len(), 1))
        .into_iter()
        .enumerate()
    {
        let lines = lines(figure, data, curve);
        let points = || lines.iter().flat_map(|line| &line.points);
        let Some((x, y)) = frame(points()) else {
            continue;
        };
        let mut chart = ChartBuilder::on(&area);
        chart.margin(8).x_label_area_size(34).y_label_area_size(64);
        if figure.log_x && x.start > 0.0 {
            let chart = chart.build_cartesian_2d(x.log_scale(), y)?;
            panel(chart, figure, curve, &lines)?;
        } else {
            let chart = chart.build_cartesian_2d(x, y)?;
            panel(chart, figure, curve, &lines)?;
        }
    }
    root.present()?;
    Ok(())
}

fn panel<'a, 'text: 'a, X>(
    mut chart: ChartContext<'a, SVGBackend<'text>, Cartesian2d<X, RangedCoordf64>>,
    figure: &Figure,
    curve: usize,
    lines: &[Line],
) -> Result<(), Box<dyn core::error::Error>>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(figure.sweep.x)
        .y_desc(figure.curves[curve].label)
        .x_label_formatter(&|x| short_axis(*x))
        .y_label_formatter(&|y| short_axis(*y))
        .draw()?;
    for line in lines {
        let color = line.color;
        let xy = line.points.iter().map(|point| (point.x, point.mean));
        chart
            .draw_series(LineSeries::new(xy, color.stroke_width(2)))?
            .label(&line.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        chart.draw_series(line.points.iter().map(|point| {
            let (low, high) = (point.mean - point.ci, point.mean + point.ci);
            PathElement::new([(point.x, low), (point.x, high)], color.stroke_width(1))
        }))?;
        chart.draw_series(
            line.points
                .iter()
                .map(|point| Circle::new((point.x, point.mean), 3, color.filled())),
        )?;
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.8))
        .border_style(PAPER)
        .draw()?;
    Ok(())
}

fn lines(figure: &Figure, data: &Data, curve: usize) -> Vec<Line> {
    let modes = [(Mode::Faithful, FAITHFUL), (Mode::Modern, MODERN)];
    let mut lines: Vec<Line> = modes
        .into_iter()
        .map(|(mode, color)| Line {
            label: mode.name().to_owned(),
            color,
            points: data.series(figure, mode, curve).to_vec(),
        })
        .collect();
    for reference in figure.references.iter().filter(|line| line.curve == curve) {
        let points = reference.points.iter().map(|(x, y)| Point {
            x: *x,
            mean: *y,
            ci: 0.0,
            runs: 1,
            of_runs: 1,
        });
        lines.push(Line {
            label: format!("{} (as the paper reports)", reference.label),
            color: PAPER,
            points: points.collect(),
        });
    }
    lines
}

/// What the axes must cover; `None` without points.
fn frame<'a>(
    points: impl Iterator<Item = &'a Point>,
) -> Option<(core::ops::Range<f64>, core::ops::Range<f64>)> {
    let mut x = (f64::MAX, f64::MIN);
    let mut top = f64::MIN;
    let mut bottom: f64 = 0.0;
    for point in points {
        x = (x.0.min(point.x), x.1.max(point.x));
        top = top.max(point.mean + point.ci);
        bottom = bottom.min(point.mean);
    }
    if x.1 < x.0 {
        return None;
    }
    let margin = if x.0 > 0.0 { x.0 * 0.1 } else { 0.0 };
    let last = if x.1 > x.0 { x.1 * 1.02 } else { x.0 + 1.0 };
    let top = if top > bottom { top } else { bottom + 1.0 };
    Some((x.0 - margin..last, bottom..top + (top - bottom) * 0.15))
}

fn short_axis(value: f64) -> String {
    let rounded = value.round();
    if value.abs() < 1e7 && (value - rounded).abs() < 1e-9 {
        format!("{rounded:.0}")
    } else {
        short(value)
    }
}
