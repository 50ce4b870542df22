//! Processes of `qsm relay` on hosts of a lab: a source, relays, receivers.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver as Lines, channel};
use std::thread;
use std::time::{Duration, Instant};

use lab::{HostId, Lab, Output, Process};
use serde_json::Value;

use super::stream::{Feeder, Flaws, Load, Reader, Tape};
use crate::cluster::Failure;

/// Name of the stream.
const STREAM: &str = "news";
/// Where sources and relays listen.
pub const PORT: u16 = 4490;
/// Longest time for a process to say that it is ready, and for receivers to have the rest of a stream
/// that has ended.
const PATIENCE: Duration = Duration::from_secs(40);

/// Hosts with processes.
#[derive(Debug)]
pub struct Stage {
    /// The hosts.
    pub lab: Lab,
    program: PathBuf,
    began: Instant,
}

/// A source, which has said that it listens.
#[derive(Debug)]
pub struct Source {
    process: Process,
    said: Lines<String>,
}

/// A relay, which has said that it listens.
#[derive(Debug)]
pub struct Relay {
    process: Process,
    said: Lines<String>,
}

/// A receiver.
#[derive(Debug)]
pub struct Receiver {
    process: Process,
    reader: Reader,
}

/// A stream that has ended.
#[derive(Debug)]
pub struct Outcome {
    /// Messages that the source was given.
    pub given: u64,
    /// Of each receiver, in the order in which they were named.
    pub ends: Vec<End>,
}

/// Messages of a receiver, and what it says of itself.
#[derive(Debug)]
pub struct End {
    /// Its messages.
    pub tape: Tape,
    /// Its counters.
    pub counters: Value,
    /// It has told nobody that something is lost, and ended with success.
    pub complete: bool,
}

impl Stage {
    /// A stage for this program `qsm`, with the hosts of this lab.
    #[must_use]
    pub fn new(lab: Lab, program: &Path) -> Self {
        Self {
            lab,
            program: program.to_owned(),
            began: Instant::now(),
        }
    }

    /// Time since it was made, by which messages are stamped.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Where a source or relay on a host listens.
    #[must_use]
    pub fn at(&self, host: HostId) -> String {
        format!("{}:{PORT}", self.lab.host(host).address())
    }

    fn command(&self, host: HostId, words: &[&str], more: &[&str]) -> Command {
        let mut command = self.lab.command(host, &self.program);
        command.arg("relay").args(words).args(more);
        command.env("QSM_CONFIG", "").stdin(Stdio::null());
        command
    }

    /// Starts the source of the stream, for so many receivers, which listens here.
    ///
    /// # Errors
    /// It does not start.
    pub fn source(
        &mut self,
        host: HostId,
        listen: &str,
        receivers: usize,
        options: &[&str],
    ) -> Result<Source, Failure> {
        let receivers = receivers.to_string();
        let words = ["pub", STREAM, "--frames", "--json", "--listen", listen];
        let mut command = self.command(host, &words, options);
        command.args(["--wait-receivers", &receivers]);
        command.stdin(Stdio::piped());
        let mut process = self.lab.spawn(host, command, Output::Piped)?;
        let said = lines(&mut process)?;
        let source = Source { process, said };
        source.wait("listening")?;
        Ok(source)
    }

    /// Starts a relay, once it listens here.
    ///
    /// # Errors
    /// It does not start.
    pub fn relay(
        &mut self,
        host: HostId,
        listen: &str,
        parent: &str,
        options: &[&str],
    ) -> Result<Relay, Failure> {
        let words = ["--json", "--listen", listen, "--parent", parent];
        let command = self.command(host, &words, options);
        let mut process = self.lab.spawn(host, command, Output::Piped)?;
        let said = lines(&mut process)?;
        wait_for(&said, "listening")?;
        Ok(Relay { process, said })
    }

    /// Starts a receiver with these parents.
    ///
    /// # Errors
    /// It does not start.
    pub fn receiver(
        &mut self,
        host: HostId,
        parents: &[&str],
        options: &[&str],
    ) -> Result<Receiver, Failure> {
        let words = ["sub", STREAM, "--frames", "--stats", "json"];
        let mut command = self.command(host, &words, options);
        for parent in parents {
            command.args(["--parent", parent]);
        }
        let mut process = self.lab.spawn(host, command, Output::Piped)?;
        let stdout = process.take_stdout().ok_or("a receiver has no output")?;
        let reader = Reader::start(stdout, self.began);
        Ok(Receiver { process, reader })
    }

