//! `qsm doctor`: a look at this host, with remedies, and changes that can be undone; and between hosts.

mod peers;

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use self::peers::PeersArgs;
use clap::Args;
use qsm::admin::{Answer, NodeSocket, Question};
use qsm::choose_interface;
use qsm::metrics::{Object, quoted};
use qsm_console::examples;
use qsm_console::failure::{Code, Failure};
use qsm_console::figures::counted;
use qsm_console::options::{seconds, size};
use qsm_console::output;
use qsm_doctor::{Change, Report, Verdict, Wishes, collect, examine, undo_script};

/// Time that a node has to say where it is: one that stands still does not.
const PATIENCE: Duration = Duration::from_secs(1);

/// Arguments of `qsm doctor`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm doctor                        the interface that a node would choose"
    "qsm doctor --interface eth1 --json"
    "qsm doctor --fix                  as root: say what will be changed, and change it"
    "qsm doctor --listen               as root, on each host but one; and there:"
    "qsm doctor --peers HOST,HOST      what passes between them, each way"
))]
pub(crate) struct DoctorArgs {
    /// Network interface, by name or address [default: the most fitting one]
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) interface: Option<String>,
    /// Write JSON: one object
    #[arg(long)]
    pub(crate) json: bool,
    /// Make the changes that remedies name, after they have been said; a script undoes them
    #[arg(long)]
    pub(crate) fix: bool,
    /// The script that undoes the changes; it must not exist [default: qsm-doctor-undo-TIME.sh here]
    #[arg(long, value_name = "FILE", requires = "fix")]
    pub(crate) undo_file: Option<PathBuf>,
    /// Watch counters of losses for so long
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(crate) watch: Duration,
    /// Receive buffer of each socket that the host should grant, bytes; with suffix k or M
    #[arg(long, value_name = "BYTES", default_value = "32M", value_parser = size)]
    pub(crate) receive_buffer: usize,
    #[command(flatten)]
    pub(crate) others: PeersArgs,
}

/// Runs the command.
///
/// # Errors
/// [`Code::Unhealthy`] if there are faults; the host cannot be examined, or not be changed.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    match (args.others.listen, args.others.peers.is_empty()) {
        (Some(address), _) => peers::serve(address),
        (None, false) => peers::run(&args.others, args.json),
        (None, true) => run_here(args),
    }
}

fn run_here(args: &DoctorArgs) -> Result<(), Failure> {
    let interface = interface(args)?;
    let before = look(args, &interface)?;
    if !args.fix {
        match args.json {
            true => output::write(format!("{}\n", before.to_json()))?,
            false => output::write(format!("{before}{}\n", summary(&before)))?,
        }
        return judged(
            &before,
            "do as the remedies say; --fix does what can be done by a program",
        );
    }
    let changes = before.changes();
    if !args.json {
        output::write(format!("{before}{}\n", summary(&before)))?;
    }
    let undo = match changes.is_empty() {
        true => None,
        false => Some(save(args, &changes)?),
    };
    let refused = make(args, &changes)?;
    let after = look(args, &interface)?;
    match args.json {
        true => output::write(fixed_json(&before, &changes, undo.as_deref(), &after))?,
        false => output::write(fixed_text(&changes, undo.as_deref(), &after))?,
    }
    if let Some((change, error)) = refused.first() {
        return Err(Failure::failed(
            format!(
                "{} of {} could not be made: {}: {error}",
                refused.len(),
                counted(changes.len() as u64, "change"),
                change.make
            ),
            "run it as root; what a card or a virtual machine refuses stays as it is",
        ));
    }
    judged(
        &after,
        "do as the remedies say: no program can do that for you",
    )
}

fn interface(args: &DoctorArgs) -> Result<String, Failure> {
    let asked = args.interface.as_deref();
    let address = |text: &str| {
        text.split('%')
            .next()
            .is_some_and(|at| at.parse::<IpAddr>().is_ok())
    };
    match asked.filter(|text| !address(text)) {
        // Also one that is down.
        Some(name) => Ok(name.to_owned()),
        None => {
            let chosen = choose_interface(asked, None);
            let chosen = chosen.map_err(|error| Failure::from(qsm::StartError::from(error)))?;
            Ok(chosen.0.name)
        }
    }
}

