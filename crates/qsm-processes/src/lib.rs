//! Processes of this program that a command starts and talks with, and the hosts they run on:
//! network namespaces where the system permits them, else this host's loopback interface.

#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use lab::{HostId, Lab, Output, Process};
use qsm::Family;
use qsm_console::failure::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Lines that wait for the director.
const LINES_MAX: usize = 4096;

/// Where ports for clusters on loopback begin, and how many are used. Below those that the system
/// hands out by itself.
const PORTS: (u16, u16) = (20_000, 6_000);

/// Which process of the cast, in the order in which they were first started.
pub type Place = usize;

/// Something a process wrote.
#[derive(Debug)]
pub enum Line<S> {
    /// What its kind says, as JSON.
    Said(S),
    /// The membership service.
    Service(Value),
    /// To standard error.
    Error(String),
    /// Nothing more: it has ended.
    End,
}

/// A line, who wrote it, and in which of its lives.
#[derive(Debug)]
pub struct Heard<S> {
    /// Who.
    pub who: Place,
    /// How often it had been started before.
    pub life: u32,
    /// What.
    pub line: Line<S>,
}

#[derive(Debug)]
enum Hosts {
    Lab(Box<Lab>),
    Loopback {
        discovery: SocketAddr,
        data_port: u16,
    },
}

#[derive(Debug)]
enum Handle {
    OnHost(Process),
    Here(Child),
}

#[derive(Debug)]
struct Actor {
    name: String,
    arguments: Vec<String>,
    host: Option<HostId>,
    handle: Handle,
    stdin: Option<ChildStdin>,
    life: u32,
}

/// All processes, which say `S`. Dropping it kills them, and removes the hosts.
#[derive(Debug)]
pub struct Cast<S> {
    actors: Vec<Actor>,
    hosts: Hosts,
    program: PathBuf,
    family: Family,
    lines: SyncSender<Heard<S>>,
    /// What they write.
    pub heard: Receiver<Heard<S>>,
    /// Why there are no namespaces, if there are none.
    pub without_lab: Option<String>,
}

impl<S: DeserializeOwned + Send + 'static> Cast<S> {
    /// Nobody yet; `loopback` does without namespaces also where there could be some. All will use
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
                (Hosts::Lab(Box::new(lab?)), None)
            }
            Err(why) => (loopback_hosts(family), Some(why)),
        };
        let (lines, heard) = sync_channel(LINES_MAX);
        Ok(Self {
            actors: Vec::new(),
            hosts,
            program,
            family,
            lines,
            heard,
            without_lab,
        })
    }

    /// Starts a process on a host of its own. `arguments` are those of this same program; where
    /// they end, those that say which network to use are added.
    ///
    /// # Errors
    /// It, or its host, cannot be made.
    pub fn start(&mut self, name: &str, arguments: &[&str]) -> Result<Place, Failure> {
        let mut arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        let mut host = None;
        match &mut self.hosts {
            Hosts::Lab(lab) => {
                host = Some(lab.add_host()?);
                if self.family == Family::V6 {
                    arguments.push("--ipv6".to_owned());
                }
            }
            Hosts::Loopback {
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
        let (handle, stdin) = self.spawn(self.actors.len(), 0, host, &arguments)?;
        self.actors.push(Actor {
            name: name.to_owned(),
            arguments,
            host,
            handle,
            stdin,
            life: 0,
        });
        Ok(self.actors.len() - 1)
    }

    /// Kills a process (SIGKILL), and waits until it has ended.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self, who: Place) -> Result<(), Failure> {
        let actor = &mut self.actors[who];
        actor.handle.kill()?;
        // Not before: one that reads the end of its input might still say goodbye.
        actor.stdin = None;
        Ok(())
    }

    /// Starts a process that was killed once more, on its old host.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn restart(&mut self, who: Place) -> Result<(), Failure> {
        let Actor {
            life,
            host,
            ref arguments,
            ..
        } = self.actors[who];
        let arguments = arguments.clone();
        let (handle, stdin) = self.spawn(who, life + 1, host, &arguments)?;
        let actor = &mut self.actors[who];
        (actor.handle, actor.stdin, actor.life) = (handle, stdin, life + 1);
        Ok(())
    }

    /// Tells a process something. One that has ended is found so by its silence.
    pub fn tell(&mut self, who: Place, told: &impl Serialize) {
        if let Some(stdin) = &mut self.actors[who].stdin
            && let Ok(mut line) = serde_json::to_vec(told)
        {
            line.push(b'\n');
            if stdin.write_all(&line).is_err() {
                self.actors[who].stdin = None;
            }
        }
    }

    /// A process's name.
    #[must_use]
    pub fn name(&self, who: Place) -> &str {
        &self.actors[who].name
    }

    /// In which of its lives it is, from 0.
    #[must_use]
    pub fn life(&self, who: Place) -> u32 {
        self.actors[who].life
    }

    /// How many processes there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.actors.len()
    }

    /// The address of a process's host.
    #[must_use]
    pub fn address(&self, who: Place) -> IpAddr {
        match (&self.hosts, self.actors[who].host) {
            (Hosts::Lab(lab), Some(host)) => {
                let host = lab.host(host);
                let v6 = host.address_v6().map(IpAddr::from);
                v6.unwrap_or_else(|| host.address().into())
            }
            _ => localhost(self.family),
        }
    }

    fn spawn(
        &mut self,
        who: Place,
        life: u32,
        host: Option<HostId>,
        arguments: &[String],
    ) -> Result<(Handle, Option<ChildStdin>), Failure> {
        let mut command = Command::new(&self.program);
        command.args(arguments).stdin(Stdio::piped());
        let (handle, stdin, stdout, stderr) = match (&mut self.hosts, host) {
            (Hosts::Lab(lab), Some(host)) => {
                let mut process = lab.spawn(host, command, Output::Piped)?;
                let stdin = process.take_stdin();
                let (stdout, stderr) = (process.take_stdout(), process.take_stderr());
                (Handle::OnHost(process), stdin, stdout, stderr)
            }
            _ => {
                let started = command
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn();
                let mut child = started.map_err(|error| Failure::io("start a process", &error))?;
                let stdin = child.stdin.take();
                let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
                (Handle::Here(child), stdin, stdout, stderr)
            }
        };
        let service = arguments.first().is_some_and(|word| word == "gms");
        if let Some(stdout) = stdout {
            listen(stdout, self.lines.clone(), (who, life), move |line| {
                parse(line, service)
            });
        }
        if let Some(stderr) = stderr {
            listen(stderr, self.lines.clone(), (who, life), Line::Error);
        }
        Ok((handle, stdin))
    }
}

