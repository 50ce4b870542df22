use qsm_proto::{OriginDemand, Seed};

use super::dice::Dice;
use crate::options::SimOptions;

/// Draws for one of eight runs in which no member lies that groups demand proof of origin. The rest of the run stays as it
/// was.
pub(super) fn add_origin(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "origin");
    let chosen = dice.one_in(8);
    let demand = *dice.pick(&[OriginDemand::Audit, OriginDemand::Verified]);
    // `verified` where groups change meanwhile, and beside a member that forges, are known faults (`scenarios/open`),
    // and so are readers that do not wait.
    let stays = run.churn.is_empty() && run.prompt.is_empty();
    let borne = stays || demand == OriginDemand::Audit;
    if chosen && borne && run.insider.is_none() {
        run.origin = Some(demand);
    }
    run
}
