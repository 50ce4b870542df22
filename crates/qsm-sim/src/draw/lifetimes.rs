use core::time::Duration;

use qsm_proto::Seed;

use super::Dice;
use crate::options::SimOptions;

/// Draws for a third of the runs groups whose messages have a lifetime: all of them, or half. The rest
/// of the run stays as it was.
pub(super) fn add_lifetimes(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "lifetimes");
    if !dice.one_in(3) {
        return run;
    }
    let all = dice.one_in(2);
    for group in 0..run.groups.len() {
        let chosen = dice.one_in(2);
        let time = Duration::from_millis(*dice.pick(&[1, 5, 50, 500, 5000]));
        if all || chosen {
            run.lifetimes.insert(group, time);
        }
    }
    run
}