impl Handle {
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

impl<S> Drop for Cast<S> {
    fn drop(&mut self) {
        for actor in &mut self.actors {
            actor.stdin = None;
            if let Err(failure) = actor.handle.kill() {
                eprintln!("{failure}");
            }
        }
    }
}

fn localhost(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Addresses and ports that no other command on this host uses at the same time, as far as
/// process numbers can tell.
fn loopback_hosts(family: Family) -> Hosts {
    let (first, count) = PORTS;
    // Less than `count`.
    let port = first + (std::process::id() % u32::from(count)) as u16 * 2;
    Hosts::Loopback {
        discovery: match family {
            Family::V4 => SocketAddr::from(([239, 192, 83, 78], port)),
            Family::V6 => SocketAddr::from(([0xff15, 0, 0, 0, 0, 0, 0x8000, 0x534e], port)),
        },
        data_port: port + 1,
    }
}

/// Reads lines in a thread of its own, until there are no more or nobody wants them.
fn listen<R, F, S>(from: R, to: SyncSender<Heard<S>>, (who, life): (Place, u32), parse: F)
where
    R: Read + Send + 'static,
    F: Fn(String) -> Line<S> + Send + 'static,
    S: Send + 'static,
{
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let line = parse(line);
            if to.send(Heard { who, life, line }).is_err() {
                return;
            }
        }
        // Whoever does not listen need not know.
        drop(to.send(Heard {
            who,
            life,
            line: Line::End,
        }));
    });
}

fn parse<S: DeserializeOwned>(line: String, service: bool) -> Line<S> {
    let parsed = match service {
        true => serde_json::from_str(&line).map(Line::Service),
        false => serde_json::from_str(&line).map(Line::Said),
    };
    parsed.unwrap_or(Line::Error(line))
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
        let mut cast = Cast::<bool>::new(true, Family::V4).unwrap();
        cast.program = PathBuf::from("/bin/sh");
        for round in 0..200 {
            let who = cast.start("shell", &FAREWELL).unwrap();
            assert!(matches!(cast.heard.recv().unwrap().line, Line::Said(true)));
            cast.kill(who).unwrap();
            for _stdout_and_stderr in 0..2 {
                let heard = cast.heard.recv().unwrap();
                assert!(matches!(heard.line, Line::End), "round {round}");
            }
        }
    }
}
