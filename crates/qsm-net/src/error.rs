//! What can go wrong with a port, with cause and remedy in the text.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use crate::address::Family;
use crate::interface::Interface;

/// Most multicast addresses of one port. Each costs a descriptor and a receive buffer; network cards filter some tens of
/// addresses in hardware and burden the CPU with everything beyond that (R231), so a larger number is a design error.
pub const GROUPS_MAX: usize = 4096;

/// Why a port could not be opened or a group not be joined.
#[derive(Debug)]
#[non_exhaustive]
pub enum PortError {
    /// Another socket has the address and port.
    AddressInUse {
        /// The address that is taken.
        address: SocketAddr,
    },
    /// The interface no longer has the address.
    AddressNotAvailable {
        /// The address that is missing.
        address: SocketAddr,
    },
    /// The interface is gone or down.
    InterfaceGone {
        /// Its name.
        name: String,
    },
    /// The kernel refused one more membership of a socket (`igmp_max_memberships`; for IPv6 `optmem_max`).
    MembershipLimit {
        /// The group that was to be joined.
        group: SocketAddr,
    },
    /// The interface has no route for IPv6 multicast, as is usual for loopback.
    NoMulticastRoute {
        /// Its name.
        name: String,
        /// This is the loopback interface.
        loopback: bool,
    },
    /// The address is not a multicast address, or its port is 0.
    NotMulticast {
        /// What was given.
        group: SocketAddr,
    },
    /// Another error of the operating system.
    Os {
        /// What was tried.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The group is of one family of addresses, the interface's address of the other.
    OtherFamily {
        /// The group that was to be joined.
        group: SocketAddr,
        /// Interface and address of the port.
        interface: String,
    },
    /// Two interfaces are to be used as one, and their addresses are of different families.
    OtherFamilies {
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
    /// The port number is reserved for privileged processes.
    PortReserved {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// Two interfaces are to be used as one, and are one.
    SameInterface {
        /// Its name.
        name: String,
    },
    /// The process has no more file descriptors.
    TooManyFiles,
    /// More than [`GROUPS_MAX`] groups.
    TooManyGroups,
}

impl PortError {
    /// Wraps an error of the system with what was being done.
    pub(crate) fn os(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => Self::TooManyFiles,
            _ => Self::Os { doing, source },
        }
    }

    pub(crate) fn bind(address: SocketAddr) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::EADDRINUSE) => Self::AddressInUse { address },
            Some(libc::EADDRNOTAVAIL) => Self::AddressNotAvailable { address },
            Some(libc::EACCES) => Self::PortReserved { address },
            _ => Self::Os {
                doing: "bind a socket",
                source,
            },
        }
    }

    pub(crate) fn membership(group: SocketAddr, interface: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            // IPv4 says the former, IPv6 the latter (`__ipv6_sock_mc_join`).
            Some(libc::ENOBUFS | libc::ENOMEM) => Self::MembershipLimit { group },
            _ => Self::interface(interface, "join a multicast group")(source),
        }
    }

    /// For looking up the route of multicast.
    pub(crate) fn multicast_route(interface: &Interface) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => Self::NoMulticastRoute {
                name: interface.name.clone(),
                loopback: interface.loopback,
            },
            _ => Self::interface(&interface.name, "look up the route of multicast")(source),
        }
    }

    /// For options that name the interface.
    pub(crate) fn interface(name: &str, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::ENODEV | libc::EADDRNOTAVAIL) => Self::InterfaceGone {
                name: name.to_owned(),
            },
            _ => Self::Os { doing, source },
        }
    }
}

