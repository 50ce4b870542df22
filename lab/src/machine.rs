//! The lab itself: a switch, the hosts around it, and what is done to them.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::availability;
use crate::damage::{self, Damage};
use crate::error::{LabError, Unavailable};
use crate::lane::LinkCounters;
use crate::link::{Link, LinkId};
use crate::namespace::{Guard, Namespace};
use crate::network::Network;
use crate::process::{Output, Process, SharedChild};
use crate::registry::{self, Registration};
use crate::rules::{self, Direction, Drops, Traffic, Translation};
use crate::shape::LinkShape;
use crate::site::{Joined, SiteId};
use crate::tap::Tap;
use crate::tool::{ETHTOOL, IP, NFT};

/// Most hosts in a lab: a Linux bridge has at most 1024 ports (`BR_PORT_BITS`).
pub const HOSTS_MAX: usize = 1000;

/// Most processes of a lab that run at the same time; those that have ended do not count.
pub const PROCESSES_MAX: usize = 4096;

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// How the switch treats multicast. Measured on kernel 6.18: only [`Switch::Querier`] saves the
/// other hosts anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Switch {
    /// To all hosts (no snooping).
    #[default]
    Flood,
    /// Snooping, but nobody asks hosts for their memberships: a common fault of real networks
    /// (R236). It floods.
    SnoopingWithoutQuerier,
    /// Snooping with a querier: to members only. The switch floods for about 10 s first, until the
    /// first answers are in.
    Querier,
}

impl Switch {
    fn options(self) -> &'static str {
        match self {
            Self::Flood => "mcast_snooping 0",
            Self::SnoopingWithoutQuerier => "mcast_snooping 1 mcast_querier 0",
            Self::Querier => "mcast_snooping 1 mcast_querier 1",
        }
    }
}

/// Names a host of one lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId {
    lab: u32,
    index: usize,
}

impl HostId {
    /// Its place in the order in which the lab's hosts were added, from 0.
    #[must_use]
    pub fn index(self) -> usize {
        self.index
    }
}

/// A host: a network namespace with one interface on the switch, or one on each of two.
#[derive(Debug)]
pub struct Host {
    namespace: Namespace,
    name: String,
    /// Its place among the lab's hosts.
    index: usize,
    site: SiteId,
    networks: Vec<Network>,
    ipv6: bool,
}

impl Host {
    /// Its name within the lab: `h0`, `h1`, …
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its namespace; the name is unique on the machine.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Its address on the switch.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        Network::First.address(self.index)
    }

    /// Its address of IPv6 on the switch, in a lab that has them ([`Lab::with_ipv6`]).
    #[must_use]
    pub fn address_v6(&self) -> Option<Ipv6Addr> {
        self.v6(Network::First).next()
    }

    /// Its link-local address on the switch, in a lab with IPv6.
    #[must_use]
    pub fn link_address_v6(&self) -> Option<Ipv6Addr> {
        self.v6(Network::First).last()
    }

    fn v6(&self, network: Network) -> impl Iterator<Item = Ipv6Addr> {
        let addresses = self.ipv6.then(|| network.addresses_v6(self.index));
        addresses.into_iter().flatten()
    }

    /// Lines for `ip`: addresses of IPv6, which the kernel drops with the link.
    fn add_addresses_v6(&self) -> String {
        let mut lines = String::new();
        for network in &self.networks {
            for address in self.v6(*network) {
                lines += &format!("addr add {address}/64 dev {} nodad\n", network.interface());
            }
        }
        lines
    }

    /// A line for `ip`: multicast of IPv4 leaves by the interface on the switch.
    fn add_multicast_route(&self) -> String {
        format!("route add 224.0.0.0/4 dev {}\n", self.interface())
    }

    /// On all its networks.
    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.networks.iter().flat_map(|network| {
            let v4 = IpAddr::from(network.address(self.index));
            core::iter::once(v4).chain(self.v6(*network).map(IpAddr::from))
        })
    }

    /// Its interface on the switch, by which multicast leaves.
    #[must_use]
    pub fn interface(&self) -> &str {
        Network::First.interface()
    }

    /// Its interface on the second network, in a lab that has one ([`Lab::and_second_network`]).
    #[must_use]
    pub fn second_interface(&self) -> Option<&str> {
        let second = self.networks.get(1)?;
        Some(second.interface())
    }
}

