//! What the system says of interfaces, their addresses and routes.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::ptr;

use super::{Interface, Medium, is_link_local};
use crate::address::Family;
use crate::sys;

/// An interface as the kernel lists it, usable or not.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) flags: u32,
    pub(super) mtu: u32,
    /// Its kind (`ARPHRD_…`), if the kernel tells.
    pub(super) hardware: Option<u16>,
    /// Best first.
    pub(super) addrs: Vec<IpAddr>,
}

impl Link {
    fn flag(&self, flag: libc::c_int) -> bool {
        self.flags & flag as u32 != 0
    }

    pub(super) fn up(&self) -> bool {
        self.flag(libc::IFF_UP)
    }

    /// Whether a zone of a link-local address means this one.
    pub(super) fn is(&self, zone: &str) -> bool {
        self.name == zone || zone.parse() == Ok(self.index)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Interface> {
        let pointed = self.flag(libc::IFF_POINTOPOINT);
        let medium = Medium::of(&self.name, self.index, self.hardware, pointed);
        self.addrs.iter().map(move |&addr| Interface {
            name: self.name.clone(),
            index: self.index,
            addr,
            mtu: self.mtu,
            loopback: self.flag(libc::IFF_LOOPBACK),
            multicast: self.flag(libc::IFF_MULTICAST),
            medium,
        })
    }

    pub(super) fn describe(&self) -> String {
        let addrs: Vec<String> = self.addrs.iter().map(ToString::to_string).collect();
        let state = if self.up() { "" } else { ", down" };
        let addrs = if addrs.is_empty() {
            "no address".to_owned()
        } else {
            addrs.join(" ")
        };
        format!("{} ({addrs}{state})", self.name)
    }
}

/// One line of the routing tables.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) interface: String,
    pub(super) network: IpAddr,
    /// Bits of the network's prefix.
    pub(super) length: u32,
}

/// A table of the calling thread's network; empty when it cannot be read, which only makes the choice less informed.
fn table(name: &str) -> String {
    fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap_or_default()
}

/// The routes of both families.
pub(super) fn routes() -> Vec<Route> {
    let mut routes = parse_routes(&table("route"));
    routes.extend(parse_routes_v6(&table("ipv6_route")));
    routes
}

pub(super) fn parse_routes(table: &str) -> Vec<Route> {
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
        network: address(fields.get(1)?)?.into(),
        length: address(fields.get(7)?)?.to_bits().count_ones(),
    })
}

pub(super) fn parse_routes_v6(table: &str) -> Vec<Route> {
    let routes = table.lines().filter_map(parse_route_v6);
    // The kernel's own, of every interface that carries multicast, says nothing about which to use.
    routes
        .filter(|route| !route.network.is_multicast())
        .collect()
}

/// A line: `destination length source length gateway metric references uses flags interface`, all hexadecimal.
fn parse_route_v6(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    Some(Route {
        interface: (*fields.get(9)?).to_owned(),
        network: parse_v6(fields.first()?)?.into(),
        length: u32::from_str_radix(fields.get(1)?, 16).ok()?,
    })
}

fn parse_v6(digits: &str) -> Option<Ipv6Addr> {
    u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from)
}

/// Those addresses of IPv6 that will not last: privacy addresses and such as are given up (`IFA_F_TEMPORARY`,
/// `IFA_F_DEPRECATED`), and that nobody may use yet, or ever (`IFA_F_TENTATIVE`, `IFA_F_DADFAILED`).
pub(super) fn parse_passing(table: &str) -> Vec<Ipv6Addr> {
    let passing = libc::IFA_F_TEMPORARY
        | libc::IFA_F_DEPRECATED
        | libc::IFA_F_TENTATIVE
        | libc::IFA_F_DADFAILED;
    // A line: `address index length scope flags interface`, all hexadecimal.
    let address = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let flags = u32::from_str_radix(fields.get(4)?, 16).ok()?;
        parse_v6(fields.first()?).filter(|_| flags & passing != 0)
    };
    table.lines().filter_map(address).collect()
}

/// Every interface, also those which are down or have no address.
pub(super) fn links() -> io::Result<Vec<Link>> {
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
    let probe = sys::udp_socket(Family::V4).or_else(|_| sys::udp_socket(Family::V6))?;
    let passing = parse_passing(&table("if_inet6"));
    for link in &mut links {
        let (index, mtu) = index_and_mtu(probe.as_raw_fd(), &link.name)?;
        link.index = index;
        link.mtu = mtu;
        sort(&mut link.addrs, &passing);
    }
    Ok(links)
}

/// Best first: IPv4 in the kernel's order; of IPv6 what lasts, what passes, what is of the link only.
pub(super) fn sort(addrs: &mut [IpAddr], passing: &[Ipv6Addr]) {
    addrs.sort_by_key(|addr| match addr {
        IpAddr::V4(_) => (false, false, false),
        IpAddr::V6(ip) => (true, is_link_local(*addr), passing.contains(ip)),
    });
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
                hardware: None,
                addrs: Vec::new(),
            });
            links.len() - 1
        });
    // SAFETY: the address is null or points to a sockaddr that lives as long as the list.
    let family = unsafe { entry.ifa_addr.as_ref() }.map(|addr| libc::c_int::from(addr.sa_family));
    match family {
        Some(libc::AF_INET) => {
            // SAFETY: the family says that this is a sockaddr_in.
            let raw = unsafe { ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in>()) };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            links[place].addrs.push(ip.into());
        }
        Some(libc::AF_INET6) => {
            // SAFETY: the family says that this is a sockaddr_in6.
            let raw = unsafe { ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_in6>()) };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            links[place].addrs.push(ip.into());
        }
        Some(libc::AF_PACKET) => {
            // SAFETY: the family says that this is a sockaddr_ll.
            let raw = unsafe { ptr::read_unaligned(entry.ifa_addr.cast::<libc::sockaddr_ll>()) };
            links[place].hardware = Some(raw.sll_hatype);
        }
        _ => {}
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
        sys::check(libc::ioctl(
            socket,
            sys::fit(libc::SIOCGIFINDEX),
            &mut request,
        ))?;
        let index = request.ifr_ifru.ifru_ifindex;
        sys::check(libc::ioctl(
            socket,
            sys::fit(libc::SIOCGIFMTU),
            &mut request,
        ))?;
        (index, request.ifr_ifru.ifru_mtu)
    };
    Ok((
        u32::try_from(index).unwrap_or(0),
        u32::try_from(mtu).unwrap_or(0),
    ))
}
