use qsm_proto::Seed;

use super::Dice;
use crate::options::SimOptions;

/// Draws for an eighth of the runs in which nothing else says when messages leave a limit of all that a node
/// sends. The rest of the run stays as it was.
pub(super) fn add_send_limit(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "send limit");
    if dice.one_in(8) && run.batches.is_empty() && run.paces.is_empty() {
        run.pace.node_bytes_per_second = *dice.pick(&[1_000_000, 4_000_000]);
    }
    run
}
