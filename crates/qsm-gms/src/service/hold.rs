use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use qsm_proto::Instant;
use qsm_wire::membership::Hello;
use qsm_wire::{ChannelId, Incarnation, NodeId, Origin, RegionId};

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

    /// What the hellos say together.
    ///
    /// Nodes of an older term were absent when the last service began: to it they were dead. So
    /// are those whose deaths others have been told of (R046).
    pub(crate) fn split(self) -> Reported {
        let hellos = self.hellos.values();
        let term = hellos.clone().map(|hello| hello.term).max().unwrap_or(0);
        let region_last = hellos.clone().map(|hello| hello.region_last).max();
        let channel_last = hellos.clone().map(|hello| hello.channel_last).max();
        let incarnation_last = hellos.clone().map(|hello| hello.incarnation_last).max();
        let dead = hellos.flat_map(|hello| hello.dead.iter().copied());
        let dead: BTreeSet<Origin> = dead.collect();
        let resumes = |(node, hello): &(NodeId, Hello)| {
            let origin = Origin {
                node: *node,
                incarnation: hello.incarnation,
            };
            let known = hello.term > 0 && hello.incarnation != Incarnation(0);
            known && hello.term == term && !dead.contains(&origin)
        };
        let (resuming, fresh) = self.hellos.into_iter().partition(resumes);
        Reported {
            term,
            last: (
                region_last.unwrap_or_default(),
                channel_last.unwrap_or_default(),
            ),
            incarnation_last: incarnation_last.unwrap_or_default(),
            resuming,
            fresh,
        }
    }
}

/// What was said during the hold.
#[derive(Debug)]
pub(crate) struct Reported {
    /// The highest term.
    pub(crate) term: u64,
    /// The highest numbers of a region and a channel.
    pub(crate) last: (RegionId, ChannelId),
    /// The highest incarnation.
    pub(crate) incarnation_last: Incarnation,
    /// Nodes that go on in their lives.
    pub(crate) resuming: BTreeMap<NodeId, Hello>,
    /// All others.
    pub(crate) fresh: BTreeMap<NodeId, Hello>,
}
