//! Members that others do not reach, a second service, another address, damaged control packets: the
//! others go on at their pace, nothing is lost, and each end says what is wrong.

use std::path::Path;
use std::time::Duration;

use qsm_system::transport::Transport;
use qsm_system::trial::{Discovery, Fault, Load, Outcome, Role, Trial};

/// Less than a busy machine carries.
const RATE: u64 = 500;
/// Part of what is published that arrives at once. Nothing is lost; what is on its way at the end is
/// little, unless somebody holds the others up.
const ARRIVES: f64 = 0.9;
/// Rate during the fault, in that before it: on a machine that others use as well neither is steady.
/// Where a member holds the others up it is a hundredth. `make pauses` is strict (0.95).
const KEEPS: f64 = 0.75;
/// Packets damaged at a host of which one must be found at least: of each, with a chance of 3 in 4.
const MANY: u64 = 20;

/// Lets it happen to a receiver for six seconds, of which the last three count for rates; `None` where
/// there can be no lab.
fn tried(fault: Fault) -> Option<Outcome> {
    if !lab::ready() {
        return None;
    }
    let trial = Trial {
        role: Role::Receiver,
        fault,
        lasts: Duration::from_secs(6),
        load: Load {
            bytes: 300,
            rate: RATE,
        },
        transport: Transport::Ipv4,
        receivers: 4,
        calm: Duration::from_secs(3),
        service_options: Vec::new(),
    };
    let program = Path::new(env!("CARGO_BIN_EXE_system-node"));
    let outcome = trial.run(program).unwrap();
    eprintln!("{outcome}");
    assert!(outcome.is_whole(), "{outcome} {:?}", outcome.ranges);
    assert!(outcome.rates[0] > RATE / 10, "{outcome}");
    let goes_on = outcome.arrived >= ARRIVES && outcome.rate_ratio() >= KEEPS;
    assert!(goes_on, "{outcome}");
    Some(outcome)
}

#[track_caller]
fn assert_says(who: &str, said: &str, what: &[&str]) {
    for what in what {
        assert!(said.contains(what), "{who} does not say {what:?}: {said}");
    }
}

/// Rule R-MEM-16.
fn is_named_unreachable(fault: Fault) {
    let Some(outcome) = tried(fault) else { return };
    let events = &outcome.events;
    assert_says(
        "the service",
        &events.service,
        &["Away {", "reason: Unreachable"],
    );
    assert_says(
        "the node",
        &events.victim,
        &["Away {", "reason: Unreachable"],
    );
    let named = events.nodes.matches(",Unreachable").count();
    assert_eq!(named, 1, "a neighbour knows of: {}", events.nodes);
}

#[test]
fn a_receiver_that_reaches_the_service_alone_holds_nobody_up_and_is_named() {
    is_named_unreachable(Fault::Firewall);
}

#[test]
fn a_receiver_that_no_member_hears_holds_nobody_up_and_is_named() {
    is_named_unreachable(Fault::Mute);
}

/// Longest time without a message at a receiver whose multicast is filtered, on a busy machine; on a quiet
/// one `make pauses` allows 0.15 s.
const DEAF_GAP: Duration = Duration::from_secs(1);

/// Rules R-REACH-1, R-REACH-3, R-REACH-4.
#[test]
fn a_receiver_that_multicast_stops_reaching_misses_nothing_and_holds_nobody_up() {
    let Some(outcome) = tried(Fault::Deaf) else {
        return;
    };
    assert!(outcome.own_gap < DEAF_GAP, "{outcome}");
    assert_says("the node", &outcome.events.victim, &["Deaf"]);
}

/// Rules R-REACH-2, R-REACH-4.
#[test]
fn all_go_on_when_multicast_stops_reaching_anybody() {
    let Some(outcome) = tried(Fault::AllDeaf) else {
        return;
    };
    let gaps = [outcome.own_gap, outcome.gaps[1]];
    assert!(gaps.iter().all(|gap| *gap < DEAF_GAP), "{outcome}");
}

/// Rule R-MEM-7.
#[test]
fn a_second_service_disturbs_nobody_and_both_name_it() {
    let Some(outcome) = tried(Fault::Rival) else {
        return;
    };
    let events = &outcome.events;
    let gives_way = |said: &str| said.contains("Yielded {");
    let names = |said: &str| said.contains("Conflict {");
    if gives_way(&events.rival) {
        assert!(names(&events.service), "{events:?}");
        return;
    }
    assert!(
        gives_way(&events.service) && names(&events.rival),
        "{events:?}"
    );
    // Nodes go over to the other one, and say so.
    for said in [&events.victim, &events.neighbour] {
        assert_says("a node", said, &["ServiceFound { address: 10.78.0.4:"]);
    }
}

#[test]
#[ignore = "`addresses.rs` has an address that changes; `make pauses` runs this one"]
fn another_address_disturbs_nobody_and_all_know_it() {
    let Some(outcome) = tried(Fault::Address) else {
        return;
    };
    let events = &outcome.events;
    let moved = ["Moved {", "from: 10.78.0.4:", "to: 10.78.9.4:"];
    assert_says("the service", &events.service, &moved);
    assert_says("the node", &events.victim, &moved);
    assert_says("a neighbour", &events.nodes, &["=10.78.9.4:"]);
}

/// Rule R-PKT-8.
#[test]
fn damaged_control_packets_disturb_nobody_and_all_name_them() {
    let Some(outcome) = tried(Fault::Damage) else {
        return;
    };
    let all = &outcome.damage;
    let sum = |count: fn(&Discovery) -> u64| all.iter().map(count).sum::<u64>();
    let (injected, found) = (sum(|one| one.injected), sum(|one| one.found));
    assert!(injected > 2 * MANY && found > injected / 2, "{all:?}");
    assert!(found <= injected, "{all:?}");
    for one in all.iter().filter(|one| one.injected >= MANY) {
        assert!(one.found > 0, "{all:?}");
    }
    let events = &outcome.events;
    let said = [&events.victim, &events.neighbour, &events.service];
    let (service, nodes) = all.split_last().expect("nodes and a service");
    // The victim and its neighbour are two of the nodes.
    let silent = nodes.iter().filter(|one| one.found == 0).count();
    let silent = silent + usize::from(service.found == 0);
    let named = said.iter().filter(|said| said.contains("Damaged(Damage {"));
    assert!(named.count() + silent >= said.len(), "{all:?} {events:?}");
}
