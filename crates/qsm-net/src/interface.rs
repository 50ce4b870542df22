//! Which network interface to use, and why.
//!
//! Multicast belongs to an interface, not to a host: a membership, and each datagram sent, names one. A wrong choice
//! is the commonest reason that nothing arrives, so the choice is made once, said aloud, and never left to the
//! routing table: every socket of a [`Port`](crate::Port) sets `IP_MULTICAST_IF` and joins by interface index.
//! With that, **no route for multicast is needed**: for a multicast destination with an output interface Linux goes on
//! when the route look-up fails (`ip_route_output_key_hash_rcu`; checked on Linux 6.18 in a network namespace without
//! any route). Other programs that do not name an interface still need `ip route add 224.0.0.0/4 dev X`.

use std::ffi::CStr;
use std::fmt;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::ptr;

use crate::sys;

/// A network interface that is up and has an IPv4 address. One with several addresses appears once for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, for example `eth0`.
    pub name: String,
    /// Index, as `ip link` shows it.
    pub index: u32,
    /// IPv4 address: the source of what is sent.
    pub addr: Ipv4Addr,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// This is the loopback interface.
    pub loopback: bool,
    /// The interface claims to carry multicast. `lo` does not, yet it does carry it within the host.
    pub multicast: bool,
}

/// Why no interface could be chosen. Each text ends with the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum InterfaceError {
    /// The interface exists but is down.
    Down {
        /// Its name.
        name: String,
    },
    /// The interface has no IPv4 address.
    NoAddress {
        /// Its name.
        name: String,
    },
    /// The interface does not carry multicast.
    NoMulticast {
        /// Its name.
        name: String,
    },
    /// None was asked for and none fits.
    NoneUsable {
        /// The interfaces that exist.
        existing: Vec<String>,
    },
    /// The interfaces could not be listed.
    Os(io::Error),
    /// No interface has that name or address.
    Unknown {
        /// What was asked for.
        requested: String,
        /// The interfaces that exist, with their addresses.
        existing: Vec<String>,
    },
}

impl fmt::Display for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down { name } => write!(
                f,
                "interface {name} is down; bring it up with `ip link set dev {name} up`"
            ),
            Self::NoAddress { name } => write!(
                f,
                "interface {name} has no IPv4 address; give it one with `ip addr add ADDRESS/LENGTH dev {name}`"
            ),
            Self::NoMulticast { name } => write!(
                f,
                "interface {name} does not carry multicast; turn it on with `ip link set dev {name} multicast on` \
                 (and `ip route add 224.0.0.0/4 dev {name}` for programs that follow the routing table)"
            ),
            Self::NoneUsable { existing } => write!(
                f,
                "no interface is up with an IPv4 address and multicast; there are: {}; \
                 bring one up with `ip link set dev NAME up`",
                existing.join(", ")
            ),
            Self::Os(error) => write!(f, "cannot list the network interfaces: {error}"),
            Self::Unknown {
                requested,
                existing,
            } => write!(
                f,
                "no interface has the name or IPv4 address {requested:?}; choose one of: {}",
                existing.join(", ")
            ),
        }
    }
}

impl std::error::Error for InterfaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Os(error) = self {
            Some(error)
        } else {
            None
        }
    }
}

impl From<io::Error> for InterfaceError {
    fn from(error: io::Error) -> Self {
        Self::Os(error)
    }
}

/// The interfaces that are up and have an IPv4 address, in the order of the kernel (`getifaddrs`).
///
/// # Errors
/// What `getifaddrs` or the ioctl for the MTU returned.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    Ok(links()?
        .iter()
        .filter(|link| link.up())
        .flat_map(Link::entries)
        .collect())
}

/// Chooses the interface with the given name or IPv4 address, or the most fitting one; also says why, in words.
///
/// Without a request the order is: one with a route for multicast, one with the default route, any other with
/// multicast, and loopback last, because nothing sent there reaches another host.
///
/// # Errors
/// [`InterfaceError`], which names the remedy.
pub fn choose_interface(requested: Option<&str>) -> Result<(Interface, String), InterfaceError> {
    choose(&links()?, &routes(), requested)
}

