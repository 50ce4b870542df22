//! Runs one system in one cell, once.

use std::cell::Cell as Counter;
use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use lab::{HostId, Lab};
use serde::Deserialize;

use crate::Failure;

use super::cell::{Cell, LATENCY_RATE};
use super::install::{Installed, Ready};
use super::machine::CpuSeconds;
use super::point::{Flood, Latency, Measures, Outcome};
use super::process::Process;
use super::raw;
use super::system::{Kind, System};

/// How long a round of probes is listened for before the next.
const PROBE: Duration = Duration::from_millis(50);
/// Ports are taken from here up to the ephemeral ones, 16 for each run.
const PORTS: std::ops::Range<u16> = 11_000..32_000;
const PORTS_EACH: u16 = 16;

/// Runs the systems that are installed.
#[derive(Debug)]
pub(crate) struct CellRunner<'a> {
    installed: &'a Installed,
    millis: u64,
    /// How long any one run may take: processes, probes, phases.
    patience: Duration,
    port: Counter<u16>,
}

impl<'a> CellRunner<'a> {
    pub(crate) fn new(installed: &'a Installed, millis: u64, patience: Duration) -> Self {
        // Runs that follow each other should not meet what earlier ones left in the kernel.
        let spread = (std::process::id() % 1000) as u16 * PORTS_EACH;
        Self {
            installed,
            millis,
            patience,
            port: Counter::new(PORTS.start + spread),
        }
    }

    pub(crate) fn run(&self, system: &System, cell: Cell) -> Outcome {
        let program = match self.installed.get(system.folder) {
            Some(Ok(program)) => program,
            Some(Err(reason)) => return skipped(&format!("absent: {reason}")),
            None => return skipped("absent"),
        };
        if let Some(reason) = system.refuses(cell) {
            return skipped(reason);
        }
        let result = if system.is_raw() {
            raw::run(system, cell, self.next_port(), self.millis)
        } else {
            self.measure(program, system, cell)
        };
        result.unwrap_or_else(|error| Outcome::Failed {
            reason: error.to_string(),
            delivered: None,
        })
    }

    fn next_port(&self) -> u16 {
        let port = self.port.get();
        let next = port + PORTS_EACH;
        self.port.set(if next + PORTS_EACH > PORTS.end {
            PORTS.start
        } else {
            next
        });
        port
    }

    fn measure(&self, program: &Ready, system: &System, cell: Cell) -> Result<Outcome, Failure> {
        let begin = Instant::now();
        let hosts = CellHosts::build(system, cell)?;
        let port = self.next_port();
        let _traces = Traces { port };
        let launch = Launch {
            hosts: &hosts,
            program,
            system,
            cell,
            port,
        };
        let mut processes = CellProcesses::start(&launch, begin + self.patience)?;
        processes.wait_until_heard()?;
        let mut measures = Measures {
            setup_seconds: begin.elapsed().as_secs_f64(),
            flood: None,
            latency: None,
            foreign_cores: 0.0,
            stolen: None,
        };
        if cell.paces() {
            match processes.measure(self.millis, LATENCY_RATE)? {
                Ok(phase) => {
                    measures.latency = Some(phase.latency());
                    measures.foreign_cores = phase.foreign_cores;
                    measures.note_stolen(phase.stolen);
                }
                Err(outcome) => return Ok(outcome),
            }
        }
        if cell.floods() {
            match processes.measure(self.millis, 0)? {
                Ok(phase) => {
                    measures.flood = Some(phase.flood());
                    measures.foreign_cores = phase.foreign_cores;
                    measures.note_stolen(phase.stolen);
                }
                Err(outcome) => return Ok(outcome),
            }
        }
        Ok(Outcome::of(measures))
    }
}

fn skipped(reason: &str) -> Outcome {
    Outcome::Skipped {
        reason: reason.to_owned(),
    }
}

/// Shared memory that programs which were killed leave behind; removed at the end.
#[derive(Debug)]
struct Traces {
    port: u16,
}

const SHARED_MEMORY: &str = "/dev/shm";

impl Drop for Traces {
    fn drop(&mut self) {
        let mark = format!("bench-{}-", self.port);
        for entry in fs::read_dir(SHARED_MEMORY).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().contains(&mark) {
                // Whoever could not remove it would only have left memory in use.
                drop(fs::remove_dir_all(entry.path()));
            }
        }
    }
}

/// Where the processes run: all on this host's loopback, or each on a host of its own.
#[derive(Debug)]
struct CellHosts {
    lab: Option<(Lab, Vec<HostId>)>,
}

