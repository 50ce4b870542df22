//! The page: what was measured where, tables of medians and extremes, and where Quicksilver is not
//! ahead.

mod factors;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Failure;

use super::cell::{Axis, Cell, LATENCY_RATE};
use super::install::Installed;
use super::machine::Machine;
use super::plot;
use super::point::{Flood, Latency, Measures, Outcome, Point};
use super::system::{self, System};
use factors::Factors;

/// Cores used by others from which on a run is said to have been disturbed.
const QUIET_CORES: f64 = 0.1;

/// A whole run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) runs: usize,
    pub(crate) millis: u64,
    pub(crate) seconds: u64,
    /// Versions by folder of `bench/peers`; the empty name is this program.
    pub(crate) versions: BTreeMap<String, String>,
    /// Systems that could not be had, and why.
    pub(crate) absent: BTreeMap<String, String>,
    pub(crate) points: Vec<Point>,
}

/// A figure of a point.
pub(crate) type Figure = fn(&Measures) -> Option<f64>;

impl Report {
    pub(crate) fn new(machine: Machine, installed: &Installed, runs: usize, millis: u64) -> Self {
        let mut report = Self {
            machine,
            runs,
            millis,
            seconds: 0,
            versions: BTreeMap::new(),
            absent: BTreeMap::new(),
            points: Vec::new(),
        };
        for (folder, program) in installed {
            let folder = (*folder).to_owned();
            match program {
                Ok(ready) => report.versions.insert(folder, ready.version.clone()),
                Err(reason) => report.absent.insert(folder, reason.clone()),
            };
        }
        report
    }

    /// Writes page, plots and points below `output`.
    pub(crate) fn write(&self, output: &Path) -> Result<(), Failure> {
        let folder = output.join("benchmarks");
        fs::create_dir_all(&folder)?;
        fs::write(
            folder.join("points.json"),
            serde_json::to_string(self)? + "\n",
        )?;
        for axis in self.axes() {
            if let Some(svg) = plot::svg(self, axis)? {
                fs::write(folder.join(format!("{}.svg", axis.name())), svg)?;
            }
        }
        fs::write(output.join("benchmarks.md"), self.page())?;
        Ok(())
    }

    /// The cell's lines, for the terminal.
    pub(crate) fn print_cell(&self, cell: Cell) {
        for system in self.systems(cell.axis) {
            println!("  {:<28} {}", system, self.entry(system, cell));
        }
    }

    pub(crate) fn axes(&self) -> Vec<Axis> {
        let has = |axis: &Axis| self.points.iter().any(|point| point.cell.axis == *axis);
        Axis::ALL.into_iter().filter(has).collect()
    }

