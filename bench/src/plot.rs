//! Plots: values over an axis, one line per name, bars from the least to the greatest run.

use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

use crate::Failure;

const SIZE: (u32, u32) = (760, 460);
const PALETTE: [RGBColor; 12] = [
    RGBColor(0x1f, 0x61, 0x8d),
    RGBColor(0xb0, 0x3a, 0x2e),
    RGBColor(0x1e, 0x84, 0x49),
    RGBColor(0xca, 0x6f, 0x1e),
    RGBColor(0x6c, 0x34, 0x83),
    RGBColor(0x11, 0x7a, 0x65),
    RGBColor(0x92, 0x7b, 0x0b),
    RGBColor(0xc2, 0x18, 0x5b),
    RGBColor(0x5d, 0x40, 0x37),
    RGBColor(0x28, 0x35, 0x93),
    RGBColor(0x55, 0x8b, 0x2f),
    RGBColor(0x45, 0x5a, 0x64),
];
/// Colour of a line that has none of its own.
pub(crate) const RAW: RGBColor = RGBColor(0xa0, 0xa0, 0xa0);

/// A line's values: x, then minimum, median and maximum.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) color: RGBColor,
    pub(crate) points: Vec<(f64, [f64; 3])>,
}

impl Line {
    /// Colours for lines, again and again.
    pub(crate) fn colors() -> impl Iterator<Item = RGBColor> {
        PALETTE.into_iter().cycle()
    }
}

/// Texts at the axes of a plot.
#[derive(Clone, Copy)]
pub(crate) struct Labels {
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
}

/// Draws lines on logarithmic axes, as SVG.
pub(crate) fn draw(text: &mut String, labels: Labels, lines: &[Line]) -> Result<(), Failure> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let all = || lines.iter().flat_map(|line| &line.points);
    let (mut left, mut right) = (f64::INFINITY, 0.0f64);
    let (mut low, mut high) = (f64::INFINITY, 0.0f64);
    for (x, [least, _, most]) in all() {
        (left, right) = (left.min(*x), right.max(*x));
        (low, high) = (low.min(*least), high.max(*most));
    }
    let x = (left * 0.9..right * 1.1).log_scale();
    let y = (low * 0.8..high * 1.2).log_scale();
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .margin_right(180)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(x, y)?;
    panel(&mut chart, labels, lines)?;
    legend(&root, lines)?;
    root.present()?;
    Ok(())
}

fn panel<'a, X, Y>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    labels: Labels,
    lines: &[Line],
) -> Result<(), Failure>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(labels.x)
        .y_desc(labels.y)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .draw()?;
    for line in lines {
        let color = line.color;
        let middles = line.points.iter().map(|(x, [_, middle, _])| (*x, *middle));
        chart.draw_series(LineSeries::new(middles.clone(), color.stroke_width(2)))?;
        chart.draw_series(middles.map(|at| Circle::new(at, 3, color.filled())))?;
        chart.draw_series(line.points.iter().map(|(x, [low, _, high])| {
            PathElement::new([(*x, *low), (*x, *high)], color.stroke_width(1))
        }))?;
    }
    Ok(())
}

/// Names beside the plot, from the highest at the right edge downwards.
fn legend<'a>(
    root: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    lines: &[Line],
) -> Result<(), Failure> {
    let last = |line: &&Line| {
        line.points
            .last()
            .map_or(0.0, |(_, [_, middle, _])| *middle)
    };
    let mut order: Vec<&Line> = lines
        .iter()
        .filter(|line| !line.points.is_empty())
        .collect();
    order.sort_by(|a, b| last(b).total_cmp(&last(a)));
    let left = SIZE.0 as i32 - 172;
    for (row, line) in (0..).zip(order) {
        let y = 24 + row * 20;
        let mark = [(left, y), (left + 14, y)];
        root.draw(&PathElement::new(mark, line.color.stroke_width(3)))?;
        root.draw(&Text::new(
            line.name,
            (left + 20, y - 6),
            ("sans-serif", 12),
        ))?;
    }
    Ok(())
}

/// `1.5M` for 1,500,000.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let digits = format!("{value:.2}");
    format!(
        "{}{unit}",
        digits.trim_end_matches('0').trim_end_matches('.')
    )
}
