//! Reasons why a live object does not do what it was asked.

use std::fmt;

use qsm::{ErrorCode, StartError};

use crate::replica::ReplicaError;

use super::uri::UriError;

/// Why a live object does not do what it was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum LiveError {
    /// The address is none, or of another kind of object.
    Uri(UriError),
    /// No node of that cluster could be started.
    Start(StartError),
    /// The replica does not do it.
    Replica(ReplicaError),
    /// The object would become larger than its bound.
    Full {
        /// Its bytes with this write.
        bytes: usize,
        /// Its bound.
        bound: usize,
    },
    /// A key is longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX).
    Key {
        /// Its bytes.
        bytes: usize,
        /// The most that are allowed.
        bound: usize,
    },
    /// A place is beyond the end of the text.
    Place {
        /// The place, in characters.
        at: usize,
        /// Characters of the text.
        length: usize,
    },
    /// Somebody wrote at the end of all times, and nobody can write after that.
    Clock,
}

impl LiveError {
    /// Its stable number.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Uri(_) => ErrorCode::ObjectAddress,
            Self::Start(error) => error.code(),
            Self::Replica(error) => error.code(),
            Self::Full { .. } => ErrorCode::ObjectFull,
            Self::Key { .. } => ErrorCode::ObjectKey,
            Self::Place { .. } => ErrorCode::ObjectPlace,
            Self::Clock => ErrorCode::ObjectClock,
        }
    }
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(error) => error.fmt(f),
            Self::Start(error) => error.fmt(f),
            Self::Replica(error) => error.fmt(f),
            Self::Full { bytes, bound } => write!(
                f,
                "the object would have {bytes} bytes, and its bound is {bound}; remove something, or found it with a \
                 larger bound"
            ),
            Self::Key { bytes, bound } => {
                write!(f, "the key has {bytes} bytes; give one of at most {bound}")
            }
            Self::Place { at, length } => write!(
                f,
                "place {at} is beyond the text, which has {length} characters; another may have made it shorter, so \
                 look again"
            ),
            Self::Clock => f.write_str(
                "a member wrote at a time that nobody can be after; end all replicas, and found the object anew",
            ),
        }
    }
}

impl std::error::Error for LiveError {}

impl From<UriError> for LiveError {
    fn from(error: UriError) -> Self {
        Self::Uri(error)
    }
}

impl From<StartError> for LiveError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

impl From<ReplicaError> for LiveError {
    fn from(error: ReplicaError) -> Self {
        Self::Replica(error)
    }
}