    /// Begins to give a source messages, when all receivers are there.
    ///
    /// # Errors
    /// They do not come.
    pub fn publish(&self, source: &mut Source, load: Load) -> Result<Feeder, Failure> {
        source.wait("sending")?;
        let stdin = source.process.take_stdin().ok_or("a source has no input")?;
        Ok(Feeder::start(load, stdin, self.began))
    }

    /// Waits until the stream has ended and all receivers with it.
    ///
    /// # Errors
    /// One of them does not end in time.
    pub fn finish(&self, feeder: Feeder, receivers: Vec<Receiver>) -> Result<Outcome, Failure> {
        let given = feeder.wait()?;
        let limit = Instant::now() + PATIENCE;
        let ends = receivers.into_iter().enumerate();
        let ends = ends.map(|(place, receiver)| receiver.end(place, limit));
        let ends = ends.collect::<Result<_, _>>()?;
        Ok(Outcome { given, ends })
    }
}

impl Source {
    /// Waits for an event.
    fn wait(&self, event: &str) -> Result<Value, Failure> {
        wait_for(&self.said, event)
    }
}

impl Relay {
    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// SIGKILL, and waits.
    ///
    /// # Errors
    /// It cannot be killed.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.process.kill()?;
        Ok(())
    }

    /// Ends it; its counters.
    ///
    /// # Errors
    /// It has ended before, or does not end.
    pub fn end(mut self) -> Result<Value, Failure> {
        self.process.terminate()?;
        let stopped = wait_for(&self.said, "stopped")?;
        Ok(stopped["counters"].clone())
    }
}

impl Receiver {
    /// Messages that have come so far.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.reader.messages()
    }

    fn end(mut self, place: usize, limit: Instant) -> Result<End, Failure> {
        let left = limit.saturating_duration_since(Instant::now());
        let status = self.process.wait_at_most(left)?;
        let Some(status) = status else {
            let messages = self.messages();
            let why = format!("receiver {place} has not ended; it has {messages} messages");
            return Err(why.into());
        };
        let mut said = String::new();
        if let Some(mut stderr) = self.process.take_stderr() {
            stderr.read_to_string(&mut said)?;
        }
        // Those of its socket and of pieces are objects of their own.
        let mut objects = said
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let counters = objects.find(|object| object["delivered"].is_u64());
        let complete = ended_well(status, &said);
        Ok(End {
            tape: self.reader.wait(),
            counters: counters.ok_or_else(|| format!("no counters in: {said}"))?,
            complete,
        })
    }
}

fn ended_well(status: ExitStatus, said: &str) -> bool {
    if !status.success() {
        eprintln!("a receiver ended with {status}: {said}");
    }
    status.success()
}

impl End {
    /// One of its counters.
    ///
    /// # Panics
    ///
    /// If it has none of that name.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        counter(&self.counters, name)
    }
}

/// One of a program's counters.
///
/// # Panics
///
/// If there is none of that name.
#[must_use]
pub fn counter(counters: &Value, name: &str) -> u64 {
    let value = counters[name].as_u64();
    value.unwrap_or_else(|| panic!("there is no counter {name} in {counters}"))
}

impl Outcome {
    /// Faults at any of the receivers.
    #[must_use]
    pub fn flaws(&self) -> Flaws {
        let mut all = Flaws::default();
        for end in &self.ends {
            let flaws = end.tape.flaws(self.given);
            all.missing += flaws.missing;
            all.doubled += flaws.doubled;
            all.wrong += flaws.wrong;
        }
        all
    }

    /// All receivers ended with success.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ends.iter().all(|end| end.complete)
    }
}

/// Lines that a process writes, read by a thread so that it never waits.
fn lines(process: &mut Process) -> Result<Lines<String>, Failure> {
    let stdout = process.take_stdout().ok_or("a process has no output")?;
    let (put, said) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        // Nobody may be interested any more.
        lines.for_each(|line| drop(put.send(line)));
    });
    Ok(said)
}

/// Waits for an event, an object in a line.
fn wait_for(said: &Lines<String>, event: &str) -> Result<Value, Failure> {
    loop {
        let line = said.recv_timeout(PATIENCE);
        let line = line.map_err(|_| format!("a process has not said that it is {event}"))?;
        let value: Value = serde_json::from_str(&line)?;
        if value["event"] == event {
            return Ok(value);
        }
    }
}
