use std::collections::BTreeSet;

use qsm_wire::{NodeId, Origin, RegionId, ViewNumber};

/// Something that the next batch has to do. A batch does it in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    /// Tell a node everything again.
    Resync { node: NodeId },
    /// Tell everybody that a life is over of which nothing else is known.
    Announce { origin: Origin },
    /// Take out a member of an inherited view whose node has not reported, and tell everybody.
    DropMember { region: RegionId, member: Origin },
    /// Give an inherited region a view of this service.
    RenewView { region: RegionId },
    /// Mark a member as leaving that an inherited view shows as active.
    MarkLeaving { region: RegionId, member: Origin },
    /// Make a member's entry in the view anew from what is known of its node.
    RenewMember { region: RegionId, member: Origin },
    /// End an absence of which no mark is left.
    Return { node: NodeId },
    /// Tell others where a node is on the second network.
    TellSecond { node: NodeId },
    /// Tell a node the limit of what it sends again.
    LimitRepairs { node: NodeId },
    /// Take an ended life out of everything.
    RemoveNode { node: NodeId },
    /// Let a node go whose departure is complete.
    Release { region: RegionId, node: NodeId },
    /// Put a node where its groups belong.
    Place { node: NodeId },
    /// Wait until everybody has an inherited view that marks members as leaving.
    AwaitView { region: RegionId, view: ViewNumber },
    /// Tell those who leave with a view that everybody has it.
    Settle { region: RegionId, view: ViewNumber },
}

/// The parts of a batch in which work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the new views are made.
    Members,
    /// Between the views and the messages.
    Views,
    /// With the messages.
    Messages,
}

impl Work {
    fn stage(self) -> Stage {
        match self {
            Self::AwaitView { .. } => Stage::Views,
            Self::Settle { .. } => Stage::Messages,
            Self::Resync { .. }
            | Self::Announce { .. }
            | Self::DropMember { .. }
            | Self::RenewView { .. }
            | Self::MarkLeaving { .. }
            | Self::RenewMember { .. }
            | Self::Return { .. }
            | Self::TellSecond { .. }
            | Self::LimitRepairs { .. }
            | Self::RemoveNode { .. }
            | Self::Release { .. }
            | Self::Place { .. } => Stage::Members,
        }
    }
}

/// The work of the next batch, each piece once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct WorkQueue {
    queue: BTreeSet<Work>,
}

impl WorkQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn push(&mut self, work: Work) {
        self.queue.insert(work);
    }

    pub(super) fn withdraw(&mut self, work: Work) {
        self.queue.remove(&work);
    }

    /// Takes the next piece of this stage; those of earlier stages come first.
    pub(super) fn next(&mut self, stage: Stage) -> Option<Work> {
        let first = self.queue.first()?;
        if first.stage() == stage {
            self.queue.pop_first()
        } else {
            None
        }
    }
}
