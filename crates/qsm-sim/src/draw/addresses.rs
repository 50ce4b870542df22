use qsm_proto::Seed;

use super::Dice;
use crate::options::SimOptions;

/// Draws for a quarter of the runs that services have one to three multicast addresses, or as many as
/// hints need: most have more regions, which share them then. The rest of the run stays as it was.
pub(super) fn add_addresses(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "addresses");
    if !dice.one_in(4) {
        return run;
    }
    let needed = run.service_hints().map_or(1, |hints| hints.addresses());
    run.addresses = Some(needed.max(*dice.pick(&[1, 2, 3])));
    run
}
