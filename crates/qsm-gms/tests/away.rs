//! Nodes that are silent for a while, in their views and at the service: they keep their lives.

#[expect(dead_code, reason = "other tests use the rest")]
mod network;

use std::net::SocketAddr;
use std::time::Duration;

use network::{Cluster, Cut, address, ms};
use qsm_gms::{ServiceConfig, ServiceEvent};
use qsm_proto::view::RegionView;
use qsm_proto::{Random, Seed};
use qsm_wire::Origin;
use qsm_wire::membership::{AwayReason, Role};

const SERVICE: u64 = 1;

/// A cluster in which four members receive one group, and the last one publishes to another.
fn cluster(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(seed);
    cluster.start_service(Cluster::service_config(SERVICE));
    for host in 10..14 {
        let at = cluster.start_member(host, Some(address(SERVICE)));
        cluster.enter(at, Role::Subscriber, &["a"]);
    }
    cluster.enter(address(13), Role::Publisher, &["b"]);
    cluster.run(ms(2000));
    cluster
}

fn view(cluster: &Cluster, at: SocketAddr) -> &RegionView {
    let member = cluster.member(at);
    let region = &member.regions[&member.home().unwrap()];
    region.view.as_ref().unwrap()
}

/// Members of the view that a node knows: live ones, and those that are away with the reason.
fn members(cluster: &Cluster, at: SocketAddr) -> (usize, Vec<(Origin, AwayReason)>) {
    let view = view(cluster, at);
    let away = view.away_members().iter();
    let away = away.filter_map(|member| Some((member.origin, member.away?)));
    (view.live_members().len(), away.collect())
}

/// The node has caught up, and says so.
fn catch_up(cluster: &mut Cluster, at: SocketAddr) {
    let (region, view) = (view(cluster, at).region(), view(cluster, at).number());
    cluster.with(at, |membership, now, outbox| {
        membership.caught_up(now, region, view, outbox);
    });
    cluster.run(ms(500));
}

/// Nothing from or to host 12 arrives.
fn cut(cluster: &mut Cluster) {
    cluster.cut = |from, to, _| from == address(12) || to == address(12);
}

// Rule R-MEM-15.
#[test]
fn a_silent_node_is_away_and_comes_back_in_the_same_life() {
    let mut cluster = cluster(1);
    let origin = cluster.member(address(12)).origin();
    cut(&mut cluster);
    cluster.run(ms(1500));
    let away = vec![(origin, AwayReason::Silent)];
    assert_eq!(members(&cluster, address(10)), (3, away.clone()));
    cluster.run(ms(20_000));
    assert_eq!(members(&cluster, address(10)), (3, away.clone()));
    cluster.cut = |_, _, _| false;
    cluster.run(ms(3000));
    // To be heard is not enough: it knows that it is away, and has yet to catch up.
    assert_eq!(members(&cluster, address(12)), (3, away.clone()));
    assert_eq!(members(&cluster, address(10)), (3, away));
    catch_up(&mut cluster, address(12));
    for host in 10..14 {
        assert_eq!(members(&cluster, address(host)), (4, vec![]));
        // Positions decide who caches what.
        let own = view(&cluster, address(host)).members();
        assert_eq!(own, view(&cluster, address(10)).members());
    }
    assert_eq!(cluster.member(address(12)).origin(), origin);
    assert!(!cluster.member(address(12)).excluded());
    let stats = cluster.services[&address(SERVICE)].stats();
    assert_eq!((stats.away, stats.excluded), (1, 0));
    cluster.check(address(SERVICE));
}

// Rule R-MEM-4: with 60 % of all packets lost three probes and their answers fail more often than not.
#[test]
fn who_is_heard_now_and_then_is_not_taken_for_silent() {
    for seed in 30..34 {
        let mut cluster = cluster(seed);
        cluster.lose(600_000);
        cluster.run(ms(5000));
        let before = cluster.services[&address(SERVICE)].stats().away;
        cluster.run(ms(30_000));
        let stats = cluster.services[&address(SERVICE)].stats();
        let away = stats.away - before;
        let (sent, copied) = (stats.probes_sent, stats.probes_copied);
        assert!(away <= 2, "{away} times, by {sent} probes");
        assert!(
            copied > 0 && copied < sent,
            "{copied} of {sent} probes are copies"
        );
        assert_eq!(stats.excluded, 0);
    }
}