/// A switch and hosts around it. See the crate's text for what is cleaned up and when.
#[derive(Debug)]
pub struct Lab {
    serial: u32,
    /// How many processes were ever started, to name their output files.
    started: u64,
    /// Those that may still run.
    processes: Vec<SharedChild>,
    hosts: Vec<Host>,
    ipv6: bool,
    networks: Vec<Network>,
    kind: Switch,
    joined: Joined,
    links: Vec<Link>,
    switch: Namespace,
    /// Dropped last, which deletes the namespaces.
    registration: Registration,
}

impl Lab {
    /// Whether this machine can run a lab; tries it in a throw-away namespace (some 20 ms).
    ///
    /// # Errors
    ///
    /// The reason and the remedy.
    pub fn available() -> Result<(), Unavailable> {
        availability::check()
    }

    /// A lab with a switch that floods multicast, and no hosts. Removes stale labs first.
    ///
    /// # Errors
    ///
    /// Any [`LabError`]; nothing is left behind.
    pub fn new() -> Result<Self, LabError> {
        Self::with_switch(Switch::default())
    }

    /// As [`Lab::new`], but hosts have addresses of IPv6 as well: one of fd00:78::/64 and a
    /// link-local one, which end in the host's number, from 1. Multicast of IPv6 works on `lo`, too.
    ///
    /// # Errors
    ///
    /// Any [`LabError`]; nothing is left behind.
    pub fn with_ipv6() -> Result<Self, LabError> {
        let mut lab = Self::new()?;
        lab.ipv6 = true;
        Ok(lab)
    }

    /// As [`Lab::new`], with a switch of this kind.
    ///
    /// # Errors
    ///
    /// Any [`LabError`]; nothing is left behind.
    pub fn with_switch(kind: Switch) -> Result<Self, LabError> {
        let registration = Registration::new()?;
        let name = format!("{}-switch", registration.prefix());
        IP.run(None, &["-batch", "-"], &format!("netns add {name}\n"))?;
        let switch = Namespace::open(name)?;
        switch.disable_ipv6()?;
        let batch = format!(
            "link set lo up\nlink add switch type bridge {}\nlink set switch up\n",
            kind.options()
        );
        IP.run(Some(&switch), &["-batch", "-"], &batch)?;
        let mut joined = Joined::default();
        joined.add_site();
        Ok(Self {
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            started: 0,
            processes: Vec::new(),
            hosts: Vec::new(),
            ipv6: false,
            networks: vec![Network::First],
            kind,
            joined,
            links: Vec::new(),
            switch,
            registration,
        })
    }

    /// Hosts added from now on are on a second network as well, whose switch floods multicast, by an
    /// interface of their own and with addresses of 10.79.0.0/16 and fd00:79::/64. Loss and splits
    /// are of both networks; [`Lab::set_network`] is of one.
    ///
    /// # Errors
    ///
    /// [`LabError::Command`].
    pub fn and_second_network(mut self) -> Result<Self, LabError> {
        let (bridge, options) = (Network::Second.bridge(), Switch::Flood.options());
        let batch = format!("link add {bridge} type bridge {options}\nlink set {bridge} up\n");
        IP.run(Some(&self.switch), &["-batch", "-"], &batch)?;
        self.networks.push(Network::Second);
        Ok(self)
    }

    /// Whether a network carries anything, the first one at the first site. While it does not its hosts notice nothing but silence:
    /// their interfaces stay up.
    ///
    /// # Errors
    ///
    /// [`LabError::Command`]: also if the lab has no such network.
    pub fn set_network(&self, network: Network, works: bool) -> Result<(), LabError> {
        let state = if works { "up" } else { "down" };
        let args = ["link", "set", network.bridge(), state];
        IP.run(Some(&self.switch), &args, "")?;
        match works {
            true => self.switch.await_link(network.bridge()),
            false => Ok(()),
        }
    }

