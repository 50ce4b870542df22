use std::collections::BTreeMap;

use qsm_wire::membership::Member;
use qsm_wire::{NodeId, RegionId, ViewNumber};

use crate::options::SimOptions;
use crate::violation::Violation;

/// Two nodes of different domains, or that are apart, never share a region, whoever is leaving it or
/// away (R-VIEW-18).
#[derive(Debug, Default)]
pub(crate) struct Divisions {
    hosts: BTreeMap<NodeId, usize>,
}

impl Divisions {
    /// A process of this node starts on a host.
    pub(crate) fn start(&mut self, node: NodeId, host: usize) {
        self.hosts.insert(node, host);
    }

    /// The host of a node.
    pub(crate) fn host(&self, node: NodeId) -> Option<usize> {
        self.hosts.get(&node).copied()
    }

    /// A node has this view.
    pub(crate) fn check(
        &self,
        options: &SimOptions,
        region: RegionId,
        view: ViewNumber,
        members: &[Member],
    ) -> Result<(), Violation> {
        if options.hints.is_empty() {
            return Ok(());
        }
        let known = members
            .iter()
            .filter_map(|member| Some((member.origin, *self.hosts.get(&member.origin.node)?)));
        let known: Vec<_> = known.collect();
        for (at, (one, host)) in known.iter().enumerate() {
            let mut before = known[..at].iter();
            if let Some((other, with)) = before.find(|(_, with)| options.divides(*host, *with)) {
                let message = format!(
                    "view {view} of region {region} has {other} of host {with} and {one} of host {host}, \
                     which hints divide"
                );
                return Err(Violation::new("divisions", message));
            }
        }
        Ok(())
    }
}
