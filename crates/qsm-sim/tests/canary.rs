//! The alarm works: deliveries of real nodes that are spoilt on purpose are caught.

use qsm_proto::Seed;
use qsm_sim::content::Sizes;
use qsm_sim::{Mischief, NetworkOptions, SimOptions, run};

fn caught(mischief: Mischief) -> &'static str {
    let quiet = SimOptions::quiet(Seed(4), 4);
    let network = NetworkOptions {
        loss_ppm: 50_000,
        ..NetworkOptions::PERFECT
    };
    let mut flows = quiet.flows.clone();
    // Several messages in a packet: several deliveries in one call.
    flows[0].burst = 8;
    let options = SimOptions {
        flows,
        sizes: Sizes::SMALL,
        network,
        mischief,
        ..quiet
    };
    run(options).unwrap_err().violation.checker
}

#[test]
fn a_withheld_message_is_noticed() {
    assert_eq!(caught(Mischief::Drop { every: 100 }), "order");
}

#[test]
fn a_message_delivered_twice_is_noticed() {
    assert_eq!(caught(Mischief::Double { every: 100 }), "duplicate");
}

/// Two messages change places: the first of them comes after a gap without a word.
#[test]
fn a_changed_order_is_noticed() {
    assert_eq!(caught(Mischief::Swap { every: 2 }), "order");
}

#[test]
fn a_damaged_message_is_noticed() {
    assert_eq!(caught(Mischief::Corrupt { every: 100 }), "creation");
}
