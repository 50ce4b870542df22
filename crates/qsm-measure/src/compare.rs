//! `qsm bench throughput` with several layouts: each beside `identical`, in turn.

use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::output;
use qsm_console::progress::Progress;
use qsm_console::stop::Stop;
use qsm_console::table::{Align, Table};
use serde_json::{Value, json};

use crate::layout::{Layout, LayoutOptions};
use crate::show;
use crate::spread::Spread;
use crate::throughput::{Throughput, ThroughputArgs, header, options};
use crate::trial::Trial;

/// The runs of each layout.
struct Comparison {
    columns: Vec<Column>,
}

struct Column {
    layout: Layout,
    measured: Throughput,
}

/// Runs each layout so many times, in turn: the machine's moods change, so what is compared has to be
/// close in time.
///
/// # Errors
/// A run fails, options do not go together, or the results cannot be written.
pub(crate) fn run(args: &ThroughputArgs, layouts: &[LayoutOptions]) -> Result<(), Failure> {
    args.load.check(false)?;
    args.local.check_protection()?;
    if args.local.raw || args.local.plot.is_some() {
        return Err(Failure::usage(
            "--raw and --plot are for one layout",
            "give one --layout, or none, with them",
        ));
    }
    let _exporter = args.local.serve_metrics()?;
    let stop = Stop::on_signals()?;
    let comparison = measure(args, layouts, &stop)?;
    match args.local.json {
        true => show::print_json(&comparison.json(args)),
        false => output::write(header(args) + &comparison.text()),
    }
}

fn measure(
    args: &ThroughputArgs,
    layouts: &[LayoutOptions],
    stop: &Stop,
) -> Result<Comparison, Failure> {
    let named = layouts.iter().filter_map(|options| options.layout);
    let columns = named.map(|layout| Column {
        layout,
        measured: Throughput::default(),
    });
    let mut columns: Vec<Column> = columns.collect();
    let mut progress = Progress::new();
    for run in 1..=args.local.runs {
        for (layout, column) in layouts.iter().zip(&mut columns) {
            let name = column.layout.name();
            progress.announce(&format!("{name}, run {run} of {}", args.local.runs));
            let trial = Trial {
                load: &args.load,
                layout,
                local: &args.local,
                rate: None,
                round_trip: false,
            };
            column.measured.add(trial.run(stop)?);
        }
    }
    progress.clear();
    Ok(Comparison { columns })
}

impl Comparison {
    /// Messages per second to all groups together beside those of the first layout, run by run.
    fn share(&self, column: &Column) -> Option<Spread> {
        let first = self.columns.first()?.measured.sent_per_second();
        let own = column.measured.sent_per_second();
        Spread::of(own.iter().zip(first).map(|(own, first)| own / first))
    }

    fn text(&self) -> String {
        let mut table = Table::new(&[
            ("LAYOUT", Align::Left),
            ("MESSAGES/S", Align::Right),
            ("OF IDENTICAL", Align::Right),
            ("PACKETS/MESSAGE", Align::Right),
            ("REGIONS", Align::Right),
            ("PRIVATE", Align::Right),
            ("REPAIRED BY RECEIVERS", Align::Right),
        ]);
        let show = |spread: Option<Spread>, number: fn(f64) -> String| {
            spread.map_or_else(|| "-".to_owned(), |spread| spread.show(number))
        };
        let whole = |number: f64| format!("{number:.0}");
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        for column in &self.columns {
            let measured = &column.measured;
            let ways = measured.layout_figures();
            table.row([
                column.layout.name(),
                show(Spread::of(measured.sent_per_second()), figures::rate),
                show(self.share(column), percent),
                show(ways.packets_per_message, |number| format!("{number:.3}")),
                show(ways.regions, whole),
                show(ways.private_regions, whole),
                show(ways.by_receivers, percent),
            ]);
        }
        table.render()
    }

    fn json(&self, args: &ThroughputArgs) -> Value {
        let columns = self.columns.iter().map(|column| {
            let mut json = column.measured.results();
            json["layout"] = json!(column.layout.name());
            json["share_of_identical"] = json!(self.share(column));
            json
        });
        let mut options = options(&args.load, &args.local);
        options["layout_share_percent"] = json!(args.layout.share_percent());
        json!({
            "benchmark": "layouts",
            "options": options,
            "layouts": columns.collect::<Vec<_>>(),
        })
    }
}
