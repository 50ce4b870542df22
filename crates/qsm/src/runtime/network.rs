//! Sockets of nodes and services: where they are opened, and the multicast addresses of regions.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_queue::SegQueue;
use qsm_gms::{DISCOVERY_V4, DISCOVERY_V6};
use qsm_net::{
    Family, FaultConfig, Interface, InterfaceError, Offload, PortConfig, Ports, choose_interface,
    choose_unicast_interface,
};

use qsm_seal::{Cipher, ClusterKey};

use crate::admission::{Entrant, Entry, EntryNews, Identity, IdentityError};
use crate::error::StartError;
use crate::runtime::shield::Shield;

/// Default of [`ChannelOptions::port`]: 4484.
pub const DATA_PORT: u16 = 4484;

/// Multicast addresses that a membership service gives to regions. All services of a cluster must
/// have the same.
///
/// ```
/// use qsm::{ChannelOptions, Node};
///
/// let channels = ChannelOptions::new().port(4500).source_specific(true);
/// let builder = Node::builder().channels(channels);
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use = "options do nothing before a builder has them"]
pub struct ChannelOptions {
    /// First address and length of the prefix; `None`: the default of the family.
    pub(crate) range: Option<(IpAddr, u8)>,
    /// Without a range: those of which senders are named.
    pub(crate) source_specific: bool,
    pub(crate) port: u16,
}

impl ChannelOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Port of the addresses; [`DATA_PORT`] if not given.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Range of the addresses: the first, and the length of the prefix, 4 to 30, for IPv6 8 to 126.
    /// If not given, 239.192.0.0/14 or ff15::/64.
    pub fn range(mut self, first: IpAddr, prefix: u8) -> Self {
        self.range = Some((first, prefix));
        self
    }

    /// Source-specific addresses: 232.192.0.0/14, or ff35::/96. Nodes then receive from members and
    /// publishers of their regions only, whom the service names; what others send does not reach
    /// their sockets, and routers need no rendezvous point (RFC 4607). Addresses of 232.0.0.0/8 and
    /// ff3x::/32 given by [`ChannelOptions::range`] are source-specific as well.
    ///
    /// Finding a service by multicast is not source-specific: where routers pass nothing else,
    /// say where it is ([`Builder::service`](crate::Builder::service)).
    pub fn source_specific(mut self, source_specific: bool) -> Self {
        self.source_specific = source_specific;
        self
    }

    /// The range, if it is not the default of the family.
    pub(crate) fn range_of(&self, family: Family) -> Option<(IpAddr, u8)> {
        let named = match family {
            // As far from what is assigned for good (RFC 5771: 232.0.0.x) as the default is.
            Family::V4 => (IpAddr::from([232, 192, 0, 0]), 14),
            // Of the site's scope, with the dynamic ids of RFC 4607 and no prefix.
            Family::V6 => (IpAddr::from([0xff35, 0, 0, 0, 0, 0, 0, 0]), 96),
        };
        self.range.or_else(|| self.source_specific.then_some(named))
    }
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self {
            range: None,
            source_specific: false,
            port: DATA_PORT,
        }
    }
}

/// Sockets of a node or a service: where they are opened, and how.
///
/// ```
/// use qsm::{NetworkOptions, Node, Service};
///
/// let network = NetworkOptions::new().interface("eth0").ttl(4);
/// let service = Service::builder().network(network.clone());
/// let node = Node::builder().network(network);
/// ```
#[derive(Debug, Clone)]
#[must_use = "options do nothing before a builder has them"]
pub struct NetworkOptions {
    /// None: the most fitting one; two are on two networks.
    pub(crate) interfaces: Vec<String>,
    pub(crate) family: Option<Family>,
    /// If not given, the system chooses that of a node.
    pub(crate) unicast_port: Option<u16>,
    pub(crate) discovery: Option<SocketAddr>,
    pub(crate) receive_buffer_bytes: usize,
    pub(crate) ttl: u8,
    pub(crate) loopback: bool,
    /// If not said, as the interface suits it.
    pub(crate) multicast: Option<bool>,
    pub(crate) offload: Offload,
    pub(crate) clone_copies: bool,
    pub(crate) busy_poll: Option<Duration>,
    pub(crate) fault: Option<FaultConfig>,
    pub(crate) key: Option<ClusterKey>,
    pub(crate) identity: Option<Identity>,
    /// Of the keys that a service gives out.
    pub(crate) cipher: Cipher,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            family: None,
            unicast_port: None,
            discovery: None,
            receive_buffer_bytes: qsm_net::RECEIVE_BUFFER_DEFAULT_BYTES,
            ttl: qsm_net::TTL_DEFAULT,
            loopback: true,
            multicast: None,
            offload: Offload::Auto,
            clone_copies: false,
            busy_poll: None,
            fault: None,
            key: None,
            identity: None,
            cipher: Cipher::default(),
        }
    }
}

