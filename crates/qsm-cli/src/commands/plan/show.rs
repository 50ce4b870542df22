//! A plan for people and for programs.

use std::fmt::Write as _;

use qsm_console::failure::Failure;
use qsm_console::options::KnownCosts;
use qsm_console::output;
use qsm_console::table::{Align, Table, printable};
use qsm_plan::{Path, Plan};
use qsm_wire::GroupId;
use serde_json::{Value, json};

use super::names::PlanNames;

/// Rows of a table; `--json` has all.
const ROWS: usize = 20;
/// Names in a row.
const NAMES: usize = 6;
/// Packets for one message above which a group is warned of (R020).
const PACKETS_WARN: usize = 32;

/// Some names, and how many more there are.
pub(super) fn some<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMES);
    let mut text = names
        .take(NAMES)
        .map(printable)
        .collect::<Vec<_>>()
        .join(" ");
    if more > 0 {
        _ = write!(text, " and {more} more");
    }
    text
}

fn ratio(part: u128, whole: u128) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Sums of a plan, its regions and its channels.
pub(super) fn summary(
    plan: &Plan,
    names: &PlanNames,
    costs: &KnownCosts,
    addresses: usize,
) -> String {
    let totals = &plan.totals;
    let mut text = format!(
        "{} nodes, {} groups: {} sets of groups are {} regions, with {} of {addresses} addresses\n\
         a message takes {:.2} packets and {:.2} copies on average, {} at most; {:.2} % of deliveries \
         are unwanted\n{} pairs of a node and a group are served by copies; {:.3} CPU-seconds a second\n\
         weighed so: {costs}\n",
        totals.nodes,
        totals.groups,
        totals.classes,
        plan.regions.len(),
        plan.channels.len(),
        ratio(totals.packets, totals.messages),
        ratio(totals.copies, totals.messages),
        totals.packets_max,
        100.0 * ratio(totals.unwanted, totals.wanted),
        totals.residue,
        totals.cost as f64 / 1e12,
    );
    if let Some((group, packets)) = widest(plan).filter(|(_, packets)| *packets > PACKETS_WARN) {
        _ = writeln!(
            text,
            "warning: a message to {} takes {packets} packets; see --why {}",
            printable(names.group(group)),
            printable(names.group(group)),
        );
    }
    if plan.channels.len() == addresses {
        text.push_str(
            "warning: all addresses are used; with more, groups may need fewer packets\n",
        );
    }
    text.push('\n');
    text.push_str(&regions(plan, names));
    text.push('\n');
    text.push_str(&channels(plan));
    text
}

/// The group with most packets for a message.
fn widest(plan: &Plan) -> Option<(GroupId, usize)> {
    let groups = plan.groups.iter();
    let packets = groups.map(|(id, group)| (*id, group.path.packets()));
    packets.max_by_key(|(id, packets)| (*packets, std::cmp::Reverse(*id)))
}

fn regions(plan: &Plan, names: &PlanNames) -> String {
    let mut table = Table::new(&[
        ("REGION", Align::Right),
        ("NODES", Align::Right),
        ("GROUPS", Align::Right),
        ("RESIDUE", Align::Right),
        ("CHANNELS", Align::Left),
        ("WHO", Align::Left),
    ]);
    for (id, region) in plan.regions.iter().take(ROWS) {
        let channels = plan.channels.iter();
        let heard = channels.filter(|(_, channel)| channel.regions.contains(id));
        let heard: Vec<String> = heard.map(|(id, _)| id.0.to_string()).collect();
        table.row([
            id.0.to_string(),
            region.members.len().to_string(),
            region.carried.to_string(),
            region.residue.to_string(),
            heard.join(" "),
            some(region.members.iter().map(|node| names.node(*node))),
        ]);
    }
    more(table.render(), plan.regions.len(), "regions")
}

