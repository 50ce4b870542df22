use qsm_proto::Seed;

use super::Dice;
use crate::faults::{Fault, Garbage};
use crate::options::SimOptions;
use crate::timeline::reconcile;

/// Draws for one of eight runs that datagrams carry tags, and that strangers send forged and malformed
/// ones to up to four hosts. The rest of the run stays as it was.
pub(super) fn add_strangers(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "strangers");
    if !dice.one_in(8) {
        return run;
    }
    run.tagged = true;
    for _ in 0..dice.range(1, 4) {
        let kinds = [Garbage::Forged, Garbage::Jump, Garbage::Malformed];
        let strange = Fault::Garbage {
            host: dice.range(0, run.nodes),
            kind: *dice.pick(&kinds),
            count: dice.number(50) + 1,
        };
        run.faults.push((dice.moment(run.duration), strange));
    }
    reconcile(&mut run.faults, run.nodes, run.duration);
    run
}
