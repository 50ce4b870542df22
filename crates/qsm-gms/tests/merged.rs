//! Nodes with similar groups share a region (R-VIEW-16), and what nodes with different groups have in
//! common has one (R-VIEW-17).

#[expect(dead_code, reason = "other tests use the rest")]
mod network;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use network::{Cluster, address, ms};
use qsm_gms::ServiceConfig;
use qsm_wire::RegionId;
use qsm_wire::membership::{GroupRate, GroupRates, Role};

const SERVICE: u64 = 1;
const PUBLISHER: u64 = 20;
const MEMBERS: core::ops::Range<u64> = 10..16;

/// A service that lets a fifth of the deliveries be unwanted.
fn merging() -> ServiceConfig {
    ServiceConfig {
        plan_interval: ms(1000),
        plan_unwanted_ppm: 200_000,
        ..Cluster::service_config(SERVICE)
    }
}

/// Six members, each in five of six groups, every one in another five; and a publisher to all.
fn similar(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(seed);
    cluster.start_service(merging());
    cluster.start_member(PUBLISHER, Some(address(SERVICE)));
    for host in MEMBERS {
        cluster.start_member(host, Some(address(SERVICE)));
        for other in MEMBERS {
            let group = format!("g{other}");
            if other != host {
                cluster.enter(address(host), Role::Subscriber, &[&group]);
            }
            cluster.enter(address(PUBLISHER), Role::Publisher, &[&group]);
        }
    }
    cluster.run(ms(12_000));
    cluster.check(address(SERVICE));
    cluster
}

/// Groups of the regions, and addresses of their members.
fn layout(cluster: &Cluster) -> BTreeMap<RegionId, (u32, Vec<SocketAddr>)> {
    let rows = cluster.services[&address(SERVICE)].rows().regions;
    let rows = rows.into_iter().map(|row| {
        let members = row.members.iter().map(|member| member.address);
        let mut members: Vec<SocketAddr> = members.collect();
        members.sort_unstable();
        (row.region, (row.groups, members))
    });
    rows.collect()
}

// Rule R-VIEW-16.
#[test]
fn a_plan_merges_similar_nodes_and_rests() {
    let mut cluster = similar(1);
    let before = layout(&cluster);
    let shapes = before
        .values()
        .map(|(groups, members)| (*groups, members.len()));
    assert_eq!(shapes.collect::<Vec<_>>(), [(6, 6)]);
    let rows = cluster.services[&address(SERVICE)].rows().groups;
    assert!(rows.iter().all(|row| (row.members, row.regions) == (5, 1)));
    let plans = cluster.services[&address(SERVICE)].stats().plans;
    cluster.run(ms(30_000));
    let stats = cluster.services[&address(SERVICE)].stats();
    assert_eq!((layout(&cluster), stats.plans), (before, plans));
}

// Rules R-VIEW-16, R-MEM-6.
#[test]
fn a_service_that_restarts_finds_a_merged_region_again_and_its_plans_move_nobody() {
    for seed in 0..5 {
        let mut cluster = similar(seed);
        let before = layout(&cluster);
        cluster.services.clear();
        cluster.start_service(merging());
        cluster.run(ms(50_000));
        cluster.check(address(SERVICE));
        assert_eq!(layout(&cluster), before, "seed {seed}");
        let stats = cluster.services[&address(SERVICE)].stats();
        assert_eq!((stats.moves, stats.regions_created), (0, 0), "seed {seed}");
        assert!(stats.plans > 0, "seed {seed}");
    }
}

// Rules R-VIEW-16, R-MEM-6.
#[test]
fn a_member_that_is_cut_off_from_a_new_service_gets_all_groups_of_its_region_until_it_reports() {
    let mut cluster = similar(9);
    let before = layout(&cluster);
    let life = cluster.member(address(12)).origin();
    cluster.cut = |from, to, _| [from, to].contains(&address(12));
    cluster.services.clear();
    cluster.start_service(merging());
    cluster.run(ms(4000));
    assert_eq!(layout(&cluster), before);
    let members = |cluster: &Cluster| {
        let rows = cluster.services[&address(SERVICE)].rows().groups;
        let mut members: Vec<u32> = rows.iter().map(|row| row.members).collect();
        members.sort_unstable();
        members
    };
    // It may want the one that it does not.
    assert_eq!(members(&cluster), [5, 5, 5, 5, 5, 6]);
    cluster.cut = |_, _, _| false;
    cluster.run(ms(6000));
    cluster.check(address(SERVICE));
    assert_eq!(cluster.member(address(12)).origin(), life);
    assert_eq!(members(&cluster), [5; 6]);
    assert_eq!(layout(&cluster), before);
    assert_eq!(cluster.services[&address(SERVICE)].stats().moves, 0);
}

/// A service that makes a common region where it saves a packet in a second.
fn commoning() -> ServiceConfig {
    ServiceConfig {
        plan_interval: ms(1000),
        plan_common: Some(1),
        ..Cluster::service_config(SERVICE)
    }
}

/// Twelve members in two common groups, and four at a time in four others; and a publisher to one of
/// the common ones.
fn divided(seed: u64) -> Cluster {
    divided_by(commoning(), seed)
}

