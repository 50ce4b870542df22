use core::time::Duration;

use qsm_gms::GroupPace;
use qsm_proto::Seed;

use super::Dice;
use crate::options::SimOptions;

/// Draws for a sixth of the runs in which slow members are set aside groups that wait for these for
/// another time, or for ever. The rest of the run stays as it was.
pub(super) fn add_paces(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "paces");
    if run.slow_after.is_zero() || !dice.one_in(6) {
        return run;
    }
    for group in 0..run.groups.len() {
        let chosen = dice.one_in(2);
        let pace = match dice.one_in(2) {
            true => GroupPace::Slowest,
            false => GroupPace::Bounded(Duration::from_secs(*dice.pick(&[1, 3]))),
        };
        if chosen {
            run.paces.insert(group, pace);
        }
    }
    run
}
