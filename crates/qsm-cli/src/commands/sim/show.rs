//! What people and programs get to read of a run.

use std::time::Duration;

use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::output;
use qsm_console::table::{Align, Table};
use qsm_sim::{
    Counters, Failure as Broken, Progress as Run, Report, STOPPED, Scenario, Step, TraceRow,
};
use serde_json::{Value, json};

/// One line of JSON.
///
/// # Errors
/// It cannot be written.
pub(super) fn write_json(value: &Value) -> Result<(), Failure> {
    output::write(format!("{value}\n"))
}

/// Virtual time, for people.
pub(super) fn virtual_time(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds >= 3600 {
        format!("{:.1} virtual hours", seconds as f64 / 3600.0)
    } else {
        format!("{:.1} virtual seconds", time.as_secs_f64())
    }
}

/// A run in progress, in one line.
pub(super) fn progress(run: &Run) -> String {
    format!(
        "{} s virtual{}: {} inputs, {} published, {} delivered",
        run.now,
        if run.settling { ", settling" } else { "" },
        figures::count(run.inputs),
        figures::count(run.published),
        figures::count(run.delivered),
    )
}

/// The counters that are asked for: one host's own, or all nodes' together.
fn counters(report: &Report, host: Option<usize>) -> Counters {
    match host {
        Some(host) => report.hosts.get(host).cloned().unwrap_or_default(),
        None => report.counters(),
    }
}

/// A report as a table of all that is not zero.
pub(super) fn report(report: &Report, host: Option<usize>) -> String {
    let mut table = Table::new(&[("COUNTER", Align::Left), ("VALUE", Align::Right)]);
    for (name, value) in counters(report, host) {
        if value > 0 {
            table.row([name.to_owned(), figures::count(value)]);
        }
    }
    format!(
        "{}seed {} digest {:016x} ended at {} s\n",
        table.render(),
        report.seed,
        report.digest,
        report.ended
    )
}

/// The last line of a run: whether it kept what is promised and expected.
pub(super) fn verdict(scenario: &Scenario, judged: Result<&Report, &Broken>) -> String {
    match judged {
        Ok(report) => format!(
            "PASSED: all promises kept, {} expectations met; {} messages published, {} delivered\n",
            scenario.expectations.len(),
            figures::count(report.published),
            figures::count(report.delivered)
        ),
        Err(broken) if broken.violation.checker == STOPPED => "STOPPED: not judged\n".to_owned(),
        Err(broken) => format!("FAILED: {}\n", broken.violation),
    }
}

/// A report for programs.
pub(super) fn report_json(report: &Report, host: Option<usize>) -> Value {
    let counters: serde_json::Map<String, Value> = counters(report, host)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    json!({
        "seed": report.seed,
        "digest": format!("{:016x}", report.digest),
        "virtual_ns": report.ended.0,
        "counters": counters,
    })
}

/// A broken promise for programs.
pub(super) fn broken_json(broken: &Broken) -> Value {
    json!({
        "seed": broken.seed,
        "at_ns": broken.at.0,
        "checker": broken.violation.checker,
        "message": broken.violation.message,
        "replay": broken.replay,
    })
}

/// What happened, as a table.
pub(super) fn trace(rows: &[TraceRow]) -> String {
    let mut table = Table::new(&[
        ("TIME", Align::Right),
        ("HOST", Align::Right),
        ("STEP", Align::Left),
        ("PEER", Align::Right),
        ("WHAT", Align::Left),
    ]);
    for row in rows {
        let peer = match row.step {
            Step::Sends { to: None, .. } => "all".to_owned(),
            step => step
                .peer()
                .map_or_else(String::new, |peer| peer.to_string()),
        };
        table.row([
            row.at.to_string(),
            row.host.to_string(),
            row.step.name().to_owned(),
            peer,
            row.text.clone(),
        ]);
    }
    table.render()
}
