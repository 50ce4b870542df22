//! Metrics as a collector of OpenTelemetry takes them: a request of OTLP 1.0 in JSON.

use core::time::Duration;

use crate::histogram::Histogram;
use crate::json::{Object, quoted};
use crate::prometheus::{Family, OCTAVES, Page, Point, PointValue};
use crate::seconds::Seconds;
use crate::{Kind, Unit};

/// The type of the text, for the HTTP header `Content-Type`.
pub const CONTENT_TYPE: &str = "application/json";

/// Counts go on from the start; a collector computes differences (`AGGREGATION_TEMPORALITY_CUMULATIVE`).
const CUMULATIVE: u64 = 2;

/// Span of a count, and whose it is.
#[derive(Debug, Clone, Copy)]
pub struct Export<'a> {
    /// The name of the program, which becomes the attribute `service.name`.
    pub service: &'a str,
    /// Its version.
    pub version: &'a str,
    /// When counting began, since 1970. OTLP's readers take a later one for a new start.
    pub start: Duration,
    /// When it was read, since 1970.
    pub now: Duration,
}

/// The body of a request to `/v1/metrics`.
#[must_use]
pub fn request(page: &Page, export: &Export<'_>) -> String {
    let metrics = page
        .families()
        .map(|(name, family)| metric(name, family, export));
    let attributes = [
        ("service.name", export.service),
        ("service.version", export.version),
    ];
    let attributes = attributes.map(|(key, value)| attribute(key, value));
    let resource = Object::new().list("attributes", attributes.into_iter());
    let scope = Object::new()
        .text("name", "qsm")
        .text("version", export.version);
    let scope_metrics = Object::new()
        .json("scope", &scope.to_string())
        .list("metrics", metrics);
    let resource_metrics = Object::new()
        .json("resource", &resource.to_string())
        .list("scopeMetrics", [scope_metrics.to_string()].into_iter());
    let all = [resource_metrics.to_string()].into_iter();
    Object::new().list("resourceMetrics", all).to_string()
}

fn attribute(key: &str, value: &str) -> String {
    let value = Object::new().text("stringValue", value);
    let attribute = Object::new()
        .text("key", key)
        .json("value", &value.to_string());
    attribute.to_string()
}

fn metric(name: &str, family: &Family, export: &Export<'_>) -> String {
    let points = family.points.iter();
    let points = points.map(|point| data_point(point, family.kind, export));
    let data = Object::new().list("dataPoints", points);
    let cumulative = |data: Object| data.count("aggregationTemporality", CUMULATIVE);
    let (kind, data) = match family.kind {
        Kind::Counter => ("sum", cumulative(data).json("isMonotonic", "true")),
        Kind::Gauge | Kind::Maximum => ("gauge", data),
        Kind::Histogram => ("histogram", cumulative(data)),
    };
    // Readers add it where they want it.
    let name = name.strip_suffix("_total").unwrap_or(name);
    let metric = Object::new()
        .text("name", name)
        .text("description", family.help)
        .text("unit", &unit(family.unit))
        .json(kind, &data.to_string());
    metric.to_string()
}

/// As UCUM has it: <https://ucum.org>.
fn unit(unit: Unit) -> String {
    match unit {
        Unit::Bytes => "By".to_owned(),
        Unit::Items(items) => format!("{{{}}}", items.replace(' ', "_")),
        Unit::Nanoseconds | Unit::Seconds => "s".to_owned(),
    }
}

fn data_point(point: &Point, kind: Kind, export: &Export<'_>) -> String {
    let labels = point.labels.iter();
    let labels = labels.map(|(name, value)| attribute(name, value));
    let mut data = Object::new().list("attributes", labels);
    if matches!(kind, Kind::Counter | Kind::Histogram) {
        data = data.json("startTimeUnixNano", &nanos(export.start));
    }
    let data = data.json("timeUnixNano", &nanos(export.now));
    // 64-bit numbers are text in the JSON of protocol buffers.
    let whole = |number: u64| quoted(&number.to_string());
    let data = match &point.value {
        PointValue::Count(count) => data.json("asInt", &whole(*count)),
        PointValue::Time(time) => data.json("asDouble", &Seconds(*time).to_string()),
        PointValue::Times(times) => {
            let bounds = OCTAVES.map(|octave| Duration::from_micros(1 << octave));
            data.json("count", &whole(times.count()))
                .json("sum", &Seconds(times.sum()).to_string())
                .list("bucketCounts", buckets(times).map(whole))
                .list(
                    "explicitBounds",
                    bounds.map(|bound| Seconds(bound).to_string()),
                )
        }
    };
    data.to_string()
}

/// Durations between one bound and the next; the first are those below the first, the last those above the last.
fn buckets(times: &Histogram) -> impl Iterator<Item = u64> {
    let below = OCTAVES.map(|octave| times.below(octave));
    let mut before = 0;
    below.chain([times.count()]).map(move |below| {
        let count = below - before;
        before = below;
        count
    })
}

fn nanos(time: Duration) -> String {
    quoted(&time.as_nanos().to_string())
}