    pub(crate) fn cells(&self, axis: Axis) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        for point in self.points.iter().filter(|point| point.cell.axis == axis) {
            if !cells.contains(&point.cell) {
                cells.push(point.cell);
            }
        }
        cells
    }

    /// Those that were tried on this axis, in the order of the catalogue.
    pub(crate) fn systems(&self, axis: Axis) -> Vec<&'static str> {
        let tried = |name: &str| {
            self.points.iter().any(|point| {
                let skipped = matches!(point.outcome, Outcome::Skipped { .. });
                point.system == name && point.cell.axis == axis && !skipped
            })
        };
        let names = system::ALL.iter().map(|system| system.name);
        names.filter(|name| tried(name)).collect()
    }

    /// Minimum, median and maximum of the complete runs; `None` if there is none.
    pub(crate) fn spread(&self, system: &str, cell: Cell, figure: Figure) -> Option<[f64; 3]> {
        let mut values: Vec<f64> = self
            .of(system, cell)
            .filter_map(|point| point.outcome.measures().and_then(figure))
            .collect();
        values.sort_by(f64::total_cmp);
        let (first, last) = (values.first()?, values.last()?);
        // Of two in the middle, neither the one that flatters nor the other.
        let middle = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some([*first, middle, *last])
    }

    fn of(&self, system: &str, cell: Cell) -> impl Iterator<Item = &Point> {
        self.points
            .iter()
            .filter(move |point| point.system == system && point.cell == cell)
    }

    fn entry(&self, system: &str, cell: Cell) -> String {
        if cell.axis == Axis::Latency {
            self.latency_entry(system, cell)
        } else {
            self.rate_entry(system, cell)
        }
    }

    /// `median [minimum-maximum]` in thousands, or why there is none.
    fn rate_entry(&self, system: &str, cell: Cell) -> String {
        match self.spread(system, cell, rate) {
            Some([low, middle, high]) => {
                let [low, middle, high] = [low, middle, high].map(|value| thousands(value / 1e3));
                format!("{middle} [{low}-{high}]{}", self.incomplete(system, cell))
            }
            None => self.missing(system, cell),
        }
    }

    fn latency_entry(&self, system: &str, cell: Cell) -> String {
        let figures: [Figure; 4] = [
            |measures| latency(measures, |latency| latency.p50_us),
            |measures| latency(measures, |latency| latency.p99_us),
            |measures| latency(measures, |latency| latency.p999_us),
            |measures| latency(measures, |latency| latency.max_us),
        ];
        let values: Option<Vec<String>> = figures
            .iter()
            .map(|figure| self.spread(system, cell, *figure))
            .map(|spread| spread.map(|[_, middle, _]| format!("{middle:.0}")))
            .collect();
        match values {
            Some(values) => values.join(" / ") + &self.incomplete(system, cell),
            None => self.missing(system, cell),
        }
    }

    /// How many of the runs failed, if some did not.
    fn incomplete(&self, system: &str, cell: Cell) -> String {
        let failed = |point: &&Point| matches!(point.outcome, Outcome::Failed { .. });
        match self.of(system, cell).filter(failed).count() {
            0 => String::new(),
            failed => format!(
                " ({failed} of {} incomplete)",
                self.of(system, cell).count()
            ),
        }
    }

    fn missing(&self, system: &str, cell: Cell) -> String {
        match self.of(system, cell).next().map(|point| &point.outcome) {
            Some(Outcome::Failed { .. }) => "fails".to_owned(),
            Some(Outcome::Stolen { .. }) => "does not count".to_owned(),
            Some(Outcome::Skipped { .. } | Outcome::Measured(_)) | None => "-".to_owned(),
        }
    }

    fn page(&self) -> String {
        let mut page = PREFACE.to_owned();
        self.write_conditions(&mut page);
        self.write_factors(&mut page);
        self.write_summary(&mut page);
        self.write_missing(&mut page);
        for axis in self.axes() {
            self.write_axis(&mut page, axis);
        }
        self.write_failures(&mut page);
        self.write_tuning(&mut page);
        page
    }

    fn write_conditions(&self, page: &mut String) {
        let machine = &self.machine;
        let mut foreign: Vec<f64> = self
            .points
            .iter()
            .filter_map(|point| point.outcome.measures())
            .map(|measures| measures.foreign_cores)
            .collect();
        foreign.sort_by(f64::total_cmp);
        let middle = foreign.get(foreign.len() / 2).copied().unwrap_or_default();
        let most = foreign.last().copied().unwrap_or_default();
        line(page, "\n## Machine and run\n");
        line(
            page,
            &format!(
                "{} cores of {}, Linux {}, `net.core.rmem_max` {}. {} runs of each cell, {} ms each, {} minutes in all. Other programs used {middle:.2} cores meanwhile (median of the runs; at most {most:.2}).",
                machine.cores,
                machine.processor,
                machine.kernel,
                machine.receive_buffer_max,
                self.runs,
                self.millis,
                self.seconds / 60
            ),
        );
        line(page, &self.stolen());
        if middle > QUIET_CORES {
            line(
                page,
                "\n**The machine was not quiet: other work ran beside these measurements. Take them as orders of magnitude, and run them again.**",
            );
        }
        if !self.absent.is_empty() {
            line(page, "\nAbsent:\n");
            for (folder, reason) in &self.absent {
                line(page, &format!("- {folder}: {reason}"));
            }
        }
    }

    /// Says how much CPU time the machine's host took, as far as known.
    fn stolen(&self) -> String {
        let lost = |point: &&Point| matches!(point.outcome, Outcome::Stolen { .. });
        let lost = self.points.iter().filter(lost).count();
        let measured = self.points.iter().filter_map(|it| it.outcome.measures());
        match measured.filter_map(|it| it.stolen).reduce(f64::max) {
            Some(most) => format!(
                "\nOf the runs that count the machine's host took at most {:.1} % of the CPU time (`steal` in `/proc/stat`); {lost} runs do not count because it took more than 5 %.",
                most * 100.0
            ),
            None if lost > 0 => format!(
                "\nThe machine's host took more than 5 % of the CPU time in all {lost} runs: none counts."
            ),
            None => "\nHow much CPU time the machine's host took (`steal` in `/proc/stat`) was not noted in these runs."
                .to_owned(),
        }
    }

    /// Main variants that were not run, and what is known of them from elsewhere.
    fn write_missing(&self, page: &mut String) {
        let run = |system: &&System| self.points.iter().any(|it| it.system == system.name);
        let missing = system::ALL.iter().filter(|it| it.main && !run(it));
        let missing: Vec<&System> = missing.collect();
        if missing.is_empty() {
            return;
        }
        line(page, "\n## Not measured in this run\n");
        for system in missing {
            let known = system.elsewhere.unwrap_or("Not measured yet.");
            line(page, &format!("- {}: {known}", system.name));
        }
    }

    /// How Quicksilver's rate compares with the next best system's and with the blasters'.
    fn write_factors(&self, page: &mut String) {
        line(page, "\n## Quicksilver's rate beside the next best\n");
        line(
            page,
            "| cell | thousand messages/s | of the blaster, message by message | of the blaster with full datagrams | next best system | times as much | next best by multicast | times as much | the blaster: times that one |",
        );
        line(page, "|---|---|---|---|---|---|---|---|---|");
        let mut short = Vec::new();
        for cell in self.every_cell().filter(|cell| cell.floods()) {
            let Some(factors) = Factors::new(self, cell) else {
                continue;
            };
            line(page, &factors.row(cell));
            short.extend(factors.short_of(cell));
        }
        if short.is_empty() {
            return;
        }
        line(page, FACTORS);
        for text in short {
            line(page, &format!("- {text}"));
        }
    }

    fn every_cell(&self) -> impl Iterator<Item = Cell> {
        self.axes().into_iter().flat_map(|axis| self.cells(axis))
    }

    fn middle(&self, system: &str, cell: Cell, figure: Figure) -> Option<f64> {
        self.spread(system, cell, figure)
            .map(|[_, middle, _]| middle)
    }

    /// The system with the highest rate in this cell, Quicksilver and the blasters aside.
    fn best(&self, cell: Cell, among: fn(&System) -> bool) -> Option<(&'static str, f64)> {
        let others = system::ALL.iter().filter(|system| system.is_other());
        let rates = others
            .filter(|system| among(system))
            .filter_map(|system| Some((system.name, self.middle(system.name, cell, rate)?)));
        rates.max_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    /// Computed, so that it cannot flatter.
    fn write_summary(&self, page: &mut String) {
        line(page, "\n## Where Quicksilver is not ahead\n");
        let mut behind = Vec::new();
        for cell in self.every_cell() {
            let measured = CONTESTS.iter().filter(|contest| (contest.measured)(cell));
            behind.extend(measured.filter_map(|contest| self.compare(cell, contest)));
        }
        if behind.is_empty() {
            line(page, "Nowhere among the cells measured here.");
        }
        for text in behind {
            line(page, &format!("- {text}"));
        }
    }

    /// Who is ahead of Quicksilver in this cell, if anybody is.
    fn compare(&self, cell: Cell, contest: &Contest) -> Option<String> {
        let middle = |system: &str| self.middle(system, cell, contest.figure);
        let Some(ours) = middle(system::quicksilver(cell)) else {
            let what = cell.describe();
            return Some(format!("{what}: Quicksilver has no complete run."));
        };
        let ahead: Vec<String> = system::ALL
            .iter()
            .filter(|system| system.is_other())
            .filter_map(|system| Some((system.name, middle(system.name)?)))
            .filter(|(_, theirs)| {
                if contest.more_is_better {
                    *theirs > ours
                } else {
                    *theirs < ours
                }
            })
            .map(|(name, theirs)| format!("{name} {}", contest.show(theirs)))
            .collect();
        (!ahead.is_empty()).then(|| {
            format!(
                "{}: Quicksilver {} {}; ahead: {}.",
                cell.describe(),
                contest.show(ours),
                contest.unit,
                ahead.join(", ")
            )
        })
    }

    fn write_axis(&self, page: &mut String, axis: Axis) {
        let cells = self.cells(axis);
        line(page, &format!("\n## {}\n", title(axis)));
        if let Some(cell) = cells.first() {
            line(page, &format!("{} {}\n", intro(axis), fixed(*cell)));
        }
        if cells.len() > 1 && axis != Axis::Layout {
            line(
                page,
                &format!("![{}](benchmarks/{}.svg)\n", axis.name(), axis.name()),
            );
        }
        if cells.iter().any(|cell| cell.floods()) {
            self.write_table(
                page,
                &cells,
                "thousand messages/s at every receiver [min-max]",
                |report, system, cell| report.rate_entry(system, cell),
            );
            self.write_table(
                page,
                &cells,
                "CPU s per million messages: sender / each receiver",
                |report, system, cell| report.cpu_entry(system, cell),
            );
        }
        if cells.iter().any(|cell| cell.paces()) {
            let head = format!("latency at {LATENCY_RATE} messages/s, us: 50 / 99 / 99.9 % / most");
            self.write_table(page, &cells, &head, |report, system, cell| {
                report.latency_entry(system, cell)
            });
        }
    }

    fn write_table(
        &self,
        page: &mut String,
        cells: &[Cell],
        head: &str,
        entry: fn(&Self, &str, Cell) -> String,
    ) {
        let labels: Vec<String> = cells.iter().map(|cell| cell.label()).collect();
        line(page, &format!("| {head} | {} |", labels.join(" | ")));
        line(page, &format!("|---|{}", "---|".repeat(cells.len())));
        for system in self.systems(cells[0].axis) {
            let entries: Vec<String> = cells
                .iter()
                .map(|cell| entry(self, system, *cell))
                .collect();
            if entries.iter().any(|entry| entry != "-") {
                line(page, &format!("| {system} | {} |", entries.join(" | ")));
            }
        }
        line(page, "");
    }

    fn cpu_entry(&self, system: &str, cell: Cell) -> String {
        let sender = self.middle(system, cell, sender_cpu);
        let receiver = self.middle(system, cell, receiver_cpu);
        match sender.zip(receiver) {
            Some((sender, receiver)) => format!("{sender:.2} / {receiver:.2}"),
            None => "-".to_owned(),
        }
    }

    fn write_failures(&self, page: &mut String) {
        let mut reasons: BTreeMap<(&str, String, &str), usize> = BTreeMap::new();
        for point in &self.points {
            if let Outcome::Failed { reason, .. } = &point.outcome {
                let key = (
                    point.system.as_str(),
                    point.cell.describe(),
                    reason.as_str(),
                );
                *reasons.entry(key).or_default() += 1;
            }
        }
        if reasons.is_empty() {
            return;
        }
        line(page, "## Runs that were not complete\n");
        line(page, "| system | cell | runs | reason |\n|---|---|---|---|");
        for ((system, cell, reason), count) in reasons {
            let reason = reason.replace('|', "/");
            line(page, &format!("| {system} | {cell} | {count} | {reason} |"));
        }
        line(page, "");
    }

    fn write_tuning(&self, page: &mut String) {
        line(page, "## Systems and how they are tuned\n");
        line(
            page,
            "Each as its own documentation advises for throughput without loss. `NAME=VALUE` are the settings of its program in `bench/peers`.\n",
        );
        line(
            page,
            "| system | version | settings | tuning |\n|---|---|---|---|",
        );
        let measured =
            |system: &&System| self.points.iter().any(|point| point.system == system.name);
        for system in system::ALL.iter().filter(measured) {
            let version = self
                .versions
                .get(system.folder)
                .map_or("absent", String::as_str);
            let settings = system.settings.join(" ");
            line(
                page,
                &format!(
                    "| {} | {version} | {settings} | {} |",
                    system.name, system.tuning
                ),
            );
        }
    }
}

