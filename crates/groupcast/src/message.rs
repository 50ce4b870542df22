//! What all recipients of a call share.

/// Most bytes of a UDP datagram over IPv4: 65,535 less 20 bytes of IP and 8 of UDP header.
pub const DATAGRAM_V4_MAX: usize = 65_507;
/// The same over IPv6, whose length field does not count the IP header.
pub const DATAGRAM_V6_MAX: usize = 65_527;
/// Most bytes of a train. Larger ones save nothing more: a train is cut to 64 KB for the kernel.
pub const TRAIN_MAX: usize = 1 << 20;

/// A shared payload, and how to send it.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The bytes that everybody receives.
    pub payload: &'a [u8],
    /// Payload bytes of each datagram of a train; `None`: one datagram.
    pub segment_bytes: Option<u16>,
    /// Flags as in `sendmsg(2)`.
    pub flags: i32,
}

impl<'a> Message<'a> {
    /// One datagram. If it does not fit the path's MTU, the kernel cuts it into IP fragments, which
    /// the receiver's kernel joins.
    #[must_use]
    pub const fn new(payload: &'a [u8]) -> Self {
        Self {
            payload,
            segment_bytes: None,
            flags: 0,
        }
    }

    /// A train: several datagrams of `segment_bytes` (the last one may be shorter) to each
    /// recipient, as if sent one after the other.
    ///
    /// Where the wire allows, a train travels in one piece (UDP segmentation offload).
    #[must_use]
    pub const fn train(payload: &'a [u8], segment_bytes: u16) -> Self {
        Self {
            payload,
            segment_bytes: Some(segment_bytes),
            flags: 0,
        }
    }

    /// The same with flags of `sendmsg(2)`, e.g. `MSG_DONTWAIT`.
    #[must_use]
    pub const fn flags(mut self, flags: i32) -> Self {
        self.flags = flags;
        self
    }

    /// Payload bytes of a full datagram.
    pub(crate) fn datagram_bytes(&self) -> usize {
        match self.segment_bytes {
            Some(bytes) if bytes > 0 => usize::from(bytes).min(self.payload.len()),
            Some(_) | None => self.payload.len(),
        }
    }

    /// Whether it is more than one datagram.
    pub(crate) fn several(&self) -> bool {
        self.datagram_bytes() < self.payload.len()
    }
}