fn channels(plan: &Plan) -> String {
    let mut used = std::collections::BTreeMap::new();
    for id in plan.groups.values().flat_map(|group| group.path.channels()) {
        *used.entry(*id).or_insert(0_usize) += 1;
    }
    let mut table = Table::new(&[
        ("CHANNEL", Align::Right),
        ("NODES", Align::Right),
        ("GROUPS", Align::Right),
        ("PIN", Align::Left),
        ("REGIONS", Align::Left),
    ]);
    let mut order: Vec<_> = plan.channels.iter().collect();
    order.sort_by_key(|(id, channel)| (std::cmp::Reverse(channel.regions.len()), **id));
    for (id, channel) in order.into_iter().take(ROWS) {
        let regions: Vec<String> = channel.regions.iter().map(|id| id.0.to_string()).collect();
        table.row([
            id.0.to_string(),
            channel.nodes.to_string(),
            used.get(id).copied().unwrap_or(0).to_string(),
            channel.pin.as_deref().map(printable).unwrap_or_default(),
            some(regions.iter().map(String::as_str)),
        ]);
    }
    more(table.render(), plan.channels.len(), "channels")
}

fn more(mut table: String, all: usize, what: &str) -> String {
    if all > ROWS {
        _ = writeln!(table, "… {} {what} more; --json has all", all - ROWS);
    }
    table
}

/// One line of JSON.
///
/// # Errors
/// As [`write`].
pub(super) fn write_json(
    plan: &Plan,
    names: &PlanNames,
    costs: &KnownCosts,
) -> Result<(), Failure> {
    output::write(format!("{}\n", to_json(plan, names, costs)))
}

fn to_json(plan: &Plan, names: &PlanNames, known: &KnownCosts) -> Value {
    let node = |node: &qsm_wire::NodeId| names.node(*node).to_owned();
    let regions = plan.regions.iter().map(|(id, region)| {
        json!({
            "region": id.0,
            "nodes": region.members.iter().map(node).collect::<Vec<_>>(),
            "domain": region.domain,
            "groups": region.carried,
            "residue": region.residue,
            "gained_ns_per_s": region.gained as f64 / 1000.0,
            "refused": region.refused.map(|(other, gain)| {
                json!({ "region": other.0, "gain_ns_per_s": gain as f64 / 1000.0 })
            }),
        })
    });
    let channels = plan.channels.iter().map(|(id, channel)| {
        let regions: Vec<u32> = channel.regions.iter().map(|id| id.0).collect();
        json!({ "channel": id.0, "regions": regions, "nodes": channel.nodes, "pin": channel.pin })
    });
    let groups = plan.groups.iter().map(|(id, group)| {
        let kind = match group.path {
            Path::Multicast(_) => "multicast",
            Path::Members(_) => "members",
            Path::Mixed { .. } => "mixed",
        };
        let channels: Vec<u32> = group.path.channels().iter().map(|id| id.0).collect();
        json!({
            "group": names.group(*id),
            "rate": f64::from(group.rate) / 1000.0,
            "path": kind,
            "channels": channels,
            "copies": group.path.copies().iter().map(node).collect::<Vec<_>>(),
            "packets": group.path.packets(),
            "subscribers": group.subscribers,
            "unwanted": group.unwanted,
            "cost_ns": group.cost,
        })
    });
    let totals = &plan.totals;
    let costs = &known.costs;
    json!({
        "costs": {
            "packet_ns": costs.packet,
            "unwanted_ns": costs.unwanted,
            "copy_ns": costs.copy,
            "source": known.source.to_string(),
        },
        "nodes": totals.nodes,
        "classes": totals.classes,
        "packets_per_message": ratio(totals.packets, totals.messages),
        "copies_per_message": ratio(totals.copies, totals.messages),
        "packets_max": totals.packets_max,
        "unwanted_share": ratio(totals.unwanted, totals.wanted),
        "cpu_ns_per_s": totals.cost as f64 / 1000.0,
        "regions": regions.collect::<Vec<_>>(),
        "channels": channels.collect::<Vec<_>>(),
        "groups": groups.collect::<Vec<_>>(),
    })
}
