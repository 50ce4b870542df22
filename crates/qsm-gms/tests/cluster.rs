//! Members and services together, on a network that loses, repeats and reorders datagrams.

mod network;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use network::{Cluster, address, ms};
use qsm_gms::{ServiceConfig, ServiceEvent};
use qsm_proto::{Config, Event, Random, Seed};
use qsm_wire::membership::{Answer, AnswerRows, QueryKind, Role, Update};
use qsm_wire::{Coverage, Header, Incarnation, Kind, NodeId, Origin, seal};

const SERVICE: u64 = 1;

/// A cluster with a service and members on hosts 10, 11, ...
fn cluster(seed: u64, members: u64) -> Cluster {
    cluster_of(Cluster::service_config(SERVICE), seed, members)
}

/// A service to which nobody is ever away: who answers no probe is excluded.
fn impatient() -> ServiceConfig {
    ServiceConfig {
        gone_after: core::time::Duration::ZERO,
        ..Cluster::service_config(SERVICE)
    }
}

fn cluster_of(service: ServiceConfig, seed: u64, members: u64) -> Cluster {
    let mut cluster = Cluster::new(seed);
    cluster.start_service(service);
    for host in 10..10 + members {
        cluster.start_member(host, Some(address(SERVICE)));
    }
    cluster
}

fn churn(seed: u64) -> Cluster {
    let mut cluster = cluster(seed, 12);
    cluster.lose(100_000);
    let mut random = Random::new(Seed(seed), "churn");
    for _ in 0..60 {
        for _ in 0..random.below(4) {
            let at = address(10 + random.below(12));
            let role = [Role::Subscriber, Role::Publisher][random.below(2) as usize];
            let all = ["a", "b", "c", "d", "e"];
            let first = random.below(5) as usize;
            let names = &all[first..=(first + random.below(2) as usize).min(4)];
            if random.chance_ppm(600_000) {
                cluster.enter(at, role, names);
            } else {
                cluster.exit(at, role, names);
            }
        }
        cluster.run(ms(random.below(300)));
    }
    cluster.lose(0);
    cluster.run(ms(5000));
    cluster
}

#[test]
fn after_any_churn_all_members_know_exactly_what_the_service_knows() {
    for seed in 0..25 {
        let cluster = churn(seed);
        cluster.check(address(SERVICE));
        let stats = cluster.services[&address(SERVICE)].stats();
        assert_eq!(
            (stats.excluded, stats.sessions_broken),
            (0, 0),
            "seed {seed}"
        );
    }
}

#[test]
fn same_seed_same_datagrams() {
    let (one, other) = (churn(7), churn(7));
    assert_eq!(one.trace, other.trace);
    assert_ne!(one.trace, churn(8).trace);
}

// Rule R-MEM-1.
#[test]
fn a_silent_node_is_excluded_when_it_answers_no_probe_and_comes_back_in_a_new_life() {
    let mut cluster = cluster_of(impatient(), 1, 3);
    for host in 10..13 {
        cluster.enter(address(host), Role::Subscriber, &["a"]);
    }
    cluster.enter(address(12), Role::Publisher, &["a"]);
    cluster.run(ms(2000));
    let before = cluster.member(address(12)).origin();
    cluster.cut = |from, to, _| from == address(12) || to == address(12);
    cluster.run(ms(1500));
    let excluded = ServiceEvent::Excluded { origin: before };
    assert!(cluster.events.contains(&excluded));
    for host in [10, 11] {
        let member = cluster.member(address(host));
        assert!(member.dead.contains(&before));
        let view = member.regions[&member.home().unwrap()]
            .view
            .clone()
            .unwrap();
        assert_eq!(view.members().len(), 2);
    }
    assert!(
        cluster
            .member(address(12))
            .events
            .contains(&Event::ServiceLost)
    );
    cluster.cut = |_, _, _| false;
    cluster.run(ms(3000));
    let after = cluster.member(address(12)).origin();
    assert!(after.incarnation > before.incarnation);
    assert!(cluster.member(address(12)).excluded());
    cluster.check(address(SERVICE));
}

