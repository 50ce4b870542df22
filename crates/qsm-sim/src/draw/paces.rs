use core::time::Duration;

use qsm_gms::GroupPace;
use qsm_proto::Seed;

use super::Dice;
use crate::options::SimOptions;

/// Draws for a sixth of the runs in which slow members are set aside groups that wait for these for
/// another time, or for ever, or have them lose, or shut them out. The rest of the run stays as it was.
pub(super) fn add_paces(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "paces");
    if run.slow_after.is_zero() || !dice.one_in(6) {
        return run;
    }
    for group in 0..run.groups.len() {
        let chosen = dice.one_in(2);
        let time = Duration::from_secs(*dice.pick(&[1, 3]));
        let pace = *dice.pick(&[
            GroupPace::Slowest,
            GroupPace::Slowest,
            GroupPace::Bounded(time),
            GroupPace::Demotes(time),
            GroupPace::Expels(time),
        ]);
        if chosen {
            run.paces.insert(group, pace);
        }
    }
    run
}
