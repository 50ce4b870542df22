use core::time::Duration;

use qsm_gms::GroupPace;
use qsm_proto::Seed;

use super::Dice;
use crate::options::SimOptions;

/// Draws for a tenth of the runs that no receiver holds senders: at all, or below a rate. The rest of the
/// run stays as it was.
pub(super) fn add_minima(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "minima");
    if !dice.one_in(10) {
        return run;
    }
    let uncontrolled = dice.one_in(2);
    let time = Duration::from_secs(*dice.pick(&[1, 3]));
    let packets_per_second = *dice.pick(&[100, 2000]);
    let pace = match uncontrolled {
        true => GroupPace::Uncontrolled,
        false => GroupPace::AtLeast {
            time,
            packets_per_second,
        },
    };
    run.paces = (0..run.groups.len()).map(|group| (group, pace)).collect();
    run
}