#[test]
fn a_silent_node_that_answers_probes_stays() {
    let mut cluster = cluster(2, 2);
    cluster.enter(address(10), Role::Subscriber, &["a"]);
    cluster.run(ms(2000));
    cluster.cut =
        |from, _, kind| from == address(10) && matches!(kind, Kind::Session | Kind::SessionAck);
    cluster.run(ms(5000));
    let stats = cluster.services[&address(SERVICE)].stats();
    assert!(stats.probes_sent > 0);
    assert_eq!(stats.excluded, 0);
    cluster.cut = |_, _, _| false;
    cluster.run(ms(3000));
    cluster.check(address(SERVICE));
}

// Rule R-MEM-4.
#[test]
fn a_suspicion_is_cleared_by_the_answer_to_the_probe() {
    let mut cluster = cluster(3, 2);
    cluster.run(ms(1500));
    let suspect = cluster.member(address(11)).origin();
    cluster.with(address(10), |m, now, outbox| {
        m.suspect(now, suspect, core::time::Duration::ZERO, outbox);
    });
    cluster.run(ms(3000));
    let stats = cluster.services[&address(SERVICE)].stats();
    assert!(stats.probes_sent >= 1);
    assert_eq!(stats.excluded, 0);
}

// Rule R-MEM-6.
// R046, R-MEM-1, R-MEM-6
#[test]
fn what_ended_stays_over_under_a_new_service() {
    let mut cluster = cluster_of(impatient(), 3, 3);
    cluster.enter(address(10), Role::Subscriber, &["a"]);
    cluster.enter(address(11), Role::Publisher, &["a"]);
    cluster.enter(address(12), Role::Subscriber, &["b"]);
    cluster.run(ms(3000));
    let service = &cluster.services[&address(SERVICE)];
    let numbers: BTreeSet<_> = service.rows().regions.iter().map(|r| r.region).collect();
    assert_eq!(numbers.len(), 2);
    let over = cluster.member(address(10)).origin();
    let lives = cluster.member(address(11)).origin();
    // The only receiver of "a" is cut off for so long that it is taken for dead.
    cluster.cut = |from, to, _| from == address(10) || to == address(10);
    cluster.run(ms(10_000));
    assert!(cluster.member(address(11)).dead.contains(&over));
    assert_eq!(cluster.member(address(10)).origin(), over);
    // It meets a service that has not seen this.
    cluster.services.clear();
    cluster.cut = |_, _, _| false;
    cluster.start_service(impatient());
    cluster.run(ms(5000));
    cluster.check(address(SERVICE));
    let member = cluster.member(address(10));
    assert_ne!(member.origin(), over, "a dead life came back");
    assert!(member.excluded());
    assert_eq!(cluster.member(address(11)).origin(), lives);
    // The number of the region that has ended is not given again.
    let service = &cluster.services[&address(SERVICE)];
    let after: BTreeSet<_> = service.rows().regions.iter().map(|r| r.region).collect();
    assert_eq!((after.len(), after.intersection(&numbers).count()), (2, 1));
    // Nor the number of a life that ended together with the service.
    let last = cluster.member(address(10)).origin();
    cluster.enter(address(11), Role::Subscriber, &["a"]);
    cluster.run(ms(2000));
    cluster.services.clear();
    cluster.members.remove(&address(10));
    cluster.start_service(impatient());
    cluster.run(ms(5000));
    cluster.start_member(10, Some(address(SERVICE)));
    cluster.run(ms(2000));
    let again = cluster.member(address(10)).origin();
    assert!(again.incarnation > last.incarnation, "{again} after {last}");
}

