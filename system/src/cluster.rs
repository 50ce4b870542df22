//! A cluster of `system-node` processes on hosts of a lab of its own.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lab::{Actor, Damage, Direction, HostId, LOSS_PPM_MAX, Lab, Spared};

use qsm::admin::{Answer, GroupState, NodeSocket, Question};

use crate::transport::Transport;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(120);
const SERVICE_PORT: u16 = 4481;
const GROUP: &str = "pulse";
/// From an address of a host to one that no host has.
const ELSEWHERE: u128 = 0x900;
/// Bytes of a control packet in which a bit may be damaged: those of its header, and the first ones
/// of what it says. No control packet is much shorter.
const HEAD: u16 = 32;
/// The kind of a packet is its second byte; 1 is data.
const DATA: Spared = Spared { at: 1, byte: 1 };

/// Anything that ends an experiment.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The program `system-node` beside the one that runs.
#[must_use]
pub fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name("system-node")
}

/// A cluster to be.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program `system-node`.
    pub program: PathBuf,
    /// Nodes that receive.
    pub receivers: usize,
    /// Nodes that publish and receive nothing.
    pub publishers: usize,
    /// Nodes that publish besides receiving: the first ones.
    pub both: usize,
    /// Groups, or those of each core thread. All receivers are in all of them.
    pub groups: usize,
    /// The service has a host of its own; otherwise the last receiver embeds it, and others follow
    /// if need be.
    pub own_service: bool,
    /// Options of the service, or of all nodes where it is embedded.
    pub service_options: Vec<String>,
    /// Options of all receivers.
    pub receiver_options: Vec<String>,
    /// Options of the last receiver.
    pub last_options: Vec<String>,
    /// Options of the nodes that publish and receive nothing.
    pub publisher_options: Vec<String>,
    /// The ways in which receivers read, as `watch` of `system-node` takes them; by upcalls where
    /// nothing is said.
    pub ways: Vec<String>,
    /// The transport between all of them.
    pub transport: Transport,
}

impl Plan {
    /// So many receivers, a publisher, and a service on a host of its own.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, receivers: usize) -> Self {
        Self {
            program: program.into(),
            receivers,
            publishers: 1,
            both: 0,
            groups: 1,
            own_service: true,
            service_options: Vec::new(),
            receiver_options: Vec::new(),
            last_options: Vec::new(),
            publisher_options: Vec::new(),
            ways: Vec::new(),
            transport: Transport::default(),
        }
    }
}

/// What has come of one sender, at one receiver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Total {
    /// The sender's life.
    pub life: u64,
    /// Number of its first message here.
    pub first: u64,
    /// The number after the last one that came or is told to be lost.
    pub next: u64,
    /// Messages delivered.
    pub messages: u64,
    /// Messages that were not the next ones: missing without a word, out of order, or twice.
    pub disorder: u64,
    /// Messages told to be lost.
    pub lost: u64,
    /// Ranges of them.
    pub ranges: Vec<String>,
}

/// A check of every message that a thread has read, of one sender in one life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readings {
    /// Messages that came.
    pub came: u64,
    /// Messages told to be lost.
    pub lost: u64,
    /// Numbers that came or were lost more than once.
    pub twice: u64,
    /// Messages that are not those that their number demands.
    pub wrong: u64,
    /// Messages that came after a later one; where the newest of each key is read, of their key.
    pub backward: u64,
    /// Keys of which there was a message, where the newest of each is read.
    pub keys: u64,
    /// The oldest of their newest messages.
    pub oldest: u64,
}

/// One phase of one sender, at one receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phase {
    /// Messages delivered.
    pub messages: u64,
    /// Longest time without one.
    pub gap: Duration,
    /// Median time from publishing to delivery.
    pub p50: Duration,
    /// 99th percentile of that.
    pub p99: Duration,
}

