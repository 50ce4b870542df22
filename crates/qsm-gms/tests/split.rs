//! Two services on two sides of a broken network, and what becomes of their nodes when it is whole.

#[expect(dead_code, reason = "other tests use the rest")]
mod network;

use std::net::SocketAddr;

use network::{Cluster, Cut, address, ms};
use qsm_gms::{ServiceConfig, ServiceEvent};
use qsm_proto::view::RegionView;
use qsm_wire::Origin;
use qsm_wire::membership::{RepairLimit, Role, Update};

/// Where the services are: the first one is there before the split.
const FIRST: u64 = 1;
const OTHER: u64 = 2;

/// The other service and hosts 12 and 13 are on the other side.
fn is_other_side(at: SocketAddr) -> bool {
    [OTHER, 12, 13].map(address).contains(&at)
}

const SPLIT: Cut = |from, to, _| is_other_side(from) != is_other_side(to);
const WHOLE: Cut = |_, _, _| false;

fn service(host: u64, embedded: bool) -> ServiceConfig {
    ServiceConfig {
        embedded,
        ..Cluster::service_config(host)
    }
}

/// Four members of one group, two of which publish to another one, and a service.
fn cluster(seed: u64, first: ServiceConfig) -> Cluster {
    let mut cluster = Cluster::new(seed);
    cluster.start_service(first);
    for host in 10..14 {
        let at = cluster.start_member(host, None);
        cluster.enter(at, Role::Subscriber, &["a"]);
    }
    for host in [11, 13] {
        cluster.enter(address(host), Role::Publisher, &["b"]);
    }
    cluster.run(ms(3000));
    cluster
}

/// The network is broken for so long, with a service on the other side.
fn split(cluster: &mut Cluster, milliseconds: u64) {
    cluster.cut = SPLIT;
    cluster.run(ms(1500));
    cluster.start_service(service(OTHER, true));
    cluster.run(ms(milliseconds));
}

fn origins(cluster: &Cluster) -> Vec<Origin> {
    let hosts = 10..14;
    hosts
        .map(|host| cluster.member(address(host)).origin())
        .collect()
}

fn view(cluster: &Cluster, host: u64) -> &RegionView {
    let member = cluster.member(address(host));
    let region = &member.regions[&member.home().unwrap()];
    region.view.as_ref().unwrap()
}

fn live(cluster: &Cluster, host: u64) -> usize {
    view(cluster, host).live_members().len()
}

/// Members of the newest view that are away say that they have caught up.
fn catch_up(cluster: &mut Cluster) {
    for host in 10..14 {
        let at = address(host);
        let (region, number) = (view(cluster, host).region(), view(cluster, host).number());
        cluster.with(at, |membership, now, outbox| {
            membership.caught_up(now, region, number, outbox);
        });
    }
    cluster.run(ms(1000));
}

/// All four are in one region of one service, live and in the lives that they had.
fn assert_whole(cluster: &mut Cluster, service: u64, before: &[Origin]) {
    catch_up(cluster);
    assert_eq!(origins(cluster), before);
    for host in 10..14 {
        assert!(!cluster.member(address(host)).excluded());
        assert_eq!(live(cluster, host), 4);
        let members = view(cluster, host).members();
        assert_eq!(members, view(cluster, 10).members());
    }
    cluster.check(address(service));
}

// Rules R-MEM-6, R-MEM-7.
#[test]
fn nodes_keep_their_lives_when_the_service_that_they_left_yields_to_theirs() {
    for seed in 0..10 {
        let mut cluster = cluster(seed, service(FIRST, true));
        let before = origins(&cluster);
        split(&mut cluster, 8000);
        assert_eq!((live(&cluster, 10), live(&cluster, 12)), (2, 2));
        let other = &cluster.services[&address(OTHER)];
        assert_eq!(other.term(), 2, "it knows of the first one");
        cluster.cut = WHOLE;
        cluster.run(ms(4000));
        assert!(cluster.services[&address(FIRST)].has_yielded());
        assert_whole(&mut cluster, OTHER, &before);
        let stats = cluster.services[&address(OTHER)].stats();
        assert_eq!((stats.resumed, stats.admitted, stats.excluded), (2, 0, 0));
    }
}

// Rules R-MEM-6, R-MEM-7.
#[test]
fn nodes_keep_their_lives_when_they_come_back_to_a_service_of_a_lower_term() {
    for seed in 0..10 {
        let mut cluster = cluster(seed, service(FIRST, false));
        let before = origins(&cluster);
        split(&mut cluster, 8000);
        // Both go on: on the other side somebody publishes to what had no publisher before.
        cluster.enter(address(12), Role::Publisher, &["a"]);
        cluster.enter(address(10), Role::Publisher, &["b"]);
        cluster.run(ms(1000));
        cluster.cut = WHOLE;
        cluster.run(ms(4000));
        assert!(cluster.services[&address(OTHER)].has_yielded());
        assert_whole(&mut cluster, FIRST, &before);
    }
}