#[test]
fn a_new_service_goes_on_where_the_last_one_ended() {
    let mut cluster = cluster_of(impatient(), 4, 4);
    for (host, names) in [
        (10, &["a", "b"][..]),
        (11, &["a", "b"]),
        (12, &["c"]),
        (13, &["a", "b"]),
    ] {
        cluster.enter(address(host), Role::Subscriber, names);
    }
    cluster.enter(address(12), Role::Publisher, &["a"]);
    cluster.run(ms(3000));
    cluster.check(address(SERVICE));
    let origins: Vec<_> = (10..13)
        .map(|host| cluster.member(address(host)).origin())
        .collect();
    let gone = cluster.member(address(13)).origin();
    let before = cluster.services[&address(SERVICE)].rows();
    // One node dies together with the service.
    cluster.services.clear();
    cluster.members.remove(&address(13));
    cluster.run(ms(2000));
    let request = cluster.enter(address(12), Role::Subscriber, &["d"]);
    cluster.start_service(impatient());
    cluster.run(ms(4000));
    cluster.check(address(SERVICE));

    assert!(cluster.member(address(12)).done(request));
    for (host, origin) in (10..13).zip(origins) {
        let member = cluster.member(address(host));
        assert_eq!(member.origin(), origin, "the same life goes on");
        assert_eq!(member.welcomed, [origin, origin], "by both services");
        assert!(member.dead.contains(&gone));
    }
    let service = &cluster.services[&address(SERVICE)];
    assert_eq!(service.term(), 2);
    let after = service.rows();
    for old in &before.regions {
        let new = after
            .regions
            .iter()
            .find(|new| new.region == old.region)
            .unwrap();
        assert_eq!(new.address, old.address);
        assert!(new.view >= old.view);
        assert!(new.members.iter().all(|member| member.origin != gone));
    }
    for old in &before.groups {
        assert!(
            after
                .groups
                .iter()
                .any(|new| new.group == old.group && new.name == old.name)
        );
    }
}

#[test]
fn a_service_that_restarts_in_the_middle_of_churn_ends_in_agreement() {
    for seed in 0..15 {
        let mut cluster = cluster(seed, 8);
        cluster.lose(50_000);
        let mut random = Random::new(Seed(seed), "restart");
        for round in 0..40 {
            let at = address(10 + random.below(8));
            let role = [Role::Subscriber, Role::Publisher][random.below(2) as usize];
            let name = ["a", "b", "c"][random.below(3) as usize];
            if random.chance_ppm(600_000) {
                cluster.enter(at, role, &[name]);
            } else {
                cluster.exit(at, role, &[name]);
            }
            cluster.run(ms(random.below(150)));
            if round == 20 {
                cluster.services.clear();
                cluster.start_service(Cluster::service_config(SERVICE));
            }
        }
        cluster.lose(0);
        cluster.run(ms(6000));
        cluster.check(address(SERVICE));
        for member in cluster.members.values() {
            assert!(!member.excluded(), "seed {seed}");
        }
    }
}

#[test]
fn a_node_that_missed_a_restart_begins_a_new_life() {
    let mut cluster = cluster_of(impatient(), 5, 2);
    cluster.enter(address(10), Role::Subscriber, &["a"]);
    cluster.enter(address(11), Role::Subscriber, &["a"]);
    cluster.run(ms(2000));
    let old = cluster.member(address(11)).origin();
    cluster.cut = |from, to, _| from == address(11) || to == address(11);
    cluster.services.clear();
    cluster.start_service(impatient());
    cluster.run(ms(4000));
    cluster.cut = |_, _, _| false;
    cluster.run(ms(4000));
    cluster.check(address(SERVICE));
    assert!(cluster.member(address(11)).origin().incarnation > old.incarnation);
    assert!(cluster.member(address(10)).dead.contains(&old));
}

