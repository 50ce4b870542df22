//! `qsm nodes --io`: how a node on this host would send and receive, and why not faster.

use qsm::{CoreReport, Embedded, Strategy, choose_interface};
use qsm_console::failure::Failure;
use qsm_console::options::NodeOptions;
use qsm_console::table::{Align, Table};
use serde_json::{Value, json};

/// What each core thread of a node with these options is granted on this host.
///
/// # Errors
/// Such a node would not start.
pub(crate) fn probe(node: &NodeOptions) -> Result<Vec<CoreReport>, Failure> {
    Ok(node.builder(Embedded::Never)?.probe()?)
}

/// The reason for which the node goes by its interface, in words.
#[must_use]
pub(crate) fn why(node: &NodeOptions, reports: &[CoreReport]) -> String {
    let asked = node.network.interface.first().map(String::as_str);
    let family = reports.first().map(|report| report.io.interface.family());
    match choose_interface(asked, family) {
        Ok((_, why)) => why,
        // It has gone since.
        Err(error) => error.to_string(),
    }
}

/// For people.
#[must_use]
pub(crate) fn text(reports: &[CoreReport], why: &str) -> String {
    let one = |(core, report): (usize, &CoreReport)| {
        let (cores, interface) = (reports.len(), &report.io.interface);
        let (mtu, table) = (interface.mtu, table(&report.strategies()));
        format!(
            "core thread {} of {cores}, on {interface}, mtu {mtu}\n{table}{}",
            core + 1,
            second(report)
        )
    };
    let all: Vec<String> = reports.iter().enumerate().map(one).collect();
    format!("{why}\n\n{}", all.join("\n"))
}

/// What differs on the second network, if there is one.
fn second(report: &CoreReport) -> String {
    let Some(io) = &report.second else {
        return String::new();
    };
    let (interface, mtu) = (&io.interface, io.interface.mtu);
    let table = table(&io.strategies());
    format!("and the same by a second network, on {interface}, mtu {mtu}\n{table}")
}

fn table(strategies: &[Strategy]) -> String {
    let mut table = Table::new(&[
        ("STRATEGY", Align::Left),
        ("USED", Align::Left),
        ("HOW, OR WHY NOT", Align::Left),
    ]);
    for strategy in strategies {
        let used = if strategy.used { "yes" } else { "no" };
        table.row([strategy.name, used, &strategy.reason]);
    }
    table.render()
}

/// For programs.
#[must_use]
pub(crate) fn json(report: &CoreReport, why: &str) -> Value {
    let io = &report.io;
    let strategy = |strategy: &Strategy| {
        let Strategy { name, used, reason } = strategy;
        json!({ "name": name, "used": used, "reason": reason })
    };
    let affinity = report.thread.affinity;
    let cpus = affinity.map(|affinity| affinity.cpus().collect::<Vec<_>>());
    json!({
        "interface": io.interface.name,
        "address": io.interface.addr,
        "mtu": io.interface.mtu,
        "chosen": why,
        "second": report.second.as_ref().map(|second| json!({
            "interface": second.interface.name,
            "address": second.interface.addr,
            "mtu": second.interface.mtu,
            "strategies": second.strategies().iter().map(strategy).collect::<Vec<_>>(),
        })),
        "receive_buffer_asked": io.receive_buffer_asked,
        "receive_buffer_granted": io.receive_buffer_granted,
        "send_buffer_asked": io.send_buffer_asked,
        "send_buffer_granted": io.send_buffer_granted,
        "cpus": cpus,
        "realtime": report.thread.realtime,
        "strategies": report.strategies().iter().map(strategy).collect::<Vec<_>>(),
    })
}
