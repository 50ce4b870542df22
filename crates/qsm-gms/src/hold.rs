use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_proto::Instant;
use qsm_wire::membership::{GroupReport, RegionReport};
use qsm_wire::{Incarnation, NodeId};

/// How long a new service waits after the first hello before it acts: nodes that search for a
/// service ask at least every 200 ms at first.
const HOLD_MIN: Duration = Duration::from_millis(500);
/// How long when a former service's nodes are about: they notice its silence within 1 s.
const HOLD_REPORTED: Duration = Duration::from_millis(1500);

/// What a node said when it came.
#[derive(Debug)]
pub(crate) struct Hello {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) incarnation: Incarnation,
    pub(crate) term: u64,
    pub(crate) groups: Vec<GroupReport>,
    pub(crate) regions: Vec<RegionReport>,
}

/// The time after a start in which hellos are collected, so that a membership that exists is
/// found before a new one is made (R-MEM-6).
#[derive(Debug, Default)]
pub(crate) struct Hold {
    first_at: Option<Instant>,
    hellos: BTreeMap<NodeId, Hello>,
}

impl Hold {
    pub(crate) fn add(&mut self, now: Instant, node: NodeId, hello: Hello) {
        self.first_at.get_or_insert(now);
        self.hellos.insert(node, hello);
    }

    pub(crate) fn forget(&mut self, node: NodeId) {
        self.hellos.remove(&node);
    }

    /// When it is over; `None` before the first hello.
    pub(crate) fn until(&self) -> Option<Instant> {
        let reported = self.hellos.values().any(|hello| hello.term > 0);
        let wait = if reported { HOLD_REPORTED } else { HOLD_MIN };
        self.first_at.map(|at| at.after(wait))
    }

    /// The highest term reported, and the hellos of that term's nodes and of all others. Nodes
    /// of an older term were absent when the last service began: to it they were dead.
    pub(crate) fn split(self) -> (u64, BTreeMap<NodeId, Hello>, BTreeMap<NodeId, Hello>) {
        let term = self.hellos.values().map(|hello| hello.term).max();
        let term = term.unwrap_or(0);
        let resumes = |hello: &Hello| {
            hello.term > 0 && hello.term == term && hello.incarnation != Incarnation(0)
        };
        let hellos = self.hellos.into_iter();
        let (resuming, fresh) = hellos.partition(|(_, hello)| resumes(hello));
        (term, resuming, fresh)
    }
}
