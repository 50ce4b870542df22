//! Groups that one node alone receives do not divide it from others (R-VIEW-15).

#[expect(dead_code, reason = "other tests use the rest")]
mod network;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use network::{Cluster, address, ms};
use qsm_gms::ServiceConfig;
use qsm_proto::{Random, Seed};
use qsm_wire::RegionId;
use qsm_wire::membership::{RegionRow, Role};

const SERVICE: u64 = 1;
const MEMBERS: core::ops::Range<u64> = 10..16;

/// A service that keeps apart only what one node alone receives.
fn without_plans() -> ServiceConfig {
    ServiceConfig {
        plan_interval: ms(0),
        ..Cluster::service_config(SERVICE)
    }
}

fn inbox(host: u64) -> String {
    format!("inbox/{host}")
}

/// Six members of one group with a group of their own each, and a publisher to all of these.
fn with_inboxes(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(seed);
    cluster.start_service(without_plans());
    cluster.start_member(20, Some(address(SERVICE)));
    cluster.enter(address(20), Role::Publisher, &["all"]);
    for host in MEMBERS {
        cluster.start_member(host, Some(address(SERVICE)));
        cluster.enter(address(host), Role::Subscriber, &["all", &inbox(host)]);
        cluster.enter(address(20), Role::Publisher, &[&inbox(host)]);
        cluster.run(ms(400));
    }
    cluster.run(ms(3000));
    cluster.check(address(SERVICE));
    cluster
}

fn regions(cluster: &Cluster) -> Vec<RegionRow> {
    cluster.services[&address(SERVICE)].rows().regions
}

/// Addresses of the regions, and of their members.
fn layout(cluster: &Cluster) -> BTreeMap<RegionId, (SocketAddr, Vec<SocketAddr>)> {
    let rows = regions(cluster).into_iter();
    let rows = rows.map(|row| {
        let members = row.members.iter().map(|member| member.address);
        (row.region, (row.address, members.collect()))
    });
    rows.collect()
}

// Rule R-VIEW-15.
#[test]
fn nodes_with_an_inbox_each_share_a_region_and_have_private_ones_at_their_own_addresses() {
    let cluster = with_inboxes(1);
    let rows = regions(&cluster);
    let (shared, private): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row.address.ip().is_multicast());
    assert_eq!(shared.len(), 1);
    assert_eq!((shared[0].members.len(), shared[0].groups), (6, 1));
    let places: BTreeSet<SocketAddr> = private.iter().map(|row| row.address).collect();
    assert_eq!(places, MEMBERS.map(address).collect());
    for row in private {
        assert_eq!((row.members.len(), row.groups), (1, 1));
        assert_eq!(row.members[0].address, row.address);
    }
    // The publisher knows where each inbox is.
    let publisher = cluster.member(address(20));
    assert_eq!(publisher.regions.len(), 7);
    let paths = publisher.regions.values().map(|known| {
        let view = known.view.as_ref().unwrap();
        view.path().destination()
    });
    assert_eq!(paths.filter(|to| !to.is_group()).count(), 6);
}

// Rules R-VIEW-15, R-MEM-6.
#[test]
fn a_service_that_restarts_finds_the_private_regions_again_and_moves_nobody() {
    for seed in 0..5 {
        let mut cluster = with_inboxes(seed);
        let before = layout(&cluster);
        cluster.services.clear();
        cluster.start_service(without_plans());
        cluster.run(ms(4000));
        cluster.check(address(SERVICE));
        assert_eq!(layout(&cluster), before, "seed {seed}");
        let stats = cluster.services[&address(SERVICE)].stats();
        assert_eq!((stats.moves, stats.regions_created), (0, 0), "seed {seed}");
        assert_eq!(stats.admitted, 0, "seed {seed}");
    }
}

