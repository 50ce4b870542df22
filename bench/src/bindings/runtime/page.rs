//! The page of what runtimes cost: a table, its CSV file and plots, with the paper's findings beside them.

use std::fmt;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::Failure;
use crate::compare::Machine;
use crate::plot::{Labels, Line, draw};

use super::super::programs::{PAYLOAD, Said};
use super::super::report::Spread;
use super::load::{Axis, Load, RATE_OF_GROUPS, RECEIVERS};
use super::memory::Memory;

/// A run of a receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    per_second: f64,
    /// Share of a CPU that the process took.
    cpu: f64,
    /// Resident memory at the end, and at most, MiB.
    memory: f64,
    memory_most: f64,
    /// Longest time between two turns of the receiver's loop, ms.
    gap: f64,
    /// Share of the time that the runtime's collector took.
    collector: f64,
}

impl Point {
    pub(super) fn of(said: Said, memory: Memory) -> Self {
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        Self {
            per_second: said.messages / said.seconds,
            cpu: said.cpu_seconds / said.seconds,
            memory: mebibytes(memory.now),
            memory_most: mebibytes(memory.most),
            gap: said.gap_seconds * 1e3,
            collector: said.collector_seconds / said.seconds,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            per_second,
            memory,
            gap,
            ..
        } = self;
        write!(
            f,
            "{per_second:.0} messages/s, {memory:.1} MiB, {gap:.1} ms at most between two turns"
        )
    }
}

/// A figure of a run, as the page has it.
struct Column {
    heading: &'static str,
    value: fn(&Point) -> f64,
    digits: usize,
}

impl Column {
    const fn new(heading: &'static str, value: fn(&Point) -> f64, digits: usize) -> Self {
        Self {
            heading,
            value,
            digits,
        }
    }
}

const COLUMNS: [Column; 6] = [
    Column::new("received/s", |point| point.per_second, 0),
    Column::new("CPUs", |point| point.cpu, 2),
    Column::new("memory, MiB", |point| point.memory, 1),
    Column::new("at most, MiB", |point| point.memory_most, 1),
    Column::new("longest gap, ms", |point| point.gap, 1),
    Column::new("collector, %", |point| point.collector * 100.0, 2),
];

/// All runs of a load and a receiver.
struct Row {
    load: Load,
    receiver: &'static str,
    points: Vec<Point>,
}

pub(super) struct Report {
    /// Length of a run.
    millis: u64,
    /// The machine did other work.
    busy: bool,
    rows: Vec<Row>,
    /// Runs in which others had too much of the CPUs.
    pub(super) thrown_away: usize,
}

impl Report {
    pub(super) fn of(millis: u64, busy: bool) -> Self {
        Self {
            millis,
            busy,
            rows: Vec::new(),
            thrown_away: 0,
        }
    }

    pub(super) fn add(&mut self, load: Load, receiver: &'static str, point: Point) {
        let known = |row: &&mut Row| row.load == load && row.receiver == receiver;
        match self.rows.iter_mut().find(known) {
            Some(row) => row.points.push(point),
            None => self.rows.push(Row {
                load,
                receiver,
                points: vec![point],
            }),
        }
    }

    /// Writes the page, its table and its plots into a folder, which is made if need be.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Failure> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("runtime.csv"), self.csv()?)?;
        for axis in Axis::ALL {
            for shown in SHOWN {
                fs::write(folder.join(shown.file(axis)), self.plot(axis, shown)?)?;
            }
        }
        fs::write(folder.join("README.md"), self.page()?)?;
        Ok(())
    }

    fn of_axis(&self, axis: Axis) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.load.axis == axis)
    }

    /// One line for each run.
    fn csv(&self) -> Result<String, fmt::Error> {
        let mut text = "axis,groups,rate,receiver,run,per_second,cpus,memory_mib,memory_most_mib,gap_ms,collector_share\n".to_owned();
        for Row {
            load,
            receiver,
            points,
        } in &self.rows
        {
            for (run, point) in points.iter().enumerate() {
                let Point {
                    per_second,
                    cpu,
                    memory,
                    memory_most,
                    gap,
                    collector,
                } = point;
                writeln!(
                    text,
                    "{},{},{},{receiver},{run},{per_second:.1},{cpu:.3},{memory:.2},{memory_most:.2},{gap:.3},{collector:.5}",
                    load.axis.file(),
                    load.groups,
                    load.rate,
                )?;
            }
        }
        Ok(text)
    }

    /// A quantity over the axis.
    fn plot(&self, axis: Axis, shown: Shown) -> Result<String, Failure> {
        let lines: Vec<Line> = RECEIVERS
            .into_iter()
            .zip(Line::colors())
            .map(|(name, color)| {
                let rows = self.of_axis(axis).filter(|row| row.receiver == name);
                let spread = |row: &Row| Spread::of(row.points.iter().map(shown.value));
                let points = rows.map(|row| (row.load.x(), spread(row).all())).collect();
                Line {
                    name,
                    color,
                    points,
                }
            })
            .collect();
        let mut text = String::new();
        let labels = Labels {
            x: axis.name(),
            y: shown.name,
        };
        draw(&mut text, labels, &lines)?;
        Ok(text)
    }

    fn page(&self) -> Result<String, fmt::Error> {
        let Machine {
            processor,
            cores,
            kernel,
            ..
        } = Machine::read();
        let runs = self
            .rows
            .iter()
            .map(|row| row.points.len())
            .min()
            .unwrap_or(0);
        let mut text = HEAD.to_owned();
        writeln!(
            text,
            "**Here**: {cores} CPUs ({processor}), Linux {}, a sender and a receiver over loopback, messages of {PAYLOAD} bytes; medians of {runs} runs of {} s, after a third as much of warm-up. `runtime.csv` has each run.\n",
            kernel.split('-').next().unwrap_or_default(),
            self.millis as f64 / 1e3,
        )?;
        if self.busy {
            writeln!(text, "{BUSY}\n")?;
        } else {
            writeln!(
                text,
                "{} runs were thrown away, since others had more than 5 % of the CPUs meanwhile.\n",
                self.thrown_away
            )?;
        }
        writeln!(
            text,
            "## Over groups\n\n{RATE_OF_GROUPS} messages/s to all groups in turn; the receiver is in each of them.\n"
        )?;
        self.table(&mut text, Axis::Groups)?;
        writeln!(
            text,
            "\n{}\n{PAPER_GROUPS}\n\n## Over the rate\n\nOne group.\n",
            pictures(Axis::Groups)
        )?;
        self.table(&mut text, Axis::Rate)?;
        writeln!(text, "\n{}\n{PAPER_RATE}", pictures(Axis::Rate))?;
        Ok(text)
    }

    fn table(&self, text: &mut String, axis: Axis) -> fmt::Result {
        write!(text, "| {} | receiver |", axis.name())?;
        for Column { heading, .. } in COLUMNS {
            write!(text, " {heading} |")?;
        }
        writeln!(text, "\n|---|---|---|---|---|---|---|---|")?;
        for row in self.of_axis(axis) {
            write!(text, "| {} | {} |", row.load.x(), row.receiver)?;
            for Column { value, digits, .. } in COLUMNS {
                let [_, median, _] = Spread::of(row.points.iter().map(value)).all();
                write!(text, " {median:.digits$} |")?;
            }
            writeln!(text)?;
        }
        Ok(())
    }
}

