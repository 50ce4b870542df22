//! Places of membership services: addresses, hosts by name, or services by their name in DNS.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

use qsm::Family;

use super::address::Place;
use crate::dns::Resolver;
use crate::failure::Failure;

/// Addresses that are tried, of all places together.
const ADDRESSES_MAX: usize = 32;

/// The place of a membership service, as an option says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServicePlace {
    /// By address.
    Address(Place),
    /// By name, which the system resolves when it is used.
    Host {
        /// The name.
        name: String,
        /// The port.
        port: u16,
    },
    /// By the name of a service, of which DNS knows hosts and ports (SRV records, RFC 2782).
    Named {
        /// The name, such as `_qsm._udp.example.org`.
        name: String,
    },
}

impl ServicePlace {
    /// From a command line.
    ///
    /// # Errors
    /// Neither an address nor a name, or no port.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('_') {
            return Self::parse_named(text);
        }
        let host = |text: &str| {
            let (name, port) = text.rsplit_once(':')?;
            let named = !name.is_empty() && is_name(name);
            let port = port.parse().ok().filter(|port| *port > 0)?;
            let name = name.to_owned();
            named.then_some(Self::Host { name, port })
        };
        let address = Place::parse(text).ok().map(Self::Address);
        address.or_else(|| host(text)).ok_or_else(|| {
            "not an address or a host, and a port, such as 10.0.0.1:4481, [fd00::1]:4481 or \
             gms.example:4481, nor a service in DNS, such as _qsm._udp.example.org"
                .to_owned()
        })
    }

    fn parse_named(text: &str) -> Result<Self, String> {
        let mut labels = text.trim_end_matches('.').split('.');
        let service = labels.next().is_some_and(|label| label.len() > 1);
        let udp = labels
            .next()
            .is_some_and(|label| label.eq_ignore_ascii_case("_udp"));
        let mut domain = labels.peekable();
        let domain = domain.peek().is_some() && domain.all(|label| !label.is_empty());
        match service && udp && domain && is_name(text) {
            true => Ok(Self::Named {
                name: text.to_owned(),
            }),
            false => Err(
                "not the name of a service in DNS, such as _qsm._udp.example.org, without a port: DNS \
                 says that"
                    .to_owned(),
            ),
        }
    }

    /// The interface that an address names.
    pub(super) fn zone(&self) -> Option<&String> {
        match self {
            Self::Address(place) => place.zone.as_ref(),
            Self::Host { .. } | Self::Named { .. } => None,
        }
    }

    /// Its addresses, those to be tried first in front; only of this family, if one is given.
    fn addresses(&self, family: Option<Family>) -> Result<Vec<SocketAddr>, NotFound> {
        match self {
            Self::Address(place) => Ok(vec![place.address]),
            Self::Host { name, port } => of_host(name, *port, family),
            Self::Named { name } => of_service(name, family),
        }
    }
}

impl fmt::Display for ServicePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(place) => place.address.fmt(f),
            Self::Host { name, port } => write!(f, "{name}:{port}"),
            Self::Named { name } => f.write_str(name),
        }
    }
}

/// Why a place has no address.
#[derive(Debug)]
struct NotFound {
    cause: String,
    remedy: String,
}

/// Addresses of all places in the order in which to try them, each once; at most 32.
///
/// # Errors
/// None of the places has an address: why is said of each.
pub(super) fn addresses(
    places: &[ServicePlace],
    family: Option<Family>,
) -> Result<Vec<SocketAddr>, Failure> {
    let mut all: Vec<SocketAddr> = Vec::new();
    let mut failures: Vec<NotFound> = Vec::new();
    for place in places {
        match place.addresses(family) {
            Ok(found) => found.into_iter().for_each(|address| {
                if !all.contains(&address) {
                    all.push(address);
                }
            }),
            Err(failure) => failures.push(failure),
        }
    }
    all.truncate(ADDRESSES_MAX);
    if !all.is_empty() || failures.is_empty() {
        return Ok(all);
    }
    let causes: Vec<_> = failures
        .iter()
        .map(|failure| failure.cause.as_str())
        .collect();
    let remedies: Vec<_> = failures
        .iter()
        .map(|failure| failure.remedy.as_str())
        .collect();
    Err(Failure::failed(causes.join("; "), remedies.join("; ")))
}

/// Places that were tried, for an error, each with the addresses that it has.
pub(super) fn tried(places: &[ServicePlace], family: Option<Family>) -> String {
    let words = |place: &ServicePlace| match (place, place.addresses(family)) {
        (ServicePlace::Address(_), _) => place.to_string(),
        (_, Ok(found)) => {
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            format!("{place} ({})", found.join(", "))
        }
        (_, Err(failure)) => format!("{place} ({})", failure.cause),
    };
    places.iter().map(words).collect::<Vec<_>>().join(", ")
}

fn is_name(text: &str) -> bool {
    let letter = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    text.chars().all(letter)
}

fn of_host(name: &str, port: u16, family: Option<Family>) -> Result<Vec<SocketAddr>, NotFound> {
    let found = (name, port).to_socket_addrs().map_err(|error| NotFound {
        cause: format!("cannot find the host {name} of --service: {error}"),
        remedy: format!("check the name with `getent hosts {name}`, or give its address"),
    })?;
    fitting(name, found.collect(), family)
}

