//! `qsm regions`: the regions of the cluster.

use std::collections::BTreeMap;

use qsm::{Member, Origin, RegionKind, RegionRow};
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_console::table::{Align, Table, printable};
use serde_json::{Value, json};

use super::{ListArgs, ask, write_json};

/// Members of a region that are listed in the table; `--json` has all.
const MEMBERS_SHOWN: usize = 8;

/// `qsm regions`.
///
/// # Errors
/// No service answers in time, or the output cannot be written.
pub(crate) fn run(args: &ListArgs) -> Result<(), Failure> {
    let (mut rows, nodes) = ask(args, |observer| {
        Ok((observer.list_regions()?, observer.list_nodes()?))
    })?;
    rows.sort_by_key(|row| row.region);
    let names = nodes.into_iter().map(|node| (node.origin, node.name));
    let names: Names = names.collect();
    match args.json {
        true => write_json(rows.iter().map(|row| region_json(row, &names))),
        false => output::write(regions_table(&rows, &names)),
    }
}

/// Names of nodes. A member that has just gone may have none.
pub(crate) type Names = BTreeMap<Origin, String>;

fn regions_table(rows: &[RegionRow], names: &Names) -> String {
    let mut table = Table::new(&[
        ("REGION", Align::Right),
        ("VIEW", Align::Right),
        ("ADDRESS", Align::Left),
        ("KIND", Align::Left),
        ("GROUPS", Align::Right),
        ("MEMBERS", Align::Right),
        ("WHO", Align::Left),
    ]);
    for row in rows {
        table.row([
            row.region.to_string(),
            row.view.to_string(),
            row.address.to_string(),
            kind(row.kind).to_owned(),
            row.groups.to_string(),
            row.members.len().to_string(),
            who(&row.members, names),
        ]);
    }
    table.render()
}

/// The word for a kind of region.
pub(crate) fn kind(kind: RegionKind) -> &'static str {
    match kind {
        RegionKind::Exact => "exact",
        RegionKind::Common => "common",
        RegionKind::Merged => "merged",
        RegionKind::Private => "private",
    }
}

/// The first members, by name or address.
pub(crate) fn who<'a>(members: impl IntoIterator<Item = &'a Member>, names: &Names) -> String {
    let mut members = members.into_iter();
    let first = members.by_ref().take(MEMBERS_SHOWN);
    let first = first.map(|member| match names.get(&member.origin) {
        Some(name) => printable(name),
        None => member.address.to_string(),
    });
    let mut who = first.collect::<Vec<_>>().join(" ");
    if members.next().is_some() {
        who.push_str(" …");
    }
    who
}

/// For programs.
pub(crate) fn region_json(row: &RegionRow, names: &Names) -> Value {
    let member = |member: &Member| {
        json!({ "name": names.get(&member.origin),
                "node": format!("{:x}", member.origin.node.0),
                "incarnation": member.origin.incarnation.0,
                "address": member.address })
    };
    json!({
        "region": row.region.0,
        "view": row.view.0,
        "address": row.address,
        "kind": kind(row.kind),
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
        let member = |at: u8| Member {
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
            kind: RegionKind::Common,
            groups: 9,
            members: (0..10).map(member).collect(),
        };
        let one = row.members[3].origin;
        let names = Names::from([(one, "sink\n".to_owned())]);
        let text = regions_table(std::slice::from_ref(&row), &names);
        assert!(
            text.contains("239.1.2.3:4484  common ")
                && text.contains("10.0.0.2:7 sink\\n 10.0.0.4:7")
                && text.contains("10.0.0.7:7 …")
                && !text.contains("10.0.0.8"),
            "{text}"
        );
        let json = region_json(&row, &names);
        assert_eq!(json["kind"], "common");
        assert_eq!(json["members"].as_array().map(Vec::len), Some(10));
        assert_eq!(json["members"][3]["name"], "sink\n");
        assert_eq!(json["members"][4]["name"], Value::Null);
    }
}
