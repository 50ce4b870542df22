//! `qsm plan --check`: time, memory and quality beside their limits.

use std::fs;
use std::time::{Duration, Instant as Clock};

use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_console::table::{Align, Table};
use qsm_plan::layouts::Layout;
use qsm_plan::{Plan, PlanError, Planner, RATE_PRIOR};
use qsm_wire::{GroupId, Instant, NodeId};

use super::churn;
use super::effort::{Effort, Line};
use super::file::Subscriptions;
use super::stopwatch::Stopwatch;

/// Groups that a node joins at once.
const JOINED: u32 = 5000;
/// Such joins.
const JOINS: u64 = 21;
/// When the second plan is made: what the first one would have changed has held by then.
const REPLAN_AT: Instant = Instant(100_000_000_000);

/// A measured value, its limit, and whether it keeps it.
struct Row {
    what: &'static str,
    measured: String,
    limit: String,
    kept: bool,
}

fn took(what: &'static str, took: Duration, limit: Duration) -> Row {
    let text = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1000.0);
    Row {
        what,
        measured: text(took),
        limit: text(limit),
        kept: took <= limit,
    }
}

fn most(what: &'static str, measured: f64, limit: f64) -> Row {
    Row {
        what,
        measured: format!("{measured:.2}"),
        limit: format!("{limit:.2}"),
        kept: measured <= limit,
    }
}

/// Measures a layout and judges it.
///
/// # Errors
/// A limit is not kept.
pub(super) fn run(
    planner: &mut Planner,
    subscriptions: Subscriptions,
    layout: Layout,
    addresses: usize,
) -> Result<(), Failure> {
    let failed = |error: PlanError| Failure::failed(error.to_string(), "see `qsm help plan`");
    let mut sets = subscriptions.sets.clone();
    let groups = subscriptions.names.groups.len();
    let start = Clock::now();
    subscriptions.load(planner);
    let mut rows = vec![took(
        "exact classes",
        start.elapsed(),
        Duration::from_secs(1),
    )];
    let mut line = Line::new();
    let first = Effort::of(planner, Instant(0), &mut line).map_err(failed)?;
    let plan = planner.plan();
    let again = Effort::of(planner, REPLAN_AT, &mut line).map_err(failed)?;
    for (what, effort) in [("plan", first), ("plan again", again)] {
        rows.push(took(what, effort.all, Duration::from_secs(10)));
    }
    rows.push(took(
        "longest slice",
        first.longest.max(again.longest),
        Duration::from_millis(10),
    ));
    quality(&mut rows, &plan, &layout, addresses);
    rows.push(join(planner, groups));
    let churned = churn::run(planner, &mut sets).map_err(failed)?;
    rows.push(took(
        "a node that moves, longest",
        churned.longest,
        Duration::from_millis(10),
    ));
    rows.push(took(
        "longest slice between moves",
        churned.slice,
        Duration::from_millis(10),
    ));
    if layout.planted().is_some() {
        rows.push(most(
            "regions that change in a minute",
            churned.changed as f64,
            1.0,
        ));
    }
    if let Some(peak) = peak_bytes() {
        rows.push(most("peak memory, GB", peak as f64 / 1e9, 2.0));
    }
    drop(line);
    let slices = format!(
        "{} and {} slices, {} and {} of them over 2 ms; the longest of the first {}, of the second {}\n",
        first.slices, again.slices, first.long, again.long, first.doing, again.doing
    );
    output::write(format!("{}{slices}", table(&rows)))?;
    let broken = rows.iter().filter(|row| !row.kept).count();
    if broken > 0 {
        return Err(Failure::failed(
            format!("{broken} limits are not kept"),
            "repeat it on a quiet machine; times depend on it, the rest does not",
        ));
    }
    Ok(())
}

fn quality(rows: &mut Vec<Row>, plan: &Plan, layout: &Layout, addresses: usize) {
    let totals = &plan.totals;
    if let Some(planted) = layout.planted() {
        let ratio = plan.regions.len() as f64 / f64::from(planted);
        rows.push(most("regions per planted one", ratio, 1.25));
    }
    // Without copies the limit is that of merging alone.
    let limit = if totals.residue > 0 { 1.0 } else { 5.0 };
    let unwanted = totals.unwanted_ppm() as f64 / 10_000.0;
    rows.push(most("unwanted deliveries, %", unwanted, limit));
    let wide = (0..layout.wide()).filter_map(|group| plan.groups.get(&GroupId(group)));
    if let Some(packets) = wide.map(|group| group.path.packets()).max() {
        rows.push(most("packets to all nodes", packets as f64, 2.0));
    }
    rows.push(most(
        "addresses",
        plan.channels.len() as f64,
        addresses as f64,
    ));
    let average = (totals.packets + totals.copies) as f64 / totals.messages.max(1) as f64;
    rows.push(Row {
        what: "packets for a message, average",
        measured: format!("{average:.2}"),
        limit: String::new(),
        kept: true,
    });
    debug_assert!(plan.groups.values().all(|group| group.rate == RATE_PRIOR));
}

/// New nodes join groups that are there, and leave again; the median.
fn join(planner: &mut Planner, groups: usize) -> Row {
    let groups = u32::try_from(groups.max(1)).unwrap_or(u32::MAX);
    let mut times: Vec<Duration> = (0..JOINS)
        .map(|at| {
            let first = u32::try_from(at).unwrap_or(0) * 997;
            let count = JOINED.min(groups);
            let chosen: Vec<GroupId> = (0..count).map(|n| GroupId((first + n) % groups)).collect();
            let node = NodeId(u64::from(u32::MAX) + at);
            let start = Stopwatch::start();
            planner.join(node, &chosen, &[]);
            let took = start.elapsed();
            planner.leave(node);
            took
        })
        .collect();
    times.sort_unstable();
    let median = times[times.len() / 2];
    took(
        "a node joins 5,000 groups, median",
        median,
        Duration::from_millis(1),
    )
}

fn table(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        ("WHAT", Align::Left),
        ("MEASURED", Align::Right),
        ("LIMIT", Align::Right),
        ("", Align::Left),
    ]);
    for row in rows {
        let verdict = if row.kept { "" } else { "NOT KEPT" };
        table.row([
            row.what.to_owned(),
            row.measured.clone(),
            row.limit.clone(),
            verdict.to_owned(),
        ]);
    }
    table.render()
}

/// The most memory that this process has had, as the kernel counts it.
fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}