// Rules R-VIEW-15, R-MEM-6.
#[test]
fn a_node_that_is_cut_off_from_a_new_service_keeps_both_of_its_regions() {
    let mut cluster = with_inboxes(9);
    let mut before = layout(&cluster);
    let life = cluster.member(address(12)).origin();
    cluster.cut = |from, to, _| [from, to].contains(&address(12));
    cluster.services.clear();
    cluster.start_service(without_plans());
    cluster.run(ms(4000));
    // Others have reported both, the publisher the private one.
    let away = |row: &RegionRow| row.members.iter().any(|member| member.is_away());
    assert_eq!(layout(&cluster).len(), before.len());
    assert_eq!(regions(&cluster).iter().filter(|row| away(row)).count(), 2);
    cluster.cut = |_, _, _| false;
    cluster.run(ms(6000));
    assert_eq!(cluster.member(address(12)).origin(), life);
    let mut after = layout(&cluster);
    for (_, members) in after.values_mut().chain(before.values_mut()) {
        members.sort_unstable();
    }
    assert_eq!(after, before);
    let stats = cluster.services[&address(SERVICE)].stats();
    assert_eq!(stats.moves, 0);
}

// Rule R-VIEW-15.
#[test]
fn the_receiver_of_a_group_that_others_enter_moves_and_moves_back() {
    let mut cluster = with_inboxes(4);
    let shared = |cluster: &Cluster| {
        let rows = regions(cluster).into_iter();
        let rows = rows.filter(|row| row.address.ip().is_multicast());
        rows.map(|row| row.members.len()).collect::<Vec<_>>()
    };
    assert_eq!(shared(&cluster), [6]);
    cluster.enter(address(11), Role::Subscriber, &[&inbox(10)]);
    cluster.run(ms(3000));
    cluster.check(address(SERVICE));
    assert_eq!(shared(&cluster), [4, 2]);
    cluster.exit(address(11), Role::Subscriber, &[&inbox(10)]);
    cluster.run(ms(3000));
    cluster.check(address(SERVICE));
    assert_eq!(shared(&cluster), [6]);
    assert_eq!(regions(&cluster).len(), 7);
}

/// Twelve members of one group, each in five of a hundred others at random, of which some have one
/// receiver, some two or three.
fn with_random_extras(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(seed);
    cluster.start_service(Cluster::service_config(SERVICE));
    let mut random = Random::new(Seed(seed), "extras");
    for host in 10..22 {
        cluster.start_member(host, Some(address(SERVICE)));
        cluster.enter(address(host), Role::Subscriber, &["all"]);
        for _ in 0..5 {
            let extra = format!("extra/{}", random.below(100));
            cluster.enter(address(host), Role::Subscriber, &[&extra]);
        }
        cluster.run(ms(random.below(500)));
    }
    cluster
}

// Rule R-VIEW-15.
#[test]
fn a_plan_keeps_groups_of_a_few_nodes_apart_and_a_restart_keeps_the_plan() {
    for seed in 0..10 {
        let mut cluster = with_random_extras(seed);
        cluster.run(ms(40_000));
        cluster.check(address(SERVICE));
        let before = layout(&cluster);
        let shared = |(address, _): &&(SocketAddr, Vec<SocketAddr>)| address.ip().is_multicast();
        let shared = before
            .values()
            .filter(shared)
            .map(|(_, members)| members.len());
        let shared: Vec<usize> = shared.collect();
        // Each pair of nodes with a group in common would be apart from the others.
        assert!(shared.len() <= 3, "seed {seed}: {shared:?}");
        assert_eq!(shared.iter().sum::<usize>(), 12, "seed {seed}");

        let stats = cluster.services[&address(SERVICE)].stats();
        assert!(stats.plans > 1, "seed {seed}");
        // It rests when nothing changes.
        cluster.run(ms(60_000));
        let later = cluster.services[&address(SERVICE)].stats();
        assert_eq!((later.plans, later.views), (stats.plans, stats.views));

        cluster.services.clear();
        cluster.start_service(Cluster::service_config(SERVICE));
        cluster.run(ms(20_000));
        cluster.check(address(SERVICE));
        assert_eq!(layout(&cluster), before, "seed {seed}");
        let stats = cluster.services[&address(SERVICE)].stats();
        assert_eq!((stats.moves, stats.plans), (0, 0), "seed {seed}");
    }
}
