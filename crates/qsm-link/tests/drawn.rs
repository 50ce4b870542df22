//! A bounded run of what `fuzz/fuzz_targets/link.rs` does without bound: drawn steps beside an open link, the same in every
//! run but for keys.

mod support;

use qsm_wire::{Random, Seed};
use support::{Site, Taken};

const ROUNDS: u64 = 20;
/// Steps of one round.
const STEPS: u64 = 32;

/// Steps with up to 30 bytes each; rarely an hour passes.
fn draw(round: u64) -> Vec<u8> {
    let mut random = Random::new(Seed(round), "steps");
    let mut steps = Vec::new();
    for _ in 0..STEPS {
        let what = random.below(256) as u8;
        let length = random.below(30);
        let hour = what & 7 == 7 && random.below(4) == 0;
        steps.extend([what, if hour { u8::MAX } else { length as u8 }]);
        if hour {
            continue;
        }
        let changes = random.below(3) > 0;
        // Places within a sealed datagram.
        let byte = |at: u64, drawn: u64| match (changes, at % 3) {
            (true, 0) => 0,
            (true, 1) => drawn % 40,
            _ => drawn,
        };
        steps.extend((0..length).map(|at| byte(at, random.below(256)) as u8));
    }
    steps
}

// Rules R-RELAY-23, R-RELAY-24.
#[test]
fn an_open_link_takes_what_its_ends_have_sealed_once_and_nothing_ends_it() {
    let site = Site::new();
    let mut all = Taken::default();
    for round in 0..ROUNDS {
        let taken = site.check(&draw(round));
        all.opened += taken.opened;
        all.dropped += taken.dropped;
    }
    // It would test nothing if all, or none, were opened.
    let steps = usize::try_from(ROUNDS * STEPS).unwrap();
    assert!(
        all.opened > steps / 20 && all.dropped > steps / 20,
        "{all:?}"
    );
}
