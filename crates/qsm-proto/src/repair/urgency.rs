use qsm_wire::{Hop, Kind};

/// Treatment of a request where its packets are missing too, from the plan to the repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestUrgency {
    /// Passed on at once: the fast plane's.
    AtOnce,
    /// Answered as soon as the packets are available: the token plane's (R081).
    WhenAvailable,
}

impl RequestUrgency {
    /// The urgency of what cachers are asked for; `fast`: the fast plane is on.
    #[must_use]
    pub fn of_plane(fast: bool) -> Self {
        match fast {
            true => Self::AtOnce,
            false => Self::WhenAvailable,
        }
    }

    /// The packet that carries such a request.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::AtOnce => Kind::Nak,
            Self::WhenAvailable => Kind::Pull,
        }
    }

    /// As what a cacher's repair comes to its receiver.
    #[must_use]
    pub fn repair_hop(self) -> Hop {
        match self {
            Self::AtOnce => Hop::CacherRepair,
            Self::WhenAvailable => Hop::PullRepair,
        }
    }
}
