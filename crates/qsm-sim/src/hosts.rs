//! Hosts of a run: the part that each plays, and where it is on the network.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use qsm_gms::{DISCOVERY_V4, DISCOVERY_V6, ServiceConfig, ServiceHints};
use qsm_proto::{Config, mix};
use qsm_wire::NodeId;
use qsm_wire::membership::RepairLimit;

use crate::faults::Fault;
use crate::mischief::Mischief;
use crate::options::SimOptions;

pub(crate) const PORT: u16 = 4484;

/// Part that a host plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostRole {
    /// An application with its node.
    Node,
    /// A membership service.
    Service,
    /// A membership service as a node runs it that has found no other: it yields to one that is
    /// not embedded.
    EmbeddedService,
    /// Somebody who asks the membership service for its lists, one after the other, and is no node.
    Observer,
}

/// Patience of membership services with silent nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServicePatience {
    /// Missing heartbeats after which a node is probed.
    pub heartbeats: u32,
    /// Unanswered probes after which it is excluded.
    pub probes: u32,
}

impl Default for ServicePatience {
    fn default() -> Self {
        let usual = ServiceConfig::new(NodeId(0), address(0, false, 0));
        Self {
            heartbeats: usual.silence_heartbeats,
            probes: usual.probes,
        }
    }
}

/// Properties of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostPlan {
    /// Its part.
    pub role: HostRole,
    /// Its addresses are of IPv6.
    pub ipv6: bool,
    /// It is on a second network, too.
    pub two_networks: bool,
}

impl HostPlan {
    /// A node on one network of IPv4.
    pub const NODE: Self = Self {
        role: HostRole::Node,
        ipv6: false,
        two_networks: false,
    };

    /// A membership service on one network of IPv4.
    pub const SERVICE: Self = Self {
        role: HostRole::Service,
        ipv6: false,
        two_networks: false,
    };

    /// True for services of both kinds.
    #[must_use]
    pub fn is_service(&self) -> bool {
        matches!(self.role, HostRole::Service | HostRole::EmbeddedService)
    }

    /// True for those that may be in groups.
    #[must_use]
    pub fn is_node(&self) -> bool {
        self.role == HostRole::Node
    }

    /// Where services are announced and looked for, as far as this host can hear.
    pub(crate) fn discovery(&self) -> SocketAddr {
        if self.ipv6 {
            DISCOVERY_V6
        } else {
            DISCOVERY_V4
        }
    }
}

impl SimOptions {
    /// Properties of a host: what is said of it, otherwise those of a membership service for host
    /// 0 and those of a node for all others.
    #[must_use]
    pub fn host(&self, host: usize) -> HostPlan {
        let said = self.hosts.get(&host).copied();
        said.unwrap_or(match host {
            0 => HostPlan::SERVICE,
            _ => HostPlan::NODE,
        })
    }

