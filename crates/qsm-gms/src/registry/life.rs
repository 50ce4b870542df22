use std::collections::BTreeMap;

use qsm_wire::{Origin, RegionId, ViewNumber};

use super::aim::GroupSet;
use super::transition::State;

/// The life of a node: from its incarnation until it says goodbye, is found dead, or begins
/// another one.
///
/// ```text
///              Admit               Tell
///    Unknown ────────► Unsynced ──────────► Synced
///                       │  ▲ └ Resume ┘      │  │
///                       │  └──── Resume ─────┘  │
///                       │ End               End │
///                       └───────► Ending ◄──────┘
///                                    │ Remove
///                                    ▼
///                                  Ended
/// ```
///
/// A batch tells and removes. Until it does, a node that is ending counts for the others, and
/// what it asks for is refused. Lives that have ended are remembered, the last one of each of
/// many nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Life {
    /// The registry has never seen it.
    Unknown,
    /// All it has been told may be lost: the next batch tells it everything.
    Unsynced,
    /// It has been told everything that concerns it.
    Synced,
    /// It is over; the next batch takes it out of all views and tells those concerned.
    Ending,
    /// It is over, and those concerned have been told.
    Ended,
}

/// What happens to a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LifeEvent {
    /// The node is let in.
    Admit,
    /// It says hello in a new session and goes on in the same life.
    Resume,
    /// A batch tells it everything.
    Tell,
    /// It leaves, is dead, or comes back in another life.
    End,
    /// A batch takes it out of everything.
    Remove,
}

impl State for Life {
    type Event = LifeEvent;

    const TABLE: &'static [(Self, LifeEvent, Self)] = &[
        (Self::Unknown, LifeEvent::Admit, Self::Unsynced),
        (Self::Unsynced, LifeEvent::Resume, Self::Unsynced),
        (Self::Unsynced, LifeEvent::Tell, Self::Synced),
        (Self::Unsynced, LifeEvent::End, Self::Ending),
        (Self::Synced, LifeEvent::Resume, Self::Unsynced),
        (Self::Synced, LifeEvent::End, Self::Ending),
        (Self::Ending, LifeEvent::Remove, Self::Ended),
    ];
}

impl Life {
    /// The node takes part: it has not ended.
    pub(super) fn is_running(self) -> bool {
        matches!(self, Self::Unsynced | Self::Synced)
    }
}

/// The knowledge of an unsynced node, by its own report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Reported {
    /// Views that it has.
    pub(super) views: BTreeMap<RegionId, ViewNumber>,
    /// The groups of regions that it is in, where it has said which of its own they are.
    pub(super) groups: BTreeMap<RegionId, GroupSet>,
    /// Senders that it receives from although they are dead.
    pub(super) dead: Vec<Origin>,
}
