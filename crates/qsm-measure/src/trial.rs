//! One run on this machine: a membership service, receivers and senders as processes, each on a
//! host of its own or all over loopback.

use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use lab::{Lab, LabError};
use qsm_console::failure::Failure;
use qsm_console::stop::Stop;
use qsm_console::table::printable;
use qsm_net::Affinity;
use qsm_processes::{ProcessGroup, ProcessIndex, ProcessLine, ProcessOutput};
use serde_json::Value;

use crate::cpu_assignment::CpuAssignment;
use crate::latencies::Latencies;
use crate::layout::LayoutOptions;
use crate::options::{LoadOptions, LocalOptions};
use crate::raw;
use crate::report::{BenchReport, Received, Sent};

/// Time between two looks at signals.
const LOOK: Duration = Duration::from_millis(50);

/// Time for everything beside sending in one run, and of it for each process.
const OVERHEAD: Duration = Duration::from_secs(90);
const OVERHEAD_EACH: Duration = Duration::from_secs(3);

/// The membership service plans so often where there is a layout.
const PLAN_EVERY: Duration = Duration::from_secs(1);

/// Lines of standard error that are kept of all processes.
const LINES_KEPT: usize = 8;

/// One run: its load, its processes, its rate.
#[derive(Debug, Clone)]
pub(crate) struct Trial<'a> {
    /// The messages.
    pub(crate) load: &'a LoadOptions,
    /// What receivers have besides.
    pub(crate) layout: &'a LayoutOptions,
    /// By whom, to whom and where.
    pub(crate) local: &'a LocalOptions,
    /// Timed messages per second; as many as possible if `None`.
    pub(crate) rate: Option<u32>,
    /// There and back.
    pub(crate) round_trip: bool,
}

/// Results of one run of Quicksilver.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Of each sender.
    pub(crate) sent: Vec<Sent>,
    /// Of each receiver.
    pub(crate) received: Vec<Received>,
}

/// Result of one run of the blaster at one receiver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caught {
    /// Bytes per second.
    pub(crate) bytes_per_second: f64,
}

/// Content that the bare sockets carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blast {
    /// The same bytes again and again, which nobody looks at.
    Bytes,
    /// Quicksilver's messages, written and checked.
    Checked,
}

impl Trial<'_> {
    /// Measures Quicksilver.
    ///
    /// # Errors
    /// A process failed: what it says.
    pub(crate) fn run(&self, stop: &Stop) -> Result<Outcome, Failure> {
        let mut processes = TrialProcesses::new(self, stop)?;
        let cpus = self.cpus()?;
        let service = processes.serve(self.layout, self.local.key())?;
        let cluster = ["--cluster", &cluster(), "--service", &service].map(str::to_owned);
        let member = |mut words: Vec<String>, pin: Option<String>| {
            words.extend(cluster.clone());
            words.extend(self.local.key());
            words.extend(pin);
            words
        };
        let receivers = processes.start_many("receiver", self.local.receivers, |index| {
            member(self.receiver(index), cpus.receiver(index))
        })?;
        let senders = processes.start_many("sender", self.local.senders, |index| {
            member(self.sender(), cpus.sender(index))
        })?;
        processes.begin(&senders)?;
        let all = [senders, receivers].concat();
        let count = all.len();
        let mut outcome = Outcome {
            sent: Vec::new(),
            received: Vec::new(),
        };
        while outcome.sent.len() + outcome.received.len() < count {
            match processes.hear()? {
                (_, BenchReport::Sent(sent)) => outcome.sent.push(*sent),
                (_, BenchReport::Received(received)) => outcome.received.push(*received),
                _ => {}
            }
        }
        Ok(outcome)
    }

    /// Measures the bare sockets at full speed; the receivers' results.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub(crate) fn blast(&self, load: Blast, stop: &Stop) -> Result<Vec<Caught>, Failure> {
        let mut processes = TrialProcesses::new(self, stop)?;
        let cpus = self.cpus()?;
        let role = |role: &str, pin: Option<String>| {
            let mut words = self.raw(role);
            words.extend((load == Blast::Checked).then(|| format!("--{}", raw::CHECKED)));
            words.extend(pin);
            words
        };
        let receivers = processes.start_many("receiver", self.local.receivers, |index| {
            role("catch", cpus.receiver(index))
        })?;
        processes.begin(&receivers)?;
        let senders = processes.start_many("sender", self.local.senders, |index| {
            role("blast", cpus.sender(index))
        })?;
        processes.begin(&senders)?;
        let mut left = senders.len();
        while left > 0 {
            left -= usize::from(matches!(processes.hear()?.1, BenchReport::Blasted { .. }));
        }
        for &receiver in &receivers {
            processes.group.tell(receiver, &"stop");
        }
        let mut caught = Vec::new();
        while caught.len() < receivers.len() {
            if let (_, BenchReport::Caught { bytes, seconds, .. }) = processes.hear()? {
                caught.push(Caught {
                    bytes_per_second: bytes as f64 / seconds.max(1e-9),
                });
            }
        }
        Ok(caught)
    }

    /// Measures the bare sockets' latency: half of a way there and back.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub(crate) fn ping(&self, stop: &Stop) -> Result<Latencies, Failure> {
        let mut processes = TrialProcesses::new(self, stop)?;
        let cpus = self.cpus()?;
        let pong = [self.raw("pong"), cpus.receiver(0).into_iter().collect()].concat();
        let pong = processes.start("pong", pong)?;
        processes.begin(&[pong])?;
        let mut words = self.raw("ping");
        words.extend(cpus.sender(0));
        words.push(format!("--rate={}", self.rate.unwrap_or(1)));
        let ping = processes.start("ping", words)?;
        processes.begin(&[ping])?;
        loop {
            if let (_, BenchReport::Pinged(half)) = processes.hear()? {
                return Ok(half);
            }
        }
    }

    fn cpus(&self) -> Result<CpuAssignment, Failure> {
        if !self.local.pin {
            return Ok(CpuAssignment::default());
        }
        let allowed = Affinity::current()
            .map_err(|error| Failure::io("ask which CPUs this process may use", &error))?;
        Ok(CpuAssignment::spread(allowed.cpus(), self.local))
    }

    fn receiver(&self, index: u16) -> Vec<String> {
        let mut words = vec![
            "bench".to_owned(),
            "receive".to_owned(),
            "--json".to_owned(),
            "--same-host".to_owned(),
            "--no-embedded-gms".to_owned(),
            format!("--senders={}", self.local.senders),
            format!("--groups={}", self.load.groups),
            format!("--cores={}", self.local.cores),
            format!("--loss={}", f64::from(self.local.loss) / 1e4),
        ];
        let flags = [
            (self.rate.is_some() && !self.round_trip, "--stages"),
            (self.round_trip && index == 0, "--echo"),
            (self.load.spin, "--spin"),
        ];
        words.extend(given(&flags));
        if let Some(layout) = self.layout.layout {
            words.push(format!("--layout={}", layout.name()));
            words.push(format!("--seat={}/{}", index + 1, self.local.receivers));
        }
        words
    }

    fn sender(&self) -> Vec<String> {
        let mut words = vec![
            "bench".to_owned(),
            "send".to_owned(),
            "--json".to_owned(),
            "--same-host".to_owned(),
            "--start-on-input".to_owned(),
            "--no-embedded-gms".to_owned(),
            format!("--receivers={}", self.local.receivers),
            format!("--cores={}", self.local.cores),
        ];
        words.extend(self.rate.map(|rate| format!("--rate={rate}")));
        words.extend(self.local.send_limit());
        words.extend(given(&[(self.round_trip, "--round-trip")]));
        words.extend(self.load.arguments());
        words.extend(self.layout.arguments());
        words
    }

    fn raw(&self, role: &str) -> Vec<String> {
        let words = ["bench", "raw", role].map(str::to_owned);
        [words.to_vec(), self.load.arguments()].concat()
    }
}

