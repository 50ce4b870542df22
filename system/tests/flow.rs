//! A receiver that cannot follow the others, and subscriptions of one group that want different
//! things under loss, between hosts: nothing is missing without a word, and the right one is named.
//! `make flow` has the times.

use std::path::Path;
use std::time::Duration;

use qsm_system::figure::{Bar, Finding};
use qsm_system::flow::modes::Modes;
use qsm_system::flow::paces::{GroupPace, PaceTrial, Trouble};

/// Counts that have to be exact; `None` where there can be no lab.
fn exact(run: impl FnOnce(&Path) -> Vec<Finding>) -> Option<Vec<Finding>> {
    if !lab::ready() {
        return None;
    }
    let findings = run(Path::new(env!("CARGO_BIN_EXE_system-node")));
    let exact = |one: &Finding| matches!(one.bar, Bar::Always(_));
    Some(findings.into_iter().filter(exact).collect())
}

fn nothing_is_missing_under(pace: GroupPace, trouble: Trouble) {
    let trial = PaceTrial {
        pace,
        trouble,
        rate: 1000,
        calm: Duration::from_millis(500),
        lasts: Duration::from_secs(1),
    };
    let Some(found) = exact(|program| trial.run(program).unwrap()) else {
        return;
    };
    assert!(found.len() >= 3, "{found:?}");
    for one in found {
        assert_eq!(Bar::Always(one.value), one.bar, "{}", one.what);
    }
}

// Rules R-RATE-6, R-RATE-8.
#[test]
fn a_reader_that_holds_is_set_aside_by_name_where_senders_wait_for_two_seconds() {
    nothing_is_missing_under(GroupPace::Bounded, Trouble::Tenth);
}

// Rule R-RATE-8.
#[test]
fn a_reader_that_holds_is_followed_and_nobody_is_set_aside_where_the_slowest_sets_the_pace() {
    nothing_is_missing_under(GroupPace::Slowest, Trouble::Tenth);
}

// Rule R-RATE-10.
#[test]
fn a_host_that_loses_half_of_all_packets_gets_the_rest_again_where_nobody_is_held() {
    nothing_is_missing_under(GroupPace::AtLeast, Trouble::Loss);
}

// Rules R-RATE-10, R-VIEW-12.
#[test]
fn a_receiver_that_stands_still_is_named_where_senders_are_not_controlled() {
    nothing_is_missing_under(GroupPace::Uncontrolled, Trouble::Stopped);
}

// Rule R-DATA-12.
#[test]
fn four_subscriptions_on_hosts_that_lose_packets_get_what_each_asked_for() {
    let trial = Modes {
        rate: 2000,
        lasts: Duration::from_secs(2),
    };
    let Some(found) = exact(|program| trial.run(program).unwrap()) else {
        return;
    };
    assert_eq!(found.len(), 4, "{found:?}");
    for one in found {
        assert!(one.value < 0.5, "{}: {}", one.what, one.value);
    }
}