/// An interface as the kernel lists it, usable or not.
#[derive(Clone, Debug)]
struct Link {
    name: String,
    index: u32,
    flags: u32,
    mtu: u32,
    addrs: Vec<Ipv4Addr>,
}

impl Link {
    fn flag(&self, flag: libc::c_int) -> bool {
        self.flags & flag as u32 != 0
    }

    fn up(&self) -> bool {
        self.flag(libc::IFF_UP)
    }

    fn entries(&self) -> impl Iterator<Item = Interface> {
        self.addrs.iter().map(|&addr| Interface {
            name: self.name.clone(),
            index: self.index,
            addr,
            mtu: self.mtu,
            loopback: self.flag(libc::IFF_LOOPBACK),
            multicast: self.flag(libc::IFF_MULTICAST),
        })
    }

    fn describe(&self) -> String {
        let addrs: Vec<String> = self.addrs.iter().map(ToString::to_string).collect();
        let state = if self.up() { "" } else { ", down" };
        let addrs = if addrs.is_empty() {
            "no IPv4 address".to_owned()
        } else {
            addrs.join(" ")
        };
        format!("{} ({addrs}{state})", self.name)
    }
}

/// One line of the routing table.
#[derive(Clone, Debug)]
struct Route {
    interface: String,
    network: Ipv4Addr,
    mask: Ipv4Addr,
}

/// How well an interface fits, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    MulticastRoute,
    DefaultRoute,
    NoRoute,
    Loopback,
}

fn choose(
    links: &[Link],
    routes: &[Route],
    requested: Option<&str>,
) -> Result<(Interface, String), InterfaceError> {
    if let Some(requested) = requested {
        return choose_requested(links, requested);
    }
    let usable = links
        .iter()
        .filter(|link| link.up())
        .flat_map(Link::entries);
    let best = usable
        .filter(|interface| interface.multicast || interface.loopback)
        .min_by_key(|interface| fit(interface, routes));
    let Some(interface) = best else {
        return Err(InterfaceError::NoneUsable {
            existing: links.iter().map(Link::describe).collect(),
        });
    };
    let reason = match fit(&interface, routes) {
        Fit::MulticastRoute => "it has a route for multicast",
        Fit::DefaultRoute => "it has the default route",
        Fit::NoRoute => "it carries multicast; it has no route for it, and needs none",
        Fit::Loopback => {
            "no other interface carries multicast; only this host will receive anything"
        }
    };
    let why = format!("{} ({}) chosen: {reason}", interface.name, interface.addr);
    Ok((interface, why))
}

fn choose_requested(
    links: &[Link],
    requested: &str,
) -> Result<(Interface, String), InterfaceError> {
    let address: Option<Ipv4Addr> = requested.parse().ok();
    let wanted = |link: &&Link| {
        link.name == requested || address.is_some_and(|addr| link.addrs.contains(&addr))
    };
    let Some(link) = links.iter().find(wanted) else {
        let existing = links.iter().map(Link::describe).collect();
        return Err(InterfaceError::Unknown {
            requested: requested.to_owned(),
            existing,
        });
    };
    let name = link.name.clone();
    if !link.up() {
        return Err(InterfaceError::Down { name });
    }
    let Some(interface) = link
        .entries()
        .find(|entry| address.is_none_or(|addr| entry.addr == addr))
    else {
        return Err(InterfaceError::NoAddress { name });
    };
    if !interface.multicast && !interface.loopback {
        return Err(InterfaceError::NoMulticast { name });
    }
    let why = format!("{} ({}) as asked for", interface.name, interface.addr);
    Ok((interface, why))
}

fn fit(interface: &Interface, routes: &[Route]) -> Fit {
    let has = |wanted: &dyn Fn(&Route) -> bool| {
        routes
            .iter()
            .any(|r| r.interface == interface.name && wanted(r))
    };
    if interface.loopback {
        Fit::Loopback
    } else if has(&|route| route.network.is_multicast() && !route.mask.is_unspecified()) {
        Fit::MulticastRoute
    } else if has(&|route| route.mask.is_unspecified()) {
        Fit::DefaultRoute
    } else {
        Fit::NoRoute
    }
}

