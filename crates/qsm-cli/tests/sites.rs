//! Relays between sites as processes on hosts of a lab: the trials of `make sites`, short and without
//! their times. Nothing is lost and nothing comes twice.

use std::path::PathBuf;
use std::time::Duration;

use qsm_system::figure::Bar;
use qsm_system::sites::reach::{Hurdle, Reach};
use qsm_system::sites::repair::{Place, Repair};
use qsm_system::sites::stream::Load;
use qsm_system::sites::{Case, Programs};

const LOAD: Load = Load {
    bytes: 200,
    rate: 100,
    lasts: Duration::from_secs(2),
};

/// Makes a trial, and looks at the counts that have to be exact.
fn is_exact(case: Case) {
    if !lab::ready() {
        return;
    }
    let programs = Programs {
        qsm: env!("CARGO_BIN_EXE_qsm").into(),
        nats: PathBuf::new(),
        moq: PathBuf::new(),
    };
    let found = case.run_once(&programs).unwrap();
    let exact = found.iter().filter(|one| matches!(one.bar, Bar::Always(_)));
    assert!(exact.clone().count() >= 2, "{found:?}");
    for one in exact {
        assert_eq!(Bar::Always(one.value), one.bar, "{}", one.what);
    }
}

fn reaches(hurdle: Hurdle) {
    is_exact(Case::Reach(Reach { hurdle, load: LOAD }));
}

/// R-RELAY-3, R-RELAY-8, R-RELAY-40: the receivers that have lost nothing see no repair.
#[test]
fn of_a_site_only_who_loses_sees_repairs() {
    is_exact(Case::Repair(Repair {
        sites: 2,
        place: Place::LastHop,
        loss_ppm: 50_000,
        load: LOAD,
    }));
}

/// R-RELAY-3, R-RELAY-5.
#[test]
fn what_links_between_three_sites_lose_comes_once() {
    is_exact(Case::Repair(Repair {
        sites: 3,
        place: Place::Link,
        loss_ppm: 20_000,
        load: LOAD,
    }));
}

/// R-RELAY-19.
#[test]
fn a_stream_reaches_a_host_whose_address_changes() {
    reaches(Hurdle::Laptop);
}

#[test]
fn a_stream_passes_between_two_translators_of_addresses() {
    reaches(Hurdle::BothTranslators);
}

#[test]
fn a_stream_reaches_a_site_without_multicast() {
    reaches(Hurdle::NoMulticast);
}