/// What Quicksilver is compared in.
struct Contest {
    measured: fn(Cell) -> bool,
    figure: Figure,
    unit: &'static str,
    scale: f64,
    more_is_better: bool,
}

impl Contest {
    /// A rate, a time, or so little CPU that it takes two places behind the point.
    fn show(&self, value: f64) -> String {
        let value = value / self.scale;
        if value < 1.0 {
            format!("{value:.2}")
        } else {
            thousands(value)
        }
    }
}

const CONTESTS: [Contest; 6] = [
    Contest {
        measured: Cell::floods,
        figure: rate,
        unit: "k messages/s",
        scale: 1e3,
        more_is_better: true,
    },
    Contest {
        measured: Cell::floods,
        figure: sender_cpu,
        unit: "CPU s per million messages at the sender",
        scale: 1.0,
        more_is_better: false,
    },
    Contest {
        measured: Cell::floods,
        figure: receiver_cpu,
        unit: "CPU s per million messages at each receiver",
        scale: 1.0,
        more_is_better: false,
    },
    Contest {
        measured: Cell::paces,
        figure: |measures| latency(measures, |latency| latency.p50_us),
        unit: "us median latency",
        scale: 1.0,
        more_is_better: false,
    },
    Contest {
        measured: Cell::paces,
        figure: |measures| latency(measures, |latency| latency.p99_us),
        unit: "us latency, 99 %",
        scale: 1.0,
        more_is_better: false,
    },
    Contest {
        measured: Cell::paces,
        figure: |measures| latency(measures, |latency| latency.p999_us),
        unit: "us latency, 99.9 %",
        scale: 1.0,
        more_is_better: false,
    },
];