/// A quantity with a plot over each axis.
#[derive(Clone, Copy)]
struct Shown {
    name: &'static str,
    /// Word in the name of its file.
    word: &'static str,
    value: fn(&Point) -> f64,
}

const SHOWN: [Shown; 2] = [
    Shown {
        name: "resident memory of the receiver, MiB",
        word: "memory",
        value: |point| point.memory,
    },
    Shown {
        name: "longest gap between two turns, ms",
        word: "gaps",
        // The axis is logarithmic.
        value: |point| point.gap.max(0.001),
    },
];

impl Shown {
    fn file(self, axis: Axis) -> String {
        format!("{}-{}.svg", self.word, axis.file())
    }
}

/// Pictures of an axis, a line each.
fn pictures(axis: Axis) -> String {
    let picture = |shown: &Shown| {
        let (name, file) = (shown.name, shown.file(axis));
        format!("![{name}, over {}]({file})\n", axis.name())
    };
    SHOWN.iter().map(picture).collect()
}

const BUSY: &str = "**The machine did other work meanwhile**, and no run was thrown away: rates that are missed, CPUs and gaps \
    may be of that work; memory and the collector's time are not. `make figures-runtime` on a quiet machine writes this page \
    anew.";

const HEAD: &str = "# Managed runtimes beside the paper\n\n\
    <!-- Written by `make figures-runtime` -->\n\n\
    `make figures-runtime` measures receivers in Rust, Java and Python on the machine that it is called on. S0 (section 5) \
    found that whatever makes a protocol's memory grow makes a managed runtime slow, and concluded that its footprint has to \
    stay small. Here the protocol runs outside of the runtime, and a message is read where it lies; so what is left of that is \
    measured: memory, time of the collector, and the longest gap between two turns of the receiver's loop, in which messages \
    wait.\n\n";

const PAPER_GROUPS: &str = "**The paper** (S0, section 5.5): memory grows with the groups at the sender, by tens of megabytes \
    for thousands, and with 8,192 groups its peak comes to 360 MB, 50 to 100 % above its mean; the time spent in the runtime \
    grows with it (its figures 37 and 38), throughput falls (39), and from 3,500 groups on the system becomes unstable. There \
    the runtime is that of the sender, which has structures for each group; here the sender has none, and the receivers have.";

const PAPER_RATE: &str = "**The paper** (S0, section 5.4): over the rate the receivers' memory stays nearly flat (its figure \
    33); that of the sender grows, and the time of its collector goes from 50 to 60 %.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_row_for_each_load_and_receiver() {
        let mut report = Report::of(3000, false);
        let load = |axis, groups| Load {
            axis,
            groups,
            rate: 1000,
        };
        let said = |messages| Said {
            messages,
            seconds: 2.0,
            cpu_seconds: 1.0,
            gap_seconds: 0.003,
            collector_seconds: 0.02,
        };
        let memory = Memory {
            now: 8 << 20,
            most: 9 << 20,
        };
        for (axis, groups) in [(Axis::Groups, 1), (Axis::Groups, 64), (Axis::Rate, 1)] {
            for receiver in RECEIVERS {
                for messages in [1000.0, 2000.0, 4000.0] {
                    report.add(
                        load(axis, groups),
                        receiver,
                        Point::of(said(messages), memory),
                    );
                }
            }
        }
        let page = report.page().unwrap();
        assert!(
            page.contains("| 64 | java | 1000 | 0.50 | 8.0 | 9.0 | 3.0 | 1.00 |\n"),
            "{page}"
        );
        assert_eq!(report.csv().unwrap().lines().count(), 1 + 27);
        assert!(page.contains("](gaps-rate.svg)\n"), "{page}");
        assert!(!page.contains(BUSY));
        for shown in SHOWN {
            assert!(report.plot(Axis::Groups, shown).unwrap().contains("<svg"));
        }
    }
}
