use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_proto::Instant;
use qsm_wire::membership::{Answer, AwayReason, Hello, RepairLimit};
use qsm_wire::{GroupId, NodeId, Origin, RegionId};

use super::Registry;
use super::batch::Batch;
use super::clusters::ClusterId;
use crate::plan::Zone;

/// Inputs of the registry from the service, beside the requests of nodes. Two registries that begin
/// alike and take the same commands and requests, each at the same time, are equal and say the
/// same: those are what a replicated service replicates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Begin a term with what the nodes have reported; once, and first of all.
    Open {
        /// Hellos of the time before.
        hellos: BTreeMap<NodeId, Hello>,
        /// Where incarnations begin if nobody remembers any; below [`ERAS`](super::ERAS).
        era: u32,
    },
    /// A node has opened a session.
    Greet { node: NodeId, hello: Hello },
    /// Nobody is to wait for a node any more.
    SetAway { node: NodeId, reason: AwayReason },
    /// The present life of a node is over.
    End { node: NodeId, cause: EndCause },
    /// All that the node has been told up to this batch has arrived there.
    Confirm { node: NodeId, batch: u64 },
    /// There is another plan.
    Advise(Advice),
    /// Limit what nodes send again so from now on.
    LimitRepairs(RepairLimit),
    /// Others send to the address of a region.
    Readdress { region: RegionId },
    /// Let go the departing nodes whose time is over, and the senders that have not reported.
    Expire,
    /// Apply everything that is pending.
    Batch,
}

/// Word of a plan on nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Advice {
    /// Groups that go to these nodes by private regions although others have them too (R-VIEW-15).
    pub(crate) residue: BTreeMap<NodeId, Vec<GroupId>>,
    /// Regions of nodes whose groups differ (R-VIEW-16).
    pub(crate) merged: Vec<PlannedRegion>,
    /// Deliveries of a million in such a region that may be unwanted.
    pub(crate) unwanted_ppm: u32,
    /// Sets of groups, each of which goes by one region to all who receive all of it (R-VIEW-17); of
    /// two that overlap the first counts.
    pub(crate) commons: Vec<CommonSet>,
}

/// Groups that nodes of several regions have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommonSet {
    /// The zone of these nodes.
    pub(crate) zone: Zone,
    /// The groups, ascending.
    pub(crate) groups: Vec<GroupId>,
}

/// A region of nodes whose groups differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedRegion {
    /// Its number in the plan.
    pub(crate) id: ClusterId,
    /// Its nodes.
    pub(crate) members: Vec<NodeId>,
    /// The groups that all of them get, ascending; who does not want one drops it.
    pub(crate) groups: Vec<GroupId>,
}

/// The reason for the end of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndCause {
    /// It said goodbye.
    Goodbye,
    /// It answered no probe.
    Silence,
    /// It came back in another life.
    NewLife,
    /// Another service has told nodes that it is over.
    Elsewhere,
    /// It was shut out.
    Expelled,
}

/// The consequences of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Updates {
    /// Lives that are over.
    pub(crate) ended: Vec<(Origin, EndCause)>,
    /// Nodes that nobody waits for any more, or for another reason than before.
    pub(crate) away: Vec<(Origin, AwayReason)>,
    /// Nodes that are at another address than before.
    pub(crate) relocated: Vec<AddressChange>,
    /// The changes, for each node. Who is welcomed is told so before.
    pub(crate) batches: Vec<Batch>,
    /// A term has begun.
    pub(crate) opened: Option<TermStart>,
    /// Nodes that begin a life.
    pub(crate) admitted: Vec<Admission>,
    /// Nodes that are in, in these lives.
    pub(crate) welcomed: Vec<Origin>,
    /// Nodes that there is no room for.
    pub(crate) full: Vec<NodeId>,
    /// Refusals of groups that a hello names. Their request has no number: it is 0.
    pub(crate) refused: Vec<(NodeId, Answer)>,
}

/// Beginning of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TermStart {
    pub(crate) term: u64,
    /// Nodes taken up as they were.
    pub(crate) resumed: usize,
    /// Members of reported views that did not report: they are away, or dead.
    pub(crate) absent: usize,
}

/// A node at another address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressChange {
    pub(crate) origin: Origin,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
}

/// A node that begins a life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) origin: Origin,
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
}

impl Registry {
    /// Carries out a command. What does not fit the state of its node changes nothing.
    pub(crate) fn apply(&mut self, at: Instant, command: Command) -> Updates {
        let mut updates = Updates::default();
        match command {
            Command::Open { hellos, era } => self.open_term(at, hellos, era, &mut updates),
            Command::Greet { node, hello } => self.greet(at, node, hello, &mut updates),
            Command::SetAway { node, reason } => {
                let news = self.set_away(at, node, reason);
                let origin = self.origin(node).filter(|_| news);
                updates.away.extend(origin.map(|origin| (origin, reason)));
            }
            Command::End { node, cause } => {
                let origin = self.end(node);
                updates.ended.extend(origin.map(|origin| (origin, cause)));
            }
            Command::Confirm { node, batch } => self.confirm(node, batch),
            Command::Advise(advice) => self.advise(advice),
            Command::Readdress { region } => self.readdress(region),
            Command::LimitRepairs(limit) => self.limit_repairs(limit),
            Command::Expire => {
                self.expire_drains(at);
                self.expire_senders(at);
                self.expire_unsettled(at);
            }
            Command::Batch => updates.batches.push(self.batch(at)),
        }
        updates
    }
}
