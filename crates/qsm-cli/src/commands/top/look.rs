//! Looks at the cluster and at this host.

use std::collections::BTreeMap;

use qsm::{GroupRow, NodeRow, Observer, RegionRow, RequestError};
use qsm_console::failure::Failure;
use qsm_console::figures::{count, counted, rate};
use serde_json::Value;

use super::super::list::{groups, nodes, quietly, regions};
use super::args::{TopArgs, View};
use super::here::{Here, HereNode};
use super::sheet::{self, Order, Sheet};

/// Knowledge after a look.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) nodes: Vec<NodeRow>,
    pub(super) groups: Vec<GroupRow>,
    pub(super) regions: Vec<RegionRow>,
    pub(super) here: Vec<HereNode>,
    /// The reason for which there is nothing of the cluster.
    pub(super) trouble: Option<Failure>,
}

/// Looks again and again.
#[derive(Debug)]
pub(super) struct Looker {
    args: TopArgs,
    here: Here,
}

impl Looker {
    pub(super) fn new(args: &TopArgs) -> Self {
        Self {
            args: args.clone(),
            here: Here::default(),
        }
    }

    /// Asks for what the view shows.
    pub(super) fn look(&mut self, view: View) -> Look {
        if !view.is_of_cluster() {
            return Look {
                here: self.here.look(),
                ..Look::default()
            };
        }
        let args = &self.args;
        let answer = quietly(&args.node, args.timeout, |observer| lists(observer, view));
        answer.unwrap_or_else(|trouble| Look {
            trouble: Some(trouble),
            ..Look::default()
        })
    }
}

fn lists(observer: &mut Observer, view: View) -> Result<Look, RequestError> {
    let mut look = Look {
        nodes: observer.list_nodes()?,
        ..Look::default()
    };
    match view {
        View::Nodes | View::Here => {}
        View::Groups => look.groups = observer.list_groups()?,
        View::Regions => look.regions = observer.list_regions()?,
    }
    Ok(look)
}

impl Look {
    /// A line on the whole.
    pub(super) fn summary(&self) -> String {
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
    pub(super) fn rates(&self) -> (u32, u64) {
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

    /// The lines of a view of which the name contains `filter`.
    pub(super) fn sheet(&self, view: View, order: Order, filter: &str) -> Sheet {
        match view {
            View::Nodes => sheet::nodes(&self.nodes, order, filter),
            View::Groups => sheet::groups(&self.groups, order, filter),
            View::Regions => sheet::regions(&self.regions, &self.names(), order, filter),
            View::Here => sheet::here(&self.here, order, filter),
        }
    }

    /// The same for programs.
    pub(super) fn json(&self, view: View) -> Vec<Value> {
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

    fn names(&self) -> regions::Names {
        let names = self.nodes.iter();
        let names = names.map(|node| (node.origin, node.name.clone()));
        names.collect::<BTreeMap<_, _>>()
    }
}
