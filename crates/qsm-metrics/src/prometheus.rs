//! The text formats that Prometheus reads: its own (version 0.0.4), and OpenMetrics 1.0.
//!
//! Names are `qsm_`, the group, the groups within it, the field; then the base unit, `bytes` or
//! `seconds`, and `_total` for counters. A unit that the field's name has elsewhere moves to that
//! place: `bytes_delivered` of the group `node` is `qsm_node_delivered_bytes_total`.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use crate::histogram::Histogram;
use crate::seconds::Seconds;
use crate::{Kind, Metrics, Row, Unit, Value, rows};

/// The type of the text, for the HTTP header `Content-Type`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of the text in OpenMetrics, for the same header.
pub const OPEN_METRICS_CONTENT_TYPE: &str =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Ends the name of a counter's samples.
const TOTAL: &str = "_total";

/// Begins all names.
const PREFIX: &str = "qsm";

/// Doublings of a microsecond at which histograms are told, from 8 µs to a minute: a page stays
/// short, and the steps are the same on every node.
pub(crate) const OCTAVES: core::ops::RangeInclusive<u32> = 3..=26;

/// Metrics under one name.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) unit: Unit,
    pub(crate) points: Vec<Point>,
}

/// A metric of one of the structs.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: PointValue,
}

/// Its value.
#[derive(Debug, Clone)]
pub(crate) enum PointValue {
    Count(u64),
    Time(Duration),
    Times(Box<Histogram>),
}

/// Metrics of many structs as one text; `Display` writes it.
///
/// The same struct may be added several times, with labels that tell one from the other. Added
/// twice with equal labels it makes a text that Prometheus refuses.
#[derive(Debug, Clone, Default)]
pub struct Page {
    families: BTreeMap<String, Family>,
}

impl Page {
    /// A page without metrics.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds all metrics of a struct, each with these labels: name and value. Values may be any
    /// text.
    ///
    /// # Panics
    /// When a label's name is not of letters, digits and underscores, or is `le`.
    pub fn add(&mut self, metrics: &dyn Metrics, labels: &[(&str, &str)]) {
        self.add_as(metrics.group(), metrics, labels);
    }

    /// As [`Page::add`], with names that begin with another group than the declared one, for
    /// what is part of the same struct elsewhere on the page.
    ///
    /// # Panics
    /// As [`Page::add`].
    pub fn add_as(&mut self, group: &str, metrics: &dyn Metrics, labels: &[(&str, &str)]) {
        check(labels);
        for row in &rows(metrics) {
            self.add_row(&name(group, row), row, labels);
        }
    }

    /// All families by name, counters with `_total`.
    pub(crate) fn families(&self) -> impl Iterator<Item = (&str, &Family)> {
        let families = self.families.iter();
        families.map(|(name, family)| (name.as_str(), family))
    }

    /// The page in the format of OpenMetrics: a family of counters is named without `_total`,
    /// units are said, and the text has an end.
    #[must_use]
    pub fn to_open_metrics(&self) -> String {
        let mut text = String::new();
        for (whole, family) in &self.families {
            let name = whole.strip_suffix(TOTAL).unwrap_or(whole);
            text.push_str(&format!("# TYPE {name} {}\n", family.kind()));
            if let Some(unit) = base_unit(family.unit) {
                text.push_str(&format!("# UNIT {name} {unit}\n"));
            }
            let help = family.help().replace('"', "\\\"");
            text.push_str(&format!("# HELP {name} {help}\n{}", family.lines(whole)));
        }
        text + "# EOF\n"
    }

    fn add_row(&mut self, name: &str, row: &Row<'_>, labels: &[(&str, &str)]) {
        let family = self.families.entry(name.to_owned());
        let family = family.or_insert_with(|| Family {
            help: row.metric.help,
            kind: row.metric.kind,
            unit: row.metric.unit,
            points: Vec::new(),
        });
        let labels = labels.iter();
        family.points.push(Point {
            labels: labels
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            value: match row.value {
                Value::Count(count) => PointValue::Count(count),
                Value::Time(time) => PointValue::Time(time),
                Value::Times(times) => PointValue::Times(Box::new(times.clone())),
            },
        });
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, family) in &self.families {
            let (help, kind) = (family.help(), family.kind());
            writeln!(f, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
            f.write_str(&family.lines(name))?;
        }
        Ok(())
    }
}

impl Family {
    fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge | Kind::Maximum => "gauge",
            Kind::Histogram => "histogram",
        }
    }

    fn help(&self) -> String {
        self.help.replace('\\', r"\\").replace('\n', r"\n")
    }

    /// Samples, a line each.
    fn lines(&self, name: &str) -> String {
        let mut samples = Samples(String::new());
        for point in &self.points {
            let labels = written(&point.labels);
            match &point.value {
                PointValue::Count(count) => samples.add(name, &labels, count),
                PointValue::Time(time) => samples.add(name, &labels, &Seconds(*time)),
                PointValue::Times(times) => samples.add_histogram(name, &labels, times),
            }
        }
        samples.0
    }
}

/// Lines of samples.
struct Samples(String);

impl Samples {
    fn add(&mut self, name: &str, labels: &str, value: &dyn fmt::Display) {
        let braced = match labels {
            "" => String::new(),
            labels => format!("{{{labels}}}"),
        };
        self.0.push_str(&format!("{name}{braced} {value}\n"));
    }

    fn add_histogram(&mut self, name: &str, labels: &str, times: &Histogram) {
        let bucket = format!("{name}_bucket");
        let comma = if labels.is_empty() { "" } else { "," };
        for octave in OCTAVES {
            let end = Seconds(Duration::from_micros(1 << octave));
            let labels = format!("{labels}{comma}le=\"{end}\"");
            self.add(&bucket, &labels, &times.below(octave));
        }
        let all = format!("{labels}{comma}le=\"+Inf\"");
        self.add(&bucket, &all, &times.count());
        self.add(&format!("{name}_sum"), labels, &Seconds(times.sum()));
        self.add(&format!("{name}_count"), labels, &times.count());
    }
}

/// The unit that a name ends with.
fn base_unit(unit: Unit) -> Option<&'static str> {
    match unit {
        Unit::Bytes => Some("bytes"),
        Unit::Items(_) => None,
        Unit::Nanoseconds | Unit::Seconds => Some("seconds"),
    }
}

/// The name of a metric of this group.
#[must_use]
pub fn name(group: &str, row: &Row<'_>) -> String {
    let words = match row.metric.unit {
        Unit::Bytes => "bytes",
        Unit::Items(_) => "",
        Unit::Nanoseconds => "ns",
        Unit::Seconds => "seconds",
    };
    let field = row.name();
    let mut parts = vec![PREFIX, group];
    parts.extend(field.split('_').filter(|part| *part != words));
    parts.extend(base_unit(row.metric.unit));
    if row.metric.kind == Kind::Counter {
        parts.push("total");
    }
    parts.join("_")
}

/// Labels that may stand between braces.
fn check(labels: &[(&str, &str)]) {
    for (name, _) in labels {
        let mut letters = name.chars();
        let first = letters
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        let rest = letters.all(|c| c.is_ascii_alphanumeric() || c == '_');
        assert!(
            first && rest && *name != "le",
            "{name:?} is no name of a label"
        );
    }
}

/// Labels as they stand between the braces.
fn written(labels: &[(String, String)]) -> String {
    let written = labels.iter().map(|(name, value)| {
        let value = value.replace('\\', r"\\").replace('"', "\\\"");
        format!("{name}=\"{}\"", value.replace('\n', r"\n"))
    });
    written.collect::<Vec<_>>().join(",")
}
