//! Processes with replicas, and what they tell.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use lab::{Actor, HostId, Lab};

use super::told::{State, Told, parse};
use crate::clock;
use crate::cluster::Failure;

/// Longest wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time for a process that is told to end.
const ENDING: Duration = Duration::from_secs(5);
/// Port of the membership service on a host of its own.
const SERVICE_PORT: u16 = 4481;
/// Marks that are remembered, to compare later ones with.
const MARKS: usize = 4096;

/// Processes that there are to be.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program `system-node`, for the membership service.
    pub service: PathBuf,
    /// The program `system-replica`.
    pub replica: PathBuf,
    /// Hosts of a lab; without, everything goes over loopback.
    pub lab: bool,
    /// Hosts for replicas.
    pub hosts: usize,
    /// Updates are applied in a total order.
    pub total: bool,
    /// Bytes of the state.
    pub state: usize,
    /// Bytes of an update.
    pub bytes: usize,
    /// Updates between two marks; 0: none.
    pub mark: u64,
    /// Bytes of updates that may wait while a snapshot comes.
    pub held: Option<usize>,
}

/// A process with a replica.
#[derive(Debug)]
pub struct Member {
    /// Its number, from 0 in the order of their births.
    pub id: usize,
    /// The place of its host.
    pub host: usize,
    child: Child,
    input: ChildStdin,
    /// When it became live, microseconds.
    pub live: Option<u64>,
    /// It is one of so many that vote, or none.
    pub voters: u64,
    /// The last term in which it was the sequencer.
    pub sequencer: u64,
    /// Its latest mark.
    pub mark: Option<State>,
    /// It was told to end.
    quits: bool,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Member {
    /// SIGKILL.
    fn kill(&mut self) {
        // Both fail only if it has ended already, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Tells it a line.
    ///
    /// # Errors
    /// It has ended.
    pub fn tell(&mut self, line: &str) -> Result<(), Failure> {
        Ok(writeln!(self.input, "{line}")?)
    }
}

/// An event at a process.
#[derive(Debug, Clone)]
pub struct Event {
    /// Its number.
    pub id: usize,
    /// Time of it, microseconds of the machine's clock.
    pub at: u64,
    /// The word itself.
    pub told: Told,
}

/// All processes. Dropping it ends them, and removes their hosts.
#[derive(Debug)]
pub struct Stage {
    plan: Plan,
    members: Vec<Member>,
    born: usize,
    _service: Actor,
    service: SocketAddr,
    cluster: String,
    put: Sender<(usize, Option<String>)>,
    lines: Receiver<(usize, Option<String>)>,
    /// Hash after so many updates, as the first told that said it.
    marks: BTreeMap<u64, u64>,
    histories: usize,
    /// Marks that were compared with another one's.
    pub compared: u64,
    /// Faults found, in words.
    pub faults: Vec<String>,
    hosts: Vec<HostId>,
    lab: Option<Lab>,
}

impl Stage {
    /// Makes the hosts and starts the membership service.
    ///
    /// # Errors
    /// Hosts cannot be made, or the service does not start.
    pub fn open(plan: Plan) -> Result<Self, Failure> {
        let (mut lab, mut hosts) = (None, Vec::new());
        if plan.lab {
            let mut made = Lab::new()?;
            hosts = made.add_hosts(plan.hosts + 1)?;
            lab = Some(made);
        }
        let own = std::process::id();
        let cluster = format!("joins-{own}-{}", clock::nanos());
        let service = match (&lab, hosts.last()) {
            (Some(lab), Some(host)) => SocketAddr::from((lab.host(*host).address(), SERVICE_PORT)),
            _ => free_address()?,
        };
        let command = command(lab.as_ref(), hosts.last().copied(), &plan.service);
        let mut command = command.described(&cluster, service);
        // It tells who comes and goes, which replicas tell better.
        command.arg("--serve").stderr(Stdio::null());
        let actor = Actor::start("service", command, PATIENCE)?;
        actor.expect("serving")?;
        let (put, lines) = channel();
        Ok(Self {
            plan,
            members: Vec::new(),
            born: 0,
            _service: actor,
            service,
            cluster,
            put,
            lines,
            marks: BTreeMap::new(),
            histories: 0,
            compared: 0,
            faults: Vec::new(),
            hosts,
            lab,
        })
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The lab, and its hosts for replicas.
    #[must_use]
    pub fn lab(&self) -> Option<(&Lab, &[HostId])> {
        let (_, hosts) = self.hosts.split_last()?;
        Some((self.lab.as_ref()?, hosts))
    }

    /// Processes that run, the oldest first.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// A process that runs.
    pub fn member(&mut self, id: usize) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    /// Starts a process on the host with the fewest; returns its number.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&mut self) -> Result<usize, Failure> {
        let id = self.born;
        let load = |host: &usize| self.members.iter().filter(|it| it.host == *host).count();
        let host = (0..self.plan.hosts).min_by_key(load).unwrap_or(0);
        let place = self.hosts.get(host).copied();
        let command = command(self.lab.as_ref(), place, &self.plan.replica);
        let mut command = command.described(&self.cluster, self.service);
        command.args(["--name", &format!("replica-{id}")]);
        if self.members.is_empty() && self.born == 0 {
            command.args(["--state", &self.plan.state.to_string()]);
        }
        command.args(["--bytes", &self.plan.bytes.to_string()]);
        command.args(["--mark", &self.plan.mark.to_string()]);
        if let Some(held) = self.plan.held {
            command.args(["--held", &held.to_string()]);
        }
        if self.plan.total {
            command.arg("--total");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or("a pipe is missing")?;
        let output = child.stdout.take().ok_or("a pipe is missing")?;
        let put = self.put.clone();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            let sent = lines.map(Some).chain([None]);
            // The director may have gone.
            sent.map(|line| put.send((id, line))).all(|it| it.is_ok())
        });
        self.members.push(Member {
            id,
            host,
            child,
            input,
            live: None,
            voters: 0,
            sequencer: 0,
            mark: None,
            quits: false,
        });
        self.born += 1;
        Ok(id)
    }

    /// SIGKILL to a process.
    pub fn kill(&mut self, id: usize) {
        self.members.retain(|member| member.id != id);
    }

    /// Ends a process as it should be ended, and waits for that.
    ///
    /// # Errors
    /// It does not end.
    pub fn quit(&mut self, id: usize) -> Result<(), Failure> {
        let member = self.member(id).ok_or("there is no such process")?;
        member.tell("quit")?;
        member.quits = true;
        let until = Instant::now() + ENDING;
        while let Some(event) = self.next(until)? {
            if event.id == id && event.told == Told::Ended {
                self.kill(id);
                return Ok(());
            }
        }
        self.kill(id);
        Err(format!("replica {id} does not end").into())
    }

    /// The next event, if there is one before this time. What has to hold of all is checked.
    ///
    /// # Errors
    /// A process says what is none of its lines.
    pub fn next(&mut self, until: Instant) -> Result<Option<Event>, Failure> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let (id, line) = match self.lines.recv_timeout(left) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err("all have ended".into()),
            };
            let (at, told) = match line {
                None => (clock::nanos() / 1000, Told::Ended),
                Some(line) => parse(&line).ok_or_else(|| format!("replica {id} said: {line}"))?,
            };
            if let Told::Mark { state, .. } = told {
                // Of the dead, too.
                self.compare(id, state);
            }
            if self.note(id, at, &told) {
                return Ok(Some(Event { id, at, told }));
            }
        }
    }

    /// Waits for an event.
    ///
    /// # Errors
    /// It does not come in time.
    pub fn wait(
        &mut self,
        what: &str,
        mut found: impl FnMut(&Event) -> bool,
    ) -> Result<Event, Failure> {
        let until = Instant::now() + PATIENCE;
        while let Some(event) = self.next(until)? {
            if found(&event) {
                return Ok(event);
            }
        }
        Err(format!("there is no {what}").into())
    }

    /// Starts a process and waits until its replica is live.
    ///
    /// # Errors
    /// It is not.
    pub fn start_live(&mut self) -> Result<usize, Failure> {
        let id = self.start()?;
        let live = |event: &Event| event.id == id && matches!(event.told, Told::Live { .. });
        self.wait("live replica", live)?;
        Ok(id)
    }

    /// Notes an event of a process that runs; false if it runs no more.
    fn note(&mut self, id: usize, at: u64, told: &Told) -> bool {
        let Some(member) = self.members.iter_mut().find(|member| member.id == id) else {
            return false;
        };
        match told {
            Told::Live { founded } => {
                member.live = Some(at);
                self.histories += usize::from(*founded);
                if *founded && self.histories > 1 {
                    self.faults
                        .push(format!("replica {id} began another history"));
                }
            }
            Told::Rebinds(_) => (member.live, member.voters) = (None, 0),
            Told::Votes(voters) => member.voters = *voters,
            Told::Sequencer { term, own: true } => member.sequencer = *term,
            Told::Mark { state, .. } => member.mark = Some(*state),
            Told::Ended if !member.quits => self.faults.push(format!("replica {id} has ended")),
            Told::Failed(error) => self.faults.push(format!("replica {id}: {error}")),
            _ => {}
        }
        true
    }

    /// Compares a mark with those of others.
    fn compare(&mut self, id: usize, state: State) {
        match self.marks.get(&state.count) {
            None => {
                self.marks.insert(state.count, state.hash);
                if self.marks.len() > MARKS {
                    self.marks.pop_first();
                }
            }
            Some(hash) => {
                self.compared += 1;
                if *hash != state.hash {
                    let count = state.count;
                    let found = format!("replica {id} has another state after {count} updates");
                    self.faults.push(found);
                }
            }
        }
    }
}

/// A command without its options, and the interface of its host.
struct Bare {
    command: Command,
    interface: String,
}

impl Bare {
    fn described(mut self, cluster: &str, service: SocketAddr) -> Command {
        let service = service.to_string();
        let options = ["--interface", &self.interface, "--cluster", cluster];
        self.command.args(options).args(["--service", &service]);
        self.command
    }
}

fn command(lab: Option<&Lab>, host: Option<HostId>, program: &Path) -> Bare {
    match (lab, host) {
        (Some(lab), Some(host)) => Bare {
            command: lab.command(host, program),
            interface: lab.host(host).interface().to_owned(),
        },
        _ => Bare {
            command: Command::new(program),
            interface: String::from("lo"),
        },
    }
}

/// An address of loopback that nobody listens at.
fn free_address() -> Result<SocketAddr, Failure> {
    let socket = UdpSocket::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0))?;
    Ok(socket.local_addr()?)
}