impl fmt::Display for PortError {
    #[expect(clippy::too_many_lines, reason = "one sentence for each variant")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressInUse { address } => write!(
                f,
                "UDP port {} of {} is in use by another process; choose another port, or 0 for any, \
                 or find the owner with `ss -ulnp 'sport = {}'`",
                address.port(),
                address.ip(),
                address.port()
            ),
            Self::AddressNotAvailable { address } => {
                write!(
                    f,
                    "this host no longer has the address {}; choose the interface again",
                    address.ip()
                )
            }
            Self::InterfaceGone { name } => {
                write!(
                    f,
                    "interface {name} is gone or down; check `ip link show {name}` and choose again"
                )
            }
            Self::MembershipLimit { group } => write!(
                f,
                "the kernel refuses to join {group}: too many memberships; raise the limit with `sysctl -w {}`",
                memberships_setting(group)
            ),
            Self::NoMulticastRoute { name, loopback } => write!(
                f,
                "interface {name} has no route for IPv6 multicast; \
                 add one with `ip -6 route append {} dev {name}`",
                if *loopback {
                    "local ff00::/8"
                } else {
                    "multicast ff00::/8 table local"
                }
            ),
            Self::NotMulticast { group } => write!(
                f,
                "{group} is not a multicast address with a port; use one of {}",
                multicast_range(group)
            ),
            Self::OtherFamily { group, interface } => write!(
                f,
                "{} cannot join the {} group {group}; give a group of its family, \
                 or choose an interface by an address of the group's",
                interface,
                Family::of(group.ip()),
            ),
            Self::Os { doing, source } => write!(f, "cannot {doing}: {source}"),
            Self::OtherFamilies { first, second } => write!(
                f,
                "{first} and {second} are of different families; give both by addresses of one, or by name"
            ),
            Self::PortReserved { address } => {
                write!(
                    f,
                    "UDP port {} needs privileges; choose one above 1023, or 0 for any",
                    address.port()
                )
            }
            Self::SameInterface { name } => write!(
                f,
                "{name} is given twice; two interfaces must be on two networks, else nothing is redundant"
            ),
            Self::TooManyFiles => {
                write!(
                    f,
                    "no more file descriptors; raise the limit with `ulimit -n 65536` (each group needs one)"
                )
            }
            Self::TooManyGroups => write!(
                f,
                "at most {GROUPS_MAX} multicast addresses per port; use fewer addresses"
            ),
        }
    }
}

fn memberships_setting(group: &SocketAddr) -> &'static str {
    match Family::of(group.ip()) {
        Family::V4 => "net.ipv4.igmp_max_memberships=1024",
        Family::V6 => "net.core.optmem_max=131072",
    }
}

fn multicast_range(group: &SocketAddr) -> &'static str {
    match Family::of(group.ip()) {
        Family::V4 => "224.0.1.0 to 239.255.255.255, best within 239.255.0.0/16",
        Family::V6 => "ff00::/8, best within ff15::/16",
    }
}

impl std::error::Error for PortError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Os { source, .. } = self {
            Some(source)
        } else {
            None
        }
    }
}

/// What a send did before it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes given to the kernel; always whole datagrams.
    pub bytes: usize,
    /// Datagrams given to the kernel.
    pub datagrams: usize,
    /// System calls made.
    pub calls: usize,
}

/// Why a send failed, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendFailure {
    /// A firewall rule forbids it; for a lossy rule this is a loss.
    Forbidden,
    /// The queue of the device is full and the next datagram, or train, is lost to the network: slow down. Sockets of this
    /// host may have received it, and receive it twice if it is sent again.
    NoBuffers,
    /// Anything else.
    Other,
    /// The destination refused.
    Refused,
    /// A datagram exceeds what UDP or the path carries.
    TooLarge,
    /// There is no way to the destination.
    Unreachable,
}

