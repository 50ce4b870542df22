use qsm_proto::Instant;
use qsm_wire::ViewNumber;

use super::transition::State;

/// The way of a node out of a region.
///
/// ```text
///            Leave               Settle
///  Staying ─────────► Leaving ─────────────► Settled ◄─┐
///     │                  │ Drain         Drain │  └─ Settle
///     │                  └──────► Drained ◄────┘
///     │ Part                      │  ▲ │ Remove
///     │                     Drain └──┘ ▼
///     │          Return              Over
///     ▼        ┌───────────────────► ▲ ▲
///  Parting ────┤                     │ │
///              │ Drain               │ │
///              └──────► Parted ──────┘ │ Return, Close
///                        │  ▲ └────────┘
///                  Drain └──┘
/// ```
///
/// A member leaves (R-VIEW-5), a publisher parts (R-VIEW-10). A member that has been taken out and
/// has ever published parts next, which is a departure of its own. Each also ends with the life of
/// the node, and with the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DepartureState {
    /// There is no departure yet.
    Staying,
    /// A view marks the member as leaving; not everybody who may send to it is known to have it.
    Leaving,
    /// Everybody has: nobody sends to the member any more.
    Settled,
    /// The member has everything, or its time is over: the next batch takes it out.
    Drained,
    /// A former publisher whose packets may be on their way.
    Parting,
    /// They have arrived, or its time is over: the next batch closes the region for it.
    Parted,
    /// There is no departure any more.
    Over,
}

/// Something that happens to a departure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DepartureEvent {
    /// The member moves to another region.
    Leave,
    /// The node publishes to no group of the region any more.
    Part,
    /// Everybody who is told of the region has the view.
    Settle,
    /// The node says that it is done, or its time is over.
    Drain,
    /// A batch takes the member out.
    Remove,
    /// A batch closes the region for the former publisher.
    Close,
    /// The former publisher has to do with the region again.
    Return,
}

impl State for DepartureState {
    type Event = DepartureEvent;

    const TABLE: &'static [(Self, DepartureEvent, Self)] = &[
        (Self::Staying, DepartureEvent::Leave, Self::Leaving),
        (Self::Staying, DepartureEvent::Part, Self::Parting),
        (Self::Leaving, DepartureEvent::Settle, Self::Settled),
        (Self::Leaving, DepartureEvent::Drain, Self::Drained),
        (Self::Settled, DepartureEvent::Settle, Self::Settled),
        (Self::Settled, DepartureEvent::Drain, Self::Drained),
        (Self::Drained, DepartureEvent::Drain, Self::Drained),
        (Self::Drained, DepartureEvent::Remove, Self::Over),
        (Self::Parting, DepartureEvent::Drain, Self::Parted),
        (Self::Parting, DepartureEvent::Return, Self::Over),
        (Self::Parted, DepartureEvent::Drain, Self::Parted),
        (Self::Parted, DepartureEvent::Return, Self::Over),
        (Self::Parted, DepartureEvent::Close, Self::Over),
    ];
}

/// A node on its way out of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Departure {
    pub(super) state: DepartureState,
    /// The view that marks the member as leaving, or was the newest when the publisher parted.
    pub(super) view: ViewNumber,
    /// When its time is over.
    pub(super) deadline: Instant,
    /// A former service began it, as others report.
    pub(super) inherited: bool,
}

impl Departure {
    /// A member is marked as leaving by this view.
    pub(super) fn leave(view: ViewNumber, deadline: Instant) -> Self {
        Self::begin(DepartureEvent::Leave, view, deadline)
    }

    /// A former service has marked a member as leaving by this view.
    pub(super) fn inherit(view: ViewNumber, deadline: Instant) -> Self {
        Self {
            inherited: true,
            ..Self::leave(view, deadline)
        }
    }

    /// A publisher gave up its last group of the region, in this view or before.
    pub(super) fn part(view: ViewNumber, deadline: Instant) -> Self {
        Self::begin(DepartureEvent::Part, view, deadline)
    }

    fn begin(event: DepartureEvent, view: ViewNumber, deadline: Instant) -> Self {
        let mut state = DepartureState::Staying;
        state.advance(event);
        Self {
            state,
            view,
            deadline,
            inherited: false,
        }
    }

    /// The node is still a member of the region.
    pub(super) fn is_member(self) -> bool {
        use DepartureState::{Drained, Leaving, Settled};
        matches!(self.state, Leaving | Settled | Drained)
    }
}