impl NetworkOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Name or address of the network interface (`eth0`, `10.0.0.1`, `fd00::1`, `fe80::1%eth0`);
    /// if not given, the most fitting one is chosen, see [`Node::io_report`](crate::Node::io_report).
    pub fn interface(mut self, interface: impl Into<String>) -> Self {
        self.interfaces = vec![interface.into()];
        self
    }

    /// Two interfaces, on two networks, named as in [`NetworkOptions::interface`]. Everything is
    /// sent and received on both, and duplicates are removed: while one of the networks works
    /// nothing is lost, and nobody notices.
    ///
    /// All nodes and services should be on both networks and give them in the same order. One that
    /// is on one of them only must be on the first.
    pub fn interfaces<I>(mut self, interfaces: I) -> Self
    where
        I: IntoIterator<Item: Into<String>>,
    {
        self.interfaces = interfaces.into_iter().map(Into::into).collect();
        self
    }

    /// IPv4 or IPv6, the same on all nodes. If not given, the family of the addresses that are
    /// given; else IPv4 where the interface has an address of it.
    pub fn family(mut self, family: Family) -> Self {
        self.family = Some(family);
        self
    }

    /// Address and port by multicast at which membership services are announced and looked for, the
    /// same on all nodes; [`DISCOVERY_V4`](crate::DISCOVERY_V4) or
    /// [`DISCOVERY_V6`](crate::DISCOVERY_V6) if not given.
    pub fn discovery(mut self, address: SocketAddr) -> Self {
        self.discovery = Some(plain(address));
        self
    }

    /// Port of the unicast socket; 0 lets the system choose, which is the default of a node. A
    /// service has [`SERVICE_PORT`](crate::SERVICE_PORT) if not given, and an embedded one always
    /// lets the system choose. With several core threads, the port of the first; the others take
    /// those that follow.
    pub fn unicast_port(mut self, port: u16) -> Self {
        self.unicast_port = Some(port);
        self
    }

    /// Receive buffer of each socket, in bytes. The system may grant less; see
    /// [`Node::io_report`](crate::Node::io_report).
    pub fn receive_buffer(mut self, bytes: usize) -> Self {
        self.receive_buffer_bytes = bytes;
        self
    }

    /// Hops that multicast may take: 0 keeps it on this host (with IPv6 take `lo` for that), 1 on
    /// this network.
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Lets other nodes on this host receive what this one sends. On by default.
    pub fn loopback(mut self, loopback: bool) -> Self {
        self.loopback = loopback;
        self
    }

    /// Sends by multicast, and listens to it. Off, for networks that carry none: each packet goes to
    /// each member of its region by unicast, and a node has to be told where the membership service is
    /// ([`Builder::service`](crate::Builder::service)), else it does not start
    /// ([`StartError::NoService`]). Nodes of a cluster may differ: who hears no multicast gets copies.
    ///
    /// If not given, it is on where the interface is of a [`Medium`](crate::Medium) that suits it. On
    /// wireless interfaces and tunnels messages then go by unicast, and services are looked for by
    /// multicast all the same, if the interface says that it carries it.
    pub fn multicast(mut self, multicast: bool) -> Self {
        self.multicast = Some(multicast);
        self
    }

    /// Lets trains of datagrams cross the kernel whole, or one by one.
    pub fn offload(mut self, offload: Offload) -> Self {
        self.offload = offload;
        self
    }

    /// Has the kernel clone what goes to many receivers by unicast (where there is no multicast, or some do not hear it):
    /// it is given each train once. This takes the capabilities `CAP_NET_ADMIN` and `CAP_BPF` at the start, and one network;
    /// where it cannot be had, the node goes on without, and [`Node::io_report`](crate::Node::io_report) says why. Clones
    /// do not pass this host's firewall.
    pub fn clone_copies(mut self, clone_copies: bool) -> Self {
        self.clone_copies = clone_copies;
        self
    }

    /// Has the kernel look at the network device's queue for so long, in whole microseconds, before
    /// it waits for an interrupt: a few microseconds less latency, for CPU time. Where it cannot,
    /// the node goes on without; [`Node::io_report`](crate::Node::io_report) says why.
    pub fn busy_poll(mut self, time: Duration) -> Self {
        self.busy_poll = Some(time);
        self
    }

    /// Protects every packet by the cluster's key, which all nodes and services must have
    /// ([`read_key`](crate::read_key)): who does not have it reads nothing, and what it sends is dropped and
    /// counted. Without one the cluster is open: everybody on its network can read it, and write.
    pub fn key(mut self, key: ClusterKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Has the node prove who it is, by its key and a token of the cluster's root, and lets it speak to services and
    /// nodes of the cluster alone that have done so. Packets are protected by keys that the membership service
    /// changes whenever somebody comes or goes. Takes the place of [`NetworkOptions::key`]; all nodes and services
    /// of the cluster need an identity, and the service one of its own ([`Service`](crate::Service)).
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Cipher that protects packets in a cluster that takes tokens: of a membership service, and of nodes that may run
    /// one; other nodes take what the service says. With [`NetworkOptions::key`] the key says it.
    pub fn cipher(mut self, cipher: Cipher) -> Self {
        self.cipher = cipher;
        self
    }

    /// Faults to inject into what is received, for tests.
    pub fn fault(mut self, fault: FaultConfig) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Chooses the interface. All addresses that were given must be of the family of its own:
    /// they also decide the family where the interface leaves it open.
    pub(crate) fn choose(&self, service: Option<SocketAddr>) -> Result<Interface, StartError> {
        let address =
            |what, address: SocketAddr| (Family::of(address.ip()), format!("{what} {address}"));
        let given = [
            self.family.map(|family| (family, family.to_string())),
            service.map(|at| address("the membership service at", at)),
            self.discovery
                .map(|at| address("the discovery address", at)),
        ];
        let mut given = given.into_iter().flatten().peekable();
        let family = given.peek().map(|(family, _)| *family);
        let first = self.interfaces.first().map(String::as_str);
        let named = service.is_some_and(|at| !at.ip().is_loopback());
        let interface = self.pick(first, family, named)?;
        match given.find(|(family, _)| *family != interface.family()) {
            None => Ok(interface),
            Some((_, given)) => Err(StartError::Families { given, interface }),
        }
    }

    /// The interface on the second network, if there is to be one.
    pub(crate) fn second(&self, family: Family) -> Result<Option<Interface>, StartError> {
        match &self.interfaces[..] {
            [] | [_] => Ok(None),
            [_, second] => Ok(Some(self.pick(Some(second), Some(family), true)?)),
            more => Err(StartError::TooManyInterfaces { given: more.len() }),
        }
    }

    /// One that carries multicast, where that is wanted; if nothing is said, and none fits, one on which
    /// nodes do without. `named`: the service is named, and on another host.
    fn pick(
        &self,
        requested: Option<&str>,
        family: Option<Family>,
        named: bool,
    ) -> Result<Interface, InterfaceError> {
        if self.multicast == Some(false) {
            return Ok(choose_unicast_interface(requested, family)?.0);
        }
        let found = choose_interface(requested, family).map(|(interface, _)| interface);
        let fits = |found: &Interface| requested.is_some() || !named || !found.loopback;
        if self.multicast.is_some() || found.as_ref().is_ok_and(fits) {
            return found;
        }
        match choose_unicast_interface(requested, family) {
            Ok((other, _)) if !other.medium.suits_multicast() => Ok(other),
            _ => found,
        }
    }

    /// Tells whether messages go by multicast on this interface.
    pub(crate) fn multicasts(&self, interface: &Interface) -> bool {
        let suits = interface.loopback || interface.medium.suits_multicast();
        self.multicast.unwrap_or(suits)
    }

    /// Tells whether services are announced and looked for by multicast there.
    pub(crate) fn discovers(&self, interface: &Interface) -> bool {
        let carries = interface.loopback || interface.multicast;
        self.multicast.unwrap_or(carries)
    }

    /// Where services are announced and looked for: as given, or the default of the family.
    pub(crate) fn discovery_at(&self, family: Family) -> SocketAddr {
        self.discovery.unwrap_or(match family {
            Family::V4 => DISCOVERY_V4,
            Family::V6 => DISCOVERY_V6,
        })
    }

    /// The port of the core thread in this place, one after the other where they are chosen.
    pub(crate) fn of_core(&self, core: usize) -> Result<Self, StartError> {
        let first = self.unicast_port.unwrap_or(0);
        let unicast_port = match u16::try_from(core)
            .ok()
            .and_then(|core| first.checked_add(core))
        {
            _ if first == 0 => 0,
            Some(port) => port,
            None => return Err(StartError::UnicastPorts { first }),
        };
        let fault = self.fault.map(|fault| FaultConfig {
            // Else all would lose the same packets.
            seed: fault.seed.wrapping_add(core as u64),
            ..fault
        });
        Ok(Self {
            unicast_port: Some(unicast_port),
            fault,
            ..self.clone()
        })
    }

    /// A cluster is protected in one way.
    pub(crate) fn check_protection(&self) -> Result<(), StartError> {
        if self.key.is_none() || self.identity.is_none() {
            return Ok(());
        }
        let cause = "a cluster is protected by its key or by tokens, and both are given".to_owned();
        let remedy = "give nodes and services an identity and no key, or the other way round";
        Err(StartError::Identity(IdentityError::new(cause, remedy)))
    }

    /// Has a node's sockets guarded, if it has an identity. Returns the queue of what the guard has to tell.
    pub(crate) fn guard(
        &self,
        ports: &mut Ports,
        entrant: Entrant,
    ) -> Result<Arc<SegQueue<EntryNews>>, StartError> {
        let news = Arc::default();
        if let Some(identity) = &self.identity {
            let entry = Entry::new(identity, entrant, Arc::clone(&news));
            let entry = entry.map_err(|error| {
                let error = IdentityError::new(error.to_string(), "use another key");
                StartError::Identity(error)
            })?;
            ports.protect(Box::new(entry));
        }
        Ok(news)
    }

    /// Opens the sockets, and joins the discovery address, where there is multicast.
    pub(crate) fn open(
        &self,
        interface: Interface,
        second: Option<Interface>,
        cluster: &str,
    ) -> Result<Ports, StartError> {
        let discovery = self.discovery_at(interface.family());
        let discovers = self.discovers(&interface);
        let mut ports = self.open_unicast(interface, second, cluster)?;
        if discovers {
            ports.join(discovery)?;
        }
        Ok(ports)
    }

    /// Opens the sockets without joining anything.
    pub(crate) fn open_unicast(
        &self,
        interface: Interface,
        second: Option<Interface>,
        cluster: &str,
    ) -> Result<Ports, StartError> {
        let second = second.map(|interface| {
            let mut config = self.port_config(interface);
            if let Some(fault) = &mut config.fault {
                // Else both networks would lose the same packets.
                fault.seed = !fault.seed;
            }
            config
        });
        let mut ports = Ports::open(self.port_config(interface), second)?;
        if let Some(key) = &self.key {
            ports.protect(Box::new(Shield::new(key, cluster)));
        }
        Ok(ports)
    }

    fn port_config(&self, interface: Interface) -> PortConfig {
        PortConfig {
            unicast_port: self.unicast_port.unwrap_or(0),
            receive_buffer_bytes: self.receive_buffer_bytes,
            ttl: self.ttl,
            loopback: self.loopback,
            offload: self.offload,
            clone_copies: self.clone_copies,
            busy_poll: self.busy_poll,
            fault: self.fault,
            ..PortConfig::new(interface)
        }
    }
}

/// An address as all hosts understand it. The scope of a link-local one is the interface's.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}
