//! `qsm groups`: the groups of the cluster.

use qsm::{GroupRow, Observer};
use qsm_console::failure::Failure;
use qsm_console::output;
use qsm_console::table::{Align, Table};
use serde_json::{Value, json};

use super::{ListArgs, ask, write_json};

/// `qsm groups`.
///
/// # Errors
/// No service answers in time, or the output cannot be written.
pub(crate) fn run(args: &ListArgs) -> Result<(), Failure> {
    let mut rows = ask(args, Observer::list_groups)?;
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    match args.json {
        true => write_json(rows.iter().map(group_json)),
        false => output::write(groups_table(&rows)),
    }
}

fn groups_table(rows: &[GroupRow]) -> String {
    let mut table = Table::new(&[
        ("GROUP", Align::Left),
        ("NUMBER", Align::Right),
        ("MEMBERS", Align::Right),
        ("REGIONS", Align::Right),
        ("PUBLISHERS", Align::Right),
    ]);
    for row in rows {
        table.row([
            row.name.clone(),
            row.group.to_string(),
            row.members.to_string(),
            row.regions.to_string(),
            row.publishers.to_string(),
        ]);
    }
    table.render()
}

/// For programs.
pub(crate) fn group_json(row: &GroupRow) -> Value {
    json!({
        "name": row.name,
        "number": row.group.0,
        "members": row.members,
        "regions": row.regions,
        "publishers": row.publishers,
    })
}

#[cfg(test)]
mod tests {
    use qsm::GroupId;

    use super::*;

    #[test]
    fn groups_are_a_table_or_json() {
        let row = GroupRow {
            group: GroupId(4),
            name: "prices/eur".to_owned(),
            members: 3,
            regions: 2,
            publishers: 1,
        };
        assert_eq!(
            groups_table(std::slice::from_ref(&row)),
            "GROUP       NUMBER  MEMBERS  REGIONS  PUBLISHERS\n\
             prices/eur       4        3        2           1\n"
        );
        assert_eq!(group_json(&row)["members"], 3);
    }
}
