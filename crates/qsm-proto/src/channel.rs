//! Channels: how packets reach the members of a region.

use std::net::SocketAddr;

/// Destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// All who listen to a multicast address.
    Group(SocketAddr),
    /// One node or service.
    Node(SocketAddr),
}

impl Destination {
    /// The address that its packets are sent to.
    #[inline]
    #[must_use]
    pub fn address(self) -> SocketAddr {
        match self {
            Self::Group(address) | Self::Node(address) => address,
        }
    }

    /// True if more than one may receive what is sent there.
    #[inline]
    #[must_use]
    pub fn is_group(self) -> bool {
        matches!(self, Self::Group(_))
    }
}

/// Path of a channel's packets to its members. What is above it (order, repair, stability, rate)
/// does not ask which path it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Path {
    /// One multicast address that all members listen to.
    Multicast(SocketAddr),
    /// The address of the only member, of a private region (R-VIEW-15).
    Member(SocketAddr),
}

impl Path {
    /// Destination of a packet for all members.
    #[inline]
    #[must_use]
    pub fn destination(self) -> Destination {
        match self {
            Self::Multicast(address) => Destination::Group(address),
            Self::Member(address) => Destination::Node(address),
        }
    }

    /// The address that its packets are sent to.
    #[inline]
    #[must_use]
    pub fn address(self) -> SocketAddr {
        match self {
            Self::Multicast(address) | Self::Member(address) => address,
        }
    }

    /// Whether members have to listen to its address.
    #[must_use]
    pub fn is_multicast(self) -> bool {
        matches!(self, Self::Multicast(_))
    }
}
