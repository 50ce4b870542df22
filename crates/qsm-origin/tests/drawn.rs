//! A bounded run of what `fuzz/fuzz_targets/origin.rs` does without bound: packets of a signed stream in drawn orders, some
//! of them changed, the same in every run.

mod support;

use support::{Judged, PACKETS, Stream};

const ROUNDS: u64 = 1000;
/// Packets of one round.
const STEPS: u64 = 48;
/// More than the longest packet has bytes.
const PLACES: u64 = 200;

/// Numbers that look random (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Steps in the stream's order or in any, a third of the packets changed.
fn draw(round: u64) -> Vec<u8> {
    let mut dice = Dice(round);
    let in_order = dice.below(2) == 0;
    let step = |number: u64| {
        let which = match in_order {
            true => number % PACKETS as u64,
            false => dice.below(PACKETS as u64),
        };
        let change = match dice.below(3) {
            0 => dice.below(256),
            _ => 0,
        };
        let [high, low] = (dice.below(PLACES) as u16).to_be_bytes();
        [which as u8, high, low, change as u8]
    };
    (0..STEPS).flat_map(step).collect()
}

// Rule R-SEC-31.
#[test]
fn of_drawn_packets_none_is_proven_that_was_not_signed() {
    let stream = Stream::new();
    let mut all = Judged::default();
    for round in 0..ROUNDS {
        let judged = stream.check(&draw(round));
        all.proven += judged.proven;
        all.refused += judged.refused;
    }
    // It would test nothing if all, or none, were proven.
    let steps = usize::try_from(ROUNDS * STEPS).unwrap();
    assert!(
        all.proven > steps / 20 && all.refused > steps / 20,
        "{all:?}"
    );
}