// Rule R-MEM-15.
#[test]
fn a_node_that_stays_silent_is_gone_in_the_end() {
    let mut cluster = cluster(2);
    let origin = cluster.member(address(12)).origin();
    cut(&mut cluster);
    cluster.run(ms(32_000));
    let gone = ServiceEvent::Excluded { origin };
    assert!(cluster.events.contains(&gone));
    assert_eq!(members(&cluster, address(10)), (3, vec![]));
}

// Rule R-MEM-15: its host's word ends the life of a process that is in doubt, and of no other.
#[test]
fn a_crash_that_the_host_reports_counts_at_once() {
    let mut cluster = cluster(3);
    let origin = cluster.member(address(12)).origin();
    let gone = ServiceEvent::Excluded { origin };
    let report = |cluster: &mut Cluster| {
        let now = cluster.now;
        let service = cluster.services.get_mut(&address(SERVICE)).unwrap();
        service.handle_unreachable(now, address(12));
        cluster.run(ms(200));
    };
    report(&mut cluster);
    assert!(!cluster.events.contains(&gone), "it answers");
    cut(&mut cluster);
    cluster.run(ms(650));
    report(&mut cluster);
    assert!(cluster.events.contains(&gone));
    assert_eq!(members(&cluster, address(10)), (3, vec![]));
}

// Rule R-MEM-6.
#[test]
fn a_node_that_does_not_report_to_a_new_service_goes_on_when_it_does() {
    let mut cluster = cluster(4);
    let origins = [12, 13].map(|host| cluster.member(address(host)).origin());
    cluster.services.clear();
    cluster.cut = |from, to, _| {
        let out = |at| at == address(12) || at == address(13);
        out(from) || out(to)
    };
    cluster.start_service(Cluster::service_config(SERVICE));
    cluster.run(ms(5000));
    let away = origins.map(|origin| (origin, AwayReason::Unreported));
    assert_eq!(members(&cluster, address(10)), (2, away.to_vec()));
    cluster.cut = |_, _, _| false;
    cluster.run(ms(5000));
    for host in [12, 13] {
        catch_up(&mut cluster, address(host));
    }
    for (host, origin) in [12, 13].into_iter().zip(origins) {
        let member = cluster.member(address(host));
        assert_eq!(member.origin(), origin);
        assert!(!member.excluded());
    }
    assert_eq!(members(&cluster, address(10)), (4, vec![]));
    cluster.check(address(SERVICE));
}

// Rules R-MEM-6, R-MEM-15.
#[test]
fn a_node_that_died_with_the_service_is_found_dead_by_the_word_of_its_host() {
    let mut cluster = cluster(9);
    let origin = cluster.member(address(12)).origin();
    cluster.services.clear();
    cluster.members.remove(&address(12));
    cluster.start_service(Cluster::service_config(SERVICE));
    cluster.run(ms(5000));
    let (name, reason) = (String::new(), AwayReason::Unreported);
    let away = ServiceEvent::Away {
        origin,
        name,
        reason,
    };
    assert!(cluster.events.contains(&away));
    let rows = cluster.services[&address(SERVICE)].rows().nodes;
    let row = rows.iter().find(|row| row.origin == origin).unwrap();
    assert_eq!((row.address, row.away), (address(12), Some(reason)));
    // It is asked twice a second, and its host answers.
    let asked = cluster.services[&address(SERVICE)].stats().probes_sent;
    assert!((2..20).contains(&asked), "{asked}");
    let service = cluster.services.get_mut(&address(SERVICE)).unwrap();
    service.handle_unreachable(cluster.now, address(12));
    cluster.run(ms(500));
    assert!(cluster.events.contains(&ServiceEvent::Excluded { origin }));
    assert_eq!(members(&cluster, address(10)), (3, vec![]));
    assert!(cluster.member(address(10)).dead.contains(&origin));
    cluster.check(address(SERVICE));
}

