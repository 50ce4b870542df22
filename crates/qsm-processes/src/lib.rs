//! Processes of this program that a command starts and talks with, and the hosts they run on:
//! network namespaces where the system permits them, else this host's loopback interface.

#![forbid(unsafe_code)]
// They panic where nobody reads; `qsm_console::output` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod gathering;
mod protection;

use std::io::{BufRead, BufReader, Read, Write, stderr};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

pub use gathering::Gathering;
use lab::{HostId, Lab, Output, Process};
use protection::Keys;
pub use protection::Protection;
use qsm::{Cipher, Family};
use qsm_console::failure::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Lines that wait to be read.
const LINES_MAX: usize = 4096;

/// First port of clusters on loopback, and number of ports in use. Below those that the system
/// hands out by itself.
const PORTS: (u16, u16) = (20_000, 6_000);

/// A process of a group, by its place in the order in which they were first started.
pub type ProcessIndex = usize;

/// Something a process wrote.
#[derive(Debug)]
pub enum ProcessLine<S> {
    /// A message in JSON, of the kind that processes of this group write.
    Message(S),
    /// An event of the membership service.
    Service(Value),
    /// To standard error.
    Error(String),
    /// End of the output: the process has ended.
    End,
}

/// A line, the process that wrote it, and the life in which it did.
#[derive(Debug)]
pub struct ProcessOutput<S> {
    /// The writer.
    pub process: ProcessIndex,
    /// Starts of the process before this life.
    pub life: u32,
    /// The line.
    pub line: ProcessLine<S>,
}

#[derive(Debug)]
enum HostSet {
    Lab(Box<Lab>),
    Loopback {
        discovery: SocketAddr,
        data_port: u16,
    },
}

#[derive(Debug)]
enum ProcessHandle {
    OnHost(Process),
    Here(Child),
}

#[derive(Debug)]
struct GroupProcess {
    name: String,
    arguments: Vec<String>,
    host: Option<HostId>,
    handle: ProcessHandle,
    stdin: Option<ChildStdin>,
    life: u32,
}

/// All processes, which say `S`. Dropping it kills them, and removes the hosts.
#[derive(Debug)]
pub struct ProcessGroup<S> {
    processes: Vec<GroupProcess>,
    hosts: HostSet,
    program: PathBuf,
    family: Family,
    lines: SyncSender<ProcessOutput<S>>,
    /// Where their metrics are gathered.
    gathering: Option<Gathering>,
    /// Keys that are made for them.
    keys: Option<Keys>,
    /// Lines they write.
    pub output: Receiver<ProcessOutput<S>>,
    /// Reason for having no namespaces, if there are none.
    pub without_lab: Option<String>,
}

