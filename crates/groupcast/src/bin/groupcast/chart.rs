//! Line charts as SVG.

use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 48.0;
/// Told apart by people who see red and green alike.
const COLOURS: [&str; 7] = [
    "#000000", "#0072b2", "#e69f00", "#cc79a7", "#d55e00", "#009e73", "#56b4e9",
];

/// A chart in the making.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x_label: &'static str,
    pub(crate) y_label: &'static str,
    /// Whether the horizontal axis is logarithmic.
    pub(crate) x_log: bool,
    pub(crate) lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Chart {
    /// The finished picture.
    pub(crate) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let scale = |x: f64| if self.x_log { x.log10() } else { x };
        let x_min = points().map(|p| scale(p.0)).fold(f64::INFINITY, f64::min);
        let x_max = points().map(|p| scale(p.0)).fold(x_min + 1e-9, f64::max);
        let y_max = nice(points().map(|p| p.1).fold(0.0, f64::max));
        let x_at = |x: f64| LEFT + (scale(x) - x_min) / (x_max - x_min) * (WIDTH - LEFT - RIGHT);
        let y_at = |y: f64| HEIGHT - BOTTOM - y / y_max * (HEIGHT - TOP - BOTTOM);
        let mut svg = self.frame();
        for step in 0..=5 {
            let y = y_max * f64::from(step) / 5.0;
            let at = y_at(y);
            let right = WIDTH - RIGHT;
            put(
                &mut svg,
                format_args!(
                    "<path d='M{LEFT} {at:.1}H{right}' stroke='#ddd'/>\
                 <text x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>",
                    LEFT - 6.0,
                    at + 4.0,
                    short(y)
                ),
            );
        }
        let mut ticks: Vec<f64> = points().map(|p| p.0).collect();
        ticks.sort_by(f64::total_cmp);
        ticks.dedup();
        let mut last = f64::NEG_INFINITY;
        for x in ticks {
            let at = x_at(x);
            if at > last + 28.0 {
                last = at;
                put(
                    &mut svg,
                    format_args!(
                        "<text x='{at:.1}' y='{:.1}' text-anchor='middle'>{}</text>",
                        HEIGHT - BOTTOM + 16.0,
                        short(x)
                    ),
                );
            }
        }
        for (number, (name, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let path: Vec<String> = points
                .iter()
                .map(|p| format!("{:.1} {:.1}", x_at(p.0), y_at(p.1)))
                .collect();
            let y = TOP + 18.0 * number as f64 + 8.0;
            let x = WIDTH - RIGHT + 14.0;
            put(
                &mut svg,
                format_args!(
                    "<path d='M{}' fill='none' stroke='{colour}' stroke-width='2'/>\
                 <path d='M{x} {y}h18' stroke='{colour}' stroke-width='3'/>\
                 <text x='{:.1}' y='{:.1}'>{name}</text>",
                    path.join("L"),
                    x + 24.0,
                    y + 4.0
                ),
            );
        }
        svg + "</svg>\n"
    }

    fn frame(&self) -> String {
        let middle = HEIGHT / 2.0;
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' \
             font-family='sans-serif' font-size='11'>\
             <rect width='100%' height='100%' fill='white'/>\
             <text x='{LEFT}' y='20' font-size='14'>{}</text>\
             <text x='{LEFT}' y='{:.1}'>{}</text>\
             <text x='14' y='{middle}' transform='rotate(-90 14 {middle})' text-anchor='middle'>{}</text>",
            self.title,
            HEIGHT - 12.0,
            self.x_label,
            self.y_label
        )
    }
}

fn put(svg: &mut String, what: std::fmt::Arguments<'_>) {
    let written = svg.write_fmt(what);
    debug_assert!(written.is_ok(), "strings grow");
}

/// The next number that reads well.
fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let found = steps.iter().find(|step| *step * power >= value);
    found.map_or(value, |step| step * power)
}

fn short(value: f64) -> String {
    if value >= 10.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