// Rule R-MEM-15.
#[test]
fn a_service_that_stood_still_says_so_and_takes_nobody_for_silent() {
    let mut cluster = cluster(10);
    let service = cluster.services.remove(&address(SERVICE)).unwrap();
    cluster.run(ms(5000));
    cluster.services.insert(address(SERVICE), service);
    cluster.run(ms(3000));
    let late = |event: &&ServiceEvent| matches!(event, ServiceEvent::Late { .. });
    assert_eq!(cluster.events.iter().filter(late).count(), 1);
    let stats = cluster.services[&address(SERVICE)].stats();
    assert_eq!((stats.late, stats.away, stats.excluded), (1, 0, 0));
    assert_eq!(members(&cluster, address(10)), (4, vec![]));
}

// Rule R-MEM-6.
#[test]
fn a_node_that_never_reports_to_a_new_service_is_dead() {
    let mut cluster = cluster(5);
    let origin = cluster.member(address(12)).origin();
    cluster.services.clear();
    cut(&mut cluster);
    cluster.start_service(Cluster::service_config(SERVICE));
    cluster.run(ms(36_000));
    assert_eq!(members(&cluster, address(10)), (3, vec![]));
    assert!(cluster.member(address(10)).dead.contains(&origin));
    cluster.cut = |_, _, _| false;
    cluster.run(ms(5000));
    assert!(cluster.member(address(12)).excluded());
    cluster.check(address(SERVICE));
}

// Rule R-MEM-16.
#[test]
fn a_node_that_members_do_not_hear_is_away_though_the_service_hears_it() {
    let mut cluster = cluster(6);
    let origin = cluster.member(address(11)).origin();
    let suspect = |cluster: &mut Cluster| {
        for second in 0..3 {
            cluster.with(address(10), |membership, now, outbox| {
                membership.suspect(now, origin, Duration::from_secs(second), outbox);
            });
            cluster.run(ms(300));
        }
    };
    suspect(&mut cluster);
    let away = vec![(origin, AwayReason::Unreachable)];
    assert_eq!(members(&cluster, address(10)), (3, away.clone()));
    let told = |cluster: &Cluster| {
        let events = cluster.events.iter();
        events
            .filter(|event| matches!(event, ServiceEvent::Away { reason, .. } if *reason == AwayReason::Unreachable))
            .count()
    };
    assert_eq!(told(&cluster), 1);
    catch_up(&mut cluster, address(11));
    assert_eq!(members(&cluster, address(10)), (4, vec![]));
    // The second time in a minute it is believed a second later only.
    suspect(&mut cluster);
    catch_up(&mut cluster, address(11));
    assert_eq!(members(&cluster, address(10)), (3, away));
    cluster.run(Duration::from_secs(1));
    catch_up(&mut cluster, address(11));
    assert_eq!(members(&cluster, address(10)), (4, vec![]));
}

// Rule R-MEM-16: members report in step.
#[test]
fn a_word_that_comes_while_another_one_is_looked_into_counts_all_the_same() {
    // Which of the two arrives first is drawn.
    for seed in 11..19 {
        let mut cluster = cluster(seed);
        let origin = cluster.member(address(12)).origin();
        for (host, seconds) in [(10, 0), (11, 2)] {
            cluster.with(address(host), |membership, now, outbox| {
                membership.suspect(now, origin, Duration::from_secs(seconds), outbox);
            });
        }
        cluster.run(ms(300));
        let away = vec![(origin, AwayReason::Unreachable)];
        assert_eq!(members(&cluster, address(10)), (3, away));
    }
}

// Rule R-MEM-16: a node that was cut off had heard nobody, and its reports wait until it is heard.
#[test]
fn what_a_node_says_of_the_time_when_it_was_away_sets_nobody_aside() {
    let mut cluster = cluster(19);
    let of = |host| cluster.member(address(host)).origin();
    let others = [10, 11, 13].map(of);
    cut(&mut cluster);
    for seconds in 1..4 {
        cluster.run(ms(1000));
        for origin in others {
            cluster.with(address(12), |membership, now, outbox| {
                membership.suspect(now, origin, Duration::from_secs(seconds), outbox);
            });
        }
    }
    cluster.cut = |_, _, _| false;
    cluster.run(ms(3000));
    let stats = cluster.services[&address(SERVICE)].stats();
    assert_eq!((stats.kept_apart, stats.away), (0, 1));
}

