//! A scenario of the same kind as what a recording shows: as many nodes, the same senders at the same
//! rates, as much loss. It is another run, on another network; what it is for is to be run with many
//! seeds, and made small.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use qsm::{GroupId, Origin};
use qsm_record::{ObservedFlow, Played, Setup};
use qsm_sim::content::Sizes;
use qsm_sim::pattern::GroupPlan;
use qsm_sim::{Flow, SimOptions};

/// Most nodes of the scenario: a handful shows what a region does.
const NODES_MAX: usize = 12;
/// Most groups of it, those with the most messages.
const GROUPS_MAX: usize = 8;
/// Most messages of one sender to one group.
const MESSAGES_MAX: u64 = 2_000;
/// Time of a scenario before the first message.
const START: Duration = Duration::from_secs(1);
/// Shortest time between two messages.
const INTERVAL_MIN: Duration = Duration::from_micros(100);

/// The scenario as text.
pub(super) fn sketch(setup: &Setup, played: &Played) -> String {
    let observed = &played.observed;
    let groups = busiest(&observed.flows);
    let kept = |key: &(GroupId, Origin)| groups.iter().position(|group| *group == key.0);
    let senders: BTreeSet<Origin> = observed
        .flows
        .keys()
        .filter(|key| kept(key).is_some())
        .map(|(_, sender)| *sender)
        .filter(|sender| sender.node != setup.config.node)
        .collect();
    // Host 1 is the node itself.
    let hosts = senders.len() + 1;
    let nodes = (observed.members as usize).max(hosts).clamp(2, NODES_MAX);
    let host_of = |sender: Origin| {
        let place = senders.iter().position(|other| *other == sender);
        place.map_or(1, |place| 2 + place % (nodes - 1))
    };
    let mut options = SimOptions::quiet(setup.seed, nodes);
    options.network.loss_ppm = observed.loss_ppm();
    let messages: u64 = observed.flows.values().map(|flow| flow.messages).sum();
    let bytes: u64 = observed.flows.values().map(|flow| flow.bytes).sum();
    if bytes <= messages * u64::from(Sizes::SMALL.max_bytes) {
        options.sizes = Sizes::SMALL;
    }
    options.multicast = setup.config.multicast;
    options.flows.clear();
    for ((key, flow), place) in observed
        .flows
        .iter()
        .filter_map(|(key, flow)| Some(((key, flow), kept(key)?)))
    {
        options.flows.push(like(flow, host_of(key.1), place));
    }
    options.groups = (0..groups.len().max(1))
        .map(|place| group_of(&options.flows, place, nodes))
        .collect();
    let last = options.flows.iter().map(end).max().unwrap_or_default();
    options.duration = (last + START).max(Duration::from_secs(5));
    heading(setup, played) + &qsm_sim::write(&options)
}

/// What was recorded, and what is not in the scenario.
fn heading(setup: &Setup, played: &Played) -> String {
    let mut lines = vec![format!(
        "A scenario of the same kind as what was recorded of node {:x} for {:.1} s: {} delivered, {} \
         published.",
        setup.config.node.0,
        played.time.as_secs_f64(),
        played.delivered,
        played.published
    )];
    for at in &played.observed.exclusions {
        let at = at.as_secs_f64();
        lines.push(format!("At {at:.3} s it learnt that it had been excluded."));
    }
    lines.push("Add what else happened, and try other seeds until it fails.".to_owned());
    lines.iter().map(|line| format!("# {line}\n")).collect()
}

/// The groups with the most messages.
fn busiest(flows: &BTreeMap<(GroupId, Origin), ObservedFlow>) -> Vec<GroupId> {
    let mut messages: BTreeMap<GroupId, u64> = BTreeMap::new();
    for ((group, _), flow) in flows {
        *messages.entry(*group).or_default() += flow.messages;
    }
    let mut groups: Vec<(u64, GroupId)> =
        messages.into_iter().map(|(group, n)| (n, group)).collect();
    groups.sort_unstable_by(|one, other| other.cmp(one));
    groups.truncate(GROUPS_MAX);
    groups.into_iter().map(|(_, group)| group).collect()
}

/// A flow at the same mean rate.
fn like(flow: &ObservedFlow, host: usize, group: usize) -> Flow {
    let span = flow.last - flow.first;
    let gaps = u32::try_from(flow.messages.max(2) - 1).unwrap_or(u32::MAX);
    let interval = span / gaps;
    // Faster than the scenario's clock of messages: several at once.
    let burst = INTERVAL_MIN.as_nanos() / interval.as_nanos().max(1);
    let burst = u32::try_from(burst.clamp(1, 50)).unwrap_or(1);
    let messages = flow.messages.clamp(1, MESSAGES_MAX);
    Flow {
        host,
        group,
        start: START,
        interval: (interval * burst).max(INTERVAL_MIN),
        burst,
        messages: u32::try_from(messages).unwrap_or(1),
    }
}

/// When a flow is done.
fn end(flow: &Flow) -> Duration {
    flow.start + flow.interval * (flow.messages / flow.burst + 1)
}

fn group_of(flows: &[Flow], place: usize, nodes: usize) -> GroupPlan {
    let publishers = flows.iter().filter(|flow| flow.group == place);
    GroupPlan {
        subscribers: (1..=nodes).collect(),
        publishers: publishers.map(|flow| flow.host).collect(),
    }
}
