use core::fmt;
use core::time::Duration;

use crate::Histogram;

/// A struct that [`metrics!`](crate::metrics) has declared.
pub trait Metrics {
    /// Begins its names in Prometheus, after `qsm_`.
    fn group(&self) -> &'static str;

    /// Appends a row for each metric, in the order of declaration; `path` are the groups that
    /// this one lies in.
    fn append<'a>(&'a self, path: Path, rows: &mut Vec<Row<'a>>);
}

/// Every metric of a struct with its value, in the order of declaration.
#[must_use]
pub fn rows(metrics: &dyn Metrics) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    metrics.append(Path::default(), &mut rows);
    rows
}

/// Declaration of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name of the field.
    pub name: &'static str,
    /// Says how two of them are added.
    pub kind: Kind,
    /// What one is.
    pub unit: Unit,
    /// One or two sentences.
    pub help: &'static str,
}

/// Behaviour of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; two are added.
    Counter,
    /// Rises and falls; two are added.
    Gauge,
    /// Many durations; two are counted together.
    Histogram,
    /// Of two the larger one counts.
    Maximum,
}

/// Unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Things, named in the plural.
    Items(&'static str),
    /// Time, kept in nanoseconds.
    Nanoseconds,
    /// Time.
    Seconds,
}

impl Unit {
    /// Its word in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Items(items) => items,
            Self::Nanoseconds => "nanoseconds",
            Self::Seconds => "seconds",
        }
    }
}

/// The fields through which a metric is reached, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    groups: [&'static str; Self::DEPTH_MAX],
    depth: usize,
}

impl Path {
    /// Most groups within each other.
    pub const DEPTH_MAX: usize = 4;

    /// The path of this group's fields, where `self` is the path of the group.
    ///
    /// # Panics
    /// When groups are nested deeper than [`Path::DEPTH_MAX`].
    #[must_use]
    pub fn within(mut self, group: &'static str) -> Self {
        self.groups[self.depth] = group;
        self.depth += 1;
        self
    }

    /// The groups, outermost first.
    #[must_use]
    pub fn groups(&self) -> &[&'static str] {
        &self.groups[..self.depth]
    }
}

/// A metric and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// The groups that it lies in.
    pub path: Path,
    /// Its declaration.
    pub metric: &'static Metric,
    /// Its value.
    pub value: Value<'a>,
}

/// The value of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Things or bytes.
    Count(u64),
    /// A time.
    Time(Duration),
    /// Many times.
    Times(&'a Histogram),
}

impl<'a> From<&'a u64> for Value<'a> {
    fn from(count: &'a u64) -> Self {
        Self::Count(*count)
    }
}

impl<'a> From<&'a Duration> for Value<'a> {
    fn from(time: &'a Duration) -> Self {
        Self::Time(*time)
    }
}

impl<'a> From<&'a Histogram> for Value<'a> {
    fn from(times: &'a Histogram) -> Self {
        Self::Times(times)
    }
}

impl Row<'_> {
    /// Its name with those of the groups that it lies in.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = String::new();
        for group in self.path.groups() {
            name.push_str(group);
            name.push('_');
        }
        name + self.metric.name
    }

    /// Its value as a number: a count, nanoseconds, or how many durations were counted.
    #[must_use]
    pub fn number(&self) -> u64 {
        match self.value {
            Value::Count(count) => count,
            Value::Time(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Value::Times(times) => times.count(),
        }
    }

    /// Nothing has happened.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.number() == 0
    }
}

/// A line for people: value, name, help.
impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, help) = (self.name(), self.metric.help);
        match self.value {
            Value::Count(count) => write!(f, "{count:>14}  {name}: {help}"),
            Value::Time(time) => write!(f, "{:>14}  {name}: {help}", format!("{time:?}")),
            Value::Times(times) => {
                let [half, most, all] = [500, 990, 1000].map(|share| times.quantile(share));
                let count = times.count();
                write!(
                    f,
                    "{count:>14}  {name}: {help} p50 {half:?}, p99 {most:?}, max {all:?}"
                )
            }
        }
    }
}