impl CellHosts {
    fn build(system: &System, cell: Cell) -> Result<Self, Failure> {
        if !cell.in_lab() {
            return Ok(Self { lab: None });
        }
        let mut lab = Lab::new()?;
        let hosts = lab.add_hosts(cell.senders + cell.receivers)?;
        if system.kind == Kind::Wire {
            for &host in &hosts {
                cut_trains(&lab, host)?;
            }
            for &host in hosts.iter().skip(cell.senders) {
                lose(&lab, host, cell.loss_ppm)?;
            }
        }
        Ok(Self {
            lab: Some((lab, hosts)),
        })
    }

    fn command(&self, at: usize, program: &Ready) -> Command {
        match &self.lab {
            Some((lab, hosts)) => lab.command(hosts[at], &program.path),
            None => Command::new(&program.path),
        }
    }

    fn address(&self, at: usize) -> Ipv4Addr {
        match &self.lab {
            Some((lab, hosts)) => lab.host(hosts[at]).address(),
            None => Ipv4Addr::LOCALHOST,
        }
    }

    fn interface(&self) -> &'static str {
        if self.lab.is_some() { "eth0" } else { "lo" }
    }
}

/// No offload: what is lost is then one packet of at most 1500 bytes, of TCP and UDP alike.
fn cut_trains(lab: &Lab, host: HostId) -> Result<(), Failure> {
    let mut command = lab.command(host, "ethtool");
    command.args(["-K", "eth0", "tso", "off", "gso", "off", "gro", "off"]);
    command.args(["tx-udp-segmentation", "off"]);
    finish(command)
}

/// Loses packets, of TCP and UDP alike, as they come from the wire: fragments are lost singly.
fn lose(lab: &Lab, host: HostId, ppm: u32) -> Result<(), Failure> {
    if ppm == 0 {
        return Ok(());
    }
    let mut command = lab.command(host, "nft");
    command.arg(format!(
        "table netdev bench {{ chain lose {{ \
         type filter hook ingress device eth0 priority 0; \
         ip protocol {{ tcp, udp }} numgen random mod 1000000 < {ppm} drop; }}; }}"
    ));
    finish(command)
}

fn finish(mut command: Command) -> Result<(), Failure> {
    let done = command.output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(format!("{command:?}: {}", said.trim()).into())
}

/// The processes of a run.
#[derive(Debug)]
struct CellProcesses {
    cell: Cell,
    senders: Vec<Process>,
    receivers: Vec<Process>,
    phases: u64,
    deadline: Instant,
}

/// A sender's result.
#[derive(Debug, Deserialize)]
struct Sent {
    messages: u64,
    start_ns: u64,
    /// Messages to each rare group.
    #[serde(default)]
    rare: Vec<u64>,
}

impl Sent {
    /// Messages that a receiver is to get that has all common groups, and these rare ones.
    fn goal(&self, cell: Cell, receiver: usize) -> u64 {
        let rare = |group: usize| self.rare.get(group - cell.common());
        let wanted: u64 = cell.wants(receiver).into_iter().filter_map(rare).sum();
        self.messages - self.rare.iter().sum::<u64>() + wanted
    }
}

/// A receiver's result.
#[derive(Debug, Deserialize)]
struct Received {
    messages: u64,
    wrong: u64,
    last_ns: u64,
    #[serde(default)]
    p50_us: f64,
    #[serde(default)]
    p99_us: f64,
    #[serde(default)]
    p999_us: f64,
    #[serde(default)]
    max_us: f64,
}

/// The results of a phase.
#[derive(Debug)]
struct PhaseResult {
    sent: Vec<Sent>,
    received: Vec<Received>,
    sender_cpu: f64,
    receiver_cpu: f64,
    foreign_cores: f64,
    stolen: f64,
    seconds: f64,
}

impl CellProcesses {
    /// Senders first, one after another: the first may carry a broker or a service.
    fn start(launch: &Launch<'_>, deadline: Instant) -> Result<Self, Failure> {
        let cell = launch.cell;
        let begin = |role: &str, index: usize, at: usize| {
            let process = launch.start(role, index, at)?;
            process.expect("ready", deadline)?;
            Ok(process)
        };
        let senders = (0..cell.senders)
            .map(|index| begin("send", index, index))
            .collect::<Result<_, Failure>>()?;
        // One by one too: the first may carry what others share.
        let receivers = (0..cell.receivers)
            .map(|index| begin("receive", index, cell.senders + index))
            .collect::<Result<_, Failure>>()?;
        Ok(Self {
            cell,
            senders,
            receivers,
            phases: 0,
            deadline,
        })
    }

