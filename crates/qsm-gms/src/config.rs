use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::net::SocketAddr;

use qsm_plan::{Costs, ServiceHints, Settings, SettingsError};
use qsm_proto::view::MEMBERS_MAX;
use qsm_wire::NodeId;
use qsm_wire::membership::RepairLimit;

use crate::plan::{addresses_max, is_usable};

/// Where services are announced and looked for by default in a cluster of IPv4: an address of the
/// organisation-local scope (RFC 2365).
pub const DISCOVERY_V4: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(239, 192, 83, 77)), 4483);

/// The same in a cluster of IPv6: a transient address of the site's scope (RFC 7346), with a group
/// id for dynamic use (RFC 3307). Plans avoid it.
pub const DISCOVERY_V6: SocketAddr = SocketAddr::new(
    IpAddr::V6(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0x8000, 0x534d)),
    4483,
);

/// Packets that a common region has to save in a second, if nothing else is said: what two regions
/// with ten messages a second in common take.
pub const PLAN_COMMON: u32 = 10;

/// Everything a membership service can be told at its start; checked by [`ServiceConfig::check`].
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// Its own id, which decides between equal services.
    pub node: NodeId,
    /// The cluster's name, as in the nodes' configuration.
    pub cluster: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it listens on a second network, if it is on two.
    pub second: Option<SocketAddr>,
    /// Where services are announced and looked for: a multicast address.
    pub discovery: SocketAddr,
    /// It serves only because no other was found, and yields to one that is not embedded.
    pub embedded: bool,
    /// Nodes may do what their rights say, and nothing else, and one without rights is not let in: nodes are admitted
    /// by tokens (R-SEC-13). Off by default: nobody has rights, and everybody may do everything.
    pub rights_needed: bool,
    /// Shortest time between two batches (R040). 100 ms: at most ten view changes a second.
    /// Rule R-MEM-2.
    pub batch_interval: Duration,
    /// Which multicast addresses to give to regions.
    pub plan: PlanConfig,
    /// How often nodes must show that they live.
    pub heartbeat: Duration,
    /// Missing heartbeats after which a node is probed.
    pub silence_heartbeats: u32,
    /// Unanswered probes after which a node is away: nobody waits for it any more.
    pub probes: u32,
    /// Time between two probes.
    pub probe_interval: Duration,
    /// Silence after which a node that is away is gone: it is excluded, and what was kept for it is
    /// freed (R-MEM-15). 0: nobody is ever away, and who does not answer four times as many probes is
    /// gone.
    pub gone_after: Duration,
    /// Time for which senders may have to wait for a member that is slower than the others, before it
    /// is away until it has caught up (R-RATE-6). 0: for ever.
    pub slow_after: Duration,
    /// Least time between two plans of which groups go by private regions although several nodes
    /// have them (R-VIEW-15). Plans are made when the membership has changed. 0: never; then only
    /// groups of one node do.
    pub plan_interval: Duration,
    /// Deliveries of a million that members of a region may not want, so that nodes with similar
    /// groups share one (R-VIEW-16), each group having as many messages. 0: none; then only nodes with
    /// the same groups do, but for private regions. At most a million.
    pub plan_unwanted_ppm: u32,
    /// Packets that a region for groups that several others have in common has to save in a second
    /// (R-VIEW-17), by the same plans; `None`: there are no such regions. [`PLAN_COMMON`] by default.
    pub plan_common: Option<u32>,
    /// CPU time of what these plans weigh.
    pub plan_costs: Costs,
    /// Hints of the designer, which go before all plans (R-VIEW-18). They hold from a node's first batch
    /// on, also if nothing is planned.
    pub hints: ServiceHints,
    /// Limit of what each node sends again, until [`Service::limit_repairs`](crate::Service::limit_repairs)
    /// changes it (R-NAK-16), or nodes have been told another one before. None by default.
    pub repair_limit: RepairLimit,
    /// How long a leaving member may take to drain before it is taken out anyway.
    pub drain_max: Duration,
    /// Largest datagram, bytes.
    pub datagram_bytes: usize,
    /// Limits of memory.
    pub limits: ServiceLimits,
}

/// The pool of multicast addresses (R230, R231).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanConfig {
    /// First address of the pool. It decides the family, which must be that of the service's own
    /// address.
    pub base: IpAddr,
    /// Length of the pool's prefix: 4 to 30, for IPv6 8 to 126. Of IPv6, the cluster's number and
    /// the group's take the low 64 bits, as far as the prefix leaves them.
    pub prefix: u8,
    /// UDP port of all channels.
    pub port: u16,
    /// Most addresses in use at once; beyond it regions share addresses. Interfaces filter some
    /// tens to hundreds of addresses in hardware, beyond that hosts pay for foreign traffic.
    pub budget: usize,
    /// How long a freed address rests, so that late packets of its last region meet nobody.
    pub quarantine: Duration,
}

