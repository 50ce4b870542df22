use qsm_proto::Seed;

use super::Dice;
use crate::faults::Fault;
use crate::options::SimOptions;
use crate::timeline::reconcile;

/// Draws for one of 16 runs that packets of another cluster come to the addresses at which one or two
/// hosts receive. In half of these nothing else goes wrong. The rest of the run stays as it was.
pub(super) fn add_foreign(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "foreign");
    if !dice.one_in(16) {
        return run;
    }
    if dice.one_in(2) {
        run.faults.clear();
    }
    for _ in 0..dice.range(1, 2) {
        let host = dice.range(1, run.nodes);
        let foreign = Fault::Foreign { host };
        run.faults.push((dice.moment(run.duration), foreign));
    }
    reconcile(&mut run.faults, run.nodes, run.duration);
    run
}