impl Phase {
    /// The worst of both in each respect.
    fn worse(self, other: Self) -> Self {
        Self {
            messages: self.messages.min(other.messages),
            gap: self.gap.max(other.gap),
            p50: self.p50.max(other.p50),
            p99: self.p99.max(other.p99),
        }
    }
}

/// Running processes. Dropping it ends them, and removes their hosts.
#[derive(Debug)]
pub struct Cluster {
    plan: Plan,
    members: Vec<Member>,
    service: Option<Actor>,
    /// A second service, which somebody has started by mistake.
    rival: Option<Actor>,
    hosts: Vec<HostId>,
    /// Where engines are attached to.
    folder: PathBuf,
    lab: Lab,
}

/// A node, and the process that publishes or receives by it, if that is another one.
#[derive(Debug)]
struct Member {
    node: Actor,
    attached: Option<Actor>,
    /// Identities of its core threads.
    ids: Vec<u64>,
}

impl Member {
    /// The process that publishes or receives.
    fn user(&mut self) -> &mut Actor {
        self.attached.as_mut().unwrap_or(&mut self.node)
    }
}

impl Cluster {
    /// Starts everything; all receivers are in one region, its leader first.
    ///
    /// # Errors
    /// Hosts cannot be made, or a process fails.
    pub fn start(mut plan: Plan) -> Result<Self, Failure> {
        plan.transport = plan.transport.where_possible();
        let mut lab = plan.transport.lab()?;
        let hosts = lab.add_hosts(plan.receivers + plan.publishers + 1)?;
        plan.transport.prepare(&lab, &hosts)?;
        let folder = std::env::temp_dir().join(lab.prefix());
        std::fs::create_dir_all(&folder)?;
        let mut cluster = Self {
            plan,
            members: Vec::new(),
            service: None,
            rival: None,
            hosts,
            folder,
            lab,
        };
        if cluster.plan.own_service {
            cluster.start_service()?;
        }
        cluster.start_nodes()?;
        Ok(cluster)
    }

    fn start_service(&mut self) -> Result<(), Failure> {
        let mut command = self.command(self.service_host());
        command.arg("--serve").args(&self.plan.service_options);
        let actor = Actor::start("service", command, PATIENCE)?;
        actor.expect("serving")?;
        self.service = Some(actor);
        Ok(())
    }

    fn start_nodes(&mut self) -> Result<(), Failure> {
        let last = self.plan.receivers - 1;
        let count = last + 1 + self.plan.publishers;
        let embedding = (!self.plan.own_service).then(|| self.start_node(last));
        let mut embedding = embedding.transpose()?;
        for index in 0..count {
            let early = embedding.take_if(|_| index == last);
            let mut member = early.map_or_else(|| self.start_node(index), Ok)?;
            if index <= last {
                let groups = self.plan.groups;
                let way = self.plan.ways.get(index).map_or("", String::as_str);
                let line = format!("watch {GROUP} {groups} {way}");
                member.user().ask(&line, "watching")?;
            }
            self.members.push(member);
        }
        Ok(())
    }

    fn start_node(&self, index: usize) -> Result<Member, Failure> {
        let mut command = self.command(self.hosts[index]);
        // Nodes that lose packets do not lose the same ones.
        command.args(["--seed", &(index + 1).to_string()]);
        command.args(match index < self.plan.receivers {
            true => &self.plan.receiver_options,
            false => &self.plan.publisher_options,
        });
        if index + 1 == self.plan.receivers {
            command.args(&self.plan.last_options);
            command.args((!self.plan.own_service).then_some("--embed"));
        }
        if !self.plan.own_service {
            command.args(&self.plan.service_options);
        }
        let shared = self.folder.join(index.to_string());
        let shared = (self.plan.transport == Transport::Engine).then_some(shared);
        if let Some(path) = &shared {
            command.arg("--share").arg(path);
        }
        let node = Actor::start(format!("node {index}"), command, PATIENCE)?;
        let ids = node.expect("ready")?;
        let ids = ids.split_whitespace().map(str::parse);
        let ids = ids.collect::<Result<_, _>>()?;
        let attached = shared.map(|path| self.attach(index, &path)).transpose()?;
        Ok(Member {
            node,
            attached,
            ids,
        })
    }

