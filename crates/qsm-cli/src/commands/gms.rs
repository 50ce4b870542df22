//! `qsm gms`: the membership service on its own.

mod events;

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use qsm::{Family, PlanCosts, RecvError, Service, ServiceEvent};
use qsm_console::examples;
use qsm_console::failure::{Code, Failure};
use qsm_console::log::Note;
use qsm_console::loopback;
use qsm_console::options::{CostOptions, CostSource, NetworkOptions, Place, StatsOptions};
use qsm_console::stop::Stop;
use qsm_console::table::printable;
use serde_json::{Value, json};

use self::events::Phrases;
use crate::stats;

/// How often signals are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Arguments of `qsm gms`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm gms                                       on the most fitting interface"
    "qsm gms --listen 10.0.0.1:4481 --cluster blue"
    "qsm gms --listen 0.0.0.0:0 --json             any port, which the first line names"
    "qsm gms --listen [fe80::1%eth0]:4481          a cluster of IPv6"
    "qsm gms --hints hints.txt                     which nodes share a region, and which do not"
    "qsm gms --cost-send 4.2 --cost-receive 1.1     what plans weigh, instead of measuring it"
    "qsm gms --identity plant/service.key          nobody without a token of `qsm init plant`"
))]
pub(crate) struct GmsArgs {
    /// Where nodes reach it; the address chooses the interface [default: 0.0.0.0:4481]
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "interface", value_parser = Place::parse)]
    pub(crate) listen: Option<Place>,
    /// File of the list of revocations, for a service with --identity; read again when it changes [default:
    /// revoked.list beside the root's public key, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) revoked: Option<PathBuf>,
    /// Write events as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
    /// Costs that plans weigh; what is not given is measured.
    #[command(flatten)]
    pub(crate) costs: CostOptions,
    /// Counters to be said at the end.
    #[command(flatten)]
    pub(crate) stats: StatsOptions,
    /// Where sockets are opened.
    #[command(flatten)]
    pub(crate) network: NetworkOptions,
}

/// Runs the command, until a signal.
///
/// # Errors
/// It cannot start, its sockets fail, or another service of the cluster goes before it.
pub(crate) fn run(args: &GmsArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let service = Arc::new(start(args)?);
    let exporter = stats::serve_service(&service, args.stats)?;
    warn_of_loopback(args, service.address().ip());
    tell_of_key(args);
    let (mut phrases, mut rival) = (Phrases::default(), Rival::default());
    let log = Log {
        json: args.json,
        start: Instant::now(),
    };
    let cluster = &args.network.cluster;
    log.line(
        &format!(
            "listening on {}, cluster {}",
            service.address(),
            printable(cluster)
        ),
        &json!({ "event": "listening", "address": service.address(), "cluster": cluster }),
    )?;
    let mut address = service.address();
    while !stop.is_asked() {
        if service.address() != address {
            address = service.address();
            log.line(
                &format!("moved to {address}: begins anew, nodes report what they know"),
                &json!({ "event": "moved_itself", "address": address }),
            )?;
        }
        for (text, value) in phrases.due(SystemTime::now()) {
            log.line(&text, &value)?;
        }
        match service.next_event_timeout(LOOK) {
            Ok(Some(event)) => {
                if let Some((text, value)) = phrases.of(&event, SystemTime::now()) {
                    log.line(&text, &value)?;
                }
                rival.note(&event);
            }
            Ok(None) => {}
            Err(RecvError::Closed(_)) if rival.follows.is_some() => break,
            Err(RecvError::Closed(reason)) => {
                return Err(Failure::failed(reason.to_string(), "start it again"));
            }
            Err(other) => return Err(other.into()),
        }
    }
    drop(exporter);
    say_stats(args, &service);
    service.shutdown();
    log.line("stopped", &json!({ "event": "stopped" }))?;
    rival.end(cluster)
}

/// What is known of another service of the same cluster, by mistake. One of the two gives way.
#[derive(Debug, Default)]
struct Rival {
    /// Where the one is that this one gives way to.
    follows: Option<SocketAddr>,
}

impl Rival {
    /// Says on stderr that there are two.
    fn note(&mut self, event: &ServiceEvent) {
        match event {
            ServiceEvent::Conflict { address, .. } => {
                let line = format!(
                    "CONFLICT: another membership service of this cluster was started at {address}; \
                     it gives way to this one; start only one"
                );
                let note = Note::warn("conflict", &line);
                note.address(&address.to_string()).say();
            }
            ServiceEvent::Yielded { to } => {
                self.follows = Some(*to);
                let line =
                    format!("this service gives way to the one at {to} and sends its nodes there");
                Note::warn("yielded", &line).address(&to.to_string()).say();
            }
            _ => {}
        }
    }

