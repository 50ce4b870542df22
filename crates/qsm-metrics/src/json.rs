use core::fmt::{self, Write};
use core::time::Duration;

use crate::histogram::Histogram;
use crate::seconds::Seconds;
use crate::{Metrics, Unit, Value, rows};

/// The metrics as one flat JSON object.
///
/// A key is a metric's name with those of its groups before it. Times are decimal seconds, and
/// their names end so; where a name ends in `_ns` they are whole nanoseconds. A histogram is an
/// object of count, sum, quantiles and maximum.
#[must_use]
pub fn json(metrics: &dyn Metrics) -> String {
    let mut object = Object::new();
    for row in rows(metrics) {
        let name = row.name();
        object = match row.value {
            Value::Count(count) => object.count(&name, count),
            Value::Time(_) if row.metric.unit == Unit::Nanoseconds => {
                object.count(&name, row.number())
            }
            Value::Time(time) => object.time(&name, time),
            Value::Times(times) => object.json(&name, &quantiles(times)),
        };
    }
    object.to_string()
}

fn quantiles(times: &Histogram) -> String {
    let mut object = Object::new()
        .count("count", times.count())
        .time("sum", times.sum());
    for (name, permille) in [("p50", 500), ("p90", 900), ("p99", 990), ("max", 1000)] {
        object = object.time(name, times.quantile(permille));
    }
    object.to_string()
}

/// A JSON object, written field by field; `Display` gives its text.
///
/// ```
/// let text = qsm_metrics::Object::new().text("name", "a \"b\"").count("cores", 2).to_string();
/// assert_eq!(text, r#"{"name":"a \"b\"","cores":2}"#);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Object {
    fields: String,
}

impl Object {
    /// One without fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds any text.
    #[must_use]
    pub fn text(self, name: &str, text: &str) -> Self {
        self.json(name, &quoted(text))
    }

    /// Adds a number.
    #[must_use]
    pub fn count(self, name: &str, count: u64) -> Self {
        self.json(name, &count.to_string())
    }

    /// Adds a time as decimal seconds, named `name_seconds`.
    #[must_use]
    pub fn time(self, name: &str, time: Duration) -> Self {
        self.json(&format!("{name}_seconds"), &Seconds(time).to_string())
    }

    /// Adds metrics as an object of their own.
    #[must_use]
    pub fn metrics(self, name: &str, metrics: &dyn Metrics) -> Self {
        self.json(name, &json(metrics))
    }

    /// Adds a list of what is JSON already.
    #[must_use]
    pub fn list(self, name: &str, items: impl Iterator<Item = String>) -> Self {
        let items: Vec<String> = items.collect();
        self.json(name, &format!("[{}]", items.join(",")))
    }

    /// Adds what is JSON already.
    #[must_use]
    pub fn json(mut self, name: &str, json: &str) -> Self {
        let comma = if self.fields.is_empty() { "" } else { "," };
        self.fields
            .push_str(&format!("{comma}{}:{json}", quoted(name)));
        self
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", self.fields)
    }
}

/// A JSON string of this text.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            // Writing to a string cannot fail.
            '\0'..='\x1f' => drop(write!(quoted, "\\u{:04x}", u32::from(letter))),
            _ => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_a_string() {
        assert_eq!(quoted("a\"b\\c\nd\u{1}é"), r#""a\"b\\c\u000ad\u0001é""#);
    }

    #[test]
    fn objects_hold_fields_in_their_order() {
        let empty = Object::new().to_string();
        let object = Object::new()
            .text("a", "x")
            .time("b", Duration::from_millis(1500))
            .list("c", ["1", "2"].map(str::to_owned).into_iter())
            .json("d", "null");
        assert_eq!(empty, "{}");
        let expected = r#"{"a":"x","b_seconds":1.5,"c":[1,2],"d":null}"#;
        assert_eq!(object.to_string(), expected);
    }
}
