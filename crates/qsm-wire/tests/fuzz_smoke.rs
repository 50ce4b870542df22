//! A bounded run of what `fuzz/` does without bound: mutated packets and messages, on the stable
//! toolchain, in a few seconds, the same in every run.

mod support;

use qsm_wire::Kind;
use support::dice::Dice;
use support::{check_datagram, draw, message};

const ROUNDS: usize = 200_000;

#[test]
fn mutated_packets_are_rejected_or_reencode_equal() {
    let mut dice = Dice(0x5eed_0001);
    let mut accepted = 0;
    for _ in 0..ROUNDS {
        let kind = Kind::ALL[dice.below(Kind::ALL.len())];
        let header = draw::header(&mut dice);
        let mut bytes = draw::packet(&mut dice, kind).encode(&header);
        dice.mutate(&mut bytes);
        accepted += usize::from(check_datagram(&bytes).is_some());
    }
    assert_both(accepted);
}

#[test]
fn mutated_messages_to_the_service_are_rejected_or_reencode_equal() {
    let mut dice = Dice(0x5eed_0002);
    let mut accepted = 0;
    for _ in 0..ROUNDS {
        let variant = dice.below(message::TO_SERVICE);
        let mut bytes = Vec::new();
        message::to_service(&mut dice, variant).encode(&mut bytes);
        dice.mutate(&mut bytes);
        accepted += usize::from(message::check_to_service(&bytes).is_some());
    }
    assert_both(accepted);
}

#[test]
fn mutated_messages_from_the_service_are_rejected_or_reencode_equal() {
    let mut dice = Dice(0x5eed_0003);
    let mut accepted = 0;
    for _ in 0..ROUNDS {
        let variant = dice.below(message::FROM_SERVICE);
        let mut bytes = Vec::new();
        message::from_service(&mut dice, variant).encode(&mut bytes);
        dice.mutate(&mut bytes);
        accepted += usize::from(message::check_from_service(&bytes).is_some());
    }
    assert_both(accepted);
}

#[test]
fn mutated_answers_on_a_group_are_rejected_or_reencode_equal() {
    let mut dice = Dice(0x5eed_0004);
    let mut accepted = 0;
    for _ in 0..ROUNDS {
        let mut bytes = Vec::new();
        message::group_answer(&mut dice).encode(&mut bytes);
        dice.mutate(&mut bytes);
        accepted += usize::from(message::check_group_answer(&bytes).is_some());
    }
    assert_both(accepted);
}

/// The mutations would test nothing if all, or none, of them got past the decoder.
fn assert_both(accepted: usize) {
    assert!(accepted > ROUNDS / 20, "{accepted} of {ROUNDS} accepted");
    assert!(
        accepted < ROUNDS * 19 / 20,
        "{accepted} of {ROUNDS} accepted"
    );
}