    /// Probes until each receiver hears each sender in each group.
    fn wait_until_heard(&mut self) -> Result<(), Failure> {
        let mut heard = vec![false; self.receivers.len()];
        while heard.contains(&false) {
            if Instant::now() > self.deadline {
                let deaf = heard.iter().filter(|heard| !**heard).count();
                return Err(format!("{deaf} receivers do not hear everything in time").into());
            }
            for sender in &mut self.senders {
                sender.tell("probe")?;
            }
            for sender in &self.senders {
                sender.expect("probed", self.deadline)?;
            }
            for (receiver, heard) in self.receivers.iter().zip(&mut heard) {
                *heard = *heard || receiver.said("heard", PROBE)?;
            }
        }
        Ok(())
    }

    /// A phase that is thrown away, in which compilers that compile while they run do so, and then
    /// the one that counts.
    fn measure(&mut self, millis: u64, rate: u64) -> Result<Result<PhaseResult, Outcome>, Failure> {
        match self.phase(millis / 2, rate)? {
            Ok(_) => self.phase(millis, rate),
            Err(outcome) => Ok(Err(outcome)),
        }
    }

    /// Everybody sends for this long; returns when everybody has everything, or with the outcome
    /// if somebody has not.
    fn phase(&mut self, millis: u64, rate: u64) -> Result<Result<PhaseResult, Outcome>, Failure> {
        self.phases += 1;
        let phase = self.phases;
        let (begin, then) = (Instant::now(), CpuSeconds::now());
        let before = (cpu(&self.senders), cpu(&self.receivers));
        // The rate is of all senders together.
        let rate = rate / self.senders.len() as u64;
        for sender in &mut self.senders {
            sender.tell(&format!("go {phase} {millis} {rate}"))?;
        }
        let sent: Vec<Sent> = answers(&self.senders, "sent", self.deadline)?;
        let cell = self.cell;
        let goal = |at| sent.iter().map(|sent| sent.goal(cell, at)).sum();
        let goals: Vec<u64> = (0..self.receivers.len()).map(goal).collect();
        for (receiver, goal) in self.receivers.iter_mut().zip(&goals) {
            receiver.tell(&format!("await {phase} {goal}"))?;
        }
        let received: Vec<Received> = answers(&self.receivers, "received", self.deadline)?;
        let sender_cpu = cpu(&self.senders) - before.0;
        let receiver_cpu = cpu(&self.receivers) - before.1;
        let seconds = begin.elapsed().as_secs_f64();
        let now = CpuSeconds::now();
        let foreign = now.busy - then.busy - sender_cpu - receiver_cpu;
        if let Some(outcome) = incomplete(&goals, &received) {
            return Ok(Err(outcome));
        }
        Ok(Ok(PhaseResult {
            sent,
            received,
            sender_cpu,
            receiver_cpu,
            foreign_cores: (foreign / seconds).max(0.0),
            stolen: now.stolen_share(then, seconds),
            seconds,
        }))
    }
}

fn answers<T: for<'de> Deserialize<'de>>(
    processes: &[Process],
    word: &str,
    deadline: Instant,
) -> Result<Vec<T>, Failure> {
    processes
        .iter()
        .map(|process| Ok(serde_json::from_str(&process.expect(word, deadline)?)?))
        .collect()
}

fn cpu(processes: &[Process]) -> f64 {
    processes
        .iter()
        .map(|process| process.cpu().as_secs_f64())
        .sum()
}

fn incomplete(goals: &[u64], received: &[Received]) -> Option<Outcome> {
    let wrong: u64 = received.iter().map(|received| received.wrong).sum();
    let pairs = received
        .iter()
        .map(|it| it.messages)
        .zip(goals.iter().copied());
    let complete = pairs.clone().all(|(messages, goal)| messages == goal);
    if complete && wrong == 0 {
        return None;
    }
    let share = |messages: u64, goal: u64| messages as f64 / goal.max(1) as f64;
    let (least, goal) =
        pairs.min_by(|one, other| share(one.0, one.1).total_cmp(&share(other.0, other.1)))?;
    let disorder = if wrong > 0 {
        format!(", {wrong} out of order, twice or damaged")
    } else {
        String::new()
    };
    Some(Outcome::Failed {
        reason: format!("{least} of {goal} messages came to the slowest receiver{disorder}"),
        delivered: Some(least as f64 / goal.max(1) as f64),
    })
}