    /// Sets the interfaces of a host down or up, as an administrator, or a driver that resets its
    /// card. Down loses the routes and the addresses of IPv6; when it is up they are there again, as
    /// a host's network manager sees to it.
    ///
    /// # Errors
    ///
    /// [`LabError::ForeignHost`] or [`LabError::Command`].
    pub fn set_link(&self, id: HostId, up: bool) -> Result<(), LabError> {
        let host = self.find(id)?;
        let state = if up { "up" } else { "down" };
        let mut batch = String::new();
        for network in &host.networks {
            batch += &format!("link set {} {state}\n", network.interface());
        }
        if up {
            batch += &host.add_addresses_v6();
            batch += &host.add_multicast_route();
        }
        IP.run(Some(&host.namespace), &["-batch", "-"], &batch)?;
        let networks = host.networks.iter().filter(|_| up);
        for network in networks {
            host.namespace.await_link(network.interface())?;
            self.switch.await_link(&network.port(&host.name))?;
        }
        Ok(())
    }

    /// Removes the labs of processes that have ended without doing so; returns their prefixes. Labs
    /// of living processes, this one included, are left alone.
    ///
    /// # Errors
    ///
    /// [`LabError::System`] or [`LabError::Command`].
    pub fn reap_stale() -> Result<Vec<String>, LabError> {
        registry::reap_stale()
    }