#[test]
fn nodes_without_a_service_say_so_and_find_one_that_appears() {
    let mut cluster = Cluster::new(6);
    cluster.start_member(10, None);
    let request = cluster.enter(address(10), Role::Subscriber, &["a"]);
    cluster.run(ms(600));
    assert_eq!(cluster.member(address(10)).events, []);
    assert_eq!(cluster.member(address(10)).welcomed, []);
    cluster.run(ms(10_000));
    let missing = cluster.member(address(10)).events.iter();
    let missing = missing
        .filter(|event| **event == Event::ServiceMissing)
        .count();
    assert!((2..=4).contains(&missing), "{missing}");
    cluster.start_service(Cluster::service_config(SERVICE));
    cluster.run(ms(3000));
    assert!(cluster.member(address(10)).done(request));
    cluster.check(address(SERVICE));
}

// Rule R-MEM-7.
#[test]
fn of_two_embedded_services_one_yields_and_all_nodes_meet_at_the_other() {
    for seed in 0..10 {
        let mut cluster = Cluster::new(seed);
        let split: network::Cut = |from, to, _| {
            let side = |at| at == address(1) || at == address(10);
            side(from) != side(to)
        };
        cluster.cut = split;
        for service in [1, 2] {
            let mut config = Cluster::service_config(service);
            config.embedded = true;
            cluster.start_service(config);
        }
        for host in [10, 11] {
            cluster.start_member(host, None);
            cluster.enter(address(host), Role::Subscriber, &["a"]);
        }
        cluster.run(ms(3000));
        assert_eq!(cluster.services[&address(2)].rows().nodes.len(), 1);
        cluster.cut = |_, _, _| false;
        cluster.run(ms(5000));
        let to = address(1);
        assert!(cluster.events.contains(&ServiceEvent::Yielded { to }));
        assert!(cluster.services[&address(2)].has_yielded());
        cluster.check(address(1));
        assert_eq!(cluster.services[&address(1)].rows().regions.len(), 1);
    }
}

/// How often services have reported others.
fn conflicts(cluster: &Cluster) -> usize {
    let events = cluster.events.iter();
    let conflicts = events.filter(|event| matches!(event, ServiceEvent::Conflict { .. }));
    conflicts.count()
}

// Rule R-MEM-7.
#[test]
fn an_embedded_service_yields_to_one_that_is_not_and_of_two_of_those_both_say_so() {
    let mut cluster = Cluster::new(9);
    let mut config = Cluster::service_config(1);
    config.embedded = true;
    cluster.start_service(config);
    cluster.start_member(10, None);
    cluster.run(ms(2000));
    cluster.start_service(Cluster::service_config(8));
    cluster.run(ms(4000));
    assert!(cluster.services[&address(1)].has_yielded());
    cluster.check(address(8));
    assert_eq!(conflicts(&cluster), 0);
    // One that is still listening is less than one that serves, whatever its number.
    cluster.start_service(Cluster::service_config(7));
    cluster.run(ms(2500));
    assert!(cluster.services[&address(7)].has_yielded());
    assert!(!cluster.services[&address(8)].has_yielded());
    let (node, address) = (NodeId(7), address(7));
    let conflict = ServiceEvent::Conflict { node, address };
    assert!(cluster.events.contains(&conflict));
    assert_eq!(conflicts(&cluster), 1);
    let to = network::address(8);
    assert!(cluster.events.contains(&ServiceEvent::Yielded { to }));
    cluster.check(to);
}

// Rule R-MEM-7.
#[test]
fn of_two_services_that_met_late_one_has_all_nodes() {
    for seed in 0..10 {
        let mut cluster = Cluster::new(seed);
        cluster.cut = |from, to, _| {
            let side = |at| at == address(1) || at == address(10);
            side(from) != side(to)
        };
        for service in [1, 2] {
            cluster.start_service(Cluster::service_config(service));
        }
        for host in [10, 11] {
            cluster.start_member(host, None);
            cluster.enter(address(host), Role::Subscriber, &["a"]);
        }
        cluster.run(ms(3000));
        cluster.cut = |_, _, _| false;
        cluster.run(ms(5000));
        // Of equal terms the lower number stays, and knows of the other.
        assert!(cluster.services[&address(2)].has_yielded());
        assert_eq!(conflicts(&cluster), 1);
        cluster.check(address(1));
        assert_eq!(cluster.services[&address(1)].rows().nodes.len(), 2);
    }
}

