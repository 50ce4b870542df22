//! Makes a failing run smaller: takes away whatever is not needed for the same failure.

use core::time::Duration;

use qsm_testnet::{NetworkOptions, Sites};

use crate::content::Sizes;
use crate::options::SimOptions;
use crate::report::Failure;
use crate::timeline::reconcile;

/// A simpler variant of a run, if there is one.
type Simplify = fn(&SimOptions) -> Option<SimOptions>;

/// Steps that do not depend on the length of a list.
const STEPS: &[Simplify] = &[
    |options| with_network(options, |network| network.sites = Sites::ONE),
    |options| with_network(options, |network| network.downlink_bits_per_second = 0),
    |options| with_network(options, |network| network.reorder_ppm = 0),
    |options| with_network(options, |network| network.burst = None),
    |options| with_network(options, |network| network.loss_ppm = 0),
    |options| with_network(options, |network| network.shared_loss_ppm = 0),
    |options| with_network(options, |network| network.damage_ppm = 0),
    |options| with_network(options, |network| network.duplicate_ppm = 0),
    |options| with_network(options, |network| network.membership_lag_ppm = 0),
    |options| with_network(options, |network| network.loopback = false),
    |options| with_network(options, |network| network.cpu_per_datagram = Duration::ZERO),
    |options| with_network(options, |network| *network = NetworkOptions::PERFECT),
    |options| {
        changed(options, |options| {
            options.flows.iter_mut().for_each(|flow| flow.messages /= 2);
        })
    },
    |options| changed(options, |options| options.sizes = Sizes::SMALL),
    |options| changed(options, |options| options.drift_ppm_max = 0),
    |options| {
        changed(options, |options| {
            options.layout = qsm_proto::view::Layout::default();
        })
    },
    |options| changed(options, |options| options.tells_rates = false),
    |options| changed(options, |options| options.addresses = None),
    |options| changed(options, |options| options.pace = qsm_proto::Pace::default()),
    |options| {
        changed(options, |options| {
            options.recovery = qsm_proto::Recovery::default();
        })
    },
    |options| {
        changed(options, |options| {
            options.limits = SimOptions::quiet(qsm_proto::Seed(0), 1).limits;
        })
    },
];

/// The smallest run found within `runs` runs that breaks the same promise as `failure`. `go_on` is
/// asked before each of them, with how many are left.
pub fn shrink(
    options: SimOptions,
    failure: Box<Failure>,
    runs: u32,
    go_on: &mut dyn FnMut(u32) -> bool,
) -> (SimOptions, Box<Failure>) {
    let mut search = Search {
        best: options,
        failure,
        left: runs,
        go_on,
    };
    while search.left > 0 && search.round() {}
    (search.best, search.failure)
}

struct Search<'a> {
    best: SimOptions,
    failure: Box<Failure>,
    left: u32,
    go_on: &'a mut dyn FnMut(u32) -> bool,
}

