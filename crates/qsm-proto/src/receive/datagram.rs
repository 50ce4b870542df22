use core::ops::Range;
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_wire::{Data, Header};

/// Sequence numbers from here on are refused: nobody reaches them in a thousand years, and below
/// them no sum of two overflows.
pub const SEQUENCE_MAX: u64 = 1 << 62;

/// A datagram as it arrived, and the buffer that it may stay in.
///
/// The runtime lends a buffer that is worth holding: one that datagrams of one sender fill for
/// the most part, as a train does that the kernel has coalesced. All else is copied if it must be
/// kept.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    pub(crate) bytes: &'a [u8],
    /// The buffer, and where in it the bytes begin.
    pub(super) home: Option<(&'a Arc<[u8]>, usize)>,
}

/// A data packet, decoded, and the datagram that is the whole of it.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a> {
    /// Its header.
    pub header: &'a Header,
    /// What follows the header.
    pub data: &'a Data<'a>,
    /// All of it.
    pub datagram: Datagram<'a>,
}

impl Incoming<'_> {
    /// Where the stream's sender is, if the packet that came from there tells: a repair may come
    /// from anybody.
    #[must_use]
    pub fn source(&self, from: SocketAddr) -> Option<SocketAddr> {
        self.header.hop.is_first().then_some(from)
    }
}

impl<'a> Datagram<'a> {
    /// A datagram that may be kept where it lies. While it is, the buffer has other owners than
    /// the runtime ([`Arc::get_mut`] says so) and must not be used for other things.
    #[must_use]
    pub fn lent(buffer: &'a Arc<[u8]>, range: Range<usize>) -> Self {
        Self {
            home: Some((buffer, range.start)),
            bytes: &buffer[range],
        }
    }

    /// The bytes that arrived.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The buffer that it may stay in, and where in it the bytes begin.
    #[must_use]
    pub fn home(&self) -> Option<(&'a Arc<[u8]>, usize)> {
        self.home
    }

    /// The same datagram, to be copied if it is kept.
    #[must_use]
    pub(crate) fn copied(self) -> Self {
        Self { home: None, ..self }
    }
}

impl<'a> From<&'a [u8]> for Datagram<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, home: None }
    }
}
