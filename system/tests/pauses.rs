//! Processes that stand still and hosts that are cut off for seconds, at 2,000 messages a second:
//! nobody misses anything, and everybody goes on in the same life.

use std::path::Path;
use std::time::Duration;

use lab::Lab;
use qsm_system::trial::{Fault, Load, Role, Trial};

/// Rules R-VIEW-12, R-VIEW-13, R-VIEW-14, R-MEM-15.
fn nothing_is_lost(role: Role, fault: Fault, seconds: u64) {
    if let Err(reason) = Lab::available() {
        eprintln!("skipped: {reason}");
        return;
    }
    let trial = Trial {
        role,
        fault,
        lasts: Duration::from_secs(seconds),
        load: Load {
            bytes: 300,
            rate: 2000,
        },
        receivers: 4,
        calm: Duration::from_millis(500),
        service_options: Vec::new(),
    };
    let program = Path::new(env!("CARGO_BIN_EXE_system-node"));
    let outcome = trial.run(program).unwrap();
    assert!(outcome.is_whole(), "{outcome}");
    // Without rates nothing would have been tried.
    assert!(
        outcome.rates.iter().all(|messages| *messages > 100),
        "{outcome}"
    );
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
