//! `qsm bench throughput` with several kinds of protection: each beside the first, and beside what its ciphers and
//! signatures allow.

use qsm::Cipher;
use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::output;
use qsm_console::progress::Progress;
use qsm_console::stop::Stop;
use qsm_console::table::{Align, Table};
use serde_json::{Value, json};

use crate::layout::LayoutOptions;
use crate::options::{LocalOptions, ProtectionName};
use crate::primitives::Primitives;
use crate::show;
use crate::spread::Spread;
use crate::throughput::{Throughput, ThroughputArgs, header, options};
use crate::trial::Trial;

/// Bytes that a message has beside its content, in its packet.
const CHUNK_BYTES: f64 = 10.0;
/// Bytes of a packet's own: its header.
const HEAD_BYTES: f64 = 44.0;

/// Content of the longest packet, on loopback.
const CONTENT_MAX: f64 = 8928.0;

/// The runs of each kind, the first to compare with.
struct Comparison {
    columns: Vec<Column>,
    /// Of each cipher.
    primitives: Vec<Primitives>,
    receivers: f64,
}

struct Column {
    local: LocalOptions,
    name: ProtectionName,
    measured: Throughput,
}

/// Runs each kind so many times, in turn.
///
/// # Errors
/// A run fails, options do not go together, or the results cannot be written.
pub(crate) fn run(args: &ThroughputArgs) -> Result<(), Failure> {
    args.load.check(false)?;
    if args.local.raw || args.local.plot.is_some() {
        return args.local.check_protection();
    }
    let _exporter = args.local.serve_metrics()?;
    let stop = Stop::on_signals()?;
    let comparison = measure(args, &stop)?;
    match args.local.json {
        true => show::print_json(&comparison.json(args)),
        false => output::write(header(args) + &comparison.text()),
    }
}

fn measure(args: &ThroughputArgs, stop: &Stop) -> Result<Comparison, Failure> {
    let column = |name: &ProtectionName| Column {
        local: args.local.protected_by(*name),
        name: *name,
        measured: Throughput::default(),
    };
    let mut columns: Vec<Column> = args.local.protect.iter().map(column).collect();
    let mut progress = Progress::new();
    for run in 1..=args.local.runs {
        for column in &mut columns {
            let name = column.name.name();
            progress.announce(&format!("{name}, run {run} of {}", args.local.runs));
            let trial = Trial {
                load: &args.load,
                layout: &LayoutOptions::NONE,
                local: &column.local,
                rate: None,
                round_trip: false,
            };
            column.measured.add(trial.run(stop)?);
        }
    }
    progress.clear();
    let packets = columns.first().and_then(|first| first.measured.packets());
    let mut primitives = Vec::new();
    if let Some(packets) = packets {
        let content = (args.load.payload as f64 + CHUNK_BYTES) / packets.max(1e-9);
        let bytes = (content.min(CONTENT_MAX) + HEAD_BYTES) as usize;
        for cipher in Cipher::ALL {
            if columns.iter().any(|column| column.name.cipher() == cipher) {
                primitives.push(Primitives::measure(cipher, bytes)?);
            }
        }
    }
    Ok(Comparison {
        columns,
        primitives,
        receivers: f64::from(args.local.receivers),
    })
}

impl Comparison {
    /// Messages per second beside those of the first kind, run by run.
    fn share(&self, column: &Column) -> Option<Spread> {
        let first = self.columns.first()?.measured.messages_per_second();
        let own = column.measured.messages_per_second();
        Spread::of(own.iter().zip(first).map(|(own, first)| own / first))
    }

    /// The share that would be left if CPU time were all that counts and ciphers and signatures alone cost any; `None` without
    /// protection, and where senders are held to a rate.
    fn allowed(&self, column: &Column) -> Option<f64> {
        let first = self.columns.first()?;
        let limited = column.local.send_limit.is_some();
        if limited || column.name == ProtectionName::None || first.name != ProtectionName::None {
            return None;
        }
        let first = &first.measured;
        let (cpu, packets) = (first.cpu()?.median, first.packets()?);
        let cipher = column.name.cipher();
        let added = self.primitives.iter().find(|one| one.cipher == cipher)?;
        let added = added.seconds_per_million(packets, self.receivers, column.name.seals());
        Some(cpu / (cpu + added))
    }

    fn text(&self) -> String {
        let mut table = Table::new(&[
            ("PROTECTED BY", Align::Left),
            ("MESSAGES/S", Align::Right),
            ("OF THE FIRST", Align::Right),
            ("ALLOWED", Align::Right),
            ("CPU S PER MILLION, ALL", Align::Right),
        ]);
        let show = |spread: Option<Spread>, number: fn(f64) -> String| {
            spread.map_or_else(|| "-".to_owned(), |spread| spread.show(number))
        };
        let two = |number: f64| format!("{number:.2}");
        for column in &self.columns {
            let measured = &column.measured;
            table.row([
                column.name.name().to_owned(),
                show(Spread::of(measured.messages_per_second()), figures::rate),
                show(self.share(column), two),
                self.allowed(column).map_or_else(|| "-".to_owned(), two),
                show(measured.cpu(), two),
            ]);
        }
        let primitives = self.primitives.iter().map(|it| {
            format!(
                "a packet of {} bytes by itself, {}: {:.0} ns to seal, {:.0} ns to open, {:.0} ns to sign, {:.0} ns to prove\n",
                it.bytes, it.cipher, it.seal, it.open, it.sign, it.prove
            )
        });
        table.render() + &primitives.collect::<String>()
    }

    fn json(&self, args: &ThroughputArgs) -> Value {
        let columns = self.columns.iter().map(|column| {
            let mut json = column.measured.results();
            json["protection"] = json!(column.name.name());
            json["cipher"] = json!(column.name.cipher().name());
            json["share_of_first"] = json!(self.share(column));
            json["share_allowed"] = json!(self.allowed(column));
            json["cpu_seconds_per_million"] = json!(column.measured.cpu());
            json
        });
        let primitives = self.primitives.iter().map(|it| {
            json!({
                "cipher": it.cipher.name(),
                "packet_bytes": it.bytes,
                "seal_nanoseconds": it.seal,
                "open_nanoseconds": it.open,
                "sign_nanoseconds": it.sign,
                "prove_nanoseconds": it.prove,
            })
        });
        json!({
            "benchmark": "protection",
            "options": options(&args.load, &args.local),
            "primitives": primitives.collect::<Vec<_>>(),
            "protections": columns.collect::<Vec<_>>(),
        })
    }
}
