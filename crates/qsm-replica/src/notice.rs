//! Notices of a replica, and reasons for its end.

use std::fmt;

use crate::word::{Address, History};

/// Something that happened to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// It is live: its state is that of the others, and follows every update.
    Live {
        /// Its line of states.
        history: History,
        /// Nobody was live, and it has begun this history: with nothing, or with what it had kept.
        founded: bool,
    },
    /// Its state cannot follow any more, and it binds anew. What it published last may be lost.
    Rebinds(Cause),
    /// With a total order: another replica, or this one, gives the sequence now.
    Sequencer {
        /// Number of its time in this history: 1, 2, 3, …, some of them without a sequencer.
        term: u64,
        /// Who it is.
        address: Address,
        /// It is this replica.
        own: bool,
    },
    /// It has given up.
    Failed(BindError),
}

/// Why a live replica binds anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The library told that messages are lost, were dropped unread, or that the node was excluded.
    Lost,
    /// The numbers of a source show that updates are missing.
    Hole,
    /// There is another history, which stays.
    OtherHistory,
    /// For three seconds without updates another replica has had more than this one.
    Behind,
    /// With a total order: so many replicas died or bound anew at once that those left cannot agree on a sequence. A
    /// new history begins on what they have.
    Quorum,
    /// Another replica has the same updates and another state
    /// ([`StateMachine::digest`](crate::StateMachine::digest)).
    Differs,
}

/// Why a replica could not bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindError {
    /// Every attempt of [`Limits::attempts`](crate::Limits::attempts) failed: donors fell silent, or
    /// their snapshots did not fit.
    Attempts,
    /// It was not done within [`Limits::patience`](crate::Limits::patience).
    Patience,
    /// A snapshot is longer than [`Limits::snapshot_bytes`](crate::Limits::snapshot_bytes).
    TooLong,
    /// The last of as many attempts as are allowed brought a snapshot of another kind of state.
    Foreign,
    /// The live replicas of the group have another [`Order`](crate::Order).
    Order,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live { founded: false, .. } => f.write_str("live"),
            Self::Live { founded: true, .. } => f.write_str("live, as the first"),
            Self::Sequencer {
                term, own: true, ..
            } => write!(f, "gives the sequence of updates, in term {term}"),
            Self::Sequencer { term, address, .. } => write!(
                f,
                "replica {:016x} gives the sequence of updates, in term {term}",
                address.0
            ),
            Self::Rebinds(cause) => write!(f, "binds anew: {cause}"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "messages are lost",
            Self::Hole => "updates are missing",
            Self::OtherHistory => "there is another history, which stays",
            Self::Behind => "another replica has had more for three seconds",
            Self::Quorum => {
                "too few replicas are left that know the sequence; a new history begins"
            }
            Self::Differs => "another replica has the same updates and another state",
        })
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Attempts => {
                "no donor gave a snapshot that fits, in as many attempts as are allowed; are updates faster than \
                 `Limits::held_bytes` and the network allow?"
            }
            Self::Patience => {
                "not bound in time: a member of the group neither answers nor is gone; see `qsm explain`"
            }
            Self::TooLong => "the snapshot is longer than `Limits::snapshot_bytes`; raise it",
            Self::Foreign => {
                "the group has a state of another kind; give the kind that the others have, or another group, and run \
                 the same version everywhere"
            }
            Self::Order => {
                "the replicas of the group apply updates in another order; give the order that they have, or another \
                 group"
            }
        })
    }
}

impl std::error::Error for BindError {}
