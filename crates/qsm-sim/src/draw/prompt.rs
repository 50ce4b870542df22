use core::time::Duration;

use qsm_proto::{Promptness, Seed};

use super::Dice;
use crate::options::SimOptions;

/// Draws for half of the runs hosts whose applications want their groups in other ways beside their
/// order. The rest of the run stays as it was, and so does what nodes say to each other.
pub(super) fn add_prompt(options: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(options.seed), "prompt");
    let mut run = options;
    if dice.one_in(2) {
        return run;
    }
    for host in 1..=run.nodes {
        if dice.one_in(2) {
            continue;
        }
        let limit = Duration::from_millis(*dice.pick(&[0, 1, 5, 50, 1000]));
        let modes = vec![Promptness::Arrival, Promptness::Within(limit)];
        run.prompt.insert(host, modes);
    }
    run
}
