//! Which network interface to use, and why.
//!
//! Multicast belongs to an interface, not to a host: a membership, and each datagram sent, names one. A wrong choice
//! is the commonest reason that nothing arrives, so the choice is made once, said aloud, and never left to the
//! routing table: every socket of a [`Port`](crate::Port) sets `IP_MULTICAST_IF` and joins by interface index.
//! With that, **IPv4 needs no route for multicast**: for a multicast destination with an output interface Linux goes on
//! when the route look-up fails (`ip_route_output_key_hash_rcu`; checked on Linux 6.18 in a network namespace without
//! any route). Other programs that do not name an interface still need `ip route add 224.0.0.0/4 dev X`. **IPv6 does need
//! one** (`ff00::/8` in the table `local`). The kernel gives it to every interface that carries multicast, and so not to
//! `lo`, which needs `ip -6 route append local ff00::/8 dev lo`: any type but `local` would be a route that drops
//! (`fib6_is_reject`), and `add` fails where another interface has one of the same metric. [`Port::open`](crate::Port::open)
//! looks.
//!
//! The address chosen decides the family. Without a wish that is IPv4 where there is a choice.

mod medium;
mod system;

use std::fmt;
use std::io;
use std::net::IpAddr;

pub use self::medium::Medium;
use crate::address::Family;
use system::{Link, Route};

/// A network interface that is up and has an IP address. One with several addresses appears once for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, for example `eth0`.
    pub name: String,
    /// Index, as `ip link` shows it.
    pub index: u32,
    /// The source of what is sent. A link-local one is of the link behind this interface.
    pub addr: IpAddr,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// This is the loopback interface.
    pub loopback: bool,
    /// The interface claims to carry multicast. `lo` does not, yet it does carry it within the host.
    pub multicast: bool,
    /// Its medium.
    pub medium: Medium,
}

impl Interface {
    /// The family of its address.
    #[must_use]
    pub fn family(&self) -> Family {
        Family::of(self.addr)
    }

    /// The interface of this name as it is now: with the same address if it has that still, else with another one of
    /// the family, which is link-local only if this one is: others may be beyond the link.
    ///
    /// # Errors
    /// [`InterfaceError`]: it is gone, down, or without such an address, or cannot be listed.
    pub fn again(&self) -> Result<Self, InterfaceError> {
        again(&system::links()?, self)
    }
}

fn again(links: &[Link], former: &Interface) -> Result<Interface, InterfaceError> {
    let family = former.family();
    let wish = Wish {
        requested: Some(&former.name),
        family: Some(family),
        multicast: former.multicast,
    };
    let (now, _) = choose(links, &[], wish)?;
    let entries = links.iter().filter(|link| link.name == former.name);
    let same = entries
        .flat_map(Link::entries)
        .find(|entry| entry.addr == former.addr);
    let now = same.unwrap_or(now);
    if is_link_local(now.addr) && !is_link_local(former.addr) {
        return Err(InterfaceError::NoAddress {
            name: now.name,
            family: Some(family),
        });
    }
    Ok(now)
}

/// Its name and address, for example `eth0 (10.0.0.1)`.
impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.addr)
    }
}