    /// Hosts of membership services.
    pub fn services(&self) -> impl Iterator<Item = usize> + '_ {
        (0..=self.nodes).filter(|host| self.host(*host).is_service())
    }

    /// True if a process of a membership service ends before the run does.
    pub(crate) fn has_service_deaths(&self) -> bool {
        let ends = |fault: &Fault| match fault {
            Fault::Crash { host } | Fault::Close { host } => self.host(*host).is_service(),
            _ => false,
        };
        self.faults.iter().any(|(_, fault)| ends(fault))
    }

    /// Address by which a host is known: 10.0.0.1 or `fd00::1` for host 0, and so on.
    pub(crate) fn address(&self, host: usize) -> SocketAddr {
        address(host, self.host(host).ipv6, 0)
    }

    /// Address of a host on the second network, if it is on two.
    pub(crate) fn second_address(&self, host: usize) -> Option<SocketAddr> {
        let plan = self.host(host);
        plan.two_networks.then(|| address(host, plan.ipv6, 1))
    }

    /// Whether a host is never slow and never stands still: what it does in time it does on time.
    pub(crate) fn is_punctual(&self, host: usize) -> bool {
        let hinders = |fault: &Fault| match fault {
            Fault::Freeze { host: other, .. }
            | Fault::Sleep { host: other, .. }
            | Fault::Slow { host: other, .. } => *other == host,
            _ => false,
        };
        let mut faults = self.faults.iter();
        self.costs.is_none() && !faults.any(|(_, fault)| hinders(fault))
    }

    /// The service that nodes are configured with: the only one, unless it is embedded. Otherwise
    /// they look for one.
    pub(crate) fn told_service(&self) -> Option<SocketAddr> {
        let mut services = self.services();
        let only = services.next().filter(|_| services.next().is_none())?;
        let embedded = self.host(only).role == HostRole::EmbeddedService;
        (!embedded).then(|| self.address(only))
    }

    /// Configuration of the membership service on this host, if it runs one, as that of a node
    /// there would be.
    pub(crate) fn service_config(&self, host: usize, node: &Config) -> Option<ServiceConfig> {
        let plan = self.host(host);
        let mut config = ServiceConfig {
            cluster: node.cluster.clone(),
            discovery: node.discovery,
            second: node.second,
            embedded: plan.role == HostRole::EmbeddedService,
            datagram_bytes: node.datagram_bytes,
            gone_after: match self.mischief {
                Mischief::AwayExcluded => Duration::ZERO,
                _ => self.gone_after,
            },
            slow_after: match self.mischief {
                Mischief::SlownessIgnored => Duration::ZERO,
                _ => self.slow_after,
            },
            plan_interval: self.plan_interval,
            plan_unwanted_ppm: match self.mischief {
                Mischief::UnwantedIgnored if self.plan_unwanted_ppm > 0 => 1_000_000,
                _ => self.plan_unwanted_ppm,
            },
            plan_common: self.plan_common,
            hints: match self.mischief {
                Mischief::HintsIgnored => ServiceHints::default(),
                _ => self.service_hints().unwrap_or_default(),
            },
            repair_limit: RepairLimit {
                bytes_per_second: match self.mischief {
                    Mischief::LimitRaised => self.repair_bytes_per_second * 4,
                    _ => self.repair_bytes_per_second,
                },
                share_ppm: 0,
            },
            silence_heartbeats: self.patience.heartbeats,
            probes: match self.mischief {
                Mischief::SilenceIgnored => u32::MAX,
                _ => self.patience.probes,
            },
            ..ServiceConfig::new(node.node, node.address)
        };
        if let Some(budget) = self.addresses
            && self.mischief != Mischief::BudgetIgnored
        {
            config.plan.budget = budget;
        }
        if self.source_specific {
            config.plan.base = source_specific(plan.ipv6);
        }
        plan.is_service().then_some(config)
    }

    /// True if a service can let in the node on this host: one of them is of its family.
    pub(crate) fn has_service_for(&self, host: usize) -> bool {
        let ipv6 = self.host(host).ipv6;
        self.services()
            .any(|service| self.host(service).ipv6 == ipv6)
    }
}

/// The node id of a host's process that starts after so many others there.
pub(crate) fn node_id(seed: u64, host: usize, starts: u64) -> NodeId {
    NodeId(mix(seed ^ ((host as u64) << 32) ^ starts))
}

/// The address of a host on one of two networks.
pub(crate) fn address(host: usize, ipv6: bool, network: u8) -> SocketAddr {
    let number = u32::try_from(host + 1).unwrap_or(u32::MAX);
    let ip: IpAddr = if ipv6 {
        let prefix = 0xfd00 + u16::from(network);
        let bits = (u128::from(prefix) << 112) | u128::from(number);
        Ipv6Addr::from(bits).into()
    } else {
        // Hosts above 65,535 take up more than the second network leaves them; there are no two
        // networks of that size.
        let number = (number & 0x00ff_ffff) | (u32::from(network) << 16);
        Ipv4Addr::from(0x0a00_0000 | number).into()
    };
    SocketAddr::new(ip, PORT)
}

/// The first of the addresses that are received from named senders only (RFC 4607).
fn source_specific(ipv6: bool) -> IpAddr {
    if ipv6 {
        Ipv6Addr::new(0xff35, 0, 0, 0, 0, 0, 0, 0).into()
    } else {
        Ipv4Addr::new(232, 192, 0, 0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm_proto::Seed;

    #[test]
    fn a_host_is_what_is_said_of_it_or_what_its_number_says() {
        let mut options = SimOptions::quiet(Seed(1), 4);
        let first = SocketAddr::from(([10, 0, 0, 1], PORT));
        assert_eq!(options.services().collect::<Vec<_>>(), [0]);
        assert_eq!(options.told_service(), Some(first));
        options.hosts.insert(4, HostPlan::SERVICE);
        assert_eq!(options.services().collect::<Vec<_>>(), [0, 4]);
        assert_eq!(options.told_service(), None);
        let plan = HostPlan {
            ipv6: true,
            two_networks: true,
            ..HostPlan::NODE
        };
        options.hosts.insert(2, plan);
        assert!(options.has_service_for(1) && !options.has_service_for(2));
        assert_eq!(options.address(2).to_string(), "[fd00::3]:4484");
        let second = options.second_address(2).unwrap();
        assert_eq!(second.to_string(), "[fd01::3]:4484");
        assert_eq!(options.second_address(1), None);
    }
}