    /// Starts a process that uses the node that is shared at this path.
    fn attach(&self, index: usize, path: &Path) -> Result<Actor, Failure> {
        let mut command = self.lab.command(self.hosts[index], &self.plan.program);
        command.arg("--attach").arg(path);
        let actor = Actor::start(format!("attached {index}"), command, PATIENCE)?;
        actor.expect("ready")?;
        Ok(actor)
    }

    fn service_host(&self) -> HostId {
        self.hosts[self.hosts.len() - 1]
    }

    fn command(&self, host: HostId) -> Command {
        let mut command = self.lab.command(host, &self.plan.program);
        let transport = self.plan.transport;
        transport.describe(&mut command, self.lab.host(host));
        command.args(["--cluster", "system"]);
        if self.plan.own_service {
            let service = self.lab.host(self.service_host());
            let address = transport.service(service, SERVICE_PORT);
            command.args(["--service", &address.to_string()]);
        }
        command
    }

    /// The nodes that receive.
    #[must_use]
    pub fn receivers(&self) -> Range<usize> {
        0..self.plan.receivers
    }

    /// The nodes that publish.
    pub fn senders(&self) -> impl Iterator<Item = usize> + use<> {
        let alone = self.plan.receivers..self.plan.receivers + self.plan.publishers;
        (0..self.plan.both).chain(alone)
    }

    /// The identities of a node: one for each core thread.
    #[must_use]
    pub fn ids(&self, node: usize) -> &[u64] {
        &self.members[node].ids
    }

    /// Tells the process that publishes or receives something, and returns the rest of its answer.
    ///
    /// # Errors
    /// It says something else, or nothing.
    pub fn ask(&mut self, node: usize, line: &str, word: &str) -> Result<String, Failure> {
        Ok(self.members[node].user().ask(line, word)?)
    }

    /// Asks the service, on a host of its own, what has happened.
    ///
    /// # Errors
    /// It does not answer, or there is none.
    pub fn service_events(&mut self) -> Result<String, Failure> {
        let service = self.service.as_mut().ok_or("there is no such service")?;
        Ok(service.ask("events", "events")?)
    }

    /// Asks the second service what has happened.
    ///
    /// # Errors
    /// It does not answer, or there is none.
    pub fn rival_events(&mut self) -> Result<String, Failure> {
        let rival = self.rival.as_mut().ok_or("there is no such service")?;
        Ok(rival.ask("events", "events")?)
    }

    /// A counter of a node, or of the service.
    ///
    /// # Errors
    /// It does not answer, or has no such counter.
    pub fn counter(&mut self, node: Option<usize>, name: &str) -> Result<u64, Failure> {
        let [value] = self.counters(node, [name])?;
        Ok(value)
    }

    /// Counters of a node, or of the service, at one moment.
    ///
    /// # Errors
    /// It does not answer, or has no such counter.
    pub fn counters<const N: usize>(
        &mut self,
        node: Option<usize>,
        names: [&str; N],
    ) -> Result<[u64; N], Failure> {
        let actor = match node {
            Some(node) => self.members.get_mut(node).map(|member| &mut member.node),
            None => self.service.as_mut(),
        };
        let actor = actor.ok_or("there is no such process")?;
        let report = actor.ask("report", "report")?;
        let mut values = [0; N];
        for (found, name) in values.iter_mut().zip(names) {
            *found = value(&report, name)?;
        }
        Ok(values)
    }

    /// A check's result at a receiver whose thread reads, when it is done with so many messages.
    ///
    /// # Errors
    /// It is not done with them in time, or no thread reads there.
    pub fn readings(&mut self, node: usize, count: u64) -> Result<Readings, Failure> {
        let line = self.ask(node, &format!("readings {count}"), "readings")?;
        Ok(Readings {
            came: value(&line, "came")?,
            lost: value(&line, "lost")?,
            twice: value(&line, "twice")?,
            wrong: value(&line, "wrong")?,
            backward: value(&line, "backward")?,
            keys: value(&line, "keys")?,
            oldest: value(&line, "oldest")?,
        })
    }

