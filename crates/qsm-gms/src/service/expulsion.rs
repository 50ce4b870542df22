use core::time::Duration;
use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::NodeId;

use super::rights::Rights;
use super::{Phase, Service};
use crate::ServiceEvent;
use crate::registry::{Command, EndCause};

/// Nodes remembered that were shut out for being slow, until they come back; others are not told why.
const SLOW_EXPELLED_MAX: usize = 4096;

/// Nodes with rights, and those that lose them.
impl Service {
    /// A node has proven who it is: from now on it may do what its rights say, and nothing else. Where rights are needed
    /// ([`ServiceConfig::rights_needed`](crate::ServiceConfig::rights_needed)), it could do nothing before.
    pub fn set_rights(&mut self, node: NodeId, rights: Arc<dyn Rights>) {
        let known = Some(Arc::clone(&rights));
        self.registry.note_key(node, rights.key(), known);
        self.rights.set(node, rights);
    }

    /// A node has proven that it has this public key, as a text: where groups demand proof of origin, those who receive
    /// them are told (R-SEC-34).
    pub fn note_key(&mut self, node: NodeId, key: String) {
        self.registry.note_key(node, key, None);
    }

    /// Forgets the rights of a node that is not in any more.
    pub fn forget_rights(&mut self, node: NodeId) {
        self.registry.forget_key(node);
        self.rights.forget(node);
    }

    /// Shuts a node out: its life is over, and its session.
    pub fn expel(&mut self, now: Instant, node: NodeId) {
        let now = self.advance(now);
        if let Phase::Holding(hold) = &mut self.phase {
            hold.forget(node);
        }
        self.forget_rights(node);
        self.detector.forget(node);
        self.clients.close(node, &mut self.outbox);
        let cause = EndCause::Expelled;
        self.command(now, Command::End { node, cause });
        self.step(now);
    }

    /// A node has been slower than the others for as long as its groups allow: its life is over, and it may
    /// begin another one. Rule R-RATE-12.
    pub(super) fn expel_slow(&mut self, now: Instant, node: NodeId, patience: Duration) {
        self.stats.slow_expelled += 1;
        let name = self.registry.name(node);
        let reason = format!(
            "{name} has been slower than the others for {patience:?}, and the pace of all its groups \
             is `then expel`; it may come back in another life"
        );
        self.event(ServiceEvent::Expelled { node, reason });
        if self.slow_expelled.len() < SLOW_EXPELLED_MAX {
            self.slow_expelled.insert(node);
        }
        self.clients.close(node, &mut self.outbox);
        let cause = EndCause::Expelled;
        self.command(now, Command::End { node, cause });
    }

    /// Returns whether a node has a life.
    #[must_use]
    pub fn has_life(&self, node: NodeId) -> bool {
        self.registry.origin(node).is_some()
    }
}