const PREFACE: &str = "# Quicksilver beside other systems

Written by `make bench`, which installs the systems from package registries, builds a small program for each ([bench/peers](../bench/peers/common/bench.h)) and plays all of them in turn, again and again. All have the same command line, payload, load and verification: every message is checked at every receiver for its number in its sender's and group's sequence and for its content, and a run in which one is missing, repeated, out of order or damaged is *incomplete* and has no figure. Raw points: [points.json](benchmarks/points.json).

- **Rate**: all messages, from the first send until the slowest receiver had checked the last one; the senders send for a fixed time before, to warm up, and again to be measured.
- **Latency**: from the time at which a message was due at the sender to the end of its check at the receiver; each figure of the receiver that has the worst. A sender that is held up is charged for all messages that were due meanwhile (no coordinated omission).
- **CPU**: user and system time of all threads of the processes, media drivers and brokers among them, from the kernel's process clocks. What the kernel does outside of processes is not in it; on loopback that is little, since a sender delivers into the receivers' sockets itself.
- **Variants**: each system is run in the fastest variant that its documentation leads to and that makes sense between hosts; where several do, each has a row. [How each is run](#systems-and-how-they-are-tuned). Processes stand for hosts, also where they share one: shared memory between them is off. Only where a system has a way of its own to serve several programs of one host, that is a variant.
- **Stolen time**: a run in which the host of a virtual machine takes more than 5 % of the CPU time does not count.
- **Loopback** has an MTU of 65,536 bytes, from which systems gain that use large datagrams or TCP segments; Quicksilver's packets there have 8,972 bytes, and 1,472 on hosts of their own. **Loss** is measured with every process on a host of its own (network namespaces, veth, a bridge, MTU 1500), all offloads off, so that a rule at each receiver's interface (nftables, `numgen random`) drops single packets, of TCP and UDP alike.
";

const FACTORS: &str = "
Aimed at are 3 times the next best system of any kind, and with two receivers or more, without loss, 10 times the next best by multicast with messages of 1000 bytes, 5 times with 100. It is not so in the cells below. All processes share the CPUs of one machine here, so that what counts is the CPU time of sender and receivers together; a system that is already near the blaster leaves no room for a factor. The other bounds, by measurement: [where the time goes](internals/performance.md).
";

fn title(axis: Axis) -> &'static str {
    match axis {
        Axis::Payload => "Payload",
        Axis::Receivers => "Receivers",
        Axis::Groups => "Groups",
        Axis::Senders => "Senders",
        Axis::Latency => "Latency",
        Axis::Loss => "Loss",
        Axis::Unicast => "Without multicast",
        Axis::Layout => "Layouts",
    }
}