/// Why no interface could be chosen. Each text ends with the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum InterfaceError {
    /// Several interfaces have the link-local address.
    Ambiguous {
        /// What was asked for.
        requested: String,
        /// The interfaces.
        names: Vec<String>,
    },
    /// The interface exists but is down.
    Down {
        /// Its name.
        name: String,
    },
    /// The interface has no address, or none of the family asked for.
    NoAddress {
        /// Its name.
        name: String,
        /// What was asked for.
        family: Option<Family>,
    },
    /// The interface does not carry multicast.
    NoMulticast {
        /// Its name.
        name: String,
    },
    /// None was asked for and none fits.
    NoneUsable {
        /// The family asked for.
        family: Option<Family>,
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
            Self::Ambiguous { requested, names } => write!(
                f,
                "several interfaces have the address {requested}: {}; say which one, as in {requested}%{}",
                names.join(", "),
                names[0]
            ),
            Self::Down { name } => write!(
                f,
                "interface {name} is down; bring it up with `ip link set dev {name} up`"
            ),
            Self::NoAddress { name, family } => write!(
                f,
                "interface {name} has no {} address; give it one with `ip addr add ADDRESS/LENGTH dev {name}`",
                family.map_or("IP".to_owned(), |family| family.to_string())
            ),
            Self::NoMulticast { name } => write!(
                f,
                "interface {name} does not carry multicast; turn it on with `ip link set dev {name} multicast on` \
                 (and `ip route add 224.0.0.0/4 dev {name}` for programs that follow the routing table)"
            ),
            Self::NoneUsable { family, existing } => write!(
                f,
                "no interface is up with an {} address and multicast; there are: {}; \
                 bring one up with `ip link set dev NAME up`",
                family.map_or("IP".to_owned(), |family| family.to_string()),
                existing.join(", ")
            ),
            Self::Os(error) => write!(f, "cannot list the network interfaces: {error}"),
            Self::Unknown {
                requested,
                existing,
            } => write!(
                f,
                "no interface has the name or address {requested:?}; choose one of: {}",
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

/// The interfaces that are up and have an IP address, in the order of the kernel (`getifaddrs`). Of the addresses of one
/// those of IPv4 come first, then those of IPv6 that last, those that do not, and the link-local ones.
///
/// # Errors
/// What `getifaddrs` or the ioctl for the MTU returned.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    Ok(usable(&system::links()?).collect())
}

/// Chooses the interface with the given name or address, or the most fitting one; also says why, in words. A link-local
/// address may end with the interface it belongs to (`fe80::1%eth0`).
///
/// `family` decides where a name, or no request, leaves it open. Without it, IPv4 is preferred.
///
/// Without a request the order is: one with a route for multicast, one with the default route, any other with
/// multicast, and loopback last, because nothing sent there reaches another host. A link-local address is chosen unasked
/// only when there is nothing else: every interface has one, whether it leads anywhere or not.
///
/// # Errors
/// [`InterfaceError`], which names the remedy.
pub fn choose_interface(
    requested: Option<&str>,
    family: Option<Family>,
) -> Result<(Interface, String), InterfaceError> {
    choose_now(Wish {
        requested,
        family,
        multicast: true,
    })
}

/// The same where multicast is not needed: an interface that was asked for may lack it.
///
/// # Errors
/// [`InterfaceError`], which names the remedy.
pub fn choose_unicast_interface(
    requested: Option<&str>,
    family: Option<Family>,
) -> Result<(Interface, String), InterfaceError> {
    choose_now(Wish {
        requested,
        family,
        multicast: false,
    })
}

/// Chooses among the interfaces that there are now.
fn choose_now(wish: Wish<'_>) -> Result<(Interface, String), InterfaceError> {
    choose(&system::links()?, &system::routes(), wish)
}

/// Purpose that an interface has to serve.
#[derive(Clone, Copy, Debug)]
struct Wish<'a> {
    /// Name or address.
    requested: Option<&'a str>,
    family: Option<Family>,
    /// It has to carry multicast.
    multicast: bool,
}

fn usable(links: &[Link]) -> impl Iterator<Item = Interface> {
    links
        .iter()
        .filter(|link| link.up())
        .flat_map(Link::entries)
}

/// How well an interface fits, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    MulticastRoute,
    DefaultRoute,
    NoRoute,
    LinkLocal,
    Loopback,
}