// Rule R-MEM-15: of many at once the service does not say that they are gone.
#[test]
fn a_service_that_is_cut_off_excludes_nobody() {
    let mut cluster = cluster(7);
    cluster.cut = |from, to, _| from == address(SERVICE) || to == address(SERVICE);
    cluster.run(ms(60_000));
    let many = ServiceEvent::ManySilent {
        silent: 2,
        nodes: 4,
    };
    assert!(cluster.events.contains(&many), "{:?}", cluster.events);
    assert_eq!(cluster.services[&address(SERVICE)].stats().excluded, 0);
    cluster.cut = |_, _, _| false;
    cluster.run(ms(3000));
    (10..14).for_each(|host| catch_up(&mut cluster, address(host)));
    assert_eq!(members(&cluster, address(10)), (4, vec![]));
    cluster.check(address(SERVICE));
}

#[test]
fn a_configuration_that_never_waits_excludes_at_once() {
    let mut cluster = Cluster::new(8);
    cluster.start_service(ServiceConfig {
        gone_after: Duration::ZERO,
        ..Cluster::service_config(SERVICE)
    });
    cluster.start_member(10, Some(address(SERVICE)));
    cluster.run(ms(1000));
    cluster.cut = |from, _, _| from == address(10);
    cluster.run(ms(1500));
    assert_eq!(cluster.services[&address(SERVICE)].stats().excluded, 1);
}

/// Networks without one of the hosts, and a whole one.
const CUTS: [Cut; 4] = [
    |from, to, _| [from, to].contains(&address(10)),
    |from, to, _| [from, to].contains(&address(11)),
    |from, to, _| [from, to].contains(&address(12)),
    |_, _, _| false,
];

/// Members that see that they are away say that they have caught up, twice a second.
fn catch_up_all(cluster: &mut Cluster, seconds: u64) {
    for _ in 0..2 * seconds {
        let members = cluster.members.iter();
        let away = members.flat_map(|(at, member)| {
            let views = member
                .regions
                .values()
                .filter_map(|known| known.view.clone());
            let origin = member.origin();
            let away = views.filter(move |view| {
                let mut away = view.away_members().iter();
                away.any(|member| member.origin == origin)
            });
            away.map(|view| (*at, view.region(), view.number()))
        });
        let away: Vec<_> = away.collect();
        for (at, region, number) in away {
            cluster.with(at, |membership, now, outbox| {
                membership.caught_up(now, region, number, outbox);
            });
        }
        cluster.run(ms(500));
    }
}

/// Roles change while nodes are cut off by turns, and the service is restarted twice.
fn churn(seed: u64) -> Cluster {
    let mut cluster = cluster(seed);
    cluster.lose(20_000);
    let mut random = Random::new(Seed(seed), "churn");
    let mut draw = |below: usize| usize::try_from(random.below(below as u64)).unwrap();
    for round in 0..60 {
        let at = address(10 + draw(4) as u64);
        let role = [Role::Subscriber, Role::Publisher][draw(2)];
        let name = ["a", "b", "c"][draw(3)];
        match draw(3) {
            0 => cluster.exit(at, role, &[name]),
            _ => cluster.enter(at, role, &[name]),
        };
        cluster.cut = CUTS[draw(4)];
        cluster.run(ms(draw(1500) as u64));
        if round % 20 == 15 {
            cluster.services.clear();
            cluster.start_service(Cluster::service_config(SERVICE));
        }
        if draw(3) == 0 {
            catch_up_all(&mut cluster, 1);
        }
    }
    cluster.lose(0);
    cluster.cut = CUTS[3];
    cluster.run(ms(5000));
    catch_up_all(&mut cluster, 70);
    cluster
}

// Rules R-MEM-6, R-MEM-15.
#[test]
fn after_any_absences_all_live_in_their_former_lives_and_know_what_the_service_knows() {
    let mut away = 0;
    for seed in 0..30 {
        let cluster = churn(seed);
        cluster.check(address(SERVICE));
        let rows = cluster.services[&address(SERVICE)].rows();
        assert!(
            rows.nodes.iter().all(|row| row.away.is_none()),
            "seed {seed}"
        );
        for member in cluster.members.values() {
            assert!(!member.excluded(), "seed {seed}");
        }
        let events = cluster.events.iter();
        away += events
            .filter(|event| matches!(event, ServiceEvent::Away { .. }))
            .count();
    }
    assert!(away > 100, "{away}");
}