fn intro(axis: Axis) -> &'static str {
    match axis {
        Axis::Payload => "How the rate depends on the length of messages.",
        Axis::Receivers => "How the rate depends on the number of receivers.",
        Axis::Groups => "Messages go to all groups in turn; every receiver is in all of them.",
        Axis::Senders => "All send at the same time to the same group; the rate is their sum.",
        Axis::Latency => "Below saturation, at a fixed rate.",
        Axis::Loss => "Each receiver loses packets independently.",
        Axis::Unicast => {
            "Nothing is sent by multicast: how the rate depends on the number of receivers where each gets a copy."
        }
        Axis::Layout => {
            "All receivers have one group, which gets 99 of 100 messages, and each has others besides: the same as all (`identical`), one of its own (`private`), five of 1,000 drawn evenly (`extras`) or by popularity (`zipf`), or those of a tree of topics (`hierarchical`). A message that comes to a receiver that does not want it is wrong. Compare a system's layouts with its own `identical`."
        }
    }
}

/// What does not vary.
fn fixed(cell: Cell) -> String {
    let parts = [
        (cell.axis != Axis::Payload).then(|| format!("{} B", cell.payload)),
        (!matches!(cell.axis, Axis::Receivers | Axis::Unicast))
            .then(|| format!("{} receivers", cell.receivers)),
        (!matches!(cell.axis, Axis::Groups | Axis::Layout))
            .then(|| format!("{} group", cell.groups)),
        (cell.axis != Axis::Senders).then(|| format!("{} sender", cell.senders)),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("Here: {}.", parts.join(", "))
}

pub(crate) fn rate(measures: &Measures) -> Option<f64> {
    flood(measures, |flood| flood.messages_per_second)
}

fn sender_cpu(measures: &Measures) -> Option<f64> {
    flood(measures, |flood| flood.sender_cpu)
}

fn receiver_cpu(measures: &Measures) -> Option<f64> {
    flood(measures, |flood| flood.receiver_cpu)
}

fn flood(measures: &Measures, figure: fn(&Flood) -> f64) -> Option<f64> {
    measures.flood.as_ref().map(figure)
}

pub(crate) fn latency(measures: &Measures, figure: fn(&Latency) -> f64) -> Option<f64> {
    measures.latency.as_ref().map(figure)
}

/// Two figures below ten, none behind the point above.
fn thousands(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn line(page: &mut String, text: &str) {
    // Writing to a string does not fail.
    writeln!(page, "{text}").unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(edit: fn(&mut Report)) -> String {
        let text = include_str!("../../../docs/benchmarks/points.json");
        let mut report: Report = serde_json::from_str(text).unwrap();
        edit(&mut report);
        report.page()
    }

    #[test]
    fn the_page_is_what_its_points_say() {
        assert_eq!(page(|_| ()), include_str!("../../../docs/benchmarks.md"));
    }

    #[test]
    fn a_variant_that_was_not_run_is_named() {
        let missing = "## Not measured in this run";
        let named = "- zenoh-tcp: Not measured yet.";
        let without = page(|report| report.points.retain(|it| it.system != "zenoh-tcp"));
        assert!(without.contains(missing) && without.contains(named));
        assert!(!page(|_| ()).contains(named));
    }

    #[test]
    fn stolen_runs_are_counted_and_have_no_figure() {
        let stolen = page(|report| {
            for point in &mut report.points {
                point.outcome = Outcome::Stolen { share: 0.1 };
            }
        });
        assert!(stolen.contains("none counts"));
        assert!(stolen.contains("does not count") && !stolen.contains("| 17078"));
    }
}