impl SendFailure {
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOBUFS | libc::ENOMEM) => Self::NoBuffers,
            Some(libc::ECONNREFUSED) => Self::Refused,
            Some(libc::EPERM | libc::EACCES) => Self::Forbidden,
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::ENODEV) => {
                Self::Unreachable
            }
            Some(libc::EMSGSIZE) => Self::TooLarge,
            _ => Self::Other,
        }
    }

    fn remedy(self, family: Family) -> &'static str {
        match self {
            Self::Forbidden => {
                "a firewall rule drops it (check `nft list ruleset`), or it is a broadcast address"
            }
            Self::NoBuffers => {
                "the queue of the device is full: send slower, or enlarge it with `ip link set dev X txqueuelen 10000`"
            }
            Self::Other => "see the system's message",
            Self::Refused => "no process listens there",
            Self::TooLarge => match family {
                Family::V4 => {
                    "make the datagrams smaller than the MTU of the interface less 28 bytes"
                }
                Family::V6 => {
                    "make the datagrams smaller than the MTU of the interface less 48 bytes"
                }
            },
            Self::Unreachable => match family {
                Family::V4 => {
                    "check that the interface is up (`ip link`) and has a route (`ip route add 224.0.0.0/4 dev X`)"
                }
                Family::V6 => {
                    "check that the interface is up (`ip link`) and has a route (`ip -6 route get ff15::1 oif X`)"
                }
            },
        }
    }
}

/// Why a send stopped before the end. What was sent until then is sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum SendError {
    /// The kernel refused the next datagram.
    Failed {
        /// Kind of failure; counted under the same name.
        failure: SendFailure,
        /// Destination.
        to: SocketAddr,
        /// What was sent before.
        sent: Sent,
        /// What the kernel said.
        source: io::Error,
    },
    /// The destination is of the family that this port does not speak. Nothing was sent, and nothing counted.
    OtherFamily {
        /// Destination.
        to: SocketAddr,
    },
    /// The segment size is 0 or above what a datagram carries.
    SegmentSize {
        /// What was given, in bytes.
        segment_bytes: usize,
        /// What a datagram carries, in bytes: 65,507, or 65,527 with IPv6.
        max_bytes: usize,
    },
    /// The send buffer is full; go on with the rest when [`Port::writable`](crate::Port::writable).
    WouldBlock {
        /// What was sent before.
        sent: Sent,
    },
}

impl SendError {
    /// What was sent before the error.
    #[must_use]
    pub fn sent(&self) -> Sent {
        match self {
            Self::Failed { sent, .. } | Self::WouldBlock { sent } => *sent,
            Self::OtherFamily { .. } | Self::SegmentSize { .. } => Sent::default(),
        }
    }

    /// The same about a train of so many bytes that had grown before it was sent, and that others went before.
    pub(crate) fn after(mut self, before: Sent, plain_bytes: usize, segment_bytes: usize) -> Self {
        if let Self::Failed { sent, .. } | Self::WouldBlock { sent } = &mut self {
            let whole = sent.datagrams.saturating_mul(segment_bytes);
            sent.bytes = before.bytes + whole.min(plain_bytes);
            sent.datagrams += before.datagrams;
            sent.calls += before.calls;
        }
        self
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed {
                failure,
                to,
                sent,
                source,
            } => {
                write!(
                    f,
                    "cannot send to {to} after {} bytes: {source}; {}",
                    sent.bytes,
                    failure.remedy(Family::of(to.ip()))
                )
            }
            Self::OtherFamily { to } => write!(
                f,
                "cannot send to {to} from an {} address; all nodes must use interfaces of one family",
                match Family::of(to.ip()) {
                    Family::V4 => Family::V6,
                    Family::V6 => Family::V4,
                }
            ),
            Self::SegmentSize {
                segment_bytes,
                max_bytes,
            } => {
                write!(
                    f,
                    "datagrams of {segment_bytes} bytes are impossible; use 1 to {max_bytes}"
                )
            }
            Self::WouldBlock { sent } => {
                write!(
                    f,
                    "the send buffer is full after {} bytes; wait until the port is writable",
                    sent.bytes
                )
            }
        }
    }
}

impl std::error::Error for SendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Failed { source, .. } = self {
            Some(source)
        } else {
            None
        }
    }
}
