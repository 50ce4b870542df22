//! Results for people.

use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::output;
use qsm_console::table::{Align, Table};
use serde_json::Value;

use crate::latencies::{Latencies, QUANTILES};
use crate::report::{Received, Sent};
use crate::spread::Spread;

/// Writes one line of JSON to stdout.
///
/// # Errors
/// It cannot be written to.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    output::write(format!("{value}\n"))
}

/// So many of something.
#[must_use]
pub(crate) fn plural(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{} {what}s", figures::count(count)),
    }
}

/// Microseconds of nanoseconds, with as many digits as matter.
#[must_use]
pub(crate) fn micros(nanos: f64) -> String {
    let micros = nanos / 1e3;
    match micros {
        0.0..10.0 => format!("{micros:.1}"),
        _ => format!("{micros:.0}"),
    }
}

/// A table of latencies in microseconds: each row of several runs, or of one.
#[derive(Debug)]
pub(crate) struct LatencyTable(Table);

impl LatencyTable {
    /// Without rows yet.
    #[must_use]
    pub(crate) fn new() -> Self {
        let mut columns = vec![("µs", Align::Left), ("COUNT", Align::Right)];
        columns.extend(QUANTILES.map(|(_, name)| (name, Align::Right)));
        columns.push(("max", Align::Right));
        Self(Table::new(&columns))
    }

    /// Adds a row, if there is something in it. A quantile that a run has too few values for is
    /// left out of the run, and shown as `-` if all have.
    pub(crate) fn row(&mut self, name: &str, runs: &[&Latencies]) {
        let count: u64 = runs.iter().map(|run| run.count()).sum();
        if count == 0 {
            return;
        }
        let cell = |of: &dyn Fn(&Latencies) -> Option<u64>| {
            let values = runs.iter().filter_map(|run| of(run));
            let spread = Spread::of(values.map(|nanos| nanos as f64));
            spread.map_or_else(|| "-".to_owned(), |spread| spread.show(micros))
        };
        let mut cells = vec![name.to_owned(), figures::count(count)];
        for (millionths, _) in QUANTILES {
            cells.push(cell(&|run| run.quantile(millionths)));
        }
        cells.push(cell(&Latencies::max));
        self.0.row(cells);
    }

    /// The lines.
    #[must_use]
    pub(crate) fn render(&self) -> String {
        self.0.render()
    }
}

/// What a receiver says at its end.
#[must_use]
pub(crate) fn received(received: &Received) -> String {
    let Received {
        messages, bytes, ..
    } = received;
    let mut text = format!(
        "received {} messages, {}, all verified: {} messages/s, {}/s\n",
        figures::count(*messages),
        figures::bytes(*bytes),
        figures::rate(received.messages_per_second),
        figures::bytes(bytes_per_second(received) as u64),
    );
    text.push_str(&format!(
        "CPU: {:.2} s per million messages\n",
        per_million(received.cpu_seconds, *messages)
    ));
    text.push_str(&repairs(std::slice::from_ref(received)));
    let mut table = LatencyTable::new();
    table.row("one way", &[&received.latency]);
    table.row("  handed over to read", &[&received.network]);
    table.row("  read to upcall", &[&received.delivering]);
    table.row("repaired messages", &[&received.repaired]);
    if received.latency.count() > 0 {
        text.push_str(&table.render());
    }
    text
}

/// What a sender says at its end.
#[must_use]
pub(crate) fn sent(sent: &Sent) -> String {
    let mut text = format!(
        "sent {} messages in {:.2} s; all receivers have everything\n\
         CPU: {:.2} s per million messages; receivers asked for {} packets again\n",
        figures::count(sent.messages),
        sent.seconds,
        per_million(sent.cpu_seconds, sent.messages),
        figures::count(sent.asked),
    );
    let mut table = LatencyTable::new();
    table.row("half of there and back", &[&sent.half_round_trip]);
    table.row("  due to call", &[&sent.late]);
    table.row("  call to handed over", &[&sent.handing]);
    if sent.late.count() > 0 {
        text.push_str(&table.render());
    }
    text
}

/// What losses there were, and how long the node took to repair them.
#[must_use]
pub(crate) fn repairs(received: &[Received]) -> String {
    let sum = |of: fn(&Received) -> u64| received.iter().map(of).sum::<u64>();
    let missing = sum(|received| received.gaps);
    let drops = sum(|received| received.kernel_drops);
    let timed = received.iter().filter(|received| received.repairs[0] > 0);
    let worst = |at: usize| timed.clone().map(|received| received.repairs[at]).max();
    let (Some(p50), Some(p99)) = (worst(1), worst(2)) else {
        return String::new();
    };
    format!(
        "{} packets were missing ({} lost on purpose, {} dropped by the kernel); from noticing to \
         having one: median {p50} µs, p99 {p99} µs at the slowest receiver\n",
        figures::count(missing),
        figures::count(sum(|received| received.injected)),
        figures::count(drops),
    )
}

/// Payload bytes per second at a receiver.
#[must_use]
pub(crate) fn bytes_per_second(received: &Received) -> f64 {
    received.messages_per_second * received.bytes as f64 / received.messages.max(1) as f64
}

/// Seconds per million.
#[must_use]
pub(crate) fn per_million(seconds: f64, messages: u64) -> f64 {
    seconds * 1e6 / messages.max(1) as f64
}
