//! Groups that overlap, and the regions that the membership service finds in them.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use qsm_gms::{Service, ServiceConfig};
use qsm_proto::{Config, Delivery, Endpoint, Instant, Seed};
use qsm_sim::probe::Measured;
use qsm_wire::membership::Role;
use qsm_wire::{NodeId, RegionId};

use crate::papers::Mode;

/// Nodes of S2's example.
const NODES: u16 = 18;
/// Sets of groups with equal members: their overlaps are 2^3 - 1 regions.
const SETS: u16 = 3;
/// Port of the first node.
const FIRST_PORT: u16 = 1000;
const SERVICE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1);
const STEP: Duration = Duration::from_millis(20);
const STEPS: u64 = 200;

fn address(host: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], FIRST_PORT + host))
}

/// 18 nodes, each in one of the seven combinations of three sets of groups, and the first of them
/// publishing to two sets: how many regions there are, and how many it sends to (S2 fig. 2).
///
/// # Errors
/// A node or the service refuses its configuration.
pub(super) fn regions(_: Mode, groups: f64, seed: Seed) -> Result<Measured, String> {
    let each = (groups as u16 / SETS).max(1);
    let subscriptions = (0..NODES).map(|host| {
        let combination = host % 7 + 1;
        let sets = (0..SETS).filter(|set| combination >> set & 1 == 1);
        names(sets, each)
    });
    let (nodes, _) = settle(subscriptions.collect(), names(0..2, each), seed)?;
    let known: BTreeSet<RegionId> = nodes
        .iter()
        .flat_map(|node| node.regions().filter(|region| region.member()))
        .map(qsm_proto::region::Region::id)
        .collect();
    let used = nodes[0]
        .regions()
        .filter(|region| !region.groups().is_empty());
    let stats = BTreeMap::from([
        ("regions", known.len() as f64),
        ("used", used.count() as f64),
    ]);
    Ok(Measured {
        stats,
        ..Measured::default()
    })
}

/// Nodes that subscribe to these groups, each to its own, and the first of which publishes to some,
/// after they have been told everything; and the service.
pub(super) fn settle(
    subscriptions: Vec<Vec<String>>,
    published: Vec<String>,
    seed: Seed,
) -> Result<(Vec<Endpoint>, Service), String> {
    let mut nodes = Vec::new();
    for (host, _) in (0..).zip(&subscriptions) {
        nodes.push(node(host, seed)?);
    }
    let config = ServiceConfig::new(NodeId(u64::MAX), SERVICE);
    let service = Service::new(config, seed, Instant(0));
    let mut service = service.map_err(|error| error.to_string())?;
    let mut now = Instant(0);
    for (node, names) in nodes.iter_mut().zip(subscriptions) {
        node.enter(now, Role::Subscriber, names);
    }
    nodes[0].enter(now, Role::Publisher, published);
    for _ in 0..STEPS {
        now = now.after(STEP);
        exchange(now, &mut nodes, &mut service);
    }
    Ok((nodes, service))
}

fn node(host: u16, seed: Seed) -> Result<Endpoint, String> {
    let config = Config {
        service: Some(SERVICE),
        ..Config::new(NodeId(u64::from(host) + 1), address(host))
    };
    let seed = Seed(seed.0 ^ u64::from(host));
    Endpoint::new(config, seed, Instant(0)).map_err(|error| error.to_string())
}

fn names(sets: impl Iterator<Item = u16>, each: u16) -> Vec<String> {
    sets.flat_map(|set| (0..each).map(move |group| format!("{set}/{group}")))
        .collect()
}

/// Carries datagrams between nodes and service until there are none.
fn exchange(now: Instant, nodes: &mut [Endpoint], service: &mut Service) {
    let mut ignore = |_: Delivery<'_>| {};
    for node in nodes.iter_mut() {
        node.handle_timeout(now, &mut ignore);
    }
    service.handle_timeout(now);
    loop {
        let mut quiet = true;
        for (node, host) in nodes.iter_mut().zip(0..) {
            while let Some(sent) = node.poll_transmit(now) {
                if sent.to.address() == SERVICE {
                    service.handle_datagram(now, address(host), sent.bytes);
                    quiet = false;
                }
            }
        }
        while let Some(sent) = service.poll_transmit(now) {
            let (to, bytes) = (sent.to, sent.bytes.to_vec());
            let host = to.address().port().checked_sub(FIRST_PORT).map(usize::from);
            if let Some(node) = host.and_then(|host| nodes.get_mut(host)) {
                node.handle_datagram(now, SERVICE, bytes[..].into(), &mut ignore);
                quiet = false;
            }
        }
        if quiet {
            return;
        }
    }
}