impl Search<'_> {
    /// Tries everything once; whether anything could be taken away.
    fn round(&mut self) -> bool {
        let mut better = false;
        better |= self.each(
            |options| options.faults.len(),
            |options, at| {
                options.faults.remove(at);
            },
        );
        better |= self.each(
            |options| options.churn.len(),
            |options, at| {
                options.churn.remove(at);
            },
        );
        better |= self.each(
            |options| options.flows.len(),
            |options, at| {
                options.flows.remove(at);
            },
        );
        better |= self.each(
            |options| {
                options
                    .insider
                    .as_ref()
                    .map_or(0, |insider| insider.lies.len())
            },
            |options, at| {
                if let Some(insider) = &mut options.insider
                    && insider.lies.len() > 1
                    && let Some(lie) = insider.lies.iter().nth(at).copied()
                {
                    insider.lies.remove(&lie);
                }
            },
        );
        better |= self.terms();
        for step in STEPS {
            if let Some(candidate) = step(&self.best) {
                better |= self.attempt(candidate);
            }
        }
        better |= self.each(|options| options.groups.len(), empty_group);
        better |= self.last_node();
        for host in (1..=self.best.nodes).rev() {
            let mut candidate = self.best.clone();
            for plan in &mut candidate.groups {
                plan.subscribers.remove(&host);
                plan.publishers.remove(&host);
            }
            if candidate.groups != self.best.groups {
                better |= self.attempt(candidate);
            }
        }
        better
    }

    /// Takes away what an operator wants.
    fn terms(&mut self) -> bool {
        let mut better = false;
        better |= self.each(
            |options| options.hints.len(),
            |options, at| {
                options.hints.remove(at);
            },
        );
        better |= self.each(
            |options| options.paces.len(),
            |options, at| {
                if let Some(group) = options.paces.keys().nth(at).copied() {
                    options.paces.remove(&group);
                }
            },
        );
        better |= self.each(
            |options| options.batches.len(),
            |options, at| {
                if let Some(group) = options.batches.keys().nth(at).copied() {
                    options.batches.remove(&group);
                }
            },
        );
        better |= self.each(
            |options| options.lifetimes.len(),
            |options, at| {
                if let Some(group) = options.lifetimes.keys().nth(at).copied() {
                    options.lifetimes.remove(&group);
                }
            },
        );
        better
    }

    /// Takes away the last node, if nothing is said of it any more.
    fn last_node(&mut self) -> bool {
        let mut better = false;
        loop {
            let mut candidate = self.best.clone();
            let last = candidate.nodes;
            let insider = candidate.insider.as_ref();
            let used = candidate.flows.iter().any(|flow| flow.host == last)
                || insider.is_some_and(|insider| insider.host == last)
                || candidate.churn.iter().any(|(_, churn)| churn.host == last)
                || candidate
                    .faults
                    .iter()
                    .any(|(_, fault)| fault.concerns(last));
            candidate.nodes -= 1;
            candidate.prompt.remove(&last);
            for plan in &mut candidate.groups {
                plan.subscribers.remove(&last);
                plan.publishers.remove(&last);
            }
            if used || candidate.nodes < 1 || !self.attempt(candidate) {
                return better;
            }
            better = true;
        }
    }

    fn each(
        &mut self,
        count: fn(&SimOptions) -> usize,
        remove: fn(&mut SimOptions, usize),
    ) -> bool {
        let mut better = false;
        for at in (0..count(&self.best)).rev() {
            let mut candidate = self.best.clone();
            remove(&mut candidate, at);
            better |= self.attempt(candidate);
        }
        better
    }

    fn attempt(&mut self, mut candidate: SimOptions) -> bool {
        if self.left > 0 && !(self.go_on)(self.left) {
            self.left = 0;
        }
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        reconcile(&mut candidate.faults, candidate.nodes, candidate.duration);
        match crate::run(candidate.clone()) {
            Err(failure) if failure.violation.checker == self.failure.violation.checker => {
                self.best = candidate;
                self.failure = failure;
                true
            }
            _ => false,
        }
    }
}

/// Takes everybody out of a group. Its number stays, so that the others keep theirs. A group that
/// is empty already shrinks no further, and the last one may go.
fn empty_group(options: &mut SimOptions, at: usize) {
    let unused = !options.flows.iter().any(|flow| flow.group == at)
        && !options.churn.iter().any(|(_, churn)| churn.group == at);
    if unused && at + 1 == options.groups.len() {
        options.groups.pop();
    } else {
        options.groups[at] = crate::pattern::GroupPlan::default();
        options.flows.retain(|flow| flow.group != at);
    }
}

fn changed(options: &SimOptions, change: fn(&mut SimOptions)) -> Option<SimOptions> {
    let mut candidate = options.clone();
    change(&mut candidate);
    // The printed form shows every field; there is no cheaper comparison that cannot forget one.
    (format!("{candidate:?}") != format!("{options:?}")).then_some(candidate)
}

fn with_network(options: &SimOptions, change: fn(&mut NetworkOptions)) -> Option<SimOptions> {
    let mut candidate = options.clone();
    change(&mut candidate.network);
    (candidate.network != options.network).then_some(candidate)
}
