//! `qsm regions`: the regions of the cluster.

use qsm::{Observer, RegionRow};
use qsm_console::failure::Failure;
use qsm_console::table::{Align, Table};
use serde_json::{Value, json};

use super::{ListArgs, ask, write, write_json};

/// Members of a region that are listed in the table; `--json` has all.
const MEMBERS_SHOWN: usize = 8;

/// `qsm regions`.
///
/// # Errors
/// No service answers in time, or the output cannot be written.
pub(crate) fn run(args: &ListArgs) -> Result<(), Failure> {
    let mut rows = ask(args, Observer::list_regions)?;
    rows.sort_by_key(|row| row.region);
    match args.json {
        true => write_json(rows.iter().map(region_json)),
        false => write(&regions_table(&rows)),
    }
}

fn regions_table(rows: &[RegionRow]) -> String {
    let mut table = Table::new(&[
        ("REGION", Align::Right),
        ("VIEW", Align::Right),
        ("ADDRESS", Align::Left),
        ("GROUPS", Align::Right),
        ("MEMBERS", Align::Right),
        ("WHO", Align::Left),
    ]);
    for row in rows {
        let who = row
            .members
            .iter()
            .take(MEMBERS_SHOWN)
            .map(|member| member.address.to_string());
        let mut who = who.collect::<Vec<_>>().join(" ");
        if row.members.len() > MEMBERS_SHOWN {
            who.push_str(" …");
        }
        table.row([
            row.region.to_string(),
            row.view.to_string(),
            row.address.to_string(),
            row.groups.to_string(),
            row.members.len().to_string(),
            who,
        ]);
    }
    table.render()
}

fn region_json(row: &RegionRow) -> Value {
    let member = |member: &qsm::Member| {
        json!({ "node": format!("{:x}", member.origin.node.0),
                "incarnation": member.origin.incarnation.0,
                "address": member.address })
    };
    json!({
        "region": row.region.0,
        "view": row.view.0,
        "address": row.address,
        "groups": row.groups,
        "members": row.members.iter().map(member).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use qsm::{Incarnation, NodeId, Origin, RegionId, ViewNumber};

    use super::*;

    #[test]
    fn regions_show_some_members_and_json_has_all() {
        let member = |at: u8| qsm::Member {
            origin: Origin {
                node: NodeId(u64::from(at)),
                incarnation: Incarnation(1),
            },
            address: std::net::SocketAddr::from(([10, 0, 0, at], 7)),
            joined: ViewNumber(1),
            left: None,
            away: None,
        };
        let row = RegionRow {
            region: RegionId(2),
            view: ViewNumber(5),
            address: "239.1.2.3:4484".parse().unwrap(),
            groups: 9,
            members: (0..10).map(member).collect(),
        };
        let text = regions_table(std::slice::from_ref(&row));
        assert!(
            text.contains("10.0.0.7:7 …") && !text.contains("10.0.0.8"),
            "{text}"
        );
        assert_eq!(
            region_json(&row)["members"].as_array().map(Vec::len),
            Some(10)
        );
    }
}
