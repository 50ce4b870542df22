use core::time::Duration;

use qsm_proto::Seed;

use super::Dice;
use crate::faults::Fault;
use crate::hosts::ServicePatience;
use crate::options::SimOptions;
use crate::workload::Flow;

/// Packets of each million that every receiver loses of its own, at least, where parities are to be
/// of use.
const LOSS_PPM: u32 = 100_000;
/// With so many losses heartbeats and probes of living nodes are lost, too.
const PATIENCE: ServicePatience = ServicePatience {
    heartbeats: 30,
    probes: 50,
};
/// Messages that the flow with the most receivers publishes there, at once and in all, at least: some of
/// them fill a block together.
const BURST: u32 = 64;
const MESSAGES: u32 = 640;
/// Nodes of half of these runs, at least, all of which receive what more than one does: three and more
/// ask one cacher at once.
const NODES: usize = 10;
/// Delay and the most jitter there: requests for packets of a block come within half a round trip.
const DELAY: Duration = Duration::from_millis(1);
const JITTER: Duration = Duration::from_micros(100);

/// Draws whether nodes make and use parities, whether senders send some unasked, and for half of these runs what they are for: all ask
/// one cacher, and each misses other packets of a train. In half of these they are many, and in one
/// region as long as none has other groups. The rest of the run stays as it was.
pub(super) fn add_parities(mut run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "parities");
    run.recovery.parity = dice.one_in(2);
    let mut ahead = Dice::of(Seed(run.seed), "parities ahead");
    if run.recovery.parity && ahead.one_in(3) {
        run.recovery.parities_ahead = *ahead.pick(&[1, 2]);
    }
    if !run.recovery.parity || !dice.one_in(2) {
        return run;
    }
    run.recovery.fast = true;
    run.layout.replication = 1;
    run.layout.block_packets = 16;
    run.patience = PATIENCE;
    run.network.loss_ppm = run.network.loss_ppm.max(LOSS_PPM);
    run.network.delay = DELAY;
    run.network.jitter = run.network.jitter.min(JITTER);
    if dice.one_in(2) {
        crowd(&mut run);
    }
    let groups = &run.groups;
    let receivers = |flow: &&mut Flow| {
        groups
            .get(flow.group)
            .map_or(0, |group| group.subscribers.len())
    };
    if let Some(flow) = run.flows.iter_mut().max_by_key(receivers) {
        flow.burst = flow.burst.max(BURST);
        flow.messages = flow.messages.max(MESSAGES);
    }
    run
}

/// Has many nodes, each of which receives every group that more than one does. Splits have the new ones
/// on one side.
fn crowd(run: &mut SimOptions) {
    let fresh = run.nodes + 1..=NODES;
    run.nodes = run.nodes.max(NODES);
    for (_, fault) in &mut run.faults {
        if let Fault::Split { to, .. } = fault {
            to.extend(fresh.clone());
        }
    }
    for group in &mut run.groups {
        if group.subscribers.len() > 1 {
            group.subscribers = (1..=run.nodes).collect();
        }
    }
}
