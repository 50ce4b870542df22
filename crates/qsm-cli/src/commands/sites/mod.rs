//! Sites, and the links between them, as a cluster's gateways (`qsm relay site`) describe them in lists of its nodes
//! (R-MEM-21). A description is its node's word alone: nothing is believed of other nodes by it.

mod faults;
mod show;
mod state;

use std::collections::BTreeMap;

use qsm::admin::DescribedNode;
use qsm::{AwayReason, NodeRow};

pub(crate) use self::state::{GatewayState, LinkState, OtherSite, OutwardState, Reach};

/// A gateway in a list of nodes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gateway {
    /// Name of its node.
    name: String,
    /// Id and life of its node.
    node: String,
    /// Why nobody waits for the node; `None`: it takes part.
    away: Option<String>,
    /// Nobody hears the node: what it said last is of the past.
    silent: bool,
    state: GatewayState,
}

/// Part of a gateway in publishing another site's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Publishing,
    StandingBy,
    Silent,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Self::Publishing => "publishing",
            Self::StandingBy => "standing by",
            Self::Silent => "silent",
        }
    }
}

impl Gateway {
    /// The gateway in a row of a list, if it is one.
    pub(crate) fn of(row: &NodeRow) -> Option<Self> {
        let silent = |reason| matches!(reason, AwayReason::Silent | AwayReason::Unreported);
        Some(Self {
            state: GatewayState::read(row.description.as_ref()?)?,
            name: row.name.clone(),
            node: row.origin.to_string(),
            away: row.away.map(|reason| reason.to_string()),
            silent: row.away.is_some_and(silent),
        })
    }

    fn of_described(node: &DescribedNode) -> Option<Self> {
        Some(Self {
            state: GatewayState::read(&node.description)?,
            name: node.name.clone(),
            node: node.node.clone(),
            away: node.away.clone(),
            silent: node.silent,
        })
    }

    fn role(&self, other: &OtherSite) -> Role {
        match (self.silent, other.publishes) {
            (true, _) => Role::Silent,
            (false, true) => Role::Publishing,
            (false, false) => Role::StandingBy,
        }
    }

    /// Its site, and its part there, in a few words.
    pub(crate) fn summary(&self) -> String {
        let site = &self.state.site;
        if self.silent {
            return format!("{site}: silent");
        }
        let from = self.state.from.iter();
        let parts = from.map(|other| format!("{} {}", self.role(other).word(), other.site));
        let parts = parts.collect::<Vec<_>>().join(", ");
        match parts.is_empty() {
            true => format!("{site}: only sends"),
            false => format!("{site}: {parts}"),
        }
    }
}

/// Gateways of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sites(Vec<Gateway>);

impl Sites {
    /// Of nodes as a membership service lists them.
    pub(crate) fn of_rows(rows: &[NodeRow]) -> Self {
        Self::sorted(rows.iter().filter_map(Gateway::of))
    }

    /// Of nodes as a node tells them, those alone that have to do with the group.
    pub(crate) fn of_group(group: &str, described: &[DescribedNode]) -> Self {
        let gateways = described.iter().filter_map(Gateway::of_described);
        Self::sorted(gateways.filter(|gateway| gateway.state.may_serve(group)))
    }

    fn sorted(gateways: impl Iterator<Item = Gateway>) -> Self {
        let mut gateways: Vec<Gateway> = gateways.collect();
        let key = |one: &Gateway| (one.state.site.clone(), one.name.clone(), one.node.clone());
        gateways.sort_by_key(key);
        Self(gateways)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Other sites, and the gateways here that receive each.
    fn others(&self) -> BTreeMap<&str, Vec<(&Gateway, &OtherSite)>> {
        let mut others = BTreeMap::<&str, Vec<_>>::new();
        for gateway in &self.0 {
            for other in &gateway.state.from {
                others
                    .entry(&other.site)
                    .or_default()
                    .push((gateway, other));
            }
        }
        others
    }
}

#[cfg(test)]
mod tests;