    /// Messages that a node has published since it began to.
    ///
    /// # Errors
    /// It fails.
    pub fn published(&mut self, node: usize) -> Result<u64, Failure> {
        Ok(self.ask(node, "published", "published")?.parse()?)
    }

    /// All nodes as one of them has them from the service: `ID=ADDRESS[,REASON] ...`.
    ///
    /// # Errors
    /// It fails.
    pub fn nodes_known_to(&mut self, node: usize) -> Result<String, Failure> {
        Ok(self.members[node].node.ask("nodes", "nodes")?)
    }

    /// Starts a second service, on the host of a node.
    ///
    /// # Errors
    /// It fails.
    pub fn start_rival(&mut self, node: usize) -> Result<(), Failure> {
        let host = self.hosts[node];
        let mut command = self.lab.command(host, &self.plan.program);
        let transport = self.plan.transport;
        transport.describe(&mut command, self.lab.host(host));
        let address = transport.service(self.lab.host(host), SERVICE_PORT);
        command.args(["--cluster", "system", "--serve"]);
        command.args(["--service", &address.to_string()]);
        command.args(&self.plan.service_options);
        let actor = Actor::start("rival", command, PATIENCE)?;
        actor.expect("serving")?;
        self.rival = Some(actor);
        Ok(())
    }

    /// Gives a host another address of the same network.
    ///
    /// # Errors
    /// The host's `ip` fails.
    pub fn change_address(&self, host: HostId) -> Result<(), Failure> {
        let known = self.lab.host(host);
        let interface = known.interface();
        let (from, to, rest) = match known.address_v6() {
            Some(from) => {
                let to = Ipv6Addr::from_bits(from.to_bits() + ELSEWHERE);
                (IpAddr::from(from), IpAddr::from(to), "/64")
            }
            None => {
                let from = known.address();
                let to = Ipv4Addr::from_bits(from.to_bits() + ELSEWHERE as u32);
                (IpAddr::from(from), IpAddr::from(to), "/16")
            }
        };
        for (verb, address) in [("del", from), ("add", to)] {
            let mut ip = self.lab.command(host, "ip");
            let address = format!("{address}{rest}");
            let status = ip
                .args(["addr", verb, &address, "dev", interface])
                .status()?;
            if !status.success() {
                return Err(format!("ip addr {verb} {address}: {status}").into());
            }
        }
        Ok(())
    }

    /// Damages one of a hundred control packets at each host, or none.
    ///
    /// # Errors
    /// The lab cannot do it.
    pub fn damage_control(&self, on: bool) -> Result<(), Failure> {
        let damage = Damage {
            ppm: if on { LOSS_PPM_MAX / 100 } else { 0 },
            within: HEAD,
            spared: Some(DATA),
        };
        for host in &self.hosts {
            self.lab.set_damage(*host, damage)?;
        }
        Ok(())
    }

    /// Lets all senders publish, so many messages a second each; with 0 as fast as they can.
    ///
    /// # Errors
    /// A node fails.
    pub fn publish(&mut self, bytes: usize, rate: u64) -> Result<(), Failure> {
        for node in self.senders() {
            let others = self.plan.receivers - usize::from(node < self.plan.receivers);
            let groups = self.plan.groups;
            let line = format!("pulse {GROUP} {groups} {others} {bytes} {rate}");
            self.ask(node, &line, "pulsing")?;
        }
        Ok(())
    }

    /// Lets all senders publish so many messages a second each from now on; with 0 as fast as they can.
    ///
    /// # Errors
    /// A node fails, or does not publish.
    pub fn set_rate(&mut self, rate: u64) -> Result<(), Failure> {
        for node in self.senders() {
            self.ask(node, &format!("rate {rate}"), "paced")?;
        }
        Ok(())
    }