#[test]
fn a_node_that_says_goodbye_is_gone_at_once() {
    let mut cluster = cluster(10, 2);
    cluster.enter(address(10), Role::Subscriber, &["a"]);
    cluster.enter(address(11), Role::Subscriber, &["a"]);
    cluster.run(ms(2000));
    let origin = cluster.member(address(11)).origin();
    cluster.with(address(11), |m, now, outbox| {
        m.goodbye(now, Vec::new(), outbox);
    });
    assert!(!cluster.member(address(11)).membership.is_gone(cluster.now));
    cluster.run(ms(200));
    assert!(cluster.member(address(11)).membership.is_gone(cluster.now));
    cluster.members.remove(&address(11));
    assert!(cluster.events.contains(&ServiceEvent::Left { origin }));
    assert!(cluster.member(address(10)).dead.contains(&origin));
    cluster.check(address(SERVICE));
}

// Rule R-MEM-5.
#[test]
fn while_the_service_is_silent_views_stay_and_requests_wait() {
    let mut cluster = cluster(11, 1);
    cluster.enter(address(10), Role::Subscriber, &["a"]);
    cluster.run(ms(2000));
    let origin = cluster.member(address(10)).origin();
    let service = cluster.services.remove(&address(SERVICE)).unwrap();
    cluster.run(ms(400));
    let request = cluster.enter(address(10), Role::Subscriber, &["b"]);
    cluster.run(ms(200));
    // It comes back with its memory before it excludes anybody: nothing is said twice.
    cluster.services.insert(address(SERVICE), service);
    cluster.run(ms(1500));
    let member = cluster.member(address(10));
    assert!(member.done(request));
    assert_eq!(member.origin(), origin);
    assert!(member.home().is_some());
    cluster.check(address(SERVICE));
}

#[test]
fn queries_are_answered_with_rows() {
    let mut cluster = cluster(12, 3);
    cluster.enter(address(10), Role::Subscriber, &["a", "b"]);
    cluster.enter(address(11), Role::Publisher, &["a"]);
    cluster.run(ms(2000));
    let kinds = [QueryKind::Nodes, QueryKind::Groups, QueryKind::Regions];
    for kind in kinds {
        let asked = cluster.with(address(12), |m, now, outbox| m.query(now, kind, outbox));
        assert!(asked.is_ok());
    }
    cluster.run(ms(100));
    let rows = cluster.services[&address(SERVICE)].rows();
    let answers = &cluster.member(address(12)).answers;
    let answers = answers
        .iter()
        .filter_map(|answer| answer.result.clone().ok());
    let lists: Vec<AnswerRows> = answers.collect();
    let counts = [rows.nodes.len(), rows.groups.len(), rows.regions.len()];
    assert_eq!(counts, [3, 2, 1]);
    let expected = [
        AnswerRows::Nodes(rows.nodes),
        AnswerRows::Groups(rows.groups),
        AnswerRows::Regions(rows.regions),
    ];
    assert_eq!(lists, expected);
}

#[test]
fn a_bad_name_is_refused_with_a_reason_and_a_good_one_is_not() {
    let mut cluster = cluster(13, 1);
    let bad = cluster.with(address(10), |m, now, outbox| {
        m.enter(now, Role::Subscriber, vec!["a\u{7}b".to_owned()], outbox)
    });
    let good = cluster.enter(address(10), Role::Subscriber, &["ab"]);
    cluster.run(ms(2000));
    let member = cluster.member(address(10));
    let refused = |answer: &Answer| answer.result.is_err();
    assert!(refused(&bad.unwrap_err()));
    assert!(member.done(good));
    assert_eq!(member.welcomed.len(), 1);
}

fn v6(host: u64) -> SocketAddr {
    format!("[fd00::{host:x}]:4481").parse().unwrap()
}