    /// The start of the names of all namespaces of this lab, unique on the machine, e.g.
    /// `qsm4a2f-1`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        self.registration.prefix()
    }

    /// The namespace of the switch; its ports are called as the hosts are.
    #[must_use]
    pub fn switch(&self) -> &Namespace {
        &self.switch
    }

    /// Adds a host: an address of 10.78.0.0/16 on `eth0`, multicast routed to it, loopback up, no
    /// loss. It can send and receive when this returns.
    ///
    /// # Errors
    ///
    /// Any [`LabError`]; the host is then removed again.
    pub fn add_host(&mut self) -> Result<HostId, LabError> {
        self.add_host_at(self.first_site())
    }

    /// As [`Lab::add_host`], at the switch of this site.
    ///
    /// # Errors
    ///
    /// Any [`LabError`]; the host is then removed again.
    pub fn add_host_at(&mut self, site: SiteId) -> Result<HostId, LabError> {
        self.find_site(site)?;
        if self.hosts.len() >= HOSTS_MAX {
            return Err(LabError::TooManyHosts);
        }
        let index = self.hosts.len();
        let name = format!("h{index}");
        let full = format!("{}-{name}", self.prefix());
        match self.make_host(name, full.clone(), site) {
            Ok(host) => {
                self.hosts.push(host);
                Ok(HostId {
                    lab: self.serial,
                    index,
                })
            }
            Err(error) => {
                // The first failure says more than one of the removal, which the lab's end tries
                // again.
                registry::delete_namespaces(&[full]).unwrap_or_default();
                Err(error)
            }
        }
    }

    /// Adds this many hosts.
    ///
    /// # Errors
    ///
    /// As [`Lab::add_host`]; the hosts added before the failing one stay.
    pub fn add_hosts(&mut self, count: usize) -> Result<Vec<HostId>, LabError> {
        (0..count).map(|_| self.add_host()).collect()
    }

    fn make_host(&self, name: String, full: String, site: SiteId) -> Result<Host, LabError> {
        let mut outside = format!("netns add {full}\n");
        for network in &self.networks {
            let (port, interface) = (network.port(&name), network.interface());
            let bridge = network.bridge_at(site);
            outside += &format!(
                "link add {port} type veth peer name {interface} netns {full}\n\
                 link set {port} master {bridge} up\n"
            );
        }
        IP.run(Some(&self.switch), &["-batch", "-"], &outside)?;
        let host = Host {
            namespace: Namespace::open(full)?,
            name,
            index: self.hosts.len(),
            site,
            networks: self.networks.clone(),
            ipv6: self.ipv6,
        };
        self.set_up(&host)?;
        Ok(host)
    }

    fn set_up(&self, host: &Host) -> Result<(), LabError> {
        let namespace = &host.namespace;
        if !self.ipv6 {
            namespace.disable_ipv6()?;
        }
        let mut inside = String::from("link set lo up\n");
        for network in &host.networks {
            let interface = network.interface();
            if self.ipv6 {
                namespace.settle_ipv6(interface)?;
            }
            let address = network.address(host.index);
            inside += &format!("addr add {address}/16 dev {interface}\nlink set {interface} up\n");
        }
        inside += &host.add_addresses_v6();
        inside += &host.add_multicast_route();
        if self.ipv6 {
            inside += "route add local ff00::/8 dev lo\n";
        }
        IP.run(Some(namespace), &["-batch", "-"], &inside)?;
        let addresses: Vec<IpAddr> = host.addresses().collect();
        NFT.run(Some(namespace), &["-f", "-"], &rules::table(&addresses))?;
        for network in &host.networks {
            namespace.await_link(network.interface())?;
            self.switch.await_link(&network.port(&host.name))?;
            self.switch.await_link(&network.bridge_at(host.site))?;
        }
        Ok(())
    }

    /// The site that every lab has.
    #[must_use]
    pub fn first_site(&self) -> SiteId {
        SiteId {
            lab: self.serial,
            index: 0,
        }
    }

    /// Adds a site: a switch of the same kind, which links alone join with others. All sites' hosts
    /// have addresses of the same network. A second network is the same for all sites.
    ///
    /// # Errors
    ///
    /// [`LabError::Command`].
    pub fn add_site(&mut self) -> Result<SiteId, LabError> {
        let site = SiteId {
            lab: self.serial,
            index: self.joined.sites(),
        };
        let (bridge, options) = (Network::First.bridge_at(site), self.kind.options());
        let batch = format!("link add {bridge} type bridge {options}\nlink set {bridge} up\n");
        IP.run(Some(&self.switch), &["-batch", "-"], &batch)?;
        self.joined.add_site();
        Ok(site)
    }

    /// Joins two sites by a link, until the lab ends. It carries IP between single hosts, and no
    /// multicast.
    ///
    /// # Errors
    ///
    /// [`LabError::BadLink`] for properties that cannot be had, and if links join the two already:
    /// switches would send packets around in a loop. [`LabError::ForeignLink`],
    /// [`LabError::System`] or [`LabError::Command`].
    pub fn link(&mut self, a: SiteId, b: SiteId, shape: LinkShape) -> Result<LinkId, LabError> {
        shape.check()?;
        self.find_site(a)?;
        self.find_site(b)?;
        if !self.joined.join(a, b) {
            let wrong =
                "links would form a loop; leave one out, so that there is one way between sites";
            return Err(LabError::BadLink { wrong });
        }
        let index = self.links.len();
        let ends = [(a, "a"), (b, "b")]
            .map(|(site, end)| (Network::First.bridge_at(site), format!("link{index}{end}")));
        let make = |(_, name): &(String, String)| Tap::new(&self.switch, name);
        let taps = [make(&ends[0])?, make(&ends[1])?];
        let mut batch = String::new();
        for (bridge, name) in &ends {
            batch += &format!("link set {name} txqueuelen 10000 master {bridge} up\n");
        }
        IP.run(Some(&self.switch), &["-batch", "-"], &batch)?;
        self.links.push(Link::start(taps, shape)?);
        for (_, name) in &ends {
            self.switch.await_link(name)?;
        }
        Ok(LinkId {
            lab: self.serial,
            index,
        })
    }

    /// Changes what a link does to packets that go in from now on, in mid-stream. Its seed stays.
    ///
    /// # Errors
    ///
    /// [`LabError::BadLink`] or [`LabError::ForeignLink`].
    pub fn reshape(&self, id: LinkId, shape: LinkShape) -> Result<(), LabError> {
        shape.check()?;
        self.find_link(id)?.reshape(shape);
        Ok(())
    }

    /// Counters of a link's two directions: from the first of its sites, and to it.
    ///
    /// # Errors
    ///
    /// [`LabError::ForeignLink`].
    pub fn link_counters(&self, id: LinkId) -> Result<[LinkCounters; 2], LabError> {
        Ok(self.find_link(id)?.counters())
    }

    /// Makes a UDP port of a host seem another one to another host, as a translator of addresses (NAT)
    /// does; and again, in mid-stream. Of IPv4. Replaces the host's former translation.
    ///
    /// # Errors
    ///
    /// [`LabError::ForeignHost`] or [`LabError::Command`].
    pub fn translate(&self, id: HostId, of: Translation, towards: HostId) -> Result<(), LabError> {
        let other = self.find(towards)?.address();
        self.apply(self.find(id)?, &rules::translation(of, other))
    }

    fn find_site(&self, site: SiteId) -> Result<(), LabError> {
        match site.lab == self.serial && site.index < self.joined.sites() {
            true => Ok(()),
            false => Err(LabError::ForeignLink),
        }
    }

    fn find_link(&self, id: LinkId) -> Result<&Link, LabError> {
        let own = self.links.get(id.index).filter(|_| id.lab == self.serial);
        own.ok_or(LabError::ForeignLink)
    }

    /// All hosts, in the order in which they were added.
    pub fn host_ids(&self) -> impl ExactSizeIterator<Item = HostId> + use<> {
        let lab = self.serial;
        (0..self.hosts.len()).map(move |index| HostId { lab, index })
    }

    /// A host of this lab.
    ///
    /// # Panics
    ///
    /// If the id is another lab's.
    #[must_use]
    pub fn host(&self, id: HostId) -> &Host {
        match self.find(id) {
            Ok(host) => host,
            Err(error) => panic!("{error}"),
        }
    }

    fn find(&self, id: HostId) -> Result<&Host, LabError> {
        let own = self.hosts.get(id.index).filter(|_| id.lab == self.serial);
        own.ok_or(LabError::ForeignHost { host: id })
    }

    fn find_all(&self, ids: &[HostId]) -> Result<Vec<&Host>, LabError> {
        ids.iter().map(|&id| self.find(id)).collect()
    }

    /// A command that runs on the host, for what is short and waited for. Use [`Lab::spawn`] for
    /// what runs longer; whatever still runs on the host when the lab ends is killed.
    ///
    /// # Panics
    ///
    /// If the id is another lab's.
    #[must_use]
    pub fn command(&self, id: HostId, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.host(id).namespace.attach(&mut command);
        command
    }

    /// Starts a command, from [`Lab::command`] or any other, on the host. The lab kills it at the
    /// end at the latest.
    ///
    /// # Errors
    ///
    /// [`LabError::TooManyProcesses`], [`LabError::ForeignHost`], or [`LabError::System`] if it
    /// cannot be started.
    pub fn spawn(
        &mut self,
        id: HostId,
        mut command: Command,
        output: Output,
    ) -> Result<Process, LabError> {
        self.processes.retain(SharedChild::running);
        if self.processes.len() >= PROCESSES_MAX {
            return Err(LabError::TooManyProcesses);
        }
        let host = self.find(id)?;
        host.namespace.attach(&mut command);
        let stem = self
            .registration
            .output()
            .join(format!("{}-{}", host.name, self.started));
        self.started += 1;
        let (process, child) = Process::start(id, command, output, &stem)?;
        self.processes.push(child);
        Ok(process)
    }

    /// Moves the calling thread onto the host until the guard is dropped, to make sockets there.
    ///
    /// # Errors
    ///
    /// [`LabError::ForeignHost`] or [`LabError::System`].
    pub fn enter(&self, id: HostId) -> Result<Guard, LabError> {
        self.find(id)?.namespace.enter()
    }

    /// Loses, at random, `ppm` of a million UDP packets that arrive at the host from others, and
    /// counts them ([`Lab::drops`]). Replaces the former loss of that traffic; 0 ends it.
    ///
    /// # Errors
    ///
    /// [`LabError::LossOutOfRange`], [`LabError::ForeignHost`] or [`LabError::Command`].
    pub fn set_loss(&self, id: HostId, ppm: u32, which: Traffic) -> Result<(), LabError> {
        self.apply(self.find(id)?, &rules::loss(ppm, which)?)
    }

    /// Splits the network: `b` drops all IP packets from `a`, and for [`Direction::Both`] `a` those
    /// from `b`. Adds to the splits there are. A host on both sides still hears itself.
    ///
    /// # Errors
    ///
    /// [`LabError::ForeignHost`], before anything is changed, or [`LabError::Command`].
    pub fn split(&self, a: &[HostId], b: &[HostId], direction: Direction) -> Result<(), LabError> {
        let (a, b) = (self.find_all(a)?, self.find_all(b)?);
        self.cut(&a, &b)?;
        match direction {
            Direction::AToB => Ok(()),
            Direction::Both => self.cut(&b, &a),
        }
    }

    fn cut(&self, from: &[&Host], to: &[&Host]) -> Result<(), LabError> {
        if from.is_empty() {
            return Ok(());
        }
        let addresses: Vec<IpAddr> = from.iter().flat_map(|host| host.addresses()).collect();
        let text = rules::cut(&addresses);
        to.iter().try_for_each(|host| self.apply(host, &text))
    }

    /// Ends all network splits. Loss stays as it is.
    ///
    /// # Errors
    ///
    /// [`LabError::Command`].
    pub fn heal(&self) -> Result<(), LabError> {
        self.hosts
            .iter()
            .try_for_each(|host| self.apply(host, rules::HEAL))
    }

    fn apply(&self, host: &Host, text: &str) -> Result<(), LabError> {
        NFT.run(Some(&host.namespace), &["-f", "-"], text).map(drop)
    }

    /// With `on`, the kernel cuts GSO trains that the host sends before they reach the wire, so
    /// that loss meets single packets; without, trains cross the lab whole (the default).
    ///
    /// # Errors
    ///
    /// [`LabError::Unavailable`] without `ethtool`, [`LabError::ForeignHost`] or
    /// [`LabError::Command`].
    pub fn segment_on_wire(&self, id: HostId, on: bool) -> Result<(), LabError> {
        let offload = if on { "off" } else { "on" };
        let host = self.find(id)?;
        host.networks.iter().try_for_each(|network| {
            let args = ["-K", network.interface(), "tx-udp-segmentation", offload];
            ETHTOOL.run(Some(&host.namespace), &args, "").map(drop)
        })
    }

    /// Changes a bit, at random, of UDP packets that arrive at the host from others, such that UDP's
    /// checksum does not find it. Replaces the former damage.
    ///
    /// # Errors
    ///
    /// [`LabError::LossOutOfRange`], [`LabError::ForeignHost`] or [`LabError::Command`].
    pub fn set_damage(&self, id: HostId, of: Damage) -> Result<(), LabError> {
        self.apply(self.find(id)?, &damage::damage(of)?)
    }

    /// What the host's rules have dropped so far.
    ///
    /// # Errors
    ///
    /// [`LabError::ForeignHost`] or [`LabError::Command`].
    pub fn drops(&self, id: HostId) -> Result<Drops, LabError> {
        self.counted(id, rules::parse_drops)
    }

    /// Packets that the host's rules have damaged so far.
    ///
    /// # Errors
    ///
    /// [`LabError::ForeignHost`] or [`LabError::Command`].
    pub fn damaged(&self, id: HostId) -> Result<u64, LabError> {
        self.counted(id, |listed| rules::packets(listed, "damaged"))
    }

    fn counted<T>(&self, id: HostId, read: impl Fn(&str) -> Option<T>) -> Result<T, LabError> {
        let listed = NFT.run(Some(&self.find(id)?.namespace), &rules::LIST_COUNTERS, "")?;
        read(&listed).ok_or_else(|| LabError::Command {
            line: format!("nft {}", rules::LIST_COUNTERS.join(" ")),
            stderr: format!("not the expected counters: {listed}"),
            remedy: "use nftables 1.0 or newer, and leave the table `lab` alone",
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in self.processes.drain(..) {
            if let Err(error) = child.kill() {
                eprintln!(
                    "lab {}: cannot kill a process: {error}",
                    self.registration.prefix()
                );
            }
        }
    }
}
