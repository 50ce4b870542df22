//! Real processes on hosts of a lab: a membership service on one, nodes on the others.

#![allow(dead_code, reason = "each test file uses its own part of the stage")]

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lab::{Actor, HostId, Lab, LabError, Network};
use qsm_system::transport::{filter_multicast, has_multicast};

const PATIENCE: Duration = Duration::from_secs(120);
const SERVICE_PORT: u16 = 4481;
/// Of the service's losses; those of nodes are their indices and one.
const SERVICE_SEED: usize = 1000;

/// Groups with the nodes (by index) that receive them.
pub(crate) type Layout = Vec<(String, Vec<usize>)>;

pub(crate) struct Stage {
    /// Nodes by index; a killed one is gone.
    pub(crate) nodes: BTreeMap<usize, Actor>,
    pub(crate) service: Option<Actor>,
    hosts: Vec<HostId>,
    directory: PathBuf,
    files: usize,
    /// Of the service.
    options: &'static [&'static str],
    /// At the receive side of the service, of a million packets.
    service_loss_ppm: u32,
    /// Hosts get it.
    multicast: bool,
    lab: Lab,
    /// One stage at a time: two on one machine would measure each other.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Stage {
    /// A lab with a running service and one host for each of `hosts` nodes; `None`, with a word
    /// why, where no lab can be made.
    pub(crate) fn new(hosts: usize) -> Option<Self> {
        Self::of(hosts, Lab::new, &[])
    }

    /// The same, all on two networks.
    pub(crate) fn with_two_networks(hosts: usize) -> Option<Self> {
        Self::of(hosts, || Lab::new()?.and_second_network(), &[])
    }

    /// The same, over IPv6.
    pub(crate) fn with_two_networks_of_ipv6(hosts: usize) -> Option<Self> {
        Self::of(hosts, || Lab::with_ipv6()?.and_second_network(), &[])
    }

    /// Moves the calling thread to the host of this node, which need not run.
    pub(crate) fn enter(&self, node: usize) -> lab::Guard {
        self.lab.enter(self.hosts[node]).unwrap()
    }

    /// Whether this network carries anything.
    pub(crate) fn set_network(&self, network: Network, works: bool) {
        self.lab.set_network(network, works).unwrap();
    }

    /// Runs `ip` with these words on the host of this node, which need not run.
    #[track_caller]
    pub(crate) fn ip(&self, node: usize, words: &str) {
        let mut command = self.lab.command(self.hosts[node], "ip");
        let status = command.args(words.split(' ')).status().unwrap();
        assert!(status.success(), "ip {words}: {status}");
    }

    /// The same, all over IPv6.
    pub(crate) fn with_ipv6(hosts: usize) -> Option<Self> {
        Self::of(hosts, Lab::with_ipv6, &[])
    }

    /// With this loss at the receive side of the service.
    pub(crate) fn with_lossy_service(hosts: usize, loss_ppm: u32) -> Option<Self> {
        let mut stage = Self::unserved(hosts, Lab::new, &[])?;
        stage.service_loss_ppm = loss_ppm;
        stage.start_service();
        Some(stage)
    }

    /// In such a lab, with these options of the service.
    pub(crate) fn of(
        hosts: usize,
        lab: fn() -> Result<Lab, LabError>,
        options: &'static [&'static str],
    ) -> Option<Self> {
        let mut stage = Self::unserved(hosts, lab, options)?;
        stage.start_service();
        Some(stage)
    }

    fn unserved(
        hosts: usize,
        lab: fn() -> Result<Lab, LabError>,
        options: &'static [&'static str],
    ) -> Option<Self> {
        if !lab::ready() {
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lab = lab().unwrap();
        let hosts = lab.add_hosts(hosts + 1).unwrap();
        let multicast = has_multicast();
        if !multicast {
            filter_multicast(&lab, &hosts, true).unwrap();
        }
        let directory = std::env::temp_dir().join(lab.prefix());
        std::fs::create_dir_all(&directory).unwrap();
        Some(Self {
            nodes: BTreeMap::new(),
            service: None,
            hosts,
            directory,
            files: 0,
            options,
            service_loss_ppm: 0,
            multicast,
            lab,
            _alone: alone,
        })
    }

    pub(crate) fn start_service(&mut self) {
        let host = self.hosts[self.hosts.len() - 1];
        let mut command = self.command(host);
        command.arg("--serve").args(self.options);
        faults(&mut command, self.service_loss_ppm, SERVICE_SEED);
        let actor = Actor::start("service", command, PATIENCE).unwrap();
        actor.expect("serving").unwrap();
        self.service = Some(actor);
    }

    /// Starts node `index` on its host, with this loss at its receive side.
    pub(crate) fn start(&mut self, index: usize, loss_ppm: u32) {
        let mut command = self.command(self.hosts[index]);
        faults(&mut command, loss_ppm, index + 1);
        let actor = Actor::start(format!("node {index}"), command, PATIENCE).unwrap();
        actor.expect("ready").unwrap();
        self.nodes.insert(index, actor);
    }

    fn command(&self, host: HostId) -> Command {
        let mut command = self.lab.command(host, env!("CARGO_BIN_EXE_system-node"));
        let service = self.lab.host(self.hosts[self.hosts.len() - 1]);
        let v6 = service.address_v6().map(IpAddr::from);
        let service = v6.unwrap_or_else(|| service.address().into());
        let service = SocketAddr::new(service, SERVICE_PORT);
        command.args([
            "--interface",
            self.lab.host(host).interface(),
            "--cluster",
            "system",
        ]);
        if let Some(second) = self.lab.host(host).second_interface() {
            command.args(["--interface", second]);
        }
        command.args(["--service", &service.to_string()]);
        if !self.multicast {
            command.arg("--no-multicast");
        }
        command
    }

    pub(crate) fn ask(&mut self, node: usize, line: &str, word: &str) -> String {
        self.nodes.get_mut(&node).unwrap().ask(line, word).unwrap()
    }

    pub(crate) fn tell(&mut self, node: usize, line: &str) {
        self.nodes.get_mut(&node).unwrap().tell(line).unwrap();
    }

    pub(crate) fn expect(&self, node: usize, word: &str) -> String {
        self.nodes[&node].expect(word).unwrap()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, node: usize) {
        self.nodes.remove(&node).unwrap().kill();
    }

    /// Node `node` joins the groups that the layout gives it, in one request.
    pub(crate) fn subscribe(&mut self, node: usize, layout: &Layout) {
        let mine = layout.iter().filter(|(_, nodes)| nodes.contains(&node));
        let lines: String = mine.map(|(name, _)| format!("{name}\n")).collect();
        let path = self.file(&lines);
        self.ask(node, &format!("subscribe {path}"), "subscribed");
    }

    /// Node `node` becomes publisher of all groups and waits until all receivers are known to it.
    pub(crate) fn publish(&mut self, node: usize, layout: &Layout) {
        let lines = layout.iter().map(|(name, nodes)| {
            let others = nodes.iter().filter(|other| **other != node).count();
            format!("{name} {others}\n")
        });
        let path = self.file(&lines.collect::<String>());
        self.ask(node, &format!("publish {path}"), "publishing");
        self.ask(node, "members", "members");
    }

    /// Lets a node shut down; it has to succeed.
    pub(crate) fn quit(&mut self, node: usize) {
        let mut actor = self.nodes.remove(&node).unwrap();
        actor.tell("quit").unwrap();
        let status = actor.wait_end().unwrap();
        assert!(status.success(), "node {node}: {status}");
    }

    /// A node's counters by name.
    pub(crate) fn report(&mut self, node: usize) -> BTreeMap<String, u64> {
        let line = self.ask(node, "report", "report");
        line.split(' ')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
            .collect()
    }

    /// The sum of a counter over all nodes.
    pub(crate) fn total(&mut self, counter: &str) -> u64 {
        let nodes: Vec<usize> = self.nodes.keys().copied().collect();
        nodes
            .into_iter()
            .map(|node| self.report(node)[counter])
            .sum()
    }

    fn file(&mut self, text: &str) -> String {
        self.files += 1;
        let path = self.directory.join(self.files.to_string());
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

fn faults(command: &mut Command, loss_ppm: u32, seed: usize) {
    let [loss_ppm, seed] = [loss_ppm.to_string(), seed.to_string()];
    command.args(["--loss-ppm", &loss_ppm, "--seed", &seed]);
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.nodes.clear();
        self.service = None;
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

/// All nodes receive all groups.
pub(crate) fn exact(groups: usize, nodes: usize) -> Layout {
    (0..groups)
        .map(|group| (format!("exact/{group}"), (0..nodes).collect()))
        .collect()
}

/// A service on all nodes and one on the first half only: every second group is of the former
/// (R006, S0 figure 1).
pub(crate) fn hierarchical(groups: usize, nodes: usize) -> Layout {
    let reach = |group: usize| nodes >> (group & 1);
    (0..groups)
        .map(|group| (format!("level/{group}"), (0..reach(group)).collect()))
        .collect()
}

/// The two halves of the nodes have each its own choice of two groups in three, without order.
/// (A choice of its own for every node would make regions of one, where only the sender can
/// repair: such nodes are for approximate regions.)
pub(crate) fn irregular(groups: usize, nodes: usize) -> Layout {
    let has = |group: usize, half: usize| !((group * 7919 + half * 104_729) / 13).is_multiple_of(3);
    (0..groups)
        .map(|group| {
            let members = (0..nodes)
                .filter(|node| has(group, *node * 2 / nodes))
                .collect();
            (format!("irregular/{group}"), members)
        })
        .collect()
}

/// Messages that `node` gets when `count` are published to the layout's groups in turn.
pub(crate) fn share(layout: &Layout, node: usize, count: u64) -> u64 {
    let groups = layout.len() as u64;
    (0u64..)
        .zip(layout)
        .filter(|(_, (_, nodes))| nodes.contains(&node))
        .map(|(at, _)| count / groups + u64::from(at < count % groups))
        .sum()
}
