//! What a port has done so far. All counts only grow, and wrap never in practice (64 bits).

use std::ops::AddAssign;

use crate::error::SendFailure;

/// Counts of one port since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Received at the unicast socket. Kept apart from multicast because the paths, and so the losses, differ (R239).
    pub unicast: ReceiveCounters,
    /// Received at all multicast sockets together, also those left meanwhile.
    pub multicast: ReceiveCounters,
    /// Sent.
    pub sent: SendCounters,
    /// Faults injected on purpose.
    pub faults: FaultCounters,
}

/// Counts of what was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounters {
    /// Datagrams after splitting of trains, before injected faults.
    pub datagrams: u64,
    /// Payload bytes of those.
    pub bytes: u64,
    /// `recvmmsg` calls that returned something.
    pub calls: u64,
    /// Messages of more than one datagram (UDP GRO).
    pub trains: u64,
    /// Messages that did not fit a buffer, and were dropped whole.
    pub truncated: u64,
    /// What the kernel dropped because a receive buffer was full (`SO_RXQ_OVFL`, `SO_MEMINFO`; R221). The kernel counts
    /// buffers: a whole train that found no room counts **one**. Damaged checksums count here too.
    pub kernel_drops: u64,
}

/// Counts of what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounters {
    /// Datagrams.
    pub datagrams: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// System calls, also those that failed.
    pub calls: u64,
    /// Messages of more than one datagram (UDP GSO).
    pub trains: u64,
    /// Errors, by kind.
    pub errors: SendErrorCounters,
}

/// Counts of failed sends, by the kinds of [`SendFailure`](crate::SendFailure).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendErrorCounters {
    /// The send buffer was full (`EAGAIN`).
    pub would_block: u64,
    /// The queue of the device was full (`ENOBUFS`, `ENOMEM`).
    pub no_buffers: u64,
    /// The destination's host said that nobody listens there (`ECONNREFUSED`, by ICMP, so about an earlier datagram).
    pub refused: u64,
    /// A firewall rule forbade it (`EPERM`, `EACCES`).
    pub forbidden: u64,
    /// No way to the destination (`ENETUNREACH`, `EHOSTUNREACH`, `ENETDOWN`, `ENODEV`).
    pub unreachable: u64,
    /// Too large for a datagram or for the path (`EMSGSIZE`).
    pub too_large: u64,
    /// Anything else.
    pub other: u64,
    /// Trains refused by the kernel or device, sent again one datagram at a time (`EIO`, `EINVAL`).
    pub trains_refused: u64,
}

/// Counts of injected faults, in datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Discarded.
    pub lost: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delivered after their successor.
    pub reordered: u64,
}

macro_rules! sums {
    ($($type:ident { $($name:ident),* })*) => {
        $(
            impl AddAssign for $type {
                fn add_assign(&mut self, other: Self) {
                    $(self.$name += other.$name;)*
                }
            }
        )*
    };
}

sums! {
    PortCounters { unicast, multicast, sent, faults }
    ReceiveCounters { datagrams, bytes, calls, trains, truncated, kernel_drops }
    SendCounters { datagrams, bytes, calls, trains, errors }
    SendErrorCounters {
        would_block, no_buffers, refused, forbidden, unreachable, too_large, other, trains_refused
    }
    FaultCounters { lost, duplicated, reordered }
}

impl SendErrorCounters {
    pub(crate) fn count(&mut self, failure: SendFailure) {
        let count = match failure {
            SendFailure::Forbidden => &mut self.forbidden,
            SendFailure::NoBuffers => &mut self.no_buffers,
            SendFailure::Other => &mut self.other,
            SendFailure::Refused => &mut self.refused,
            SendFailure::TooLarge => &mut self.too_large,
            SendFailure::Unreachable => &mut self.unreachable,
        };
        *count += 1;
    }
}

impl PortCounters {
    pub(crate) fn received(&mut self, multicast: bool) -> &mut ReceiveCounters {
        if multicast {
            &mut self.multicast
        } else {
            &mut self.unicast
        }
    }
}
