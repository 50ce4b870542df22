//! Ways to hand a message to the kernel for many recipients.

mod connected;
mod gather;
mod portable;
mod ring;

use std::fmt;
use std::io;

use crate::message::Message;
use crate::recipient::Recipients;
use crate::socket::Socket;

pub(crate) use portable::{Portable, SEGMENTS_MAX};

/// A way to send, from the plainest to the most privileged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BackEnd {
    /// One `sendmsg` call per recipient: what everybody does, and what the others are measured by.
    Loop,
    /// `sendmmsg`: up to 1,024 recipients in one call, still one copy for each.
    Batch,
    /// One `SENDMSG` request per recipient in an io_uring.
    Ring,
    /// One `SENDMSG_ZC` request per recipient: the payload's pages are pinned instead of copied.
    RingZeroCopy,
    /// A connected socket for each recipient, in an io_uring: the kernel keeps the route.
    Connected,
    /// One packet, cloned to every recipient inside the kernel by an eBPF program.
    Clone,
}

impl BackEnd {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Loop,
        Self::Batch,
        Self::Ring,
        Self::RingZeroCopy,
        Self::Connected,
        Self::Clone,
    ];

    /// The name that the command line and the reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::Batch => "sendmmsg",
            Self::Ring => "io_uring",
            Self::RingZeroCopy => "io_uring-zc",
            Self::Connected => "connected",
            Self::Clone => "ebpf",
        }
    }
}

impl fmt::Display for BackEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a back-end cannot be had on this machine, by this process.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unavailable {
    /// The process lacks a capability.
    Capability {
        /// Its name.
        name: &'static str,
        /// What it is needed for.
        action: &'static str,
    },
    /// The kernel refused, or lacks what is needed.
    Kernel {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
        /// The verifier's last words, where it had any.
        detail: String,
    },
    /// A socket lives in another network namespace than the calling thread.
    OtherNamespace,
}

impl Unavailable {
    pub(crate) fn kernel(action: &'static str, source: io::Error) -> Self {
        Self::Kernel {
            action,
            source,
            detail: String::new(),
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capability { name, action } => write!(f, "{name} is missing, needed to {action}"),
            Self::Kernel {
                action,
                source,
                detail,
            } => {
                write!(f, "cannot {action}: {source}")?;
                if detail.is_empty() {
                    Ok(())
                } else {
                    write!(f, " ({detail})")
                }
            }
            Self::OtherNamespace => {
                write!(f, "a socket belongs to another network namespace")
            }
        }
    }
}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Kernel { source, .. } => Some(source),
            Self::Capability { .. } | Self::OtherNamespace => None,
        }
    }
}

/// A message on its way to those recipients that one socket reaches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) message: Message<'a>,
    pub(crate) recipients: Recipients<'a>,
    pub(crate) socket: &'a Socket,
    /// Place of the socket in the sender.
    pub(crate) socket_index: u8,
}