/// The routing table; empty when it cannot be read, which only makes the choice less informed.
fn routes() -> Vec<Route> {
    fs::read_to_string("/proc/net/route").map_or_else(|_| Vec::new(), |table| parse_routes(&table))
}

fn parse_routes(table: &str) -> Vec<Route> {
    table.lines().skip(1).filter_map(parse_route).collect()
}

/// A line: `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, addresses as the hexadecimal of a word that
/// holds network order.
fn parse_route(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let address = |text: &str| {
        u32::from_str_radix(text, 16)
            .ok()
            .map(|word| Ipv4Addr::from(word.to_ne_bytes()))
    };
    Some(Route {
        interface: (*fields.first()?).to_owned(),
        network: address(fields.get(1)?)?,
        mask: address(fields.get(7)?)?,
    })
}

/// Every interface, also those which are down or have no IPv4 address.
fn links() -> io::Result<Vec<Link>> {
    let mut head: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: getifaddrs writes the head of a list to the pointer, or fails.
    sys::check(unsafe { libc::getifaddrs(&mut head) })?;
    let mut links: Vec<Link> = Vec::new();
    let mut next = head;
    // SAFETY: `next` is null or an entry of the list, which is not freed before the loop ends.
    while let Some(entry) = unsafe { next.as_ref() } {
        add_entry(&mut links, entry);
        next = entry.ifa_next;
    }
    // SAFETY: `head` came from getifaddrs; no reference into the list is kept.
    unsafe { libc::freeifaddrs(head) };
    let probe = sys::udp_socket()?;
    for link in &mut links {
        let (index, mtu) = index_and_mtu(probe.as_raw_fd(), &link.name)?;
        link.index = index;
        link.mtu = mtu;
    }
    Ok(links)
}

fn add_entry(links: &mut Vec<Link>, entry: &libc::ifaddrs) {
    // SAFETY: the name is a string that ends with zero and lives as long as the list.
    let label = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy();
    // Old-style aliases (`eth0:1`) are labels of an address, not interfaces.
    let name = label.split(':').next().unwrap_or_default();
    let place = links
        .iter()
        .position(|link| link.name == name)
        .unwrap_or_else(|| {
            links.push(Link {
                name: name.to_owned(),
                index: 0,
                flags: entry.ifa_flags,
                mtu: 0,
                addrs: Vec::new(),
            });
            links.len() - 1
        });
    // SAFETY: the address is null or points to a sockaddr that lives as long as the list.
    let family = unsafe { entry.ifa_addr.as_ref() }.map(|addr| libc::c_int::from(addr.sa_family));
    if family == Some(libc::AF_INET) {
        // SAFETY: the family says that this is a sockaddr_in, and the kernel's list is aligned for it.
        let raw = unsafe { ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in>()) };
        links[place]
            .addrs
            .push(*crate::address::from_raw(&raw).ip());
    }
}

fn index_and_mtu(socket: libc::c_int, name: &str) -> io::Result<(u32, u32)> {
    // SAFETY: ifreq is plain data, for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero: the kernel's names have at most IFNAMSIZ - 1 bytes.
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .take(libc::IFNAMSIZ - 1)
        .zip(name.bytes())
    {
        *to = from as libc::c_char;
    }
    // SAFETY: both requests read the name and write an integer within the request, which outlives the calls.
    let (index, mtu) = unsafe {
        sys::check(libc::ioctl(socket, libc::SIOCGIFINDEX, &mut request))?;
        let index = request.ifr_ifru.ifru_ifindex;
        sys::check(libc::ioctl(socket, libc::SIOCGIFMTU, &mut request))?;
        (index, request.ifr_ifru.ifru_mtu)
    };
    Ok((
        u32::try_from(index).unwrap_or(0),
        u32::try_from(mtu).unwrap_or(0),
    ))
}

#[cfg(test)]
mod tests;
