use core::fmt::Write;

use crate::histogram::Histogram;
use crate::seconds::Seconds;
use crate::{Metrics, Path, Unit, Value};

/// The metrics as one flat JSON object.
///
/// A key is a metric's name with those of its groups before it. Times are decimal seconds, and
/// their names end so; where a name ends in `_ns` they are whole nanoseconds. A histogram is an
/// object of count, sum, quantiles and maximum.
#[must_use]
pub fn json(metrics: &impl Metrics) -> String {
    let mut rows = Vec::new();
    metrics.append(Path::default(), &mut rows);
    let fields = rows.iter().map(|row| {
        // Names are identifiers of Rust, so nothing in them needs escaping.
        let name = row.name();
        match row.value {
            Value::Count(count) => format!("\"{name}\":{count}"),
            Value::Time(_) if row.metric.unit == Unit::Nanoseconds => {
                format!("\"{name}\":{}", row.number())
            }
            Value::Time(time) => format!("\"{name}_seconds\":{}", Seconds(time)),
            Value::Times(times) => format!("\"{name}\":{}", quantiles(times)),
        }
    });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn quantiles(times: &Histogram) -> String {
    let mut text = format!(
        "{{\"count\":{},\"sum_seconds\":{}",
        times.count(),
        Seconds(times.sum())
    );
    for (name, permille) in [("p50", 500), ("p90", 900), ("p99", 990), ("max", 1000)] {
        let at = Seconds(times.quantile(permille));
        // Writing to a string cannot fail.
        write!(text, ",\"{name}_seconds\":{at}").ok();
    }
    text + "}"
}