impl PhaseResult {
    fn messages(&self) -> f64 {
        self.sent.iter().map(|sent| sent.messages).sum::<u64>() as f64
    }

    fn flood(&self) -> Flood {
        let start = self
            .sent
            .iter()
            .map(|sent| sent.start_ns)
            .min()
            .unwrap_or(0);
        let end = self
            .received
            .iter()
            .map(|received| received.last_ns)
            .max()
            .unwrap_or(0);
        let seconds = end.saturating_sub(start).max(1) as f64 / 1e9;
        let millions = self.messages() / 1e6;
        Flood {
            messages_per_second: self.messages() / seconds,
            sender_cpu: self.sender_cpu / millions,
            receiver_cpu: self.receiver_cpu / self.received.len() as f64 / millions,
            delivered: 1.0,
        }
    }

    fn latency(&self) -> Latency {
        let worst =
            |value: fn(&Received) -> f64| self.received.iter().map(value).fold(0.0, f64::max);
        Latency {
            p50_us: worst(|received| received.p50_us),
            p99_us: worst(|received| received.p99_us),
            p999_us: worst(|received| received.p999_us),
            max_us: worst(|received| received.max_us),
            cores: (self.sender_cpu + self.receiver_cpu) / self.seconds,
        }
    }
}

/// What all processes of a run have in common.
struct Launch<'a> {
    hosts: &'a CellHosts,
    program: &'a Ready,
    system: &'a System,
    cell: Cell,
    port: u16,
}

impl Launch<'_> {
    /// Starts the process `index` of its role, on the host with this number.
    fn start(&self, role: &str, index: usize, at: usize) -> Result<Process, Failure> {
        let (hosts, cell) = (self.hosts, self.cell);
        let mut command = hosts.command(at, self.program);
        if self.system.folder.is_empty() {
            command.arg("peer");
        }
        let senders: Vec<String> = (0..cell.senders)
            .map(|sender| hosts.address(sender).to_string())
            .collect();
        command.arg(role);
        for (name, value) in [
            ("--interface", hosts.interface().to_owned()),
            ("--address", hosts.address(at).to_string()),
            ("--senders", senders.join(",")),
            ("--receivers", cell.receivers.to_string()),
            ("--index", index.to_string()),
            ("--port", self.port.to_string()),
            ("--groups", cell.groups.to_string()),
            ("--payload", cell.payload.to_string()),
        ] {
            command.args([name, &value]);
        }
        if cell.layout.is_some() {
            command.args(["--common", &cell.common().to_string()]);
            if role == "send" {
                command.args(["--audience", &list(&cell.audience())]);
            } else {
                command.args(["--wants", &list(&cell.wants(index))]);
            }
        }
        for setting in self.system.settings(cell) {
            command.args(["--set", setting]);
        }
        if self.system.kind == Kind::Injector {
            command.args(["--set", &format!("injected-loss-ppm={}", cell.loss_ppm)]);
        }
        Process::start(format!("{role} {index}"), command)
    }
}

/// Numbers as a command line takes them.
fn list<T: ToString>(numbers: &[T]) -> String {
    let numbers: Vec<String> = numbers.iter().map(T::to_string).collect();
    numbers.join(",")
}

#[cfg(test)]
mod tests {
    use qsm_measure::Layout;

    use super::super::cell::{Axis, Matrix};
    use super::*;

    #[test]
    fn a_receiver_waits_for_what_it_wants_and_misses_nothing_else() {
        let cells = Matrix::new(false, &[Axis::Layout], 100).cells();
        let private = cells
            .into_iter()
            .find(|cell| cell.layout == Some(Layout::Private));
        let cell = private.expect("there is one");
        let sent = Sent {
            messages: 1000,
            start_ns: 0,
            rare: vec![1, 2, 3, 4, 5, 6],
        };
        assert_eq!(sent.goal(cell, 0), 1000 - 21 + 1);
        assert_eq!(sent.goal(cell, 5), 1000 - 21 + 6);
        let got = |messages| Received {
            messages,
            wrong: 0,
            last_ns: 0,
            p50_us: 0.0,
            p99_us: 0.0,
            p999_us: 0.0,
            max_us: 0.0,
        };
        assert!(incomplete(&[980, 985], &[got(980), got(985)]).is_none());
        assert!(incomplete(&[980, 985], &[got(980), got(984)]).is_some());
        assert!(
            incomplete(&[980, 985], &[got(981), got(985)]).is_some(),
            "one too many"
        );
    }
}
