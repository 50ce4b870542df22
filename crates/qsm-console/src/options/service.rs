//! Places of membership services: addresses, or hosts by name.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

use qsm::Family;

use super::address::Place;
use crate::failure::Failure;

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
}

impl ServicePlace {
    /// From a command line.
    ///
    /// # Errors
    /// Neither an address nor a name, or no port.
    pub fn parse(text: &str) -> Result<Self, String> {
        let host = |text: &str| {
            let (name, port) = text.rsplit_once(':')?;
            let letter = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
            let named = !name.is_empty() && name.chars().all(letter);
            let port = port.parse().ok().filter(|port| *port > 0)?;
            let name = name.to_owned();
            named.then_some(Self::Host { name, port })
        };
        let address = Place::parse(text).ok().map(Self::Address);
        address.or_else(|| host(text)).ok_or_else(|| {
            "not an address or a host, and a port, such as 10.0.0.1:4481, [fd00::1]:4481 or \
             gms.example:4481"
                .to_owned()
        })
    }

    /// The interface that an address names.
    pub(super) fn zone(&self) -> Option<&String> {
        match self {
            Self::Address(place) => place.zone.as_ref(),
            Self::Host { .. } => None,
        }
    }

    /// Its addresses, those to be tried first in front; only of this family, if one is given.
    ///
    /// # Errors
    /// The system does not find the host, or it has no address of that family.
    pub(super) fn addresses(&self, family: Option<Family>) -> Result<Vec<SocketAddr>, Failure> {
        let (name, port) = match self {
            Self::Address(place) => return Ok(vec![place.address]),
            Self::Host { name, port } => (name.as_str(), *port),
        };
        let found = (name, port).to_socket_addrs().map_err(|error| {
            Failure::failed(
                format!("cannot find the host {name} of --service: {error}"),
                format!("check the name with `getent hosts {name}`, or give its address"),
            )
        })?;
        fitting(name, found.collect(), family)
    }
}

impl fmt::Display for ServicePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(place) => place.address.fmt(f),
            Self::Host { name, port } => write!(f, "{name}:{port}"),
        }
    }
}

/// Addresses of the family; without one those of IPv4 first, as everywhere. Each once.
fn fitting(
    name: &str,
    mut found: Vec<SocketAddr>,
    family: Option<Family>,
) -> Result<Vec<SocketAddr>, Failure> {
    let all: Vec<String> = found.iter().map(|at| at.ip().to_string()).collect();
    found.retain(|at| family.is_none_or(|family| Family::of(at.ip()) == family));
    found.sort_by_key(|at| Family::of(at.ip()));
    found.dedup();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Failure::failed(
            format!(
                "the host {name} of --service has no address of the family asked for, but {}",
                all.join(", ")
            ),
            "give --ipv6, --interface and --discovery of the family that it has, or another host",
        )),
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
        assert!(none.cause.contains("but ::1"), "{none}");
    }

    #[test]
    fn a_host_that_is_not_found_is_named_with_a_remedy() {
        let place = ServicePlace::parse("no-such-host.invalid:4481").unwrap();
        let failure = place.addresses(None).unwrap_err();
        assert!(failure.cause.contains("no-such-host.invalid"), "{failure}");
        assert!(failure.remedy.contains("getent hosts"), "{failure}");
    }
}
