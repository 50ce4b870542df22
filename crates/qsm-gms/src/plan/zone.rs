use qsm_plan::{NodeHint, ServiceHints};
use qsm_wire::{NodeId, RegionId};

/// Nodes that may share a region, as far as hints go, and which groups of theirs (R-VIEW-18). Two
/// regions of the same groups and of different zones are two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Zone {
    /// Nodes of one compartment share regions; 0: those that no hint divides from others.
    pub(crate) compartment: u32,
    /// Whose multicast address its regions have.
    pub(crate) tenant: Tenant,
}

/// Regions that may share a multicast address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tenant {
    /// The security domain; 0: the common one.
    pub domain: u32,
    /// The channel that their groups are pinned to.
    pub channel: Option<u32>,
    /// Of whom the domain is not known: nobody else is there.
    pub stranger: Option<Stranger>,
}

/// Nodes that a former service has let in and that have not said their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stranger {
    /// One of them.
    Node(NodeId),
    /// The members of a region.
    Members(RegionId),
}

impl Tenant {
    /// Those that hints name, each of which needs an address; none if they name none.
    pub(crate) fn named(hints: &ServiceHints) -> Vec<Self> {
        if hints.addresses() == 1 {
            return Vec::new();
        }
        let is_domain = |domain: &u32| *domain == 0 || hints.domain_name(*domain).is_some();
        let domains = (0..).take_while(is_domain).map(|domain| Self {
            domain,
            ..Self::default()
        });
        let channels = (0..).take_while(|channel| hints.channel_name(*channel).is_some());
        let channels = channels.map(|channel| Self {
            channel: Some(channel),
            ..Self::default()
        });
        domains.chain(channels).collect()
    }
}

impl Zone {
    /// That of a node with these hints.
    pub(crate) fn of(hint: NodeHint) -> Self {
        let tenant = Tenant {
            domain: hint.domain,
            ..Tenant::default()
        };
        Self {
            compartment: hint.compartment,
            tenant,
        }
    }

    /// That of nodes of which the names are not known.
    pub(crate) fn of_stranger(stranger: Stranger) -> Self {
        let tenant = Tenant {
            stranger: Some(stranger),
            ..Tenant::default()
        };
        Self {
            compartment: 0,
            tenant,
        }
    }

    /// Tells whether the names of its nodes are not known.
    pub(crate) fn is_strange(self) -> bool {
        self.tenant.stranger.is_some()
    }

    /// The same for groups that are pinned to this channel.
    pub(crate) fn on(self, channel: Option<u32>) -> Self {
        let tenant = Tenant {
            channel,
            ..self.tenant
        };
        Self { tenant, ..self }
    }
}
