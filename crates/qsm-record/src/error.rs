//! Why something is not recorded, or cannot be read. Each text ends with the remedy.

use core::fmt;
use std::io;
use std::path::PathBuf;

/// Why a file cannot be recorded to.
#[derive(Debug)]
pub struct OpenError {
    /// The file.
    pub path: PathBuf,
    /// The system's answer.
    pub source: io::Error,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, source } = self;
        write!(f, "cannot record to {}: {source}; ", path.display())?;
        f.write_str(remedy(source))
    }
}

impl core::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Remedy for a file that cannot be written.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "make its folder first, or name another place",
        io::ErrorKind::PermissionDenied => "name a place where this user may write",
        io::ErrorKind::IsADirectory => "name a file in that folder",
        io::ErrorKind::StorageFull => "free space on that file system, or name another place",
        io::ErrorKind::QuotaExceeded => "free space within the quota, or name another place",
        io::ErrorKind::ReadOnlyFilesystem => "name a place on a file system that can be written",
        _ => "see the system's message",
    }
}

/// Why a recording stopped before its node ended. What is in the file until then can be replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// The file has as many bytes as it may have.
    Limit {
        /// The limit.
        bytes: u64,
    },
    /// The disk has been slower than the node for so long that memory for blocks is used up. The
    /// node does not wait for it.
    Slow {
        /// Bytes that waited to be written.
        bytes: u64,
    },
    /// The file could not be written.
    Disk {
        /// The system's answer, and what to do.
        cause: String,
    },
}

impl Stopped {
    pub(crate) fn disk(error: &io::Error) -> Self {
        let cause = format!("{error}; {}", remedy(error));
        Self::Disk { cause }
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { bytes } => write!(
                f,
                "the limit of {bytes} bytes is reached; raise it to record for longer"
            ),
            Self::Slow { bytes } => write!(
                f,
                "the disk is too slow, {bytes} bytes waited for it; record to a faster one, or to \
                 memory (/dev/shm)"
            ),
            Self::Disk { cause } => f.write_str(cause),
        }
    }
}

/// The end of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The node ended.
    Closed,
    /// The file was as large as it may be; the node went on.
    Limit,
    /// The disk was too slow; the node went on.
    Slow,
    /// The file just ends: the process was killed, the disk was full, or the file was cut. The last
    /// whole block is its end.
    Cut,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the node ended",
            Self::Limit => "the limit of bytes was reached, and the node went on",
            Self::Slow => "the disk was too slow, and the node went on",
            Self::Cut => {
                "the file is cut off: the process was killed, or the disk was full; all whole blocks \
                 are read"
            }
        })
    }
}

/// Why a file cannot be read as a recording.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The system failed.
    Io(io::Error),
    /// It is no recording.
    Foreign,
    /// It has another format.
    Format {
        /// Which.
        found: u16,
    },
    /// Its node spoke another version of the protocol, so this state machine cannot act alike.
    Protocol {
        /// Version of the protocol.
        found: u8,
        /// Version of the library that recorded it.
        version: String,
    },
    /// It ends before the node's start was written.
    Empty,
    /// A block is not as it was written. What is before it can be replayed.
    Damaged {
        /// Number of the block, from 0.
        block: u64,
        /// Where it begins in the file, bytes.
        offset: u64,
    },
    /// A block is as it was written, and cannot be understood.
    Malformed {
        /// Number of the block, from 0.
        block: u64,
    },
    /// The configuration in it cannot work.
    Config(qsm_proto::ConfigError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}; check the path"),
            Self::Foreign => {
                f.write_str("it is no recording of a node; name a file that --record has written")
            }
            Self::Format { found } => write!(
                f,
                "it has format {found}, and this program reads {}; replay it with the version that \
                 recorded it",
                crate::FORMAT
            ),
            Self::Protocol { found, version } => write!(
                f,
                "its node spoke version {found} of the protocol, and this program speaks {}; replay \
                 it with version {version} of the program",
                qsm_wire::VERSION
            ),
            Self::Empty => f.write_str(
                "it ends before the node's start is written; record again, with space on the disk",
            ),
            Self::Damaged { block, offset } => write!(
                f,
                "block {block}, at byte {offset}, is damaged; copy the file again from where it was \
                 recorded"
            ),
            Self::Malformed { block } => write!(
                f,
                "block {block} cannot be understood although it is whole; please report it with the \
                 version that recorded it"
            ),
            Self::Config(error) => write!(
                f,
                "its configuration is refused: {error}; replay it with the version that recorded it"
            ),
        }
    }
}

impl core::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
