//! The names of what is planned.

use qsm_wire::{GroupId, NodeId};

/// Names of nodes and groups, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlanNames {
    pub(super) nodes: Vec<String>,
    pub(super) groups: Vec<String>,
}

impl PlanNames {
    /// A node's name.
    pub(super) fn node(&self, node: NodeId) -> &str {
        let at = usize::try_from(node.0).unwrap_or(usize::MAX);
        self.nodes.get(at).map_or("?", String::as_str)
    }

    /// A group's name.
    pub(super) fn group(&self, group: GroupId) -> &str {
        self.groups
            .get(group.0 as usize)
            .map_or("?", String::as_str)
    }
}
