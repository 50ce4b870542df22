use core::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

/// Which way datagrams went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the node to the kernel.
    Sent,
    /// From the kernel to the node.
    Received,
}

/// Datagrams at the border between a node and the kernel; see [`Builder::tap`](crate::Builder::tap).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tapped<'a> {
    /// Sent: just before the system call that took it. Received: just after the one that gave it,
    /// and with it up to a ring of others.
    pub at: Instant,
    /// Which way.
    pub direction: Direction,
    /// Whom it was sent to, or who sent it.
    pub peer: SocketAddr,
    /// The multicast address it was sent to; `None` for unicast.
    pub group: Option<SocketAddr>,
    /// What was sent or received: one datagram, or, sent, a train of them.
    pub bytes: &'a [u8],
    /// Bytes of each datagram of a train; the last one may be shorter.
    pub segment_bytes: usize,
}

impl<'a> Tapped<'a> {
    /// The datagrams, one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.chunks(self.segment_bytes.max(1))
    }
}

/// What [`Builder::tap`](crate::Builder::tap) was given.
#[derive(Clone)]
pub(crate) struct Tap(Arc<dyn Fn(Tapped<'_>) + Send + Sync>);

impl Tap {
    pub(crate) fn new(tap: impl Fn(Tapped<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tap))
    }

    pub(crate) fn tell(&self, tapped: Tapped<'_>) {
        (self.0)(tapped);
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}
