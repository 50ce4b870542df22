//! The ways by which a cluster can speak.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use lab::{Host, HostId, Lab, LabError, Traffic};

/// The way in which nodes and service of a cluster reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// IPv4, one network, one core thread, a node in each process.
    #[default]
    Ipv4,
    /// IPv6.
    Ipv6,
    /// No multicast passes between hosts, and everything goes by unicast.
    NoMulticast,
    /// The same, and the kernel clones it for all receivers.
    Clones,
    /// All packets are protected by a key.
    Protected,
    /// Addresses of regions are source-specific.
    SourceSpecific,
    /// All hosts are on two networks.
    TwoNetworks,
    /// Each node has two core threads, and each of them a group.
    Cores,
    /// A process of each host publishes or receives by the node of another one.
    Engine,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Ipv4,
        Self::Ipv6,
        Self::NoMulticast,
        Self::Clones,
        Self::Protected,
        Self::SourceSpecific,
        Self::TwoNetworks,
        Self::Cores,
        Self::Engine,
    ];

    /// Its name in tables and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::NoMulticast => "no-multicast",
            Self::Clones => "clones",
            Self::Protected => "protected",
            Self::SourceSpecific => "ssm",
            Self::TwoNetworks => "two-networks",
            Self::Cores => "cores",
            Self::Engine => "engine",
        }
    }

    /// The same, where hosts get multicast.
    pub(crate) fn where_possible(self) -> Self {
        match self {
            Self::Ipv4 if !has_multicast() => Self::NoMulticast,
            other => other,
        }
    }

    /// A lab for it, without hosts.
    pub(crate) fn lab(self) -> Result<Lab, LabError> {
        match self {
            Self::Ipv6 => Lab::with_ipv6(),
            Self::TwoNetworks => Lab::new()?.and_second_network(),
            Self::Ipv4
            | Self::NoMulticast
            | Self::Clones
            | Self::Protected
            | Self::SourceSpecific
            | Self::Cores
            | Self::Engine => Lab::new(),
        }
    }

    /// Changes what hosts of the lab get.
    pub(crate) fn prepare(self, lab: &Lab, hosts: &[HostId]) -> Result<(), LabError> {
        match self {
            Self::NoMulticast | Self::Clones => filter_multicast(lab, hosts, true),
            _ => Ok(()),
        }
    }

    /// The address of a service on this host.
    pub(crate) fn service(self, host: &Host, port: u16) -> SocketAddr {
        let v6 = host.address_v6().map(IpAddr::from);
        SocketAddr::new(v6.unwrap_or_else(|| host.address().into()), port)
    }

    /// Adds the options of a service or node on this host.
    pub(crate) fn describe(self, command: &mut Command, host: &Host) {
        command.args(["--interface", host.interface()]);
        if let Some(second) = host.second_interface() {
            command.args(["--interface", second]);
        }
        match self {
            Self::Ipv6 => command.arg("--ip=6"),
            Self::NoMulticast => command.arg("--no-multicast"),
            Self::Clones => command.args(["--no-multicast", "--clone-copies"]),
            Self::Protected => command.arg("--protected"),
            Self::SourceSpecific => command.arg("--source-specific"),
            Self::Cores => command.args(["--cores", "2"]),
            Self::Ipv4 | Self::TwoNetworks | Self::Engine => command,
        };
    }
}

/// Tells whether hosts of the tests get multicast: unless `make copies` tries everything without.
#[must_use]
pub fn has_multicast() -> bool {
    std::env::var_os("QSM_NO_MULTICAST").is_none()
}

/// Lets no multicast through to these hosts, or all of it again.
///
/// # Errors
/// The rules cannot be set.
pub fn filter_multicast(lab: &Lab, hosts: &[HostId], on: bool) -> Result<(), LabError> {
    let loss_ppm = if on { 1_000_000 } else { 0 };
    hosts
        .iter()
        .try_for_each(|host| lab.set_loss(*host, loss_ppm, Traffic::Multicast))
}
