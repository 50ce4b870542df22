//! `qsm doctor --peers` and `--listen`: a look at what passes between hosts.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use clap::Args;
use qsm_console::failure::{Code, Failure};
use qsm_console::figures::counted;
use qsm_console::options::{multicast, seconds};
use qsm_console::output;
use qsm_console::stop::Stop;
use qsm_doctor::Verdict;
use qsm_doctor::peers::{CONTROL_PORT, LeadError, PeersReport, Plan, judge, lead, listen};

/// Options about other hosts.
#[derive(Debug, Clone, Args)]
pub(crate) struct PeersArgs {
    /// Examine what passes between this host and these, and between these, each way; there `qsm
    /// doctor --listen` runs
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',', conflicts_with_all = ["listen", "interface", "fix"])]
    pub(crate) peers: Vec<String>,
    /// Send and count as the doctor of another host asks, until stopped [default: port 4485]
    #[arg(long, value_name = "[ADDRESS:]PORT", num_args = 0..=1, default_missing_value = "4485", value_parser = place, conflicts_with_all = ["interface", "fix", "json"])]
    pub(crate) listen: Option<SocketAddr>,
    /// With --peers: watch for so long whether multicast goes on, and who asks for memberships;
    /// switches forget after 260 s
    #[arg(long = "for", value_name = "SECONDS", default_value = "0", value_parser = seconds, requires = "peers")]
    pub(crate) watch_for: Duration,
    /// With --peers: multicast address to examine; the next one is used beside it [default:
    /// 239.192.83.78:4484, which no node uses; with IPv6 [ff15::8000:534e]:4484]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = multicast, requires = "peers")]
    pub(crate) group: Option<SocketAddr>,
    /// With --peers: port for unicast, the same on all hosts [default: any]
    #[arg(long, value_name = "PORT", requires = "peers")]
    pub(crate) unicast_port: Option<u16>,
}

/// A port of all addresses, or of one.
fn place(text: &str) -> Result<SocketAddr, String> {
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let port = text.parse().map(|port| SocketAddr::new(any, port));
    let address = port.or_else(|_| text.parse());
    address.map_err(|_| "not a port, nor ADDRESS:PORT".to_owned())
}

/// Sends and counts as it is asked, until stopped.
///
/// # Errors
/// The port cannot be had.
pub(crate) fn serve(address: SocketAddr) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let socket = bind(address).map_err(|error| {
        Failure::failed(
            format!("cannot listen at port {}: {error}", address.port()),
            "give another port, as in --listen 4486, and name it in --peers HOST:4486",
        )
    })?;
    let port = socket.local_addr().unwrap_or(address).port();
    let at = if port == CONTROL_PORT {
        "HOST".to_owned()
    } else {
        format!("HOST:{port}")
    };
    output::say(format_args!(
        "qsm: listening at TCP port {port}; on the other host: qsm doctor --peers {at}, with this host for HOST"
    ));
    let served = listen(&socket, stop.flag(), |event| {
        output::say(format_args!("qsm: {event}"));
    });
    served.map_err(|error| Failure::io("listen", &error))
}

/// Of all addresses, of IPv4 alone where there is no other.
fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let v4 = SocketAddr::from(([0, 0, 0, 0], address.port()));
    TcpListener::bind(address).or_else(|error| match address.ip().is_unspecified() {
        true => TcpListener::bind(v4),
        false => Err(error),
    })
}

/// Examines what passes between hosts.
///
/// # Errors
/// [`Code::Unhealthy`] if there are faults; nobody can be asked.
pub(crate) fn run(args: &PeersArgs, json: bool) -> Result<(), Failure> {
    let plan = Plan {
        peers: args.peers.clone(),
        group: args.group,
        port: args.unicast_port.unwrap_or(0),
        watch: args.watch_for,
    };
    if !json {
        output::say(format_args!(
            "qsm: examining what passes between {}",
            hosts(args)
        ));
    }
    let evidence = lead(&plan).map_err(|error| refused(&error))?;
    let report = judge(&evidence);
    let text = match json {
        true => format!("{}\n", report.to_json()),
        false => format!("{report}{}\n", summary(&report)),
    };
    output::write(text)?;
    judged(&report)
}

fn hosts(args: &PeersArgs) -> String {
    let count = counted(args.peers.len() as u64 + 1, "host");
    match args.watch_for {
        Duration::ZERO => count,
        time => format!("{count}, for {} s", time.as_secs()),
    }
}

fn refused(error: &LeadError) -> Failure {
    let text = error.to_string();
    let (cause, remedy) = text.rsplit_once("; ").unwrap_or((&text, "see --peers"));
    Failure::failed(cause, remedy)
}

/// A line about the whole.
fn summary(report: &PeersReport) -> String {
    let [faults, warnings, unknown] = [Verdict::Fault, Verdict::Warning, Verdict::Unknown]
        .map(|verdict| report.count(verdict) as u64);
    format!(
        "\n{}, {}: {}, {}, {unknown} unknown of {}",
        counted(report.hosts.len() as u64, "host"),
        counted(report.paths.len() as u64, "direction"),
        counted(faults, "fault"),
        counted(warnings, "warning"),
        counted(report.findings().count() as u64, "check")
    )
}

fn judged(report: &PeersReport) -> Result<(), Failure> {
    let faults = report.findings();
    let faults = faults.filter(|finding| finding.verdict == Verdict::Fault);
    let mut ids: Vec<&str> = faults.map(|finding| finding.id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(());
    }
    let cause = format!("there are faults between the hosts: {}", ids.join(", "));
    Err(Failure::new(
        Code::Unhealthy,
        cause,
        "do as the remedies say, and look again",
    ))
}
