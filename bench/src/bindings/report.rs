//! What the receivers reached, beside the first of them.

use std::fmt;

use super::programs::Said;

/// A run of a receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    /// Messages received in a second.
    pub(crate) per_second: f64,
    /// CPU time of the receiver's process for a message, its core thread included, nanoseconds.
    pub(crate) cpu_nanos: f64,
}

impl Point {
    pub(crate) fn of(said: Said) -> Self {
        Self {
            per_second: said.messages / said.seconds,
            cpu_nanos: said.cpu_seconds * 1e9 / said.messages,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            per_second,
            cpu_nanos,
        } = self;
        write!(f, "{per_second:.0} messages/s, {cpu_nanos:.0} ns CPU each")
    }
}

/// Runs of all receivers, by round.
#[derive(Debug, Default)]
pub(crate) struct Report {
    receivers: Vec<(String, Vec<Point>)>,
    /// Runs in which others had too much of the CPUs.
    pub(crate) thrown_away: usize,
}

impl Report {
    pub(crate) fn add(&mut self, name: &str, point: Point) {
        match self.receivers.iter_mut().find(|(known, _)| known == name) {
            Some((_, points)) => points.push(point),
            None => self.receivers.push((name.to_owned(), vec![point])),
        }
    }

    /// Points of a receiver, each divided by that of the first receiver in the same round.
    fn ratios(&self, points: &[Point], value: impl Fn(&Point) -> f64) -> Spread {
        let first = self.receivers.first();
        let base = first.map_or(&[][..], |(_, points)| points);
        let pairs = points.iter().zip(base);
        Spread::of(pairs.map(|(point, base)| value(point) / value(base)))
    }
}

/// A table, with medians and extremes of the ratios.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| receiver | rate | CPU time of its process for a message |"
        )?;
        writeln!(f, "|---|---|---|")?;
        for (name, points) in &self.receivers {
            let rate = self.ratios(points, |point| point.per_second);
            let cpu = self.ratios(points, |point| point.cpu_nanos);
            writeln!(f, "| {name} | {rate} | {cpu} |")?;
        }
        let rounds = self.receivers.first().map_or(0, |(_, points)| points.len());
        let thrown_away = self.thrown_away;
        write!(
            f,
            "\n{rounds} rounds; medians, and extremes in brackets; {thrown_away} runs thrown away"
        )
    }
}

/// Median and extremes.
pub(super) struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        Self {
            least: at(0),
            median: at(values.len() / 2),
            most: at(values.len().saturating_sub(1)),
        }
    }

    /// Least, median and most.
    pub(super) fn all(&self) -> [f64; 3] {
        [self.least, self.median, self.most]
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            least,
            median,
            most,
        } = self;
        write!(f, "{median:.2} [{least:.2}-{most:.2}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_same_round() {
        let mut report = Report::default();
        for (rust, java) in [(10.0, 5.0), (100.0, 80.0), (10.0, 7.0)] {
            for (name, per_second) in [("rust", rust), ("java", java)] {
                let cpu_nanos = 1.0;
                report.add(
                    name,
                    Point {
                        per_second,
                        cpu_nanos,
                    },
                );
            }
        }
        let table = report.to_string();
        assert!(
            table.contains("| java | 0.70 [0.50-0.80] | 1.00 [1.00-1.00] |"),
            "{table}"
        );
    }
}