/// What a service may hold; what would exceed a limit is refused with a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceLimits {
    /// Nodes in the cluster.
    pub nodes: usize,
    /// Groups with at least one node.
    pub groups: usize,
    /// Roles of one node.
    pub roles_per_node: usize,
}

/// A configuration that cannot work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceConfigError {
    /// The limit of nodes is 0 or above the largest region.
    Nodes {
        /// What was given.
        got: usize,
    },
    /// The service's address is of one family, where it announces itself or its address pool of
    /// the other.
    Families {
        /// The service's address.
        address: SocketAddr,
        /// What does not fit it.
        other: IpAddr,
    },
    /// The pool's base is not a multicast address, its prefix is not 4 to 30 (IPv6: 8 to 126), its
    /// budget is 0, or everybody receives all of its addresses ([`is_flooded`](crate::plan::is_flooded)).
    Plan,
    /// There are fewer multicast addresses than the hints need.
    Hints {
        /// One for each security domain, for the nodes of none, and for each pinned channel.
        needed: usize,
        /// Those of the pool, as many as the budget lets.
        addresses: usize,
    },
    /// A cost of plans cannot be worked with.
    Costs(SettingsError),
    /// An interval is zero.
    ZeroInterval {
        /// Which field.
        name: &'static str,
    },
}

impl core::fmt::Display for ServiceConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Nodes { got } => {
                write!(f, "limit of {got} nodes is not between 1 and {MEMBERS_MAX}")
            }
            Self::Families { address, other } => write!(
                f,
                "{address} and {other} are not of one family; give a service of IPv6 multicast \
                 addresses of IPv6, and one of IPv4 those of IPv4"
            ),
            Self::Plan => f.write_str(
                "the address pool needs a multicast base that is not everybody's, a prefix of 4 to 30 \
                 (IPv6: 8 to 126) and a budget",
            ),
            Self::Hints { needed, addresses } => write!(
                f,
                "the hints need {needed} multicast addresses, one for each domain, for the nodes of \
                 none and for each pinned channel, and there are {addresses}; give a larger pool or \
                 budget, or fewer domains and channels"
            ),
            Self::Costs(error) => error.fmt(f),
            Self::ZeroInterval { name } => write!(f, "{name} is zero; give it some milliseconds"),
        }
    }
}

impl core::error::Error for ServiceConfigError {}

impl ServiceConfig {
    /// The defaults for a service at this address, whose family the multicast addresses follow.
    #[must_use]
    pub fn new(node: NodeId, address: SocketAddr) -> Self {
        let (discovery, plan, datagram_bytes) = match address {
            SocketAddr::V4(_) => (DISCOVERY_V4, PlanConfig::default(), 1472),
            SocketAddr::V6(_) => (DISCOVERY_V6, PlanConfig::v6(), 1452),
        };
        Self {
            node,
            cluster: "default".to_owned(),
            address,
            second: None,
            discovery,
            embedded: false,
            rights_needed: false,
            batch_interval: Duration::from_millis(100),
            plan,
            heartbeat: Duration::from_millis(200),
            silence_heartbeats: 3,
            probes: 3,
            probe_interval: Duration::from_millis(50),
            gone_after: Duration::from_secs(30),
            slow_after: Duration::from_secs(10),
            plan_interval: Duration::from_secs(10),
            plan_unwanted_ppm: 0,
            plan_common: Some(PLAN_COMMON),
            plan_costs: Costs::default(),
            hints: ServiceHints::default(),
            repair_limit: RepairLimit::default(),
            drain_max: Duration::from_secs(30),
            datagram_bytes,
            limits: ServiceLimits::default(),
        }
    }

    /// Whether a service can work with this.
    ///
    /// # Errors
    /// The first field that is out of bounds.
    pub fn check(&self) -> Result<(), ServiceConfigError> {
        if self.limits.nodes == 0 || self.limits.nodes > MEMBERS_MAX {
            return Err(ServiceConfigError::Nodes {
                got: self.limits.nodes,
            });
        }
        let plan = &self.plan;
        let prefixes = match plan.base {
            IpAddr::V4(_) => 4..=30,
            IpAddr::V6(_) => 8..=126,
        };
        let sound = plan.base.is_multicast() && prefixes.contains(&plan.prefix) && plan.budget > 0;
        if !sound || !is_usable(plan) {
            return Err(ServiceConfigError::Plan);
        }
        let settings = Settings {
            costs: self.plan_costs,
            ..Settings::default()
        };
        settings.check().map_err(ServiceConfigError::Costs)?;
        let (needed, addresses) = (self.hints.addresses(), addresses_max(plan));
        if needed > addresses {
            return Err(ServiceConfigError::Hints { needed, addresses });
        }
        let own = self.address.is_ipv4();
        if let Some(other) = [self.discovery.ip(), plan.base]
            .into_iter()
            .find(|other| other.is_ipv4() != own)
        {
            return Err(ServiceConfigError::Families {
                address: self.address,
                other,
            });
        }
        let intervals = [
            ("batch_interval", self.batch_interval),
            ("heartbeat", self.heartbeat),
            ("probe_interval", self.probe_interval),
        ];
        match intervals.into_iter().find(|(_, value)| value.is_zero()) {
            Some((name, _)) => Err(ServiceConfigError::ZeroInterval { name }),
            None => Ok(()),
        }
    }