fn divided_by(service: ServiceConfig, seed: u64) -> Cluster {
    let mut cluster = Cluster::new(seed);
    cluster.start_service(service);
    cluster.start_member(PUBLISHER, Some(address(SERVICE)));
    for host in 8..20 {
        cluster.start_member(host, Some(address(SERVICE)));
        let own = (0..4).map(|group| format!("p{}-{group}", host / 4));
        let groups = ["all".to_owned(), "any".to_owned()].into_iter().chain(own);
        let groups: Vec<String> = groups.collect();
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        cluster.enter(address(host), Role::Subscriber, &groups);
    }
    cluster.enter(address(PUBLISHER), Role::Publisher, &["all"]);
    cluster.run(ms(12_000));
    cluster.check(address(SERVICE));
    cluster
}

fn sizes(cluster: &Cluster) -> Vec<(u32, usize)> {
    let regions = layout(cluster).into_values();
    let mut sizes: Vec<(u32, usize)> = regions
        .map(|(groups, members)| (groups, members.len()))
        .collect();
    sizes.sort_unstable();
    sizes
}

// Rule R-VIEW-17.
#[test]
fn what_several_regions_have_in_common_goes_by_one() {
    let mut cluster = divided(1);
    assert_eq!(sizes(&cluster), [(2, 12), (4, 4), (4, 4), (4, 4)]);
    let before = layout(&cluster);
    let plans = cluster.services[&address(SERVICE)].stats().plans;
    cluster.run(ms(30_000));
    let stats = cluster.services[&address(SERVICE)].stats();
    assert_eq!((layout(&cluster), stats.plans), (before, plans));
    // Who enters both, and nothing else, is at home there at once.
    cluster.start_member(30, Some(address(SERVICE)));
    cluster.enter(address(30), Role::Subscriber, &["all", "any"]);
    cluster.run(ms(500));
    assert_eq!(sizes(&cluster), [(2, 13), (4, 4), (4, 4), (4, 4)]);
}

// Rules R-VIEW-8, R-VIEW-17.
#[test]
fn a_group_that_all_enter_joins_a_common_region_that_stays() {
    let mut cluster = divided(2);
    let common = |cluster: &Cluster| {
        let regions = layout(cluster).into_iter();
        let mut common = regions.filter(|(_, (_, members))| members.len() == 12);
        common.next().map(|(id, (groups, _))| (id, groups))
    };
    let (id, groups) = common(&cluster).unwrap();
    assert_eq!(groups, 2);
    for host in 8..20 {
        cluster.enter(address(host), Role::Subscriber, &["new"]);
    }
    cluster.run(ms(20_000));
    cluster.check(address(SERVICE));
    assert_eq!(common(&cluster), Some((id, 3)));
    assert_eq!(sizes(&cluster), [(3, 12), (4, 4), (4, 4), (4, 4)]);
}

// Rules R-VIEW-17, R-MEM-6.
#[test]
fn a_service_that_restarts_finds_a_common_region_again_and_its_plans_move_nobody() {
    for seed in 0..5 {
        let mut cluster = divided(seed);
        let before = layout(&cluster);
        cluster.services.clear();
        cluster.start_service(commoning());
        cluster.run(ms(50_000));
        cluster.check(address(SERVICE));
        assert_eq!(layout(&cluster), before, "seed {seed}");
        let stats = cluster.services[&address(SERVICE)].stats();
        assert_eq!((stats.moves, stats.regions_created), (0, 0), "seed {seed}");
        assert!(stats.plans > 0, "seed {seed}");
    }
}

// Rules R-VIEW-17, R-MEM-6.
#[test]
fn a_member_that_is_cut_off_from_a_new_service_stays_in_its_common_region() {
    let mut cluster = divided(9);
    let before = layout(&cluster);
    let life = cluster.member(address(12)).origin();
    cluster.cut = |from, to, _| [from, to].contains(&address(12));
    cluster.services.clear();
    cluster.start_service(commoning());
    cluster.run(ms(4000));
    assert_eq!(layout(&cluster), before);
    cluster.cut = |_, _, _| false;
    cluster.run(ms(6000));
    cluster.check(address(SERVICE));
    assert_eq!(cluster.member(address(12)).origin(), life);
    assert_eq!(layout(&cluster), before);
    assert_eq!(cluster.services[&address(SERVICE)].stats().moves, 0);
}

// Rules R-VIEW-17, R-MEM-19.
#[test]
fn a_common_region_is_made_once_enough_is_published_to_it() {
    let service = ServiceConfig {
        plan_common: Some(10),
        ..commoning()
    };
    let mut cluster = divided_by(service, 3);
    assert_eq!(sizes(&cluster), [(6, 4), (6, 4), (6, 4)]);
    let group = cluster.members[&address(PUBLISHER)].names["all"];
    let says = |cluster: &mut Cluster, rate| {
        let groups = vec![GroupRate { group, rate }];
        let rates = GroupRates {
            groups,
            whole: true,
        };
        cluster.with(address(PUBLISHER), |membership, now, outbox| {
            membership.group_rated(now, rates, outbox);
        });
        cluster.run(ms(15_000));
        cluster.check(address(SERVICE));
    };
    // Six messages a second to one group of three regions, and perhaps one to another, are fourteen
    // packets that could be saved; the ring of twelve nodes is one or two.
    says(&mut cluster, 6000);
    assert_eq!(sizes(&cluster), [(2, 12), (4, 4), (4, 4), (4, 4)]);
    // Half of it is enough for one that is there.
    says(&mut cluster, 3000);
    assert_eq!(sizes(&cluster), [(2, 12), (4, 4), (4, 4), (4, 4)]);
    says(&mut cluster, 500);
    assert_eq!(sizes(&cluster), [(6, 4), (6, 4), (6, 4)]);
}
