//! Addresses of relays and sources.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

use qsm_console::failure::Failure;

/// Where relays and sources listen, unless they are told otherwise.
pub(super) const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 4490);

/// The address of a parent, in the family of the socket that it is reached by.
pub(super) fn parent_address(place: &str, own: SocketAddr) -> Result<SocketAddr, Failure> {
    let found = place.to_socket_addrs().map_err(|error| {
        Failure::failed(
            format!("the parent {place} is not found: {error}"),
            "write it as HOST:PORT, such as 10.0.0.1:4490, and check the name",
        )
    })?;
    let mut found: Vec<SocketAddr> = found.collect();
    found.sort_by_key(|address| address.is_ipv4() != own.is_ipv4());
    let address = found.first().copied().map(|address| match address.ip() {
        IpAddr::V4(ip) if own.is_ipv6() => {
            SocketAddr::new(ip.to_ipv6_mapped().into(), address.port())
        }
        _ => address,
    });
    let reached =
        address.filter(|address| address.is_ipv4() == own.is_ipv4() && address.port() > 0);
    reached.ok_or_else(|| {
        Failure::usage(
            format!("the parent {place} cannot be reached from {own}"),
            "give it a port that is not 0; and one of IPv6 is reached with --listen [::]:4490",
        )
    })
}

/// Parents of a receiver or relay.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parents {
    pub(super) first: SocketAddr,
    /// Those that may take its place, in their order.
    pub(super) others: Vec<SocketAddr>,
}

/// The addresses of all parents, each another one.
pub(super) fn parent_addresses(places: &[String], own: SocketAddr) -> Result<Parents, Failure> {
    let mut found = Vec::new();
    for place in places {
        let address = parent_address(place, own)?;
        if found.contains(&address) {
            return Err(Failure::usage(
                format!("the parent {place} is named twice"),
                "name each parent once; one alone is enough",
            ));
        }
        found.push(address);
    }
    let mut found = found.into_iter();
    match found.next() {
        Some(first) => Ok(Parents {
            first,
            others: found.collect(),
        }),
        None => Err(Failure::usage(
            "no parent is named",
            "name one with --parent HOST:PORT",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parent_is_another_one() {
        let own = "0.0.0.0:4490".parse().unwrap();
        let of = |places: &[&str]| {
            let places: Vec<String> = places.iter().map(|&place| place.to_owned()).collect();
            parent_addresses(&places, own)
        };
        let [first, second] = ["10.0.0.1:5", "10.0.0.2:5"].map(|at| at.parse().unwrap());
        let others = vec![second];
        assert_eq!(
            of(&["10.0.0.1:5", "10.0.0.2:5"]),
            Ok(Parents { first, others })
        );
        let failure = of(&["10.0.0.1:5", "10.0.0.1:5"]).unwrap_err();
        assert!(failure.cause.contains("named twice"), "{failure}");
        assert!(of(&[]).is_err());
    }

    #[test]
    fn parents_have_the_family_of_the_socket() {
        let at = |place: &str, own: &str| parent_address(place, own.parse().unwrap());
        let v4 = "0.0.0.0:4490";
        assert_eq!(at("10.0.0.1:5", v4), Ok("10.0.0.1:5".parse().unwrap()));
        let mapped = "[::ffff:10.0.0.1]:5".parse().unwrap();
        assert_eq!(at("10.0.0.1:5", "[::]:0"), Ok(mapped));
        for wrong in ["10.0.0.1", "10.0.0.1:0", "[::1]:5"] {
            assert!(at(wrong, v4).is_err(), "{wrong}");
        }
    }
}
