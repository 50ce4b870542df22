use qsm_proto::Seed;

use super::Dice;
use crate::options::SimOptions;

/// Packets of each million that every receiver loses of its own, at least, where parities
/// are to be of use.
const LOSS_PPM: u32 = 50_000;
/// Messages that such a flow publishes at once, at least: some of them fill a block together.
const BURST: u32 = 64;

/// Draws whether nodes make and use parities, and for half of these runs what they are for: all ask
/// one cacher, and each misses other packets of a train. The rest of the run stays as it was.
pub(super) fn add_parities(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "parities");
    run.recovery.parity = dice.one_in(2);
    if !run.recovery.parity || !dice.one_in(2) {
        return run;
    }
    run.recovery.fast = true;
    run.layout.replication = 1;
    run.layout.block_packets = 16;
    run.network.loss_ppm = run.network.loss_ppm.max(LOSS_PPM);
    for flow in &mut run.flows {
        flow.burst = flow.burst.max(BURST);
    }
    run
}
