//! Hints of the designer in a running service (R-VIEW-18).

#[expect(dead_code, reason = "other tests use the rest")]
mod network;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use network::{Cluster, address, ms};
use qsm_gms::{HintList, ServiceConfig, ServiceHints};
use qsm_proto::Config;
use qsm_wire::NodeId;
use qsm_wire::membership::Role;

const SERVICE: u64 = 1;
const MEMBERS: core::ops::Range<u64> = 10..16;

fn service(hints: ServiceHints) -> ServiceConfig {
    ServiceConfig {
        plan_interval: ms(1000),
        plan_common: Some(0),
        hints,
        ..Cluster::service_config(SERVICE)
    }
}

/// A member with a name.
fn start(cluster: &mut Cluster, host: u64) -> SocketAddr {
    let mut config = Config::new(NodeId(host), address(host));
    config.service = Some(address(SERVICE));
    config.name = format!("m{host}");
    cluster.add_member(config)
}

/// Regions that several groups may share: hosts by region.
fn hosts(cluster: &Cluster) -> BTreeMap<(SocketAddr, String), BTreeSet<SocketAddr>> {
    let rows = cluster.services[&address(SERVICE)].rows().regions;
    let rows = rows.into_iter().map(|row| {
        let members = row.members.iter().map(|member| member.address);
        ((row.address, format!("{:?}", row.kind)), members.collect())
    });
    rows.collect()
}

fn set(hosts: &[u64]) -> BTreeSet<SocketAddr> {
    hosts.iter().map(|host| address(*host)).collect()
}

// Rule R-VIEW-18.
#[test]
fn a_service_that_restarts_with_the_same_hints_moves_nobody() {
    let hints = HintList::new()
        .domain("red", ["m10", "m11", "m14"])
        .apart(["m12", "m13"])
        .finish()
        .unwrap();
    let mut cluster = Cluster::new(3);
    cluster.start_service(service(hints.clone()));
    for host in MEMBERS {
        let at = start(&mut cluster, host);
        cluster.enter(at, Role::Subscriber, &["a", "b"]);
        let own = format!("own/{host}");
        cluster.enter(at, Role::Subscriber, &[&own]);
    }
    cluster.run(ms(6000));
    cluster.check(address(SERVICE));
    let before = hosts(&cluster);
    let shared = |hosts: &BTreeMap<(SocketAddr, String), BTreeSet<SocketAddr>>| {
        let shared = hosts.iter().filter(|((at, _), _)| at.ip().is_multicast());
        shared
            .map(|(_, hosts)| hosts.clone())
            .collect::<BTreeSet<_>>()
    };
    let expected = BTreeSet::from([set(&[10, 11, 14]), set(&[12, 15]), set(&[13])]);
    assert_eq!(shared(&before), expected);
    cluster.services.clear();
    // One of them is not heard before the service begins.
    cluster.cut = |from, to, _| [from, to].contains(&address(10));
    cluster.start_service(service(hints));
    cluster.run(ms(8000));
    cluster.cut = |_, _, _| false;
    cluster.run(ms(42_000));
    cluster.check(address(SERVICE));
    assert_eq!(hosts(&cluster), before);
    let stats = cluster.services[&address(SERVICE)].stats();
    assert_eq!((stats.moves, stats.regions_created), (0, 0));
}

// Rule R-VIEW-18.
#[test]
fn a_service_with_hints_divides_what_one_without_had_together() {
    let mut cluster = Cluster::new(4);
    cluster.start_service(service(ServiceHints::default()));
    for host in MEMBERS {
        let at = start(&mut cluster, host);
        cluster.enter(at, Role::Subscriber, &["a", "b"]);
    }
    cluster.run(ms(6000));
    assert_eq!(hosts(&cluster).len(), 1);
    cluster.services.clear();
    let hints = ServiceHints::parse("domain red: m10 m11\ntogether: m12 m13").unwrap();
    cluster.start_service(service(hints));
    cluster.run(ms(8000));
    cluster.check(address(SERVICE));
    let regions: BTreeSet<_> = hosts(&cluster).into_values().collect();
    let expected = BTreeSet::from([set(&[10, 11]), set(&[12, 13]), set(&[14, 15])]);
    assert_eq!(regions, expected);
}

// Rules R-VIEW-17, R-VIEW-18.
#[test]
fn common_regions_are_made_for_each_domain_by_itself() {
    let mut cluster = Cluster::new(5);
    let hints = ServiceHints::parse("domain red: m10 m11 m12").unwrap();
    cluster.start_service(service(hints));
    for host in MEMBERS {
        let at = start(&mut cluster, host);
        cluster.enter(at, Role::Subscriber, &["all", "a"]);
        // In one domain the others are the same for all.
        if host < 13 {
            let own = ["x", "y"][usize::try_from(host % 2).unwrap()];
            cluster.enter(at, Role::Subscriber, &[own]);
        }
    }
    // Else copies would do.
    for host in 20..28 {
        let at = start(&mut cluster, host);
        let own = ["x", "y"][usize::try_from(host % 2).unwrap()];
        cluster.enter(at, Role::Subscriber, &[own]);
    }
    cluster.run(ms(20_000));
    cluster.check(address(SERVICE));
    let common = hosts(&cluster);
    let common = common.iter().filter(|((_, kind), _)| kind == "Common");
    let common: Vec<_> = common.map(|(_, hosts)| hosts.clone()).collect();
    assert_eq!(common, [set(&[10, 11, 12])]);
}

// Rule R-VIEW-18.
#[test]
fn nodes_together_keep_their_region_over_a_restart_and_plans() {
    let hints = ServiceHints::parse("together: m10 m11 m12").unwrap();
    for seed in 0..5 {
        let mut cluster = Cluster::new(seed);
        cluster.start_service(service(hints.clone()));
        for host in MEMBERS {
            let at = start(&mut cluster, host);
            cluster.enter(at, Role::Subscriber, &["all"]);
            for other in MEMBERS.filter(|other| *other != host) {
                let group = format!("g{other}");
                cluster.enter(at, Role::Subscriber, &[&group]);
            }
        }
        cluster.run(ms(8000));
        cluster.check(address(SERVICE));
        let before = hosts(&cluster);
        let merged = |hosts: &BTreeMap<(SocketAddr, String), BTreeSet<SocketAddr>>| {
            let merged = hosts.iter().filter(|((_, kind), _)| kind == "Merged");
            merged.map(|(_, hosts)| hosts.clone()).collect::<Vec<_>>()
        };
        assert_eq!(merged(&before), [set(&[10, 11, 12])]);
        cluster.services.clear();
        cluster.cut = |from, to, _| [from, to].contains(&address(11));
        cluster.start_service(service(hints.clone()));
        cluster.run(ms(6000));
        cluster.cut = |_, _, _| false;
        cluster.run(ms(44_000));
        cluster.check(address(SERVICE));
        assert_eq!(merged(&hosts(&cluster)), merged(&before), "seed {seed}");
        let stats = cluster.services[&address(SERVICE)].stats();
        assert_eq!(stats.regions_merged, 0, "seed {seed}");
    }
}
