//! Reasons why nothing is kept or received.

use std::fmt;

use qsm::{CloseReason, ErrorCode, RecvError, RequestError};

/// Reason why a keeper or a subscriber does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryError {
    /// The node refused a request.
    Request(RequestError),
    /// The subscription has ended.
    Recv(RecvError),
    /// No thread could be started.
    Thread,
}

impl HistoryError {
    /// Its stable number.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Request(error) => error.code(),
            Self::Recv(error) => error.code(),
            Self::Thread => ErrorCode::StartSystem,
        }
    }

    /// The end of a subscription, as one without a history tells it.
    #[must_use]
    pub fn into_end(self) -> RecvError {
        match self {
            Self::Recv(error) => error,
            Self::Request(RequestError::Closed(reason)) => RecvError::Closed(reason),
            _ => RecvError::Closed(CloseReason::ShutDown),
        }
    }
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Recv(error) => error.fmt(f),
            Self::Thread => {
                f.write_str("no thread could be started; see the limits of this process")
            }
        }
    }
}

impl std::error::Error for HistoryError {}

impl From<RequestError> for HistoryError {
    fn from(error: RequestError) -> Self {
        Self::Request(error)
    }
}

impl From<RecvError> for HistoryError {
    fn from(error: RecvError) -> Self {
        Self::Recv(error)
    }
}
