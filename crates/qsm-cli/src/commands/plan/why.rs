//! Explains a group's path.

use std::fmt::Write as _;

use qsm_console::failure::Failure;
use qsm_console::table::{Align, Table, printable};
use qsm_plan::{Path, Plan, Planner, Way, Why};
use qsm_wire::GroupId;

use super::names::PlanNames;
use super::show::some;

/// Explains a group's path.
///
/// # Errors
/// Nobody subscribes to the group.
pub(super) fn explain(
    planner: &Planner,
    plan: &Plan,
    names: &PlanNames,
    group: &str,
) -> Result<String, Failure> {
    let at = names.groups.iter().position(|known| known == group);
    let id = at.and_then(|at| u32::try_from(at).ok()).map(GroupId);
    let Some(why) = id.and_then(|id| planner.why(id)) else {
        return Err(Failure::usage(
            format!("nobody subscribes to {group}"),
            "check the name against the subscriptions",
        ));
    };
    let mut text = head(group, &why, names);
    text.push('\n');
    text.push_str(&ways(&why, plan));
    text.push('\n');
    text.push_str(&regions(&why, plan));
    Ok(text)
}

fn head(group: &str, why: &Why, names: &PlanNames) -> String {
    let chosen = &why.chosen;
    let rate = f64::from(chosen.rate) / 1000.0;
    let mut text = format!(
        "{}: {} subscribers, {rate} messages a second\n",
        printable(group),
        chosen.subscribers
    );
    let channels: Vec<String> = chosen
        .path
        .channels()
        .iter()
        .map(|id| id.0.to_string())
        .collect();
    let channels = some(channels.iter().map(String::as_str));
    let copies = some(chosen.path.copies().iter().map(|node| names.node(*node)));
    match &chosen.path {
        Path::Multicast(_) => _ = writeln!(text, "path: multicast, channels {channels}"),
        Path::Members(_) => _ = writeln!(text, "path: a copy to each of {copies}"),
        Path::Mixed { .. } => {
            _ = writeln!(text, "path: mixed, channels {channels}; copies to {copies}");
        }
    }
    if let Some(pin) = &why.pin {
        _ = writeln!(text, "the hints pin it to channel {}", printable(pin));
    }
    text
}

fn ways(why: &Why, plan: &Plan) -> String {
    let mut table = Table::new(&[
        ("WAY", Align::Left),
        ("PACKETS", Align::Right),
        ("UNWANTED", Align::Right),
        ("CPU µs/message", Align::Right),
    ]);
    let chosen = &why.chosen;
    let cost = |cost: u64| format!("{:.1}", cost as f64 / 1000.0);
    table.row([
        "chosen".to_owned(),
        chosen.path.packets().to_string(),
        chosen.unwanted.to_string(),
        cost(chosen.cost),
    ]);
    for other in &why.alternatives {
        let way = match other.way {
            Way::PerRegion => "a packet for each region".to_owned(),
            Way::Copies => "a copy for each subscriber".to_owned(),
            Way::Channel(id) => {
                let nodes = plan.channels.get(&id).map_or(0, |channel| channel.nodes);
                format!("one packet on channel {} of {nodes} nodes", id.0)
            }
        };
        table.row([
            way,
            other.packets.to_string(),
            other.unwanted.to_string(),
            cost(other.cost),
        ]);
    }
    table.render()
}

fn regions(why: &Why, plan: &Plan) -> String {
    let mut table = Table::new(&[
        ("REGION", Align::Right),
        ("NODES", Align::Right),
        ("SUBSCRIBERS", Align::Right),
        ("SERVED", Align::Left),
        ("NEXT MERGE WOULD COST CPU µs/s", Align::Left),
    ]);
    for row in why.regions.iter().take(20) {
        let served = if row.carried {
            "with its region"
        } else {
            "residue"
        };
        let refused = plan
            .regions
            .get(&row.region)
            .and_then(|region| region.refused);
        let refused = refused.map_or_else(String::new, |(other, gain)| {
            format!("{:.0}, with {}", -gain as f64 / 1e6, other.0)
        });
        table.row([
            row.region.0.to_string(),
            row.nodes.to_string(),
            row.subscribers.to_string(),
            served.to_owned(),
            refused,
        ]);
    }
    let mut text = table.render();
    if why.regions.len() > 20 {
        _ = writeln!(
            text,
            "… {} regions more; --json has all",
            why.regions.len() - 20
        );
    }
    text
}
