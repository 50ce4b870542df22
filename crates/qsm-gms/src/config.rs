use core::net::Ipv4Addr;
use core::time::Duration;
use std::net::SocketAddr;

use qsm_proto::view::MEMBERS_MAX;
use qsm_wire::NodeId;

/// Everything a membership service can be told at its start; checked by [`ServiceConfig::check`].
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// Its own id, which decides between equal services.
    pub node: NodeId,
    /// The cluster's name, as in the nodes' configuration.
    pub cluster: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Where services are announced and looked for: a multicast address.
    pub discovery: SocketAddr,
    /// It serves only because no other was found, and yields to one that is not embedded.
    pub embedded: bool,
    /// Shortest time between two batches (R040). 100 ms: at most ten view changes a second.
    /// Rule R-MEM-2.
    pub batch_interval: Duration,
    /// Which multicast addresses to give to regions.
    pub plan: PlanConfig,
    /// How often nodes must show that they live.
    pub heartbeat: Duration,
    /// Missing heartbeats after which a node is probed.
    pub silence_heartbeats: u32,
    /// Unanswered probes after which a node is excluded.
    pub probes: u32,
    /// Time between two probes.
    pub probe_interval: Duration,
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
    /// First address of the pool.
    pub base: Ipv4Addr,
    /// Length of the pool's prefix, 4 to 30.
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
    /// The pool's base is not a multicast address, its prefix is not 4 to 30, or its budget 0.
    Plan,
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
            Self::Plan => f.write_str(
                "the address pool needs a multicast base, a prefix of 4 to 30 and a budget",
            ),
            Self::ZeroInterval { name } => write!(f, "{name} is zero; give it some milliseconds"),
        }
    }
}

impl core::error::Error for ServiceConfigError {}

impl ServiceConfig {
    /// The defaults for a service at this address.
    #[must_use]
    pub fn new(node: NodeId, address: SocketAddr) -> Self {
        Self {
            node,
            cluster: "default".to_owned(),
            address,
            discovery: SocketAddr::from(([239, 192, 83, 77], 4483)),
            embedded: false,
            batch_interval: Duration::from_millis(100),
            plan: PlanConfig::default(),
            heartbeat: Duration::from_millis(200),
            silence_heartbeats: 3,
            probes: 5,
            probe_interval: Duration::from_millis(100),
            drain_max: Duration::from_secs(30),
            datagram_bytes: 1472,
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
        if !plan.base.is_multicast() || !(4..=30).contains(&plan.prefix) || plan.budget == 0 {
            return Err(ServiceConfigError::Plan);
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

impl Default for PlanConfig {
    fn default() -> Self {
        Self {
            base: Ipv4Addr::new(239, 192, 0, 0),
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