// Rule R-MEM-8.
#[test]
fn a_cluster_of_ipv6_gets_addresses_of_its_own_and_keeps_them_over_a_restart() {
    let mut cluster = Cluster::new(15);
    let mut config = ServiceConfig::new(NodeId(SERVICE), v6(SERVICE));
    // Two regions are what this is about.
    config.plan_interval = ms(0);
    let number = config.cluster_number();
    cluster.start_service(config);
    for host in 10..13 {
        cluster.start_member_at(host, v6(host), Some(v6(SERVICE)));
        cluster.enter(v6(host), Role::Subscriber, &["a"]);
    }
    for host in 11..13 {
        cluster.enter(v6(host), Role::Subscriber, &["b"]);
    }
    cluster.run(ms(3000));
    let regions = |cluster: &Cluster, service| {
        let rows = cluster.services[&service].rows().regions;
        rows.iter().map(|row| row.address).collect::<BTreeSet<_>>()
    };
    let before = regions(&cluster, v6(SERVICE));
    assert_eq!(before.len(), 2);
    let middle = format!("ff15::{:x}:{:x}:", number >> 16, number & 0xffff);
    for address in &before {
        assert!(address.ip().to_string().starts_with(&middle), "{address}");
    }
    cluster.services.clear();
    cluster.start_service(ServiceConfig::new(NodeId(2), v6(SERVICE)));
    cluster.run(ms(5000));
    assert_eq!(regions(&cluster, v6(SERVICE)), before);
}

// Rule R-MEM-11.
#[test]
fn a_node_of_the_other_family_is_turned_away_and_reported_once() {
    let mut cluster = cluster(16, 2);
    let stranger = cluster.start_member_at(20, v6(20), Some(address(SERVICE)));
    cluster.enter(stranger, Role::Subscriber, &["a"]);
    cluster.run(ms(5000));
    assert_eq!(cluster.services[&address(SERVICE)].rows().nodes.len(), 2);
    let reports = cluster.events.iter();
    let reports = reports.filter(
        |event| matches!(event, ServiceEvent::OtherFamily { address, .. } if *address == stranger),
    );
    assert_eq!(reports.count(), 1);
}

/// Where a host is on a second network.
fn second(host: u64) -> SocketAddr {
    let mut second = address(host);
    second.set_ip([10, 1, 0, u8::try_from(host).unwrap()].into());
    second
}

/// The hosts whose second address a member has been told of, and those that it was told of before
/// anything else named them.
fn told_of(cluster: &Cluster, host: u64, others: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let updates = &cluster.member(address(host)).updates;
    let told = |other: u64| {
        let expected = Update::Second {
            address: address(other),
            second: second(other),
        };
        updates.iter().position(|update| *update == expected)
    };
    let named = |other: u64| {
        let named = |update: &Update| match update {
            Update::View(step) => step.added.iter().any(|m| m.address == address(other)),
            Update::Settled { senders, .. } => senders.iter().any(|s| s.address == address(other)),
            _ => false,
        };
        updates.iter().position(named).unwrap_or(usize::MAX)
    };
    let all = others
        .iter()
        .copied()
        .filter(|other| told(*other).is_some());
    let first = all
        .clone()
        .filter(|other| told(*other) < Some(named(*other)));
    (all.collect(), first.collect())
}

fn start_on_two(cluster: &mut Cluster, host: u64) {
    let mut config = Config::new(NodeId(host), address(host));
    config.service = Some(address(SERVICE));
    config.second = Some(second(host));
    cluster.add_member(config);
}

