use core::time::Duration;

use qsm_proto::Seed;

use super::Dice;
use crate::faults::Fault;
use crate::options::SimOptions;
use crate::swarm::SwarmOptions;
use crate::timeline::reconcile;
use crate::workload::Flow;

/// Draws for how long slow members are waited for. Few runs get one that a sender must wait for: it
/// publishes more than that host can read, and buffers are small. In half of them nothing else goes
/// wrong.
pub(super) fn slow_down(options: SimOptions, sizes: &SwarmOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(options.seed), "slowness");
    let seconds = *dice.pick(&[0, 1, 2, 2]);
    let options = SimOptions {
        slow_after: Duration::from_secs(seconds),
        ..options
    };
    let rare = sizes.faults_max > 0 && dice.one_in(24);
    match options.flows.first().copied().filter(|_| rare) {
        Some(flow) => hold(&mut dice, options, flow, sizes),
        None => options,
    }
}

fn hold(dice: &mut Dice, options: SimOptions, flow: Flow, sizes: &SwarmOptions) -> SimOptions {
    let members = options.groups[flow.group].subscribers.iter().copied();
    let others: Vec<usize> = members.filter(|host| *host != flow.host).collect();
    if others.is_empty() {
        return options;
    }
    let mut run = options;
    let slow = Fault::Slow {
        host: *dice.pick(&others),
        per_datagram: Duration::from_millis(*dice.pick(&[3, 5, 10])),
        time: Duration::from_secs(2) + dice.moment(Duration::from_secs(9)),
    };
    if dice.one_in(2) {
        run.faults.clear();
        run.churn.clear();
    }
    run.faults.push((dice.moment(Duration::from_secs(2)), slow));
    reconcile(&mut run.faults, run.nodes, sizes.duration);
    run.network.receive_buffer_bytes = 65_536;
    let interval = Duration::from_millis(2);
    run.flows[0] = Flow {
        start: Duration::from_millis(500),
        interval,
        burst: 2,
        messages: 10_000,
        ..flow
    };
    run
}
