//! By how much Quicksilver's rate is above that of others, and what it could be at most.

use crate::compare::cell::Cell;
use crate::compare::system;

use super::{Report, rate, thousands};

/// What is aimed at: so many times the next best system's rate.
const GOAL: f64 = 3.0;

/// And that of the next best by multicast, with some lengths of messages and several receivers.
fn multicast_goal(cell: Cell) -> Option<f64> {
    match cell.payload {
        _ if cell.receivers < 2 || cell.loss_ppm > 0 => None,
        100 => Some(5.0),
        1000 => Some(10.0),
        _ => None,
    }
}

/// Of one cell: messages per second.
pub(super) struct Factors {
    ours: f64,
    /// The blaster's, message by message and with full datagrams.
    raw: [Option<f64>; 2],
    best: Option<(&'static str, f64)>,
    best_multicast: Option<(&'static str, f64)>,
}

impl Factors {
    /// `None` if Quicksilver has no complete run.
    pub(super) fn new(report: &Report, cell: Cell) -> Option<Self> {
        Some(Self {
            ours: report.middle(system::quicksilver(cell), cell, rate)?,
            raw: ["raw", "raw/1400B"].map(|name| report.middle(name, cell, rate)),
            best: report.best(cell, |_| true),
            best_multicast: report.best(cell, |system| system.multicast),
        })
    }

    pub(super) fn row(&self, cell: Cell) -> String {
        let share = |raw: Option<f64>| {
            raw.map_or_else(dash, |raw| format!("{:.0} %", self.ours / raw * 100.0))
        };
        let other = |best: Option<(&str, f64)>| match best {
            Some((name, rate)) => format!("{name} | {:.1}", self.ours / rate),
            None => "- | -".to_owned(),
        };
        let ceiling = self.ceiling().zip(self.best_multicast);
        format!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            cell.describe(),
            thousands(self.ours / 1e3),
            share(self.raw[0]),
            share(self.raw[1]),
            other(self.best),
            other(self.best_multicast),
            ceiling.map_or_else(dash, |(raw, (_, rate))| format!("{:.1}", raw / rate)),
        )
    }

    /// Where the goals are missed.
    pub(super) fn short_of(&self, cell: Cell) -> Vec<String> {
        let any = self.best.zip(Some(GOAL));
        let multicast = self.best_multicast.zip(multicast_goal(cell));
        let missed = |((name, rate), goal)| self.short(cell, name, rate, goal);
        any.into_iter()
            .chain(multicast)
            .filter_map(missed)
            .collect()
    }

    fn short(&self, cell: Cell, name: &str, rate: f64, goal: f64) -> Option<String> {
        let times = self.ours / rate;
        if times >= goal {
            return None;
        }
        let possible = match self.ceiling().map(|raw| raw / rate) {
            Some(most) if most < goal => format!("; the blaster itself is at {most:.1}"),
            Some(_) | None => String::new(),
        };
        Some(format!(
            "{}: {times:.1} times {name} instead of {goal}{possible}.",
            cell.describe()
        ))
    }

    /// The higher of the blaster's rates.
    fn ceiling(&self) -> Option<f64> {
        self.raw.into_iter().flatten().reduce(f64::max)
    }
}

fn dash() -> String {
    "-".to_owned()
}
