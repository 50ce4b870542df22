//! Helpers of the tests over loopback multicast. No test needs privileges or a network.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses some of them"
)]

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::time::Duration;

use qsm_net::{Interface, Offload, Port, PortConfig, choose_interface};

/// Far above what any test needs; a test that meets it has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A datagram, copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    pub group: Option<SocketAddr>,
    pub source: SocketAddr,
    pub bytes: Vec<u8>,
}

pub fn lo() -> Interface {
    choose_interface(Some("lo"), None).unwrap().0
}

pub fn config() -> PortConfig {
    PortConfig {
        receive_buffer_bytes: 4 << 20,
        ..PortConfig::new(lo())
    }
}

pub fn open(offload: Offload) -> Port {
    Port::open(PortConfig {
        offload,
        ..config()
    })
    .unwrap()
}

/// An address of 239.255/16 and a port that nobody else uses, also not a second run of the tests at the same time.
pub fn group() -> SocketAddr {
    let random = RandomState::new().build_hasher().finish();
    let [a, b, c, d, ..] = random.to_le_bytes();
    let port = 20_000 + u16::from_le_bytes([c, d]) % 40_000;
    SocketAddr::from(([239, 255, a, b], port))
}

/// Receives until `count` datagrams have come.
pub fn collect(port: &mut Port, count: usize) -> Vec<Copied> {
    let mut all = Vec::new();
    while all.len() < count {
        let ready = port.wait(Some(PATIENCE)).unwrap();
        assert!(
            ready.readable,
            "only {} of {count} datagrams came",
            all.len()
        );
        drain(port, &mut all);
    }
    all
}

/// Receives what is there.
pub fn drain(port: &mut Port, all: &mut Vec<Copied>) {
    while port.receive().unwrap() > 0 {
        all.extend(port.datagrams().map(|datagram| Copied {
            group: datagram.group,
            source: datagram.source,
            bytes: datagram.bytes.to_vec(),
        }));
    }
}

/// Bytes that differ from place to place.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + i / 251) as u8).collect()
}
