use qsm_proto::{OriginDemand, Seed};

use super::dice::Dice;
use crate::options::SimOptions;

/// Draws for one of eight runs in which no member lies that groups demand proof of origin. `verified` beside a member that
/// forges data has known faults (`scenarios/open`). The rest of the run stays as it was.
pub(super) fn add_origin(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "origin");
    let chosen = dice.one_in(8);
    let demand = *dice.pick(&[OriginDemand::Audit, OriginDemand::Verified]);
    if chosen && run.insider.is_none() {
        run.origin = Some(demand);
    }
    run
}
