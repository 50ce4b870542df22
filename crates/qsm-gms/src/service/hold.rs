use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::NodeId;
use qsm_wire::membership::Hello;

/// How long a new service waits after the first hello before it acts: nodes that search for a
/// service ask at least every 200 ms at first.
const HOLD_MIN: Duration = Duration::from_millis(500);
/// How long when a former service's nodes are about: they notice its silence within 1 s.
const HOLD_REPORTED: Duration = Duration::from_millis(1500);

/// The time after a start in which hellos are collected, so that a membership that exists is
/// found before a new one is made (R-MEM-6).
#[derive(Debug, Default)]
pub(crate) struct Hold {
    first_at: Option<Instant>,
    hellos: BTreeMap<NodeId, Hello>,
    /// How many of them know of a former service: it is asked after every input.
    reported: usize,
}

impl Hold {
    pub(crate) fn add(&mut self, now: Instant, node: NodeId, hello: Hello) {
        self.first_at.get_or_insert(now);
        self.forget(node);
        self.reported += usize::from(hello.term > 0);
        self.hellos.insert(node, hello);
    }

    pub(crate) fn forget(&mut self, node: NodeId) {
        if let Some(hello) = self.hellos.remove(&node) {
            self.reported -= usize::from(hello.term > 0);
        }
    }

    /// When it is over; `None` before the first hello.
    pub(crate) fn until(&self) -> Option<Instant> {
        let wait = match self.reported {
            0 => HOLD_MIN,
            _ => HOLD_REPORTED,
        };
        self.first_at.map(|at| at.after(wait))
    }

    /// Nobody has said hello, or all who did have gone.
    pub(super) fn is_empty(&self) -> bool {
        self.hellos.is_empty()
    }

    /// What has been said.
    pub(super) fn into_hellos(self) -> BTreeMap<NodeId, Hello> {
        self.hellos
    }
}
