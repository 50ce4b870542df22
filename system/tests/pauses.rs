//! Processes that stand still and hosts that are cut off for seconds, at 2,000 messages a second:
//! nobody misses anything, and everybody goes on in the same life.

use std::path::Path;
use std::time::Duration;

use qsm_system::transport::Transport;
use qsm_system::trial::{Fault, Load, Outcome, Role, Trial};

/// At the usual load.
fn trial(role: Role, fault: Fault, seconds: u64) -> Trial {
    Trial {
        role,
        fault,
        lasts: Duration::from_secs(seconds),
        load: Load {
            bytes: 300,
            rate: 2000,
        },
        transport: Transport::Ipv4,
        receivers: 4,
        calm: Duration::from_millis(500),
        service_options: Vec::new(),
    }
}

/// Lets it happen; `None` where there can be no lab.
fn run(trial: &Trial) -> Option<Outcome> {
    if !lab::ready() {
        return None;
    }
    let program = Path::new(env!("CARGO_BIN_EXE_system-node"));
    let outcome = trial.run(program).unwrap();
    // Without any nothing would have been tried.
    let published = outcome.rates.iter().all(|rate| *rate > 100);
    assert!(published, "{outcome}");
    Some(outcome)
}

/// Rules R-VIEW-12, R-VIEW-13, R-VIEW-14, R-MEM-15.
fn nothing_is_lost(role: Role, fault: Fault, seconds: u64) {
    nothing_is_lost_by(Transport::Ipv4, role, fault, seconds);
}

fn nothing_is_lost_by(transport: Transport, role: Role, fault: Fault, seconds: u64) {
    let trial = Trial {
        transport,
        ..trial(role, fault, seconds)
    };
    if let Some(outcome) = run(&trial) {
        assert!(outcome.is_whole(), "{outcome} {:?}", outcome.ranges);
    }
}

#[test]
fn a_receiver_that_is_gone_is_told_exactly_what_it_misses() {
    let mut trial = trial(Role::Receiver, Fault::Pause, 5);
    trial.service_options = vec![String::from("--gone-after=2")];
    let Some(outcome) = run(&trial) else { return };
    assert!(outcome.lost > 0 && outcome.untold == 0, "{outcome}");
    assert_eq!(outcome.new_lives, 1, "{outcome}");
}

#[test]
fn a_receiver_stands_still_for_a_second() {
    nothing_is_lost(Role::Receiver, Fault::Pause, 1);
}

#[test]
fn a_receiver_stands_still_for_five_seconds() {
    nothing_is_lost(Role::Receiver, Fault::Pause, 5);
}

#[test]
fn a_sender_stands_still_for_a_second() {
    nothing_is_lost(Role::Sender, Fault::Pause, 1);
}

#[test]
fn the_service_stands_still_for_five_seconds() {
    nothing_is_lost(Role::Service, Fault::Pause, 5);
}

#[test]
fn the_leader_is_cut_off_for_five_seconds() {
    nothing_is_lost(Role::Leader, Fault::Blackout, 5);
}

#[test]
fn the_interface_of_a_receiver_is_down_for_four_seconds() {
    nothing_is_lost(Role::Receiver, Fault::LinkDown, 4);
}

#[test]
fn the_interface_of_a_receiver_of_ipv6_is_down_for_four_seconds() {
    nothing_is_lost_by(Transport::Ipv6, Role::Receiver, Fault::LinkDown, 4);
}