    /// Messages that all senders have published since they began to.
    ///
    /// # Errors
    /// A node fails.
    pub fn published_by_all(&mut self) -> Result<u64, Failure> {
        let senders = self.senders();
        senders.map(|node| self.published(node)).sum()
    }

    /// Messages that have come, or are told to be lost, at a receiver.
    ///
    /// # Errors
    /// It fails.
    pub fn known(&mut self, node: usize) -> Result<u64, Failure> {
        Ok(self.ask(node, "now", "now")?.parse()?)
    }

    /// The first group, of nodes with one core thread, as a node explains it: the answer of its local socket, which
    /// `qsm explain GROUP --json` writes as `group`.
    ///
    /// # Errors
    /// The node does not answer, or has nothing to do with the group.
    pub fn explain(&self, node: usize) -> Result<GroupState, Failure> {
        let _there = self.lab.enter(self.hosts[node])?;
        let nodes = NodeSocket::all()?;
        let [socket] = &nodes[..] else {
            return Err(format!("{} nodes of a host can be asked", nodes.len()).into());
        };
        let name = format!("{GROUP}/0");
        match socket.ask(&Question::Group { name })? {
            Answer::Group(Some(group)) => Ok(group),
            other => Err(format!("a node does not explain its group: {other:?}").into()),
        }
    }

    /// Ends publishing; returns how many messages each sender has published.
    ///
    /// # Errors
    /// A node fails.
    pub fn stop(&mut self) -> Result<BTreeMap<usize, u64>, Failure> {
        let mut counts = BTreeMap::new();
        for node in self.senders() {
            counts.insert(node, self.ask(node, "stop", "stopped")?.parse()?);
        }
        Ok(counts)
    }

    /// Begins a new phase at a receiver; returns the former one, by sender's identity.
    ///
    /// # Errors
    /// It fails.
    pub fn phase(&mut self, node: usize) -> Result<BTreeMap<u64, Phase>, Failure> {
        let line = self.ask(node, "phase", "phase")?;
        line.split_whitespace().map(read_phase).collect()
    }

    /// Begins a new phase at these receivers; returns the worst of the former ones, but those of these
    /// senders.
    ///
    /// # Errors
    /// One fails.
    pub fn worst_phase(
        &mut self,
        nodes: impl Iterator<Item = usize>,
        but: &[u64],
    ) -> Result<Phase, Failure> {
        let mut phases = Vec::new();
        for node in nodes {
            let theirs = self.phase(node)?.into_iter();
            phases.extend(theirs.filter(|(id, _)| !but.contains(id)));
        }
        let worst = phases.into_iter().map(|(_, phase)| phase);
        Ok(worst.reduce(Phase::worse).unwrap_or_default())
    }

    /// All that has come at a receiver, for every life of a sender.
    ///
    /// # Errors
    /// It fails.
    pub fn totals(&mut self, node: usize) -> Result<Vec<SenderTotal>, Failure> {
        let line = self.ask(node, "totals", "totals")?;
        line.split_whitespace().map(read_total).collect()
    }

    /// The lives of a node: one for each core thread.
    ///
    /// # Errors
    /// It fails.
    pub fn lives(&mut self, node: usize) -> Result<String, Failure> {
        Ok(self.members[node].node.ask("lives", "lives")?)
    }

    /// Events of a node so far.
    ///
    /// # Errors
    /// It fails.
    pub fn events(&mut self, node: usize) -> Result<String, Failure> {
        Ok(self.members[node].node.ask("events", "events")?)
    }

    /// The process that runs a node, or the service.
    ///
    /// # Errors
    /// There is no such service.
    pub fn actor(&self, node: Option<usize>) -> Result<&Actor, Failure> {
        let actor = match node {
            Some(node) => self.members.get(node).map(|member| &member.node),
            None => self.service.as_ref(),
        };
        Ok(actor.ok_or("there is no such process")?)
    }