fn given(flags: &[(bool, &str)]) -> Vec<String> {
    let flags = flags.iter().filter(|(given, _)| *given);
    flags.map(|(_, flag)| (*flag).to_owned()).collect()
}

/// A name that no other benchmark on this host has.
fn cluster() -> String {
    format!("bench-{}", std::process::id())
}

/// The processes of a run, and what they have said.
struct TrialProcesses<'a> {
    group: ProcessGroup<BenchReport>,
    stop: &'a Stop,
    deadline: Instant,
    heard: VecDeque<(ProcessIndex, BenchReport)>,
    /// Lines written to standard error.
    errors: VecDeque<String>,
    /// Whose results are there.
    done: Vec<ProcessIndex>,
    /// Pipes that have ended: standard output and error of each process.
    ended: Vec<ProcessIndex>,
}

impl<'a> TrialProcesses<'a> {
    fn new(trial: &Trial<'_>, stop: &'a Stop) -> Result<Self, Failure> {
        if trial.local.lab {
            Lab::available().map_err(LabError::from)?;
        }
        let lasts = trial.load.lasts().unwrap_or_else(|| {
            // Without a rate, the messages take what they take.
            let messages = trial.load.messages.unwrap_or_default() as f64;
            Duration::from_secs_f64((messages / f64::from(trial.rate.unwrap_or(1000))).min(1e9))
        });
        let processes = u32::from(trial.local.senders) + u32::from(trial.local.receivers);
        let mut group = ProcessGroup::new(!trial.local.lab, trial.local.family())?;
        if let Some(gathering) = trial.local.gathering() {
            group.gather(gathering);
        }
        let (protection, cipher) = trial.local.protection();
        group.protect(protection, cipher, &cluster())?;
        Ok(Self {
            group,
            stop,
            deadline: Instant::now() + lasts + OVERHEAD + OVERHEAD_EACH * processes,
            heard: VecDeque::new(),
            errors: VecDeque::new(),
            done: Vec::new(),
            ended: Vec::new(),
        })
    }

