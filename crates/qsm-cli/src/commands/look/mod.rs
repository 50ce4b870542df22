//! Looks at the cluster and at this host: what `qsm top` and `qsm dash` see.

mod health;
mod here;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use qsm::{GroupRow, NodeRow, Observer, RegionRow, RequestError};
use qsm_console::failure::Failure;
use qsm_console::figures::{count, counted, rate};
use qsm_console::options::NodeOptions;
use serde_json::Value;

pub(crate) use self::health::Health;
pub(crate) use self::here::{Here, HereNode, HereRates};
use super::list::{groups, nodes, quietly, regions};

/// A part of what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// Nodes of the cluster: states and rates
    Nodes,
    /// Groups: receivers, publishers, and what a message costs
    Groups,
    /// Regions: members, and how many of them are away
    Regions,
    /// Nodes of this host: what they miss, drop and wait for
    Here,
}

impl View {
    pub(crate) const ALL: [Self; 4] = [Self::Nodes, Self::Groups, Self::Regions, Self::Here];
    /// Those that show what the membership service knows.
    pub(crate) const CLUSTER: [Self; 3] = [Self::Nodes, Self::Groups, Self::Regions];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Groups => "groups",
            Self::Regions => "regions",
            Self::Here => "here",
        }
    }

    /// Tells whether it shows what the membership service knows.
    pub(crate) const fn is_of_cluster(self) -> bool {
        !matches!(self, Self::Here)
    }
}

/// Knowledge after a look.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) nodes: Vec<NodeRow>,
    pub(crate) groups: Vec<GroupRow>,
    pub(crate) regions: Vec<RegionRow>,
    pub(crate) here: Vec<HereNode>,
    /// The reason for which there is nothing of the cluster.
    pub(crate) trouble: Option<Failure>,
}

/// Looks again and again.
#[derive(Debug)]
pub(crate) struct Looker {
    node: NodeOptions,
    timeout: Duration,
    here: Here,
}

impl Looker {
    /// Asks where these options say, and waits so long for the membership service.
    pub(crate) fn new(node: &NodeOptions, timeout: Duration) -> Self {
        Self {
            node: node.clone(),
            timeout,
            here: Here::default(),
        }
    }

    /// Asks for what the view shows.
    pub(crate) fn look(&mut self, view: View) -> Look {
        if !view.is_of_cluster() {
            return Look {
                here: self.here.look(),
                ..Look::default()
            };
        }
        cluster(&self.node, self.timeout, &[view])
    }
}

/// What the membership service knows of what these views show; nodes in any case.
pub(crate) fn cluster(node: &NodeOptions, timeout: Duration, views: &[View]) -> Look {
    let answer = quietly(node, timeout, |observer| lists(observer, views));
    answer.unwrap_or_else(|trouble| Look {
        trouble: Some(trouble),
        ..Look::default()
    })
}

fn lists(observer: &mut Observer, views: &[View]) -> Result<Look, RequestError> {
    let mut look = Look {
        nodes: observer.list_nodes()?,
        ..Look::default()
    };
    if views.contains(&View::Groups) {
        look.groups = observer.list_groups()?;
    }
    if views.contains(&View::Regions) {
        look.regions = observer.list_regions()?;
    }
    Ok(look)
}

impl Look {
    /// A line on the whole.
    pub(crate) fn summary(&self) -> String {
        if self.nodes.is_empty() {
            return counted(self.here.len() as u64, "node") + " on this host";
        }
        let away = self.nodes.iter().filter(|row| row.away.is_some()).count();
        let deaf = self.nodes.iter().filter(|row| row.deaf).count();
        let (sent, received) = self.rates();
        let mut text = counted(self.nodes.len() as u64, "node");
        for (number, what) in [(away, "away"), (deaf, "deaf")] {
            if number > 0 {
                text.push_str(&format!(", {} {what}", count(number as u64)));
            }
        }
        format!(
            "{text}; {} messages/s sent, {} received",
            rate(f64::from(sent)),
            rate(received as f64)
        )
    }

    /// Messages a second that all nodes have accepted, and delivered.
    pub(crate) fn rates(&self) -> (u32, u64) {
        let known = self
            .nodes
            .iter()
            .filter_map(|row| nodes::now(row, row.rates));
        known.fold((0, 0), |(sent, received), rates| {
            (
                sent.saturating_add(rates.sent),
                received + u64::from(rates.received),
            )
        })
    }

    /// The rows of a view, for programs.
    pub(crate) fn json(&self, view: View) -> Vec<Value> {
        match view {
            View::Nodes => self.nodes.iter().map(nodes::node_json).collect(),
            View::Groups => self.groups.iter().map(groups::group_json).collect(),
            View::Regions => {
                let names = self.names();
                let regions = self.regions.iter();
                regions
                    .map(|row| regions::region_json(row, &names))
                    .collect()
            }
            View::Here => self.here.iter().map(HereNode::json).collect(),
        }
    }

    /// Names of nodes.
    pub(crate) fn names(&self) -> regions::Names {
        let names = self.nodes.iter();
        let names = names.map(|node| (node.origin, node.name.clone()));
        names.collect::<BTreeMap<_, _>>()
    }
}