fn look(args: &DoctorArgs, interface: &str) -> Result<Report, Failure> {
    let wishes = Wishes {
        receive_buffer: args.receive_buffer as u64,
        nodes: nodes(),
        ..Wishes::default()
    };
    let facts = collect(interface, wishes.receive_buffer, args.watch);
    let facts = facts.map_err(|error| {
        let text = error.to_string();
        let (cause, remedy) = text.split_once("; ").unwrap_or((&text, "see --interface"));
        Failure::failed(cause, remedy)
    })?;
    Ok(examine(&facts, &wishes))
}

/// Addresses at which the nodes of this host receive unicast, as far as they may be asked.
fn nodes() -> Vec<(Ipv4Addr, u16)> {
    let sockets = NodeSocket::all().unwrap_or_default();
    let address = |socket: &NodeSocket| match socket.ask_within(&Question::Node, PATIENCE) {
        Ok(Answer::Node(node)) => Some(node.address),
        _ => None,
    };
    let addresses = sockets.iter().filter_map(address);
    let unicast = addresses.filter_map(|address| match address {
        SocketAddr::V4(address) => Some((*address.ip(), address.port())),
        SocketAddr::V6(_) => None,
    });
    unicast.collect()
}

/// A line about the whole.
fn summary(report: &Report) -> String {
    let [faults, warnings, unknown] = [Verdict::Fault, Verdict::Warning, Verdict::Unknown]
        .map(|verdict| report.count(verdict) as u64);
    format!(
        "\n{}: {}, {}, {unknown} unknown of {}",
        report.interface,
        counted(faults, "fault"),
        counted(warnings, "warning"),
        counted(report.findings.len() as u64, "check")
    )
}

fn judged(report: &Report, remedy: &str) -> Result<(), Failure> {
    let faults = report.findings.iter();
    let faults = faults.filter(|finding| finding.verdict == Verdict::Fault);
    let ids: Vec<&str> = faults.map(|finding| finding.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let cause = format!("{} has faults: {}", report.interface, ids.join(", "));
    Err(Failure::new(Code::Unhealthy, cause, remedy))
}

/// Writes the script that undoes the changes, before any is made.
fn save(args: &DoctorArgs, changes: &[Change]) -> Result<PathBuf, Failure> {
    let path = args.undo_file.clone().unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        PathBuf::from(format!("qsm-doctor-undo-{now}.sh"))
    });
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(&path);
    let written = file.and_then(|mut file| {
        file.write_all(undo_script(changes).as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| Failure::io(format_args!("write {}", path.display()), &error))?;
    Ok(path)
}

/// Says each change, and makes it. Returns those that were refused.
fn make<'a>(
    args: &DoctorArgs,
    changes: &'a [Change],
) -> Result<Vec<(&'a Change, std::io::Error)>, Failure> {
    if !args.json {
        for change in changes {
            output::write(format!("will run: {}\n", change.make))?;
        }
    }
    let made = changes.iter().filter_map(|change| {
        let error = change.make().err()?;
        Some((change, error))
    });
    Ok(made.collect())
}

fn fixed_text(changes: &[Change], undo: Option<&Path>, after: &Report) -> String {
    let Some(undo) = undo else {
        return "nothing is there that a program could change\n".to_owned();
    };
    let left = after.findings.iter();
    let left = left.filter(|finding| finding.verdict >= Verdict::Warning);
    let left: Vec<&str> = left.map(|finding| finding.id).collect();
    let left = match left.is_empty() {
        true => "nothing".to_owned(),
        false => left.join(", "),
    };
    format!(
        "{}; undone by {}; they last until the next start of the host\nleft: {left}\n",
        counted(changes.len() as u64, "change"),
        undo.display()
    )
}

fn fixed_json(before: &Report, changes: &[Change], undo: Option<&Path>, after: &Report) -> String {
    let undo = undo.map_or_else(
        || "null".to_owned(),
        |path| quoted(&path.display().to_string()),
    );
    let changes = changes
        .iter()
        .map(|change| quoted(&change.make.to_string()));
    let object = Object::new()
        .json("before", &before.to_json())
        .list("changes", changes)
        .json("undo", &undo)
        .json("after", &after.to_json());
    format!("{object}\n")
}