fn choose(
    links: &[Link],
    routes: &[Route],
    wish: Wish<'_>,
) -> Result<(Interface, String), InterfaceError> {
    if let Some(requested) = wish.requested {
        return choose_requested(links, requested, wish);
    }
    let family = wish.family;
    let rank = |interface: &Interface| {
        let fit = fit(interface, routes);
        let unwished = family.is_none() && fit == Fit::LinkLocal;
        (unwished, fit == Fit::Loopback, interface.family(), fit)
    };
    let best = usable(links)
        .filter(|interface| interface.multicast || interface.loopback || !wish.multicast)
        .filter(|interface| family.is_none_or(|family| interface.family() == family))
        .min_by_key(rank);
    let Some(interface) = best else {
        return Err(InterfaceError::NoneUsable {
            family,
            existing: links.iter().map(Link::describe).collect(),
        });
    };
    let reason = match fit(&interface, routes) {
        Fit::MulticastRoute => "it has a route for multicast",
        Fit::DefaultRoute => "it has the default route",
        Fit::NoRoute if !interface.multicast => "no other interface is up with an address",
        Fit::NoRoute => "it carries multicast and needs no route of its own",
        Fit::LinkLocal => "it carries multicast; only hosts on its link will receive anything",
        Fit::Loopback => {
            "no other interface carries multicast; only this host will receive anything"
        }
    };
    let why = format!("{interface} chosen: {reason}{}", down(&interface, links));
    Ok((interface, why))
}

/// Names the interfaces that are down, if loopback is all that is left.
fn down(chosen: &Interface, links: &[Link]) -> String {
    let down = links.iter().filter(|link| chosen.loopback && !link.up());
    let down: Vec<&str> = down.map(|link| link.name.as_str()).collect();
    match down.len() {
        0 => String::new(),
        1 => format!(" ({} is down)", down[0]),
        _ => format!(" ({} are down)", down.join(", ")),
    }
}

fn choose_requested(
    links: &[Link],
    requested: &str,
    wish: Wish<'_>,
) -> Result<(Interface, String), InterfaceError> {
    let family = wish.family;
    let (text, zone) = match requested.split_once('%') {
        Some((text, zone)) => (text, Some(zone)),
        None => (requested, None),
    };
    let address: Option<IpAddr> = text.parse().ok();
    let wanted = |link: &&Link| match address {
        Some(address) => link.addrs.contains(&address) && zone.is_none_or(|zone| link.is(zone)),
        None => link.name == requested,
    };
    let found: Vec<&Link> = links.iter().filter(wanted).collect();
    let Some(link) = found.first() else {
        let existing = links.iter().map(Link::describe).collect();
        return Err(InterfaceError::Unknown {
            requested: requested.to_owned(),
            existing,
        });
    };
    let name = link.name.clone();
    if found.len() > 1 && address.is_some_and(is_link_local) {
        return Err(InterfaceError::Ambiguous {
            requested: requested.to_owned(),
            names: found.iter().map(|link| link.name.clone()).collect(),
        });
    }
    if !link.up() {
        return Err(InterfaceError::Down { name });
    }
    let fits = |entry: &Interface| match address {
        Some(address) => entry.addr == address,
        None => family.is_none_or(|family| entry.family() == family),
    };
    let Some(interface) = link.entries().find(fits) else {
        return Err(InterfaceError::NoAddress { name, family });
    };
    if wish.multicast && !interface.multicast && !interface.loopback {
        return Err(InterfaceError::NoMulticast { name });
    }
    let why = format!("{interface} as asked for");
    Ok((interface, why))
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

fn fit(interface: &Interface, routes: &[Route]) -> Fit {
    let has = |wanted: &dyn Fn(&Route) -> bool| {
        routes
            .iter()
            .filter(|route| Family::of(route.network) == interface.family())
            .any(|route| route.interface == interface.name && wanted(route))
    };
    if interface.loopback {
        Fit::Loopback
    } else if is_link_local(interface.addr) {
        Fit::LinkLocal
    } else if has(&|route| route.network.is_multicast() && route.length > 0) {
        Fit::MulticastRoute
    } else if has(&|route| route.length == 0) {
        Fit::DefaultRoute
    } else {
        Fit::NoRoute
    }
}

#[cfg(test)]
mod tests;