    /// Starts a membership service; its address. The slowest receiver is waited for however long it
    /// takes: the figures are about all of them.
    fn serve(&mut self, layout: &LayoutOptions, key: Option<String>) -> Result<String, Failure> {
        let cluster = cluster();
        let words = ["gms", "--json", "--cluster", &cluster, "--slow-after", "0"];
        let mut words = words.map(str::to_owned).to_vec();
        words.extend(key);
        if layout.layout.is_some() {
            // Senders wait for its plan.
            words.push(format!("--plan-every={}", PLAN_EVERY.as_secs()));
            let unwanted = layout.load.layout_unwanted.map(|ppm| f64::from(ppm) / 1e4);
            words.extend(unwanted.map(|percent| format!("--plan-unwanted={percent}")));
            let common = layout.load.layout_common;
            words.extend(common.map(|packets| format!("--plan-common={packets}")));
        }
        let service = self.start("gms", words)?;
        loop {
            let ProcessOutput { process, line, .. } = self.next()?;
            match line {
                ProcessLine::Service(value) if process == service => {
                    if let Some(address) = value.get("address").and_then(Value::as_str) {
                        return Ok(address.to_owned());
                    }
                }
                line => self.note(process, line)?,
            }
        }
    }

    fn start(&mut self, name: &str, words: Vec<String>) -> Result<ProcessIndex, Failure> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.group.start(name, &words)
    }

    fn start_many(
        &mut self,
        name: &str,
        count: u16,
        words: impl Fn(u16) -> Vec<String>,
    ) -> Result<Vec<ProcessIndex>, Failure> {
        (0..count)
            .map(|index| self.start(&format!("{name}-{}", index + 1), words(index)))
            .collect()
    }

    /// Lets these begin, when all of them are ready.
    fn begin(&mut self, processes: &[ProcessIndex]) -> Result<(), Failure> {
        let mut left = processes.len();
        let mut others = Vec::new();
        while left > 0 {
            match self.hear()? {
                (process, BenchReport::Ready) if processes.contains(&process) => left -= 1,
                other => others.push(other),
            }
        }
        self.heard.extend(others);
        for &process in processes {
            self.group.tell(process, &"start");
        }
        Ok(())
    }

    /// Takes the next report.
    fn hear(&mut self) -> Result<(ProcessIndex, BenchReport), Failure> {
        loop {
            if let Some(heard) = self.heard.pop_front() {
                return Ok(heard);
            }
            let ProcessOutput { process, line, .. } = self.next()?;
            self.note(process, line)?;
        }
    }

    fn next(&self) -> Result<ProcessOutput<BenchReport>, Failure> {
        loop {
            match self.group.output.recv_timeout(LOOK) {
                Ok(heard) => return Ok(heard),
                // The group holds the other end, so there always is one.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if self.stop.is_asked() {
                return Err(Failure::failed("interrupted", "let it run to its end"));
            }
            if Instant::now() >= self.deadline {
                return Err(Failure::timeout(
                    "the run does not come to its end",
                    self.remedy("ask for less: fewer messages, processes or losses"),
                ));
            }
        }
    }

    fn note(
        &mut self,
        process: ProcessIndex,
        line: ProcessLine<BenchReport>,
    ) -> Result<(), Failure> {
        match line {
            ProcessLine::Message(said) => {
                if !matches!(said, BenchReport::Ready) {
                    self.done.push(process);
                }
                self.heard.push_back((process, said));
                Ok(())
            }
            ProcessLine::Error(text) => {
                self.keep(process, &text);
                Ok(())
            }
            ProcessLine::End => {
                self.ended.push(process);
                // With the second one everything that it had to say was heard.
                let pipes = self.ended.iter().filter(|&&ended| ended == process).count();
                match pipes == 2 && !self.done.contains(&process) {
                    true => Err(self.ended(process)),
                    false => Ok(()),
                }
            }
            ProcessLine::Service(_) => Ok(()),
        }
    }

    fn keep(&mut self, process: ProcessIndex, text: &str) {
        let line = format!("{}: {}", self.group.name(process), printable(text));
        self.errors.push_back(line);
        if self.errors.len() > LINES_KEPT {
            self.errors.pop_front();
        }
    }

    /// The failure of a process that has ended too early, in its own words if it had any.
    fn ended(&self, process: ProcessIndex) -> Failure {
        let prefix = format!("{}: qsm: error: ", self.group.name(process));
        let own = self
            .errors
            .iter()
            .find_map(|line| line.strip_prefix(&prefix));
        let name = self.group.name(process);
        match own {
            Some(cause) => {
                let remedy = format!("{name}: qsm: remedy: ");
                let remedy = self
                    .errors
                    .iter()
                    .find_map(|line| line.strip_prefix(&remedy));
                Failure::failed(format!("{name}: {cause}"), remedy.unwrap_or("run it again"))
            }
            None => Failure::failed(
                format!("{name} has ended before its time"),
                self.remedy("run it again; if it happens again, it is worth a report"),
            ),
        }
    }

    /// With what was written to standard error last, if anything was.
    fn remedy(&self, otherwise: &str) -> String {
        if self.errors.is_empty() {
            return otherwise.to_owned();
        }
        let lines: Vec<&str> = self.errors.iter().map(String::as_str).collect();
        format!("{otherwise}; what was told last: {}", lines.join(" | "))
    }
}
