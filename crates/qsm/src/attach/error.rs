use core::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

use super::requests::VERSION;

/// Why a node cannot be shared. Each text ends with the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum ShareError {
    /// The node is attached itself.
    Attached,
    /// Another process shares its node at this path.
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The path cannot be listened at, or a thread cannot be started.
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is something at the path that is no socket.
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// Rings and the log must have 4 KiB to 1 GiB, a power of two.
    RingBytes {
        /// What was given.
        bytes: usize,
    },
}

impl ShareError {
    pub(super) fn of(path: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            ErrorKind::AddrInUse => Self::InUse { path },
            ErrorKind::AlreadyExists => Self::NotASocket { path },
            _ => Self::Io { path, source },
        }
    }
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attached => f.write_str(
                "an attached node cannot be shared; attach to the engine that it is attached to",
            ),
            Self::InUse { path } => write!(
                f,
                "an engine is shared at {} already; attach to it, stop it, or choose another path",
                path.display()
            ),
            Self::Io { path, source } => {
                let at = path.display();
                let remedy = match source.kind() {
                    ErrorKind::NotFound => "make its folder first",
                    ErrorKind::PermissionDenied => {
                        "choose a folder in which this user may make files"
                    }
                    ErrorKind::InvalidInput => "choose a shorter path",
                    _ => "choose another path, and check `ulimit -a`",
                };
                write!(f, "cannot share an engine at {at}: {source}; {remedy}")
            }
            Self::NotASocket { path } => write!(
                f,
                "{} exists and is no socket; remove it, or choose another path",
                path.display()
            ),
            Self::RingBytes { bytes } => write!(
                f,
                "a ring or log cannot have {bytes} bytes; give it a power of two from 4096 to 1073741824"
            ),
        }
    }
}

impl std::error::Error for ShareError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Attached
            | Self::InUse { .. }
            | Self::NotASocket { .. }
            | Self::RingBytes { .. } => None,
        }
    }
}

/// Why a process cannot attach to an engine. Each text ends with the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum AttachError {
    /// The system failed in another way.
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No engine is shared at this path, or not any more.
    NoEngine {
        /// The path.
        path: PathBuf,
    },
    /// The file may not be opened by this user.
    Permission {
        /// The path.
        path: PathBuf,
    },
    /// The engine refuses; its text says why and what to do.
    Refused {
        /// What it said.
        reason: String,
    },
    /// Whoever listens there does not answer.
    Silent {
        /// The path.
        path: PathBuf,
        /// How long it was waited for.
        after: Duration,
    },
    /// The engine is of another version.
    Version {
        /// Its version of the handshake.
        engine: u32,
    },
}

impl AttachError {
    pub(super) fn of(path: PathBuf, source: io::Error) -> Self {
        match source.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Self::NoEngine { path },
            ErrorKind::PermissionDenied => Self::Permission { path },
            _ => Self::Io { path, source },
        }
    }
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(
                f,
                "cannot attach to the engine at {}: {source}; check `ulimit -n` and that it is the \
                 path of an engine",
                path.display()
            ),
            Self::NoEngine { path } => write!(
                f,
                "no engine at {}; start one with `qsm engine --at PATH` or `Node::share`",
                path.display()
            ),
            Self::Permission { path } => write!(
                f,
                "{} may not be opened by this user; run as the engine's user, or let the engine \
                 give the file another mode",
                path.display()
            ),
            Self::Refused { reason } => f.write_str(reason),
            Self::Silent { path, after } => write!(
                f,
                "whoever listens at {} does not answer within {after:?}; is it an engine, and does \
                 it run?",
                path.display()
            ),
            Self::Version { engine } => write!(
                f,
                "the engine speaks version {engine} of the handshake and this process {VERSION}; \
                 run both with the same version of qsm"
            ),
        }
    }
}

impl std::error::Error for AttachError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// What a process did that it was cut off for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutReason {
    /// It sent a packet that is no request, or one at a wrong time.
    Packet,
    /// It published to a group that it had not prepared to publish to.
    Publisher,
    /// Its side of a ring in shared memory says what cannot be.
    Ring,
    /// It made more requests at once than may be.
    Requests,
}

impl fmt::Display for CutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Packet => "it sent a packet that is no request",
            Self::Publisher => "it published without having prepared to",
            Self::Ring => "its shared memory holds positions or lengths that cannot be",
            Self::Requests => "it made too many requests at once",
        })
    }
}

/// What happens at a shared engine, told to [`ShareOptions::on_event`](super::ShareOptions::on_event).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShareEvent {
    /// A process has attached.
    Attached {
        /// Its number among those of this engine.
        client: u32,
        /// Its process.
        pid: u32,
    },
    /// A process wrote nonsense and was cut off.
    CutOff {
        /// Its number.
        client: u32,
        /// Its process.
        pid: u32,
        /// What it did.
        reason: CutReason,
    },
    /// A process has detached or died, or the engine ends.
    Detached {
        /// Its number.
        client: u32,
        /// Its process.
        pid: u32,
    },
    /// A process was not let in, or could not be.
    Refused {
        /// Its process; 0 if that is not known.
        pid: u32,
        /// What it was told.
        reason: String,
    },
}

impl fmt::Display for ShareEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attached { client, pid } => write!(f, "attached client {client}, process {pid}"),
            Self::CutOff {
                client,
                pid,
                reason,
            } => write!(f, "CUT OFF client {client}, process {pid}: {reason}"),
            Self::Detached { client, pid } => write!(f, "detached client {client}, process {pid}"),
            Self::Refused { pid, reason } => write!(f, "REFUSED process {pid}: {reason}"),
        }
    }
}
