use core::time::Duration;

use qsm_proto::Seed;
use qsm_proto::send::Batching;

use super::Dice;
use crate::options::SimOptions;

/// Draws for a quarter of the runs groups whose messages wait for others: all of them, or half. The
/// rest of the run stays as it was.
pub(super) fn add_batches(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "batches");
    if !dice.one_in(4) {
        return run;
    }
    let all = dice.one_in(2);
    for group in 0..run.groups.len() {
        let chosen = dice.one_in(2);
        let batching = Batching {
            delay: Duration::from_micros(*dice.pick(&[200, 2000, 20_000])),
            bytes: *dice.pick(&[usize::MAX, usize::MAX, 700]),
        };
        if all || chosen {
            run.batches.insert(group, batching);
        }
    }
    run
}