// Rules R-MEM-6, R-MEM-7: both have begun without memory, in one term and with the same numbers.
#[test]
fn nodes_keep_their_lives_when_two_services_have_followed_one() {
    for seed in 0..10 {
        let mut cluster = cluster(seed, service(FIRST, true));
        let before = origins(&cluster);
        cluster.services.clear();
        cluster.cut = SPLIT;
        cluster.run(ms(1500));
        cluster.start_service(service(FIRST, true));
        cluster.start_service(service(OTHER, true));
        cluster.run(ms(5000));
        let terms = [FIRST, OTHER].map(|host| cluster.services[&address(host)].term());
        assert_eq!(terms, [2, 2]);
        assert_eq!(view(&cluster, 10).number(), view(&cluster, 12).number());
        assert_ne!(view(&cluster, 10).members(), view(&cluster, 12).members());
        // A few more views on one side, of which the other one has none.
        for _ in 0..seed {
            cluster.enter(address(13), Role::Subscriber, &["c"]);
            cluster.run(ms(300));
            cluster.exit(address(13), Role::Subscriber, &["c"]);
            cluster.run(ms(300));
        }
        cluster.cut = WHOLE;
        cluster.run(ms(4000));
        assert!(cluster.services[&address(OTHER)].has_yielded());
        assert_whole(&mut cluster, FIRST, &before);
    }
}

// Rules R-MEM-1, R-MEM-6: who has been told that the others are dead is not told otherwise.
#[test]
fn nodes_of_a_split_that_lasted_begin_new_lives() {
    let mut cluster = cluster(1, service(FIRST, true));
    let before = origins(&cluster);
    split(&mut cluster, 150_000);
    assert_eq!(view(&cluster, 12).members().len(), 2);
    assert!(cluster.member(address(12)).dead.contains(&before[0]));
    cluster.cut = WHOLE;
    cluster.run(ms(4000));
    assert!(cluster.services[&address(FIRST)].has_yielded());
    cluster.run(ms(4000));
    let after = origins(&cluster);
    assert_eq!(after[2..], before[2..]);
    assert!(after[0] != before[0] && after[1] != before[1]);
    cluster.check(address(OTHER));
    assert_eq!(live(&cluster, 10), 4);
    let yielded = ServiceEvent::Yielded { to: address(OTHER) };
    assert!(cluster.events.contains(&yielded));
}

fn limit(bytes_per_second: u64) -> RepairLimit {
    RepairLimit {
        bytes_per_second,
        share_ppm: 0,
    }
}

/// The limit of repairs that each node was told last.
fn told(cluster: &Cluster) -> Vec<Option<RepairLimit>> {
    let last = |host| {
        let updates = cluster.member(address(host)).updates.iter().rev();
        let mut told = updates.filter_map(|update| match update {
            Update::Repairs { told } => Some(told.limit),
            _ => None,
        });
        told.next()
    };
    (10..14).map(last).collect()
}

fn order(cluster: &mut Cluster, host: u64, limit: RepairLimit) {
    let now = cluster.now;
    let service = cluster.services.get_mut(&address(host)).unwrap();
    service.limit_repairs(now, limit);
    cluster.run(ms(1000));
}

// Rules R-NAK-16, R-MEM-6.
#[test]
fn a_limit_of_repairs_outlives_the_service_that_was_told_it() {
    let mut cluster = cluster(1, service(FIRST, false));
    order(&mut cluster, FIRST, limit(1_000_000));
    order(&mut cluster, FIRST, limit(2_000_000));
    assert_eq!(told(&cluster), [Some(limit(2_000_000)); 4]);
    cluster.services.clear();
    cluster.run(ms(1000));
    // What it is configured with is older than what holds.
    let config = ServiceConfig {
        repair_limit: limit(7),
        ..service(FIRST, false)
    };
    cluster.start_service(config);
    cluster.run(ms(5000));
    let after = cluster.services[&address(FIRST)].repair_limit();
    assert_eq!(after, limit(2_000_000));
    assert_eq!(told(&cluster), [Some(limit(2_000_000)); 4]);
    // None is a limit, too.
    order(&mut cluster, FIRST, RepairLimit::default());
    cluster.services.clear();
    cluster.run(ms(1000));
    cluster.start_service(service(FIRST, false));
    cluster.run(ms(5000));
    assert_eq!(told(&cluster), [Some(RepairLimit::default()); 4]);
}

// Rules R-NAK-16, R-MEM-7.
#[test]
fn of_two_services_that_meet_the_newest_limit_of_repairs_holds() {
    let mut cluster = cluster(2, service(FIRST, false));
    order(&mut cluster, FIRST, limit(1_000_000));
    split(&mut cluster, 8000);
    order(&mut cluster, OTHER, limit(2_000_000));
    let both = [FIRST, OTHER].map(|host| cluster.services[&address(host)].repair_limit());
    assert_eq!(both, [limit(1_000_000), limit(2_000_000)]);
    cluster.cut = WHOLE;
    cluster.run(ms(4000));
    assert!(cluster.services[&address(OTHER)].has_yielded());
    assert_eq!(told(&cluster), [Some(limit(2_000_000)); 4]);
    let first = cluster.services[&address(FIRST)].repair_limit();
    assert_eq!(first, limit(2_000_000));
}
