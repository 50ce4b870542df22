//! Replicas that join while updates go on, and what is killed meanwhile: in the end all have the same
//! state. Times are not judged here; `make joins` does that.

use std::path::PathBuf;

use lab::Lab;
use qsm_system::joins::long::Long;
use qsm_system::joins::round::{Report, Rounds, Victim};
use qsm_system::joins::stage::Plan;

/// On hosts of a lab where there can be one, over loopback elsewhere.
fn plan(total: bool) -> Plan {
    Plan {
        service: PathBuf::from(env!("CARGO_BIN_EXE_system-node")),
        replica: PathBuf::from(env!("CARGO_BIN_EXE_system-replica")),
        lab: Lab::available().is_ok(),
        hosts: 4,
        total,
        state: 2_000_000,
        bytes: 100,
        mark: 500,
        held: None,
    }
}

/// A join for each victim.
#[track_caller]
fn joins(total: bool) -> Vec<Report> {
    let mut rounds = Rounds::begin(plan(total), 2000, 1).unwrap();
    let victims = Victim::of(total).iter();
    let reports: Vec<Report> = victims.map(|victim| rounds.run(*victim).unwrap()).collect();
    for (report, victim) in reports.iter().zip(Victim::of(total)) {
        assert_eq!(report.victim, *victim, "{report}");
        assert!(report.faults.is_empty() && report.compared > 0, "{report}");
    }
    reports
}

#[test]
fn replicas_that_join_have_the_state_of_the_others_whoever_is_killed() {
    let reports = joins(false);
    assert!(reports.iter().all(|report| report.takeover.is_none()));
}

#[test]
fn replicas_that_join_have_the_sequence_of_the_others_whoever_is_killed() {
    let reports = joins(true);
    let takeovers = reports.iter().filter(|report| report.takeover.is_some());
    assert_eq!(takeovers.count(), 1, "{reports:?}");
}

#[test]
fn a_long_snapshot_comes_while_updates_go_on() {
    let long = Long {
        plan: Plan {
            state: 30_000_000,
            mark: 0,
            ..plan(false)
        },
        rate: 2000,
        limit: None,
    };
    let found = long.run().unwrap();
    let exact = ["states that differ", "replicas that bound anew"];
    for finding in found.iter().filter(|it| exact.contains(&it.what)) {
        assert!(finding.value == 0.0, "{finding:?}");
    }
    let carried = found.iter().find(|it| it.what == "snapshot, MB/s");
    assert!(carried.is_some_and(|it| it.value > 0.0), "{found:?}");
}