// Rule R-MEM-12.
#[test]
fn those_on_two_networks_are_told_of_each_other_before_they_meet() {
    let mut cluster = Cluster::new(17);
    let config = || ServiceConfig {
        second: Some(second(SERVICE)),
        ..Cluster::service_config(SERVICE)
    };
    cluster.start_service(config());
    for host in [10, 11] {
        start_on_two(&mut cluster, host);
    }
    cluster.start_member(12, Some(address(SERVICE)));
    for host in 10..13 {
        cluster.enter(address(host), Role::Subscriber, &["a"]);
    }
    cluster.run(ms(3000));
    // Of members before they are in a view, itself included, and of the service by its beacon.
    assert_eq!(
        told_of(&cluster, 10, &[10, 11, 12]),
        (vec![10, 11], vec![10, 11])
    );
    let of_service = Event::SecondAddress {
        address: address(SERVICE),
        second: second(SERVICE),
    };
    assert!(cluster.member(address(10)).events.contains(&of_service));
    assert!(!cluster.member(address(12)).events.contains(&of_service));
    assert_eq!(told_of(&cluster, 12, &[10, 11]).0, []);
    let told = |cluster: &Cluster, host| {
        let (address, second) = (address(host), second(host));
        let expected = ServiceEvent::SecondAddress { address, second };
        cluster.events.contains(&expected)
    };
    assert!(told(&cluster, 10) && told(&cluster, 11));

    cluster.services.clear();
    cluster.events.clear();
    cluster.start_service(config());
    cluster.run(ms(5000));
    start_on_two(&mut cluster, 13);
    cluster.enter(address(13), Role::Subscriber, &["a"]);
    cluster.run(ms(3000));
    assert!(told(&cluster, 10) && told(&cluster, 11));
    assert_eq!(
        told_of(&cluster, 13, &[10, 11]),
        (vec![10, 11], vec![10, 11])
    );
    assert_eq!(told_of(&cluster, 10, &[13]), (vec![13], vec![13]));
}

/// Whom a member has been told of, last, as a sender to its region that is no member.
fn sources(cluster: &Cluster, host: u64) -> Option<Vec<SocketAddr>> {
    let updates = cluster.member(address(host)).updates.iter().rev();
    let told = |update: &Update| match update {
        Update::Sources { senders, .. } => Some(senders.iter().map(|s| s.address).collect()),
        _ => None,
    };
    updates.filter_map(told).next()
}

fn source_specific() -> ServiceConfig {
    let mut config = Cluster::service_config(SERVICE);
    config.plan.base = [232, 192, 0, 0].into();
    config
}

// Rule R-MEM-13.
#[test]
fn members_are_told_who_else_sends_where_senders_must_be_named() {
    let mut cluster = Cluster::new(18);
    cluster.start_service(source_specific());
    for host in 10..15 {
        cluster.start_member(host, Some(address(SERVICE)));
    }
    for host in [10, 11] {
        cluster.enter(address(host), Role::Subscriber, &["a"]);
    }
    cluster.run(ms(2000));
    assert_eq!(sources(&cluster, 10), None);
    cluster.enter(address(12), Role::Publisher, &["a"]);
    cluster.run(ms(1000));
    let first = vec![address(12)];
    assert_eq!(sources(&cluster, 10), Some(first.clone()));
    assert_eq!(sources(&cluster, 11), Some(first));
    // One who comes later is told of all of them; one who only sends is told of nobody.
    cluster.enter(address(13), Role::Publisher, &["a"]);
    cluster.enter(address(14), Role::Subscriber, &["a"]);
    cluster.run(ms(1000));
    let both = vec![address(12), address(13)];
    for host in [10, 11, 14] {
        assert_eq!(sources(&cluster, host), Some(both.clone()), "{host}");
    }
    assert_eq!(sources(&cluster, 12), None);
    // A member is in the view.
    cluster.enter(address(12), Role::Subscriber, &["a"]);
    cluster.run(ms(1000));
    assert_eq!(sources(&cluster, 11), Some(vec![address(13)]));

    cluster.services.clear();
    cluster.start_service(source_specific());
    cluster.run(ms(5000));
    for host in 10..15 {
        cluster
            .members
            .get_mut(&address(host))
            .unwrap()
            .updates
            .clear();
    }
    cluster.exit(address(12), Role::Subscriber, &["a"]);
    cluster.run(ms(5000));
    for host in [10, 11, 14] {
        assert_eq!(sources(&cluster, host), Some(both.clone()), "{host}");
    }
    cluster.check(address(SERVICE));
}