    /// The host of a node, or of the service.
    #[must_use]
    pub fn host(&self, node: Option<usize>) -> HostId {
        node.map_or_else(|| self.service_host(), |node| self.hosts[node])
    }

    /// All hosts, the service's among them.
    #[must_use]
    pub fn hosts(&self) -> &[HostId] {
        &self.hosts
    }

    /// The lab that they are in.
    #[must_use]
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Cuts off these hosts from all others, or from the other nodes alone.
    ///
    /// # Errors
    /// The lab cannot do it.
    pub fn cut(&self, hosts: &[HostId], scope: Scope) -> Result<(), Failure> {
        let service = self.service_host();
        let others = self.hosts.iter().copied();
        let others = others.filter(|host| !hosts.contains(host));
        let others: Vec<HostId> = others
            .filter(|host| scope == Scope::All || *host != service)
            .collect();
        let direction = match scope {
            Scope::Muted => Direction::AToB,
            Scope::All | Scope::Nodes => Direction::Both,
        };
        Ok(self.lab.split(hosts, &others, direction)?)
    }

    /// Ends all processes in order.
    ///
    /// # Errors
    /// One does not end with success.
    pub fn quit(mut self) -> Result<(), Failure> {
        // Receivers first would be missed by the senders.
        let members = std::mem::take(&mut self.members).into_iter().rev();
        let nodes = members.flat_map(|member| member.attached.into_iter().chain([member.node]));
        let services = [self.service.take(), self.rival.take()];
        for mut actor in nodes.chain(services.into_iter().flatten()) {
            actor.tell("quit")?;
            let status = actor.wait_end()?;
            if !status.success() {
                return Err(format!("a process ended with {status}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.members.clear();
        // What is left lies among temporary files.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Those whom a host does not reach any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everybody, both ways.
    All,
    /// All nodes, both ways; the service is reached.
    Nodes,
    /// The nodes do not hear the host, but it hears them; the service is reached.
    Muted,
}

/// What has come of a sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SenderTotal {
    /// Its identity.
    pub sender: u64,
    /// What has come.
    pub total: Total,
}

fn numbers(text: &str) -> Result<Vec<u64>, Failure> {
    let words = text.split(',').filter(|word| !word.contains('-'));
    Ok(words.map(str::parse).collect::<Result<_, _>>()?)
}

/// The value of a name in a line of `NAME=VALUE`.
fn value(line: &str, name: &str) -> Result<u64, Failure> {
    let mut pairs = line.split(' ').filter_map(|pair| pair.split_once('='));
    let value = pairs.find(|pair| pair.0 == name).map(|pair| pair.1);
    let value = value.ok_or_else(|| format!("there is no {name} in: {line}"))?;
    Ok(value.parse()?)
}

fn entry(word: &str) -> Result<(u64, &str), Failure> {
    let (sender, values) = word.split_once('=').ok_or("not an entry")?;
    Ok((sender.parse()?, values))
}

fn read_phase(word: &str) -> Result<(u64, Phase), Failure> {
    let (sender, values) = entry(word)?;
    let [messages, gap, p50, p99] = numbers(values)?[..] else {
        return Err("not a phase".into());
    };
    let phase = Phase {
        messages,
        gap: Duration::from_micros(gap),
        p50: Duration::from_micros(p50),
        p99: Duration::from_micros(p99),
    };
    Ok((sender, phase))
}

fn read_total(word: &str) -> Result<SenderTotal, Failure> {
    let (sender, values) = entry(word)?;
    let [life, first, next, messages, disorder, lost] = numbers(values)?[..] else {
        return Err("not a total".into());
    };
    let ranges = values.split(',').filter(|word| word.contains('-'));
    let total = Total {
        life,
        first,
        next,
        messages,
        disorder,
        lost,
        ranges: ranges.map(str::to_owned).collect(),
    };
    Ok(SenderTotal { sender, total })
}
