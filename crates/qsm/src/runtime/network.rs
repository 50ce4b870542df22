//! Sockets of nodes and services: where they are opened, and the multicast addresses of regions.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use qsm_gms::{DISCOVERY_V4, DISCOVERY_V6};
use qsm_net::{Family, FaultConfig, Interface, Offload, PortConfig, Ports, choose_interface};

use crate::error::StartError;

/// Default of [`Builder::data_port`](crate::Builder::data_port).
pub const DATA_PORT: u16 = 4484;

/// Which multicast addresses a service gives to regions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channels {
    /// First address and length of the prefix; `None`: the default of the family.
    pub(crate) range: Option<(IpAddr, u8)>,
    /// Without a range: those of which senders are named.
    pub(crate) source_specific: bool,
    pub(crate) port: u16,
}

impl Channels {
    /// The range, if it is not the default of the family.
    pub(crate) fn range(&self, family: Family) -> Option<(IpAddr, u8)> {
        let named = match family {
            // As far from what is assigned for good (RFC 5771: 232.0.0.x) as the default is.
            Family::V4 => (IpAddr::from([232, 192, 0, 0]), 14),
            // Of the site's scope, with the dynamic ids of RFC 4607 and no prefix.
            Family::V6 => (IpAddr::from([0xff35, 0, 0, 0, 0, 0, 0, 0]), 96),
        };
        self.range.or_else(|| self.source_specific.then_some(named))
    }
}

impl Default for Channels {
    fn default() -> Self {
        Self {
            range: None,
            source_specific: false,
            port: DATA_PORT,
        }
    }
}

/// Where sockets are opened, for nodes and services.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// None: the most fitting one; two are on two networks.
    pub(crate) interfaces: Vec<String>,
    pub(crate) family: Option<Family>,
    pub(crate) unicast_port: u16,
    pub(crate) discovery: Option<SocketAddr>,
    pub(crate) receive_buffer_bytes: usize,
    pub(crate) ttl: u8,
    pub(crate) loopback: bool,
    pub(crate) offload: Offload,
    pub(crate) busy_poll: Option<Duration>,
    pub(crate) fault: Option<FaultConfig>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            family: None,
            unicast_port: 0,
            discovery: None,
            receive_buffer_bytes: qsm_net::RECEIVE_BUFFER_DEFAULT_BYTES,
            ttl: qsm_net::TTL_DEFAULT,
            loopback: true,
            offload: Offload::Auto,
            busy_poll: None,
            fault: None,
        }
    }
}

impl Network {
    /// Chooses the interface. All addresses that were given must be of the family of its own:
    /// they also decide the family where the interface leaves it open.
    pub(crate) fn interface(&self, service: Option<SocketAddr>) -> Result<Interface, StartError> {
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
        let (interface, _) = choose_interface(first, family)?;
        match given.find(|(family, _)| *family != interface.family()) {
            None => Ok(interface),
            Some((_, given)) => Err(StartError::Families { given, interface }),
        }
    }

    /// The interface on the second network, if there is to be one.
    pub(crate) fn second(&self, family: Family) -> Result<Option<Interface>, StartError> {
        match &self.interfaces[..] {
            [] | [_] => Ok(None),
            [_, second] => Ok(Some(choose_interface(Some(second), Some(family))?.0)),
            more => Err(StartError::TooManyInterfaces { given: more.len() }),
        }
    }

    /// Where services are announced and looked for: as given, or the default of the family.
    pub(crate) fn discovery(&self, family: Family) -> SocketAddr {
        self.discovery.unwrap_or(match family {
            Family::V4 => DISCOVERY_V4,
            Family::V6 => DISCOVERY_V6,
        })
    }

    /// The port of the core thread in this place, one after the other where they are chosen.
    pub(crate) fn of_core(&self, core: usize) -> Result<Self, StartError> {
        let first = self.unicast_port;
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
            unicast_port,
            fault,
            ..self.clone()
        })
    }

    /// Opens the sockets, and joins the discovery address.
    pub(crate) fn open(
        &self,
        interface: Interface,
        second: Option<Interface>,
    ) -> Result<Ports, StartError> {
        let discovery = self.discovery(interface.family());
        let second = second.map(|interface| {
            let mut config = self.port_config(interface);
            if let Some(fault) = &mut config.fault {
                // Else both networks would lose the same packets.
                fault.seed = !fault.seed;
            }
            config
        });
        let mut ports = Ports::open(self.port_config(interface), second)?;
        ports.join(discovery)?;
        Ok(ports)
    }

    fn port_config(&self, interface: Interface) -> PortConfig {
        PortConfig {
            unicast_port: self.unicast_port,
            receive_buffer_bytes: self.receive_buffer_bytes,
            ttl: self.ttl,
            loopback: self.loopback,
            offload: self.offload,
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
