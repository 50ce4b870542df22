use qsm_proto::{OriginDemand, Seed};

use super::dice::Dice;
use crate::insider::Lie;
use crate::options::SimOptions;

/// Draws for one of eight runs in which no member lies that groups demand proof of origin, and for half of the others that
/// they demand `verified`; beside that, for half of these, that the member forges data. The rest of the run stays as it was.
pub(super) fn add_origin(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "origin");
    let chosen = dice.one_in(8);
    let demand = *dice.pick(&[OriginDemand::Audit, OriginDemand::Verified]);
    match &mut run.insider {
        None if chosen => run.origin = Some(demand),
        None => {}
        Some(insider) => {
            let (verified, forges) = (dice.one_in(2), dice.one_in(2));
            if verified {
                run.origin = Some(OriginDemand::Verified);
            }
            if verified && forges {
                insider.lies.insert(Lie::Names);
            }
        }
    }
    run
}
