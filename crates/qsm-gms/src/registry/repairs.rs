//! The operator's limit of what nodes send again (R-NAK-16): all are told, and each that comes.

use qsm_wire::NodeId;
use qsm_wire::membership::{RepairLimit, Update};

use super::Registry;
use super::draft::Draft;
use super::work::Work;

impl Registry {
    /// The limit that holds.
    pub(crate) fn repair_limit(&self) -> RepairLimit {
        self.repair_limit
    }

    /// This limit holds from the next batch on.
    pub(super) fn limit_repairs(&mut self, limit: RepairLimit) {
        if core::mem::replace(&mut self.repair_limit, limit) == limit {
            return;
        }
        self.stats.repair_limits += 1;
        for (id, node) in &self.nodes {
            if node.life.is_running() && !node.unreported {
                self.work.push(Work::LimitRepairs { node: *id });
            }
        }
    }

    /// A node with a new session has no limit.
    pub(super) fn limit_newcomer(&mut self, node: NodeId) {
        if self.repair_limit != RepairLimit::default() {
            self.work.push(Work::LimitRepairs { node });
        }
    }

    pub(super) fn tell_repair_limit(&self, node: NodeId, draft: &mut Draft) {
        if self.origin(node).is_some() {
            let limit = self.repair_limit;
            draft.updates_of(node).repairs = vec![Update::Repairs { limit }];
        }
    }
}