#[test]
fn where_anybody_is_heard_nobody_is_named() {
    let mut cluster = cluster(19, 2);
    cluster.enter(address(10), Role::Subscriber, &["a"]);
    cluster.enter(address(11), Role::Publisher, &["a"]);
    cluster.run(ms(2000));
    assert_eq!(sources(&cluster, 10), None);
}

/// R040: bursts make few views. A thousand nodes join within 100 ms (R-MEM-2).
#[test]
fn a_thousand_joins_make_at_most_two_and_ten_views_a_second() {
    let mut cluster = Cluster::new(14);
    cluster.grain = 2_000_000;
    cluster.start_service(Cluster::service_config(SERVICE));
    for host in 10..1010 {
        cluster.start_member(host, Some(address(SERVICE)));
    }
    cluster.run(ms(2000));
    assert_eq!(cluster.services[&address(SERVICE)].rows().nodes.len(), 1000);
    let before = cluster.services[&address(SERVICE)].stats().views;
    for host in 10..1010 {
        cluster.enter(address(host), Role::Subscriber, &["a"]);
        if host % 10 == 0 {
            cluster.run(ms(1));
        }
    }
    cluster.run(ms(400));
    let stats = cluster.services[&address(SERVICE)].stats();
    let views = stats.views - before;
    assert!((1..=2 + 5).contains(&views), "{views}");
    cluster.run(ms(2000));
    cluster.check(address(SERVICE));
    assert_eq!(cluster.services[&address(SERVICE)].stats().excluded, 0);
}

#[test]
fn malformed_and_forged_datagrams_are_counted_and_harm_nobody() {
    let mut cluster = cluster(15, 2);
    cluster.enter(address(10), Role::Subscriber, &["a"]);
    cluster.enter(address(11), Role::Subscriber, &["a"]);
    cluster.run(ms(2000));
    let mut random = Random::new(Seed(15), "forger");
    let service = address(SERVICE);
    for _ in 0..20_000 {
        let config = Cluster::service_config(SERVICE);
        let cluster_number = match random.chance_ppm(900_000) {
            true => config.cluster_number(),
            false => random.below(1 << 32) as u32,
        };
        let header = Header {
            cluster: cluster_number,
            origin: Origin {
                node: NodeId(random.bits()),
                incarnation: Incarnation(random.below(1 << 32) as u32),
            },
            ..Header::default()
        };
        let kind = Kind::ALL[random.below(Kind::ALL.len() as u64) as usize];
        let mut bytes = Vec::new();
        header.encode(kind, &mut bytes);
        bytes.extend((0..random.below(100)).map(|_| random.bits().to_le_bytes()[0]));
        seal(&mut bytes, Coverage::Whole);
        if random.chance_ppm(100_000) {
            bytes.truncate(random.below(30) as usize);
        }
        let from = address(5000 + random.below(3));
        let now = cluster.now;
        let target = cluster.services.get_mut(&service).unwrap();
        target.handle_datagram(now, from, &bytes);
    }
    cluster.run(ms(3000));
    cluster.check(service);
    let stats = cluster.services[&service].stats();
    assert!(stats.discard_damaged > 0);
    let mut events = cluster.events.iter();
    let of_a_forger = |from: &SocketAddr| (5000..5003).any(|host| *from == address(host));
    assert!(
        events.any(|event| matches!(event, ServiceEvent::Damaged(damage)
        if damage.datagrams > 0 && damage.senders.iter().all(of_a_forger)))
    );
    assert!(stats.discard_malformed > 0);
    assert!(stats.discard_cluster > 0);
    assert!(stats.resets_sent > 0);
    assert_eq!((stats.excluded, stats.admitted), (0, 2));
}
