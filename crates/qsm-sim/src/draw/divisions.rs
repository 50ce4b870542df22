use std::collections::BTreeSet;

use qsm_proto::Seed;

use super::Dice;
use crate::hints::Hint;
use crate::options::SimOptions;

/// Draws for a quarter of the runs hints to services, each of which holds at all times, and for a half
/// of those with common regions that nodes say what they publish. The rest of the run stays as it was.
pub(super) fn add_hints(mut run: SimOptions) -> SimOptions {
    let merging = run.plan_unwanted_ppm > 0;
    let mut dice = Dice::of(Seed(run.seed), "hints");
    let told = dice.one_in(2);
    run.tells_rates = run.plan_common.is_some() && told;
    if !dice.one_in(4) {
        return run;
    }
    for _ in 0..dice.range(1, 3) {
        let count = dice.range(1, run.nodes.min(4));
        let hosts: BTreeSet<usize> = (0..count).map(|_| dice.range(1, run.nodes)).collect();
        let hint = match dice.range(0, 5) {
            0 | 1 => Hint::Domain(hosts),
            2 | 3 => Hint::Apart(hosts),
            4 if merging => Hint::Together(hosts),
            _ => {
                let group = dice.range(0, run.groups.len() - 1);
                let other = dice.range(0, run.groups.len() - 1);
                Hint::Pin([group, other].into())
            }
        };
        run.hints.push(hint);
        if run.service_hints().is_err() {
            run.hints.pop();
        }
    }
    run
}
