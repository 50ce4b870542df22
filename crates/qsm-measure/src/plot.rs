//! Plots, as SVG.

use std::fs;
use std::path::Path;

use plotters::prelude::*;
use qsm_console::failure::Failure;

const SIZE: (u32, u32) = (720, 420);
const FONT: (&str, u32) = ("sans-serif", 16);
/// Told apart also by those who see colours differently (Okabe and Ito 2008).
const COLORS: [RGBColor; 3] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
];

/// Latencies, as the percentile curve draws them.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    /// What they are of.
    pub(crate) name: String,
    /// One in so many takes longer than so many nanoseconds.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Writes a picture.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(path: &Path, picture: &str) -> Result<(), Failure> {
    fs::write(path, picture)
        .map_err(|error| Failure::io(format_args!("write {}", path.display()), &error))
}

/// The percentile curve: the further right, the rarer.
///
/// # Errors
/// What the drawing library says.
pub(crate) fn percentiles(curves: &[Curve]) -> Result<String, Failure> {
    let mut text = String::new();
    draw_percentiles(curves, &mut text).map_err(|error| failed(&*error))?;
    Ok(text)
}

/// Messages per second of each run.
///
/// # Errors
/// What the drawing library says.
pub(crate) fn bars(rates: &[f64]) -> Result<String, Failure> {
    let mut text = String::new();
    draw_bars(rates, &mut text).map_err(|error| failed(&*error))?;
    Ok(text)
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::failed(format!("cannot draw: {error}"), "leave out --plot")
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw_percentiles(curves: &[Curve], text: &mut String) -> Drawn {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let right = points().map(|point| point.0).fold(10.0, f64::max);
    let micros = |nanos: f64| nanos.max(1.0) / 1e3;
    let low = points().map(|point| micros(point.1)).fold(1e12, f64::min);
    let high = points().map(|point| micros(point.1)).fold(low, f64::max);
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("latency by percentile", FONT)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (1.0..right * 1.1).log_scale(),
            (low * 0.8..high * 1.25).log_scale(),
        )?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("percentile")
        .y_desc("µs")
        .x_label_formatter(&|one_in| percentile(*one_in))
        .y_label_formatter(&|micros| format!("{micros}"))
        .draw()?;
    for (curve, color) in curves.iter().zip(COLORS.into_iter().cycle()) {
        let points = curve.points.iter().map(|point| (point.0, micros(point.1)));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

/// 100 to p99, 1000 to p99.9.
fn percentile(one_in: f64) -> String {
    let percent = 100.0 - 100.0 / one_in;
    let digits = (one_in.log10().round() - 2.0).max(0.0) as usize;
    format!("p{percent:.digits$}")
}

fn draw_bars(rates: &[f64], text: &mut String) -> Drawn {
    let high = rates.iter().copied().fold(1.0, f64::max) / 1e3;
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let count = rates.len() as f64;
    let mut chart = ChartBuilder::on(&root)
        .caption("throughput of each run, at the slowest receiver", FONT)
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.5..count + 0.5, 0.0..high * 1.1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .x_labels(rates.len().min(20))
        .x_label_formatter(&|run| format!("{run:.0}"))
        .x_desc("run")
        .y_desc("thousand messages/s")
        .draw()?;
    chart.draw_series((1..).zip(rates).map(|(run, rate)| {
        let run = f64::from(run);
        Rectangle::new(
            [(run - 0.35, 0.0), (run + 0.35, rate / 1e3)],
            COLORS[0].filled(),
        )
    }))?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_drawn_for_everything_measured() {
        let curve = |name: &str| Curve {
            name: name.to_owned(),
            points: vec![(1.0, 4000.0), (2.0, 5000.0), (1000.0, 90_000.0)],
        };
        let picture = percentiles(&[curve("one"), curve("two")]).unwrap();
        assert!(
            picture.starts_with("<svg") && picture.contains("p99"),
            "{picture}"
        );
        assert!(picture.matches("<polyline").count() >= 4, "{picture}");
        assert!(picture.contains("one") && picture.contains("two"));
    }

    #[test]
    fn a_bar_is_drawn_for_each_run() {
        let fill = "#0072B2";
        let picture = bars(&[1e6, 2e6, 1.5e6]).unwrap();
        assert_eq!(picture.matches(fill).count(), 3, "{picture}");
    }

    #[test]
    fn axes_say_percentiles() {
        let names = [1.0, 10.0, 100.0, 1000.0, 1e5].map(percentile);
        assert_eq!(names, ["p0", "p90", "p99", "p99.9", "p99.999"]);
    }
}