    /// The end of this service.
    fn end(&self, cluster: &str) -> Result<(), Failure> {
        let Some(to) = self.follows else {
            return Ok(());
        };
        let cause = format!(
            "the cluster {} has another membership service, at {to}; this one gave way",
            printable(cluster)
        );
        let remedy = "start only one, or give each a cluster of its own with --cluster";
        Err(Failure::new(Code::Superseded, cause, remedy))
    }
}

fn say_stats(args: &GmsArgs, service: &Service) {
    if let Some(format) = args.stats.format(args.network.verbose)
        && let Ok(snapshot) = service.snapshot()
    {
        stats::of_service(&snapshot, format);
    }
}

fn start(args: &GmsArgs) -> Result<Service, Failure> {
    let network = &args.network;
    let mut builder = Service::builder()
        .cluster(network.cluster.as_str())
        .network(sockets(args)?)
        .channels(network.channels());
    if let Some(silence) = network.gone_after {
        builder = builder.gone_after(silence);
    }
    if let Some(time) = network.slow_after {
        builder = builder.slow_after(time);
    }
    if let Some(interval) = network.plan_every {
        builder = builder.plan_every(interval);
    }
    if let Some(ppm) = network.plan_unwanted {
        builder = builder.plan_unwanted(f64::from(ppm) / 1e6);
    }
    if let Some(packets) = network.plan_common {
        builder = builder.plan_common(packets.0);
    }
    builder = builder.plan_costs(costs(args));
    if let Some(list) = args.revoked.clone().or_else(|| network.revocations()) {
        builder = builder.revocations(list);
    }
    Ok(builder.hints(network.read_hints()?).start()?)
}

/// Costs that plans weigh, measured where there are plans. Says what they are.
fn costs(args: &GmsArgs) -> PlanCosts {
    let plans = args.network.plan_every.is_none_or(|every| !every.is_zero());
    let known = args.costs.costs(plans);
    let line = format!("for plans, {known}");
    match known.source {
        CostSource::Failed(_) => Note::warn("costs", &line).say(),
        CostSource::Typical if known.costs == PlanCosts::default() => {}
        _ => Note::info("costs", &line).say(),
    }
    known.costs
}

/// Warns where only this host reaches the service, and nobody asked for that.
fn warn_of_loopback(args: &GmsArgs, address: IpAddr) {
    let named = |place: &Place| !place.address.ip().is_unspecified();
    let asked = !args.network.interface.is_empty() || args.listen.as_ref().is_some_and(named);
    let interfaces = qsm::interfaces().unwrap_or_default();
    let chosen = interfaces.iter().find(|one| one.addr == address);
    if let Some(line) = chosen.filter(|_| !asked).and_then(loopback::warning) {
        Note::warn("loopback", &line).say();
    }
}

/// Says that the cluster is open, where it is.
fn tell_of_key(args: &GmsArgs) {
    if args.network.is_open() {
        let line = "this cluster is open: whoever reaches it can join, read and send; --identity protects it \
                    (`qsm init`), or --key (`qsm keygen`)";
        Note::info("open", line).say();
    }
}

fn sockets(args: &GmsArgs) -> Result<qsm::NetworkOptions, Failure> {
    let mut sockets = args.network.sockets()?;
    if let Some(family) = family(args) {
        sockets = sockets.family(family);
    }
    let Some(Place { address, zone }) = &args.listen else {
        return Ok(sockets);
    };
    sockets = sockets.unicast_port(address.port());
    let zone = zone.as_ref();
    let zone = zone.map_or_else(String::new, |zone| format!("%{zone}"));
    if !address.ip().is_unspecified() {
        sockets = sockets.interface(format!("{}{zone}", address.ip()));
    }
    Ok(sockets)
}

/// The family asked for. `--ipv6` comes first, so that beside an address of IPv4 it is refused and
/// not passed over.
fn family(args: &GmsArgs) -> Option<Family> {
    let listen = args.listen.as_ref();
    let listened = listen.map(|place| Family::of(place.address.ip()));
    args.network.ipv6.then_some(Family::V6).or(listened)
}

/// Lines on stdout with the time since the start, at once, so that whoever started this can read on.
struct Log {
    json: bool,
    start: Instant,
}

impl Log {
    fn line(&self, text: &str, value: &Value) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let elapsed = self.start.elapsed();
        let written = match self.json {
            true => {
                let mut value = value.clone();
                value["ms"] = json!(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
                writeln!(stdout, "{value}")
            }
            false => writeln!(stdout, "{:>9.3} s  {text}", elapsed.as_secs_f64()),
        };
        written
            .and_then(|()| stdout.flush())
            .map_err(|error| Failure::io("write to stdout", &error))
    }
}
