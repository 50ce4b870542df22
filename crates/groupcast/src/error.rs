//! What can go wrong: with a whole call, and with one recipient of it.

use std::fmt;
use std::io;

/// Why nothing was sent at all. What concerns one recipient is an [`Errno`] instead.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The array for errors has fewer places than there are recipients.
    ErrorsTooShort {
        /// Places in the array.
        len: usize,
        /// Recipients of the call.
        recipients: usize,
    },
    /// A message without recipients.
    NoRecipients,
    /// A sender was to be made without any socket.
    NoSocket,
    /// The payload fits into no datagram of any address family.
    PayloadTooLarge {
        /// Bytes of payload.
        len: usize,
        /// Most bytes that a datagram or a train may have.
        max: usize,
    },
    /// A call of the operating system failed where a sender was set up or used.
    System {
        /// What was being done.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// More recipients than one call may have.
    TooManyRecipients {
        /// Recipients of the call.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// The back-end asked for cannot be had here.
    Unavailable(crate::Unavailable),
    /// A flag of `sendmsg` that has no meaning for many recipients: `MSG_MORE`, `MSG_ZEROCOPY`.
    UnsupportedFlags {
        /// The offending bits.
        flags: i32,
    },
}

impl Error {
    pub(crate) fn system(action: &'static str, source: io::Error) -> Self {
        Self::System { action, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ErrorsTooShort { len, recipients } => {
                write!(
                    f,
                    "the array for errors has {len} places for {recipients} recipients"
                )
            }
            Self::NoRecipients => write!(f, "a message without recipients"),
            Self::NoSocket => write!(f, "a sender needs at least one socket"),
            Self::PayloadTooLarge { len, max } => {
                write!(f, "a payload of {len} bytes, at most {max} can be sent")
            }
            Self::System { action, source } => write!(f, "cannot {action}: {source}"),
            Self::TooManyRecipients { count, max } => {
                write!(f, "{count} recipients in one call, at most {max}")
            }
            Self::Unavailable(reason) => write!(f, "{reason}"),
            Self::UnsupportedFlags { flags } => {
                write!(f, "flags {flags:#x} have no meaning for many recipients")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            Self::Unavailable(reason) => Some(reason),
            Self::ErrorsTooShort { .. }
            | Self::NoRecipients
            | Self::NoSocket
            | Self::PayloadTooLarge { .. }
            | Self::TooManyRecipients { .. }
            | Self::UnsupportedFlags { .. } => None,
        }
    }
}

/// What became of one recipient: [`Errno::SENT`], or the number that `sendmsg` would have given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Errno(i32);

impl Errno {
    /// The datagram left.
    pub const SENT: Self = Self(0);
    /// `EAFNOSUPPORT`: no socket of the sender has the recipient's address family.
    pub const FAMILY: Self = Self(libc::EAFNOSUPPORT);
    /// `EMSGSIZE`: prepended bytes, payload and appended bytes exceed a datagram.
    pub const TOO_LARGE: Self = Self(libc::EMSGSIZE);
    /// `ECONNREFUSED`: nobody listened when this recipient was sent to earlier.
    pub const REFUSED: Self = Self(libc::ECONNREFUSED);
    /// `ENETUNREACH`: there is no route.
    pub const UNREACHABLE: Self = Self(libc::ENETUNREACH);
    /// `ENOBUFS`: the device's queue was full and dropped the datagram.
    pub const QUEUE_FULL: Self = Self(libc::ENOBUFS);
    /// `EAGAIN`: the socket's buffer is full and the call was not to wait.
    pub const BUFFER_FULL: Self = Self(libc::EAGAIN);
    /// `EINVAL`: an address that cannot be sent to, such as port 0.
    pub const INVALID: Self = Self(libc::EINVAL);

    /// From a number of `errno.h`; 0 means sent.
    #[must_use]
    pub const fn new(code: i32) -> Self {
        Self(code)
    }

    pub(crate) fn last() -> Self {
        Self(
            io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO),
        )
    }

    /// The number of `errno.h`; 0 means sent.
    #[must_use]
    pub const fn code(self) -> i32 {
        self.0
    }

    /// Whether the datagram left.
    #[must_use]
    pub const fn sent(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sent() {
            write!(f, "sent")
        } else {
            write!(f, "{}", io::Error::from_raw_os_error(self.0))
        }
    }
}