    /// The number that stands for the cluster's name in every header.
    #[must_use]
    pub fn cluster_number(&self) -> u32 {
        let mut config = qsm_proto::Config::new(self.node, self.address);
        config.cluster.clone_from(&self.cluster);
        config.cluster_number()
    }
}

impl PlanConfig {
    /// The defaults for a cluster of IPv6: ff15::/64, transient addresses of the site's scope, the
    /// widest that routers keep inside a site without being told (RFC 7346).
    #[must_use]
    pub fn v6() -> Self {
        Self {
            base: IpAddr::V6(Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0)),
            prefix: 64,
            ..Self::default()
        }
    }
}

/// The defaults for a cluster of IPv4: 239.192.0.0/14, the organisation-local scope (RFC 2365).
impl Default for PlanConfig {
    fn default() -> Self {
        Self {
            base: IpAddr::from([239, 192, 0, 0]),
            prefix: 14,
            port: 4484,
            budget: 512,
            quarantine: Duration::from_secs(10),
        }
    }
}

impl Default for ServiceLimits {
    fn default() -> Self {
        Self {
            nodes: 10_000,
            groups: 1_000_000,
            roles_per_node: 200_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(address: &str) -> ServiceConfig {
        ServiceConfig::new(NodeId(1), address.parse().unwrap())
    }

    #[test]
    fn the_defaults_follow_the_family_of_the_address() {
        let of = |address| {
            let config = config(address);
            assert_eq!(config.check(), Ok(()));
            let plan = config.plan;
            (
                config.discovery.to_string(),
                plan.base.to_string(),
                plan.prefix,
            )
        };
        let v4 = (
            "239.192.83.77:4483".to_owned(),
            "239.192.0.0".to_owned(),
            14,
        );
        assert_eq!(of("10.0.0.1:1"), v4);
        let v6 = ("[ff15::8000:534d]:4483".to_owned(), "ff15::".to_owned(), 64);
        assert_eq!(of("[fd00::1]:1"), v6);
    }

    #[test]
    fn costs_of_nothing_are_refused() {
        let mut config = config("10.0.0.1:4481");
        config.plan_costs.packet = 0;
        let error = config.check().unwrap_err().to_string();
        assert!(error.starts_with("a cost of 0 ns for a packet"), "{error}");
    }

    #[test]
    fn hints_that_need_more_addresses_than_there_are_are_refused() {
        let mut config = config("10.0.0.1:4481");
        config.plan.budget = 2;
        config.hints = ServiceHints::parse("domain red: a\npin fast: g").unwrap();
        let error = config.check().unwrap_err().to_string();
        let says = "the hints need 3 multicast addresses, one for each domain";
        assert!(
            error.starts_with(says) && error.contains("there are 2"),
            "{error}"
        );
        config.plan.budget = 3;
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn mixed_families_are_refused_with_both_addresses() {
        let mut config = config("[fd00::1]:4481");
        config.plan = PlanConfig::default();
        let error = config.check().unwrap_err().to_string();
        assert!(
            error.starts_with("[fd00::1]:4481 and 239.192.0.0 are not of one family; give"),
            "{error}"
        );
        config.plan = PlanConfig::v6();
        config.discovery = DISCOVERY_V4;
        assert!(matches!(
            config.check(),
            Err(ServiceConfigError::Families { other, .. }) if other == DISCOVERY_V4.ip()
        ));
    }

    #[test]
    fn pools_without_an_address_to_give_are_refused() {
        for (own, base, prefix) in [
            ("10.0.0.1:1", "224.0.0.0", 24),
            ("10.0.0.1:1", "10.0.0.0", 8),
            ("10.0.0.1:1", "239.192.0.0", 31),
            ("[fd00::1]:1", "ff15::1", 126),
            ("[fd00::1]:1", "ff15::ff12:0", 112),
            ("[fd00::1]:1", "ff15::", 4),
        ] {
            let mut config = config(own);
            config.plan.base = base.parse().unwrap();
            config.plan.prefix = prefix;
            assert_eq!(
                config.check(),
                Err(ServiceConfigError::Plan),
                "{base}/{prefix}"
            );
        }
    }
}
