use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::NodeId;

use super::rights::Rights;
use super::{Phase, Service};
use crate::registry::{Command, EndCause};

/// Nodes with rights, and those that lose them.
impl Service {
    /// A node has proven who it is: from now on it may do what its rights say, and nothing else. Where rights are needed
    /// ([`ServiceConfig::rights_needed`](crate::ServiceConfig::rights_needed)), it could do nothing before.
    pub fn set_rights(&mut self, node: NodeId, rights: Arc<dyn Rights>) {
        self.rights.set(node, rights);
    }

    /// Forgets the rights of a node that is not in any more.
    pub fn forget_rights(&mut self, node: NodeId) {
        self.rights.forget(node);
    }

    /// Shuts a node out: its life is over, and its session.
    pub fn expel(&mut self, now: Instant, node: NodeId) {
        let now = self.advance(now);
        if let Phase::Holding(hold) = &mut self.phase {
            hold.forget(node);
        }
        self.rights.forget(node);
        self.detector.forget(node);
        self.clients.close(node, &mut self.outbox);
        let cause = EndCause::Expelled;
        self.command(now, Command::End { node, cause });
        self.step(now);
    }

    /// Returns whether a node has a life.
    #[must_use]
    pub fn has_life(&self, node: NodeId) -> bool {
        self.registry.origin(node).is_some()
    }
}