/// Addresses of all hosts that DNS names for a service.
fn of_service(name: &str, family: Option<Family>) -> Result<Vec<SocketAddr>, NotFound> {
    let hosts = Resolver::of_system()
        .hosts(name)
        .map_err(|cause| NotFound {
            cause: format!("cannot find the service {name} of --service: {cause}"),
            remedy: format!("check the name with `dig SRV {name}`, or give the service's address"),
        })?;
    let mut all = Vec::new();
    let mut failure = None;
    for target in hosts {
        match of_host(&target.host, target.port, family) {
            Ok(found) => all.extend(found),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    match failure {
        Some(failure) if all.is_empty() => Err(failure),
        _ => Ok(all),
    }
}

/// Addresses of the family; without one those of IPv4 first, as everywhere. Each once.
fn fitting(
    name: &str,
    mut found: Vec<SocketAddr>,
    family: Option<Family>,
) -> Result<Vec<SocketAddr>, NotFound> {
    let all: Vec<String> = found.iter().map(|at| at.ip().to_string()).collect();
    found.retain(|at| family.is_none_or(|family| Family::of(at.ip()) == family));
    found.sort_by_key(|at| Family::of(at.ip()));
    found.dedup();
    match found.is_empty() {
        false => Ok(found),
        true => Err(NotFound {
            cause: format!(
                "the host {name} of --service has no address of the family asked for, but {}",
                all.join(", ")
            ),
            remedy: "give --ipv6, --interface and --discovery of the family that it has, or another host"
                .to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_at_an_address_or_a_host() {
        let host = |name: &str, port| ServicePlace::Host {
            name: name.to_owned(),
            port,
        };
        let parse = ServicePlace::parse;
        assert_eq!(
            parse("gms-0.gms.example:4481"),
            Ok(host("gms-0.gms.example", 4481))
        );
        assert_eq!(parse("localhost:1"), Ok(host("localhost", 1)));
        for named in ["_qsm._udp.example.org", "_my-gms._UDP.example."] {
            let name = named.to_owned();
            assert_eq!(parse(named), Ok(ServicePlace::Named { name }));
        }
        for address in ["10.0.0.1:4481", "[fe80::1%eth0]:4481"] {
            let place = Place::parse(address).map(ServicePlace::Address);
            assert_eq!(parse(address), place);
        }
        for wrong in [
            "localhost",
            ":1",
            "a:",
            "a:0",
            "a:70000",
            "a b:1",
            "fd00::1",
            "[a]:1",
            "_qsm._udp.example.org:4481",
            "_qsm._tcp.example.org",
            "_qsm._udp",
            "_qsm._udp.",
            "_._udp.example.org",
            "_qsm._udp..org",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_of_a_host_are_those_of_the_family() {
        let found = ["[::1]:5", "127.0.0.2:5", "127.0.0.1:5", "127.0.0.1:5"];
        let found = found.map(|at| at.parse().unwrap()).to_vec();
        let fit = |family| fitting("host", found.clone(), family).unwrap();
        let texts = |all: Vec<SocketAddr>| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let v4 = ["127.0.0.2:5", "127.0.0.1:5"];
        assert_eq!(texts(fit(Some(Family::V4))), v4);
        assert_eq!(texts(fit(Some(Family::V6))), ["[::1]:5"]);
        assert_eq!(texts(fit(None)), [v4[0], v4[1], "[::1]:5"]);
        let none = fitting("host", found[..1].to_vec(), Some(Family::V4)).unwrap_err();
        assert!(none.cause.contains("but ::1"), "{none:?}");
    }

    #[test]
    fn places_that_are_not_found_are_named_with_a_remedy_each() {
        let parse = |text: &&str| ServicePlace::parse(text).unwrap();
        let lost = ["no-such-host.invalid:4481", "nor-this.invalid:4481"];
        let lost: Vec<_> = lost.iter().map(parse).collect();
        let failure = addresses(&lost, None).unwrap_err();
        for name in ["no-such-host.invalid", "nor-this.invalid"] {
            let remedy = format!("getent hosts {name}");
            assert!(failure.cause.contains(name), "{failure}");
            assert!(failure.remedy.contains(&remedy), "{failure}");
        }
        // One that is found will do, and what is tried says all.
        let mut some = lost[..1].to_vec();
        some.extend(
            ["127.0.0.1:5", "127.0.0.1:5", "localhost:6"]
                .iter()
                .map(parse),
        );
        let v4 = Some(Family::V4);
        let found = addresses(&some, v4).unwrap();
        let expected = ["127.0.0.1:5", "127.0.0.1:6"].map(|at| at.parse().unwrap());
        assert_eq!(found, expected);
        let tried = tried(&some, v4);
        assert!(
            tried.starts_with("no-such-host.invalid:4481 (cannot find"),
            "{tried}"
        );
        assert!(
            tried.ends_with("127.0.0.1:5, 127.0.0.1:5, localhost:6 (127.0.0.1:6)"),
            "{tried}"
        );
        assert_eq!(addresses(&[], None).unwrap(), []);
    }
}