impl<S: DeserializeOwned + Send + 'static> ProcessGroup<S> {
    /// A group without processes; `loopback` does without namespaces also where there could be some. All will use
    /// addresses of this family.
    ///
    /// # Errors
    /// Neither way is open.
    pub fn new(loopback: bool, family: Family) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::io("find the path of this program", &error))?;
        let available = match loopback {
            true => Err("--loopback was given".to_owned()),
            false => Lab::available().map_err(|why| why.to_string()),
        };
        let (hosts, without_lab) = match available {
            Ok(()) => {
                let lab = match family {
                    Family::V4 => Lab::new(),
                    Family::V6 => Lab::with_ipv6(),
                };
                (HostSet::Lab(Box::new(lab?)), None)
            }
            Err(why) => (loopback_hosts(family), Some(why)),
        };
        let (lines, output) = sync_channel(LINES_MAX);
        Ok(Self {
            processes: Vec::new(),
            hosts,
            program,
            family,
            lines,
            gathering: None,
            keys: None,
            output,
            without_lab,
        })
    }

    /// Processes that are started from now on serve their metrics, and are gathered there until the group is dropped.
    pub fn gather(&mut self, gathering: &Gathering) {
        self.gathering = Some(gathering.clone());
    }

    /// Nodes and services that are started from now on are in this cluster and protected so, with this cipher, by keys that
    /// are made for them and gone with the group.
    ///
    /// # Errors
    /// Keys cannot be made, or not be written.
    pub fn protect(
        &mut self,
        protection: Protection,
        cipher: Cipher,
        cluster: &str,
    ) -> Result<(), Failure> {
        self.keys = Keys::make(protection, cipher, cluster)?;
        Ok(())
    }

    /// Starts a process on a host of its own. `arguments` are those of this same program; where
    /// they end, those that say which network to use are added.
    ///
    /// # Errors
    /// It, or its host, cannot be made.
    pub fn start(&mut self, name: &str, arguments: &[&str]) -> Result<ProcessIndex, Failure> {
        let mut arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let mut host = None;
        match &mut self.hosts {
            HostSet::Lab(lab) => {
                host = Some(lab.add_host()?);
                if self.family == Family::V6 {
                    arguments.push("--ipv6".to_owned());
                }
            }
            HostSet::Loopback {
                discovery,
                data_port,
            } => {
                // The service's address says the interface, and that any port will do.
                let address = localhost(self.family);
                let place = match arguments.first().map(String::as_str) {
                    Some("gms") => [
                        "--listen".to_owned(),
                        SocketAddr::new(address, 0).to_string(),
                    ],
                    _ => ["--interface".to_owned(), address.to_string()],
                };
                arguments.extend(place);
                arguments.extend(["--discovery".to_owned(), discovery.to_string()]);
                arguments.extend(["--data-port".to_owned(), data_port.to_string()]);
            }
        }
        if let Some(keys) = self.keys.as_ref().filter(|_| is_member(&arguments)) {
            let service = arguments.first().is_some_and(|word| word == "gms");
            arguments.extend(keys.options(self.processes.len(), service)?);
        }
        if self.gathering.is_some() && is_member(&arguments) {
            // Each at a port of its own.
            arguments.push("--metrics=127.0.0.1:0".to_owned());
        }
        let (handle, stdin) = self.spawn(self.processes.len(), 0, host, &arguments)?;
        self.processes.push(GroupProcess {
            name: name.to_owned(),
            arguments,
            host,
            handle,
            stdin,
            life: 0,
        });
        Ok(self.processes.len() - 1)
    }

    /// Kills a process (SIGKILL), and waits until it has ended.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self, index: ProcessIndex) -> Result<(), Failure> {
        let process = &mut self.processes[index];
        process.handle.kill()?;
        // Not before: one that reads the end of its input might still say goodbye.
        process.stdin = None;
        Ok(())
    }

    /// Starts a process that was killed once more, on its old host.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn restart(&mut self, index: ProcessIndex) -> Result<(), Failure> {
        let GroupProcess {
            life,
            host,
            ref arguments,
            ..
        } = self.processes[index];
        let arguments = arguments.clone();
        let (handle, stdin) = self.spawn(index, life + 1, host, &arguments)?;
        let process = &mut self.processes[index];
        (process.handle, process.stdin, process.life) = (handle, stdin, life + 1);
        Ok(())
    }

    /// Tells a process something. One that has ended is found so by its silence.
    pub fn tell(&mut self, index: ProcessIndex, told: &impl Serialize) {
        if let Some(stdin) = &mut self.processes[index].stdin
            && let Ok(mut line) = serde_json::to_vec(told)
        {
            line.push(b'\n');
            if stdin.write_all(&line).is_err() {
                self.processes[index].stdin = None;
            }
        }
    }

    /// A process's name.
    #[must_use]
    pub fn name(&self, index: ProcessIndex) -> &str {
        &self.processes[index].name
    }

    /// In which of its lives it is, from 0.
    #[must_use]
    pub fn life(&self, index: ProcessIndex) -> u32 {
        self.processes[index].life
    }

    /// Number of processes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.processes.len()
    }

    /// The address of a process's host.
    #[must_use]
    pub fn address(&self, index: ProcessIndex) -> IpAddr {
        match (&self.hosts, self.processes[index].host) {
            (HostSet::Lab(lab), Some(host)) => {
                let host = lab.host(host);
                let v6 = host.address_v6().map(IpAddr::from);
                v6.unwrap_or_else(|| host.address().into())
            }
            _ => localhost(self.family),
        }
    }

    fn spawn(
        &mut self,
        index: ProcessIndex,
        life: u32,
        host: Option<HostId>,
        arguments: &[String],
    ) -> Result<(ProcessHandle, Option<ChildStdin>), Failure> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::piped());
        let (handle, stdin, stdout, stderr) = match (&mut self.hosts, host) {
            (HostSet::Lab(lab), Some(host)) => {
                let mut process = lab.spawn(host, command, Output::Piped)?;
                let stdin = process.take_stdin();
                let (stdout, stderr) = (process.take_stdout(), process.take_stderr());
                (ProcessHandle::OnHost(process), stdin, stdout, stderr)
            }
            _ => {
                let started = command
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn();
                let mut child = started.map_err(|error| Failure::io("start a process", &error))?;
                let stdin = child.stdin.take();
                let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
                (ProcessHandle::Here(child), stdin, stdout, stderr)
            }
        };
        let service = arguments.first().is_some_and(|word| word == "gms");
        if let Some(stdout) = stdout {
            read_lines(stdout, self.lines.clone(), index, life, move |line| {
                parse(line, service)
            });
        }
        if let Some(stderr) = stderr {
            let gathering = self.gathering.clone();
            let namespace = match (&self.hosts, host) {
                (HostSet::Lab(lab), Some(host)) => Some(lab.host(host).namespace().clone()),
                _ => None,
            };
            read_lines(stderr, self.lines.clone(), index, life, move |line| {
                if let Some(gathering) = &gathering {
                    gathering.note(index, namespace.as_ref(), &line);
                }
                ProcessLine::Error(line)
            });
        }
        Ok((handle, stdin))
    }
}

