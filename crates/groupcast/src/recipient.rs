//! One recipient of a message, and lists of them.

use std::net::SocketAddr;

use crate::group::Group;

/// Most recipients of one call, and most members of a [`Group`].
pub const RECIPIENTS_MAX: usize = 100_000;

/// Which of a sender's sockets a recipient is reached by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Via {
    /// The first socket that has the recipient's address family.
    #[default]
    Family,
    /// This one, by its place among the sockets that the sender was made with.
    Socket(u8),
}

/// A destination with the bytes that only it receives.
///
/// The datagram is `prepend`, the shared payload, `append`; in a train every datagram has them.
#[derive(Debug, Clone, Copy)]
pub struct Recipient<'a> {
    /// Where to.
    pub to: SocketAddr,
    /// By which socket.
    pub via: Via,
    /// Bytes in front of the shared payload.
    pub prepend: &'a [u8],
    /// Bytes behind it.
    pub append: &'a [u8],
}

impl<'a> Recipient<'a> {
    /// A recipient without bytes of its own.
    #[must_use]
    pub const fn new(to: SocketAddr) -> Self {
        Self {
            to,
            via: Via::Family,
            prepend: &[],
            append: &[],
        }
    }

    /// The same with bytes in front of the payload.
    #[must_use]
    pub const fn prepend(mut self, bytes: &'a [u8]) -> Self {
        self.prepend = bytes;
        self
    }

    /// The same with bytes behind the payload.
    #[must_use]
    pub const fn append(mut self, bytes: &'a [u8]) -> Self {
        self.append = bytes;
        self
    }

    /// The same by another socket.
    #[must_use]
    pub const fn via(mut self, via: Via) -> Self {
        self.via = via;
        self
    }

    /// Bytes of its own in each datagram.
    pub(crate) const fn own_bytes(&self) -> usize {
        self.prepend.len() + self.append.len()
    }
}

/// The recipients of one call, wherever they are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Recipients<'a> {
    Slice(&'a [Recipient<'a>]),
    Group(&'a Group),
}

impl<'a> Recipients<'a> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Slice(slice) => slice.len(),
            Self::Group(group) => group.len(),
        }
    }

    pub(crate) fn at(self, index: usize) -> Recipient<'a> {
        match self {
            Self::Slice(slice) => slice[index],
            Self::Group(group) => group.at(index),
        }
    }
}
