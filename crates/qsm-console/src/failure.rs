//! How a command fails: an exit code, one line with the cause, one with the remedy.

use std::fmt;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use crate::log::Note;
use lab::LabError;
use qsm::attach::{AttachError, ShareError};
use qsm::{ExporterError, RecvError, RequestError, SendError, StartError};

/// What the exit code says; `qsm --help` lists the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// It did not work: system, network or data.
    Failure = 1,
    /// The command line cannot be understood. Also what clap exits with.
    Usage = 2,
    /// What was waited for did not happen in time.
    Timeout = 3,
    /// The command ended well, but messages were lost or dropped.
    Incomplete = 4,
    /// Another process does already what this one was started for.
    Superseded = 5,
    /// The host has faults.
    Unhealthy = 6,
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For the exit code.
    pub code: Code,
    /// What happened.
    pub cause: String,
    /// What to do about it.
    pub remedy: String,
}

impl Failure {
    /// With this code.
    pub fn new(code: Code, cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            code,
            cause: cause.into(),
            remedy: remedy.into(),
        }
    }

    /// System, network or data.
    pub fn failed(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Code::Failure, cause, remedy)
    }

    /// The command line.
    pub fn usage(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Code::Usage, cause, remedy)
    }

    /// Something did not happen in time.
    pub fn timeout(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Code::Timeout, cause, remedy)
    }

    /// A file, or another thing of the system, could not be used.
    pub fn io(doing: impl fmt::Display, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            ErrorKind::StorageFull => "free space on that file system, or choose another one",
            ErrorKind::QuotaExceeded => "free space within your quota, or choose another place",
            ErrorKind::NotFound => "check the path",
            ErrorKind::PermissionDenied => "check the permissions, or choose another place",
            ErrorKind::AlreadyExists => "remove it, or choose another name",
            ErrorKind::IsADirectory => {
                "name a file; a folder can be packed first, as `tar c FOLDER` does"
            }
            ErrorKind::UnexpectedEof => "the input ends within a message; was it cut short?",
            _ => "see the system's message",
        };
        Self::failed(format!("cannot {doing}: {error}"), remedy)
    }

    /// From a text of the form `cause; remedy`, which is how the library writes its errors.
    fn split(code: Code, text: &str, remedy: &str) -> Self {
        match text.split_once("; ") {
            Some((cause, remedy)) => Self::new(code, cause, remedy),
            None => Self::new(code, text, remedy),
        }
    }

    /// Says it as a notice, with its remedy.
    pub fn note(&self) {
        let note = Note::error("failed", &self.cause);
        note.remedy(&self.remedy).say();
    }

    /// For `main`.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        writeln!(f, "qsm: error: {}", line(&self.cause))?;
        write!(f, "qsm: remedy: {}", line(&self.remedy))
    }
}

impl std::error::Error for Failure {}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let code = match error {
            StartError::Cores { .. }
            | StartError::OriginWithoutTokens
            | StartError::Cpus { .. }
            | StartError::Families { .. }
            | StartError::Name { .. } => Code::Usage,
            _ => Code::Failure,
        };
        Self::split(code, &error.to_string(), "see `qsm --help`")
    }
}

impl From<ExporterError> for Failure {
    fn from(error: ExporterError) -> Self {
        Self::split(Code::Failure, &error.to_string(), "see --metrics")
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Self {
        let code = match error {
            RequestError::Timeout { .. } | RequestError::TooFewReceivers { .. } => Code::Timeout,
            RequestError::Unconfirmed { .. } => Code::Incomplete,
            RequestError::Pattern { .. } | RequestError::BadPattern { .. } => Code::Usage,
            _ => Code::Failure,
        };
        Self::split(
            code,
            &error.to_string(),
            "check with `qsm nodes` that all are there, or give it more time",
        )
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        Self::split(Code::Failure, &error.to_string(), "start it again")
    }
}

impl From<RecvError> for Failure {
    fn from(error: RecvError) -> Self {
        Self::split(Code::Failure, &error.to_string(), "start it again")
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        Self::split(Code::Failure, &error.to_string(), "see `qsm engine --help`")
    }
}

impl From<ShareError> for Failure {
    fn from(error: ShareError) -> Self {
        let code = match error {
            ShareError::RingBytes { .. } => Code::Usage,
            _ => Code::Failure,
        };
        Self::split(code, &error.to_string(), "see `qsm engine --help`")
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        Self::split(Code::Failure, &error.to_string(), "see `qsm lab --help`")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn cause_and_remedy_are_one_line_each() {
        let failure = Failure::failed("cannot\n  do it", "do\tthat");
        assert_eq!(
            failure.to_string(),
            "qsm: error: cannot do it\nqsm: remedy: do that"
        );
    }

    #[test]
    fn errors_of_the_library_are_split_into_cause_and_remedy() {
        let failure = Failure::from(SendError::TooLarge { length: 5, max: 4 });
        assert_eq!(
            failure.cause,
            "message of 5 bytes is longer than the limit of 4"
        );
        assert!(failure.remedy.starts_with("cut it"), "{failure}");
    }

    #[test]
    fn a_timeout_has_a_code_of_its_own() {
        let error = RequestError::Timeout {
            doing: "waiting",
            after: Duration::from_secs(1),
            outstanding: None,
        };
        let failure = Failure::from(error);
        assert_eq!(failure.code, Code::Timeout);
        assert!(!failure.remedy.is_empty());
    }
}
