use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_proto::Instant;
use qsm_wire::membership::{Hello, Role};
use qsm_wire::{NodeId, Origin, RegionId, ViewNumber};

use super::Registry;
use super::batch::Batch;

/// An input of the registry. Two registries that begin alike and apply the same commands, each at
/// the same time, are equal and say the same: commands are what a replicated service replicates.
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
    /// The present life of a node is over.
    End { node: NodeId, cause: EndCause },
    /// A node takes up a role in groups. Request 0 is not answered.
    Enter {
        node: NodeId,
        request: u32,
        role: Role,
        names: Vec<String>,
    },
    /// A node gives up a role in groups.
    Exit {
        node: NodeId,
        request: u32,
        role: Role,
        names: Vec<String>,
    },
    /// A leaving member has everything of the region it left; or a former publisher owes nothing.
    Drained {
        node: NodeId,
        region: RegionId,
        view: ViewNumber,
    },
    /// All that the node has been told up to this batch has arrived there.
    Confirm { node: NodeId, batch: u64 },
    /// Let go the departing nodes whose time is over.
    ExpireDrains,
    /// Apply everything that is pending.
    Batch,
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
}

/// The consequences of a command, in the order in which to tell them.
pub(crate) type Updates = Vec<Notice>;

/// Something to tell to a node, or to whoever watches the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A term has begun.
    Opened {
        term: u64,
        /// Nodes taken up as they were.
        resumed: usize,
        /// Members of reported views that did not report.
        absent: usize,
    },
    /// A node begins a life.
    Admitted {
        origin: Origin,
        name: String,
        address: SocketAddr,
    },
    /// To a node: it is in, in this life.
    Welcome { origin: Origin, term: u64 },
    /// To a node: there is no room for it.
    Full { node: NodeId },
    /// A life is over.
    Ended { origin: Origin, cause: EndCause },
    /// To a node: a request is not possible; `None`: it was part of a hello, which has no number.
    Refused {
        node: NodeId,
        request: Option<u32>,
        reason: String,
    },
    /// To many nodes: what changes for each.
    Batch(Batch),
}

impl Registry {
    /// Carries out a command. What does not fit the state of its node changes nothing.
    pub(crate) fn apply(&mut self, command: Command, at: Instant) -> Updates {
        let mut updates = Updates::new();
        match command {
            Command::Open { hellos, era } => self.open_term(at, hellos, era, &mut updates),
            Command::Greet { node, hello } => self.greet(at, node, hello, &mut updates),
            Command::End { node, cause } => {
                let origin = self.end(node);
                updates.extend(origin.map(|origin| Notice::Ended { origin, cause }));
            }
            Command::Enter {
                node,
                request,
                role,
                names,
            } => {
                let result = self.enter(at, node, request, role, &names);
                updates.extend(refusal(node, Some(request), result));
            }
            Command::Exit {
                node,
                request,
                role,
                names,
            } => {
                let result = self.exit(node, request, role, &names);
                updates.extend(refusal(node, Some(request), result));
            }
            Command::Drained { node, region, view } => self.drained(node, region, view),
            Command::Confirm { node, batch } => self.confirm(node, batch),
            Command::ExpireDrains => self.expire_drains(at),
            Command::Batch => updates.push(Notice::Batch(self.batch(at))),
        }
        updates
    }
}

pub(super) fn refusal(
    node: NodeId,
    request: Option<u32>,
    result: Result<(), String>,
) -> Option<Notice> {
    result.err().map(|reason| Notice::Refused {
        node,
        request,
        reason,
    })
}
