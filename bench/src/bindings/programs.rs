//! The receivers' programs: how they are started, and what they say.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use lab::Actor;

use crate::Failure;
use crate::children::numbers;

/// Bytes of a message.
pub(super) const PAYLOAD: usize = 100;
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct Programs {
    /// Folder of `bench/peers/bindings/build.sh`.
    #[arg(long)]
    from: PathBuf,
    /// Interpreter with numpy and pyzmq.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Milliseconds that are measured; a third as many are warm-up before.
    #[arg(long, default_value_t = 3000)]
    pub(super) millis: u64,
    /// Count also runs in which others have more than 5 % of the CPUs; pages say so.
    #[arg(long)]
    pub(super) busy: bool,
}

impl Programs {
    /// Tells whether `build.sh` has found a virtual machine with foreign functions.
    pub(super) fn has_later_java(&self) -> bool {
        later_java(&self.from).is_ok()
    }

    /// Starts a receiver of a cluster's groups, or of an address where it is one of ZeroMQ's.
    pub(super) fn receiver(
        &self,
        name: &str,
        place: &str,
        groups: usize,
    ) -> Result<Actor, Failure> {
        let mut command = self.command(name)?;
        command
            .arg(place)
            .arg((self.millis / 3).to_string())
            .arg(self.millis.to_string());
        // Not all of them know more than one group.
        if groups > 1 {
            command.arg(groups.to_string());
        }
        let receiver = Actor::start(name.to_owned(), command, PATIENCE)?;
        receiver.expect("ready")?;
        Ok(receiver)
    }

    /// Starts ZeroMQ's sender.
    pub(super) fn sender(&self, address: &str, payload: usize) -> Result<Actor, Failure> {
        let mut command = Command::new(self.from.join("send-zeromq"));
        command.args([address, &payload.to_string()]);
        let sender = Actor::start("the sender".to_owned(), command, PATIENCE)?;
        sender.expect("ready")?;
        Ok(sender)
    }

    fn command(&self, name: &str) -> Result<Command, Failure> {
        let from = std::path::absolute(&self.from)?;
        let how = name.rsplit('-').next().unwrap_or(name);
        Ok(match name {
            "rust" => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("bindings-receive");
                command
            }
            "c" => Command::new(from.join("receive-c")),
            "java" => java(Path::new("java"), &from, &["classes"])?,
            // Two ways to call the library, on one virtual machine.
            "java-native" => java(&later_java(&from)?, &from, &["classes"])?,
            "java-foreign" => java(&later_java(&from)?, &from, &["classes22", "classes"])?,
            _ => {
                let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/bindings/receive.py");
                let mut command = Command::new(&self.python);
                command.env("PYTHONPATH", &from).arg(script);
                command.arg(if name == "pyzmq-loop" { "zeromq" } else { how });
                command
            }
        })
    }
}

/// The receiver in Java on this virtual machine.
fn java(machine: &Path, from: &Path, classes: &[&str]) -> Result<Command, Failure> {
    let folders = classes.iter().map(|folder| from.join(folder));
    let mut command = Command::new(machine);
    command
        .arg(format!("-Dqsm.library.path={}", from.display()))
        .arg("-cp")
        .arg(std::env::join_paths(folders)?)
        .arg("Receive");
    Ok(command)
}

/// The virtual machine that has foreign functions.
fn later_java(from: &Path) -> Result<PathBuf, Failure> {
    let machine = from.join("java22/bin/java");
    match machine.is_file() {
        true => Ok(machine),
        false => Err("build.sh has found no JDK 22 or later; QSM_JDK names one".into()),
    }
}

/// Account of a receiver of the time that was measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub(super) messages: f64,
    /// Length of the time.
    pub(super) seconds: f64,
    /// CPU time of the receiver's process, its core thread included.
    pub(super) cpu_seconds: f64,
    /// Longest time between two turns of its loop.
    pub(super) gap_seconds: f64,
    /// Time that its runtime's collector took.
    pub(super) collector_seconds: f64,
}

impl Said {
    /// Waits until a receiver is warm, and then for what it says.
    pub(super) fn of(receiver: &Actor) -> Result<Self, Failure> {
        receiver.expect("warm")?;
        let then = cpu_ticks(receiver.pid())?;
        let said = numbers(receiver, "rate")?;
        let ticks = cpu_ticks(receiver.pid())? - then;
        let [messages, nanoseconds, more @ ..] = &said[..] else {
            return Err(format!("{said:?} is no rate").into());
        };
        let seconds = |at: usize| more.get(at).map_or(0.0, |nanos| *nanos as f64 / 1e9);
        Ok(Self {
            messages: *messages as f64,
            seconds: *nanoseconds as f64 / 1e9,
            cpu_seconds: ticks as f64 / 100.0,
            gap_seconds: seconds(0),
            collector_seconds: seconds(1),
        })
    }
}

/// Names of the groups of a run.
pub(super) fn groups(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| match number {
        0 => "rate".to_owned(),
        number => format!("rate/{number}"),
    })
}

/// CPU time of a process, hundredths of a second.
fn cpu_ticks(process: u32) -> Result<u64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // Behind the name, which may have anything in it: user and system time are 14 and 15.
    let (_, fields) = stat.rsplit_once(") ").ok_or("no such process")?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || -> Result<u64, Failure> { Ok(fields.next().ok_or("no time")?.parse()?) };
    Ok(next()? + next()?)
}