impl ProcessHandle {
    fn kill(&mut self) -> Result<(), Failure> {
        match self {
            Self::OnHost(process) => process.kill().map(drop).map_err(Failure::from),
            Self::Here(child) => child
                .kill()
                .and_then(|()| child.wait())
                .map(drop)
                .map_err(|error| Failure::io("kill a process", &error)),
        }
    }
}

impl<S> Drop for ProcessGroup<S> {
    fn drop(&mut self) {
        if let Some(gathering) = &self.gathering {
            gathering.clear();
        }
        for process in &mut self.processes {
            process.stdin = None;
            if let Err(failure) = process.handle.kill() {
                _ = writeln!(stderr(), "{failure}");
            }
        }
    }
}

/// Tells whether a command is a node or a service: the bare sockets of `qsm bench raw` are none.
fn is_member(arguments: &[String]) -> bool {
    let words: Vec<&str> = arguments.iter().take(2).map(String::as_str).collect();
    words != ["bench", "raw"]
}

fn localhost(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Addresses and ports that no other command on this host uses at the same time, as far as
/// process numbers can tell.
fn loopback_hosts(family: Family) -> HostSet {
    let (first, count) = PORTS;
    // Less than `count`.
    let port = first + (std::process::id() % u32::from(count)) as u16 * 2;
    HostSet::Loopback {
        discovery: match family {
            Family::V4 => SocketAddr::from(([239, 192, 83, 78], port)),
            Family::V6 => SocketAddr::from(([0xff15, 0, 0, 0, 0, 0, 0x8000, 0x534e], port)),
        },
        data_port: port + 1,
    }
}

/// Reads lines in a thread of its own, until there are no more or nobody wants them.
fn read_lines<R, F, S>(
    from: R,
    to: SyncSender<ProcessOutput<S>>,
    process: ProcessIndex,
    life: u32,
    parse: F,
) where
    R: Read + Send + 'static,
    F: Fn(String) -> ProcessLine<S> + Send + 'static,
    S: Send + 'static,
{
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let line = parse(line);
            if to
                .send(ProcessOutput {
                    process,
                    life,
                    line,
                })
                .is_err()
            {
                return;
            }
        }
        // Whoever does not listen need not know.
        drop(to.send(ProcessOutput {
            process,
            life,
            line: ProcessLine::End,
        }));
    });
}

fn parse<S: DeserializeOwned>(line: String, service: bool) -> ProcessLine<S> {
    let parsed = match service {
        true => serde_json::from_str(&line).map(ProcessLine::Service),
        false => serde_json::from_str(&line).map(ProcessLine::Message),
    };
    parsed.unwrap_or(ProcessLine::Error(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that says `true` when it may begin, and `false` when its input ends.
    const FAREWELL: [&str; 2] = [
        "-c",
        "echo true; while read -r line; do :; done; echo false",
    ];

    #[test]
    fn a_killed_process_has_no_time_for_a_farewell() {
        let mut group = ProcessGroup::<bool>::new(true, Family::V4).unwrap();
        group.program = PathBuf::from("/bin/sh");
        for round in 0..200 {
            let index = group.start("shell", &FAREWELL).unwrap();
            assert!(matches!(
                group.output.recv().unwrap().line,
                ProcessLine::Message(true)
            ));
            group.kill(index).unwrap();
            for _stdout_and_stderr in 0..2 {
                let output = group.output.recv().unwrap();
                assert!(matches!(output.line, ProcessLine::End), "round {round}");
            }
        }
    }
}
