use qsm_proto::{OriginDemand, Seed};

use super::dice::Dice;
use crate::insider::Lie;
use crate::options::SimOptions;

/// Draws for one of eight runs that groups demand proof of origin, and for half of those in which a member lies that they
/// demand `verified` and it sends data in the names of others. The rest of the run stays as it was.
pub(super) fn add_origin(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "origin");
    let (chosen, forges) = (dice.one_in(8), dice.one_in(2));
    let demand = *dice.pick(&[OriginDemand::Audit, OriginDemand::Verified]);
    // Groups that change meanwhile are a known fault (`scenarios/open`), and so are readers that do not wait.
    let stays = run.churn.is_empty() && run.prompt.is_empty();
    match &mut run.insider {
        Some(insider) if forges && stays => {
            insider.lies.insert(Lie::Names);
            run.origin = Some(OriginDemand::Verified);
        }
        None if chosen && (stays || demand == OriginDemand::Audit) => run.origin = Some(demand),
        _ => {}
    }
    run
}
