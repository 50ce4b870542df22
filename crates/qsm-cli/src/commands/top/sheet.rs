//! Lines of a view, in their order.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use qsm::{GroupRow, NodeRow, RegionRow};
use qsm_console::figures::{count, duration, rate};
use qsm_console::table::{Align, Table, printable};

use super::super::list::{nodes as node_list, regions as region_list};
use super::super::look::{Health, HereNode, HereRates, Look, View};

/// Order of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Trouble first, then what has most to do.
    Trouble,
    /// The busiest first.
    Load,
    /// By name.
    Name,
}

impl Order {
    pub(super) const fn next(self) -> Self {
        match self {
            Self::Trouble => Self::Load,
            Self::Load => Self::Name,
            Self::Name => Self::Trouble,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Load => "load",
            Self::Name => "name",
        }
    }
}

/// A line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) cells: Vec<String>,
    pub(super) health: Health,
    load: f64,
}

/// Lines with their headings. The first column is the name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sheet {
    pub(super) columns: Vec<Column>,
    pub(super) lines: Vec<Line>,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) align: Align,
    /// Characters of its longest cell.
    pub(super) width: u16,
}

impl Sheet {
    fn new(
        columns: &[(&'static str, Align)],
        mut lines: Vec<Line>,
        order: Order,
        filter: &str,
    ) -> Self {
        lines.retain(|line| line.cells[0].contains(filter));
        // Loads are numbers of messages or members, never NaN.
        lines.sort_by(|a, b| {
            let health = match order {
                Order::Trouble => a.health.cmp(&b.health),
                Order::Load | Order::Name => Ordering::Equal,
            };
            let load = match order {
                Order::Trouble | Order::Load => b.load.total_cmp(&a.load),
                Order::Name => Ordering::Equal,
            };
            health.then(load).then_with(|| a.cells[0].cmp(&b.cells[0]))
        });
        let column = |(at, &(heading, align)): (usize, &(&'static str, Align))| {
            let cells = lines.iter().map(|line| line.cells[at].chars().count());
            let width = cells.chain([heading.chars().count()]).max().unwrap_or(0);
            Column {
                heading,
                align,
                width: u16::try_from(width).unwrap_or(u16::MAX),
            }
        };
        Self {
            columns: columns.iter().enumerate().map(column).collect(),
            lines,
        }
    }

    /// As a table without colours.
    pub(super) fn render(&self) -> String {
        let columns = self.columns.iter();
        let columns: Vec<_> = columns.map(|one| (one.heading, one.align)).collect();
        let mut table = Table::new(&columns);
        for line in &self.lines {
            table.row(&line.cells);
        }
        table.render()
    }
}

/// The lines of a view of which the name contains `filter`.
pub(super) fn of(look: &Look, view: View, order: Order, filter: &str) -> Sheet {
    match view {
        View::Nodes => nodes(&look.nodes, order, filter),
        View::Groups => groups(&look.groups, order, filter),
        View::Regions => regions(&look.regions, &look.names(), order, filter),
        View::Here => here(&look.here, order, filter),
    }
}

fn nodes(rows: &[NodeRow], order: Order, filter: &str) -> Sheet {
    let columns = [
        ("NODE", Align::Left),
        ("STATE", Align::Left),
        ("SENT/S", Align::Right),
        ("RECEIVED/S", Align::Right),
        ("RECEIVES", Align::Right),
        ("PUBLISHES", Align::Right),
        ("REGION", Align::Right),
        ("HOST", Align::Left),
        ("ADDRESS", Align::Left),
    ];
    let line = |row: &NodeRow| {
        let rates = node_list::now(row, row.rates);
        let shown = |rate: Option<u32>| rate.map_or_else(dash, |rate| count(rate.into()));
        let load = rates.map_or(0.0, |rates| {
            f64::from(rates.sent) + f64::from(rates.received)
        });
        Line {
            cells: vec![
                printable(&row.name),
                node_list::state(row),
                shown(rates.map(|rates| rates.sent)),
                shown(rates.map(|rates| rates.received)),
                count(row.subscriptions.into()),
                count(row.publications.into()),
                row.region.map_or_else(dash, |region| region.to_string()),
                row.about
                    .as_ref()
                    .map_or_else(dash, |about| printable(&about.host)),
                row.address.to_string(),
            ],
            health: Health::of_node(row),
            load,
        }
    };
    Sheet::new(&columns, rows.iter().map(line).collect(), order, filter)
}

/// Load of a group is what a message costs.
fn groups(rows: &[GroupRow], order: Order, filter: &str) -> Sheet {
    let columns = [
        ("GROUP", Align::Left),
        ("MEMBERS", Align::Right),
        ("PUBLISHERS", Align::Right),
        ("PACKETS/MESSAGE", Align::Right),
    ];
    let line = |row: &GroupRow| Line {
        cells: vec![
            printable(&row.name),
            count(row.members.into()),
            count(row.publishers.into()),
            count(row.regions.into()),
        ],
        health: Health::of_group(row),
        load: f64::from(row.regions),
    };
    Sheet::new(&columns, rows.iter().map(line).collect(), order, filter)
}

fn regions(rows: &[RegionRow], names: &region_list::Names, order: Order, filter: &str) -> Sheet {
    let columns = [
        ("REGION", Align::Left),
        ("VIEW", Align::Right),
        ("ADDRESS", Align::Left),
        ("KIND", Align::Left),
        ("GROUPS", Align::Right),
        ("MEMBERS", Align::Right),
        ("AWAY", Align::Right),
        ("WHO", Align::Left),
    ];
    let line = |row: &RegionRow| {
        let away = row.members.iter().filter(|member| member.is_away()).count();
        // Who is away is what one looks for.
        let mut members: Vec<_> = row.members.iter().collect();
        members.sort_by_key(|member| Reverse(member.is_away()));
        Line {
            cells: vec![
                row.region.to_string(),
                row.view.to_string(),
                row.address.to_string(),
                region_list::kind(row.kind).to_owned(),
                count(row.groups.into()),
                count(row.members.len() as u64),
                count(away as u64),
                region_list::who(members, names),
            ],
            health: Health::of_region(row),
            load: row.members.len() as f64,
        }
    };
    Sheet::new(&columns, rows.iter().map(line).collect(), order, filter)
}

fn here(rows: &[HereNode], order: Order, filter: &str) -> Sheet {
    let columns = [
        ("NODE", Align::Left),
        ("PROCESS", Align::Right),
        ("SENT/S", Align::Right),
        ("RECEIVED/S", Align::Right),
        ("MISSING/S", Align::Right),
        ("REPAIR 99%", Align::Right),
        ("PENDING", Align::Right),
        ("LATE", Align::Right),
        ("TROUBLE", Align::Left),
    ];
    let line = |row: &HereNode| {
        let time = |seconds: f64| match seconds > 0.0 {
            true => duration(Duration::from_secs_f64(seconds)),
            false => dash(),
        };
        let per_second = |per_second: fn(HereRates) -> f64| match row.rates {
            Some(rates) => rate(per_second(rates)),
            None => dash(),
        };
        let trouble = row.trouble();
        Line {
            cells: vec![
                printable(&row.name),
                row.pid.to_string(),
                per_second(|rates| rates.sent),
                per_second(|rates| rates.received),
                per_second(|rates| rates.missing),
                time(row.repair_p99),
                count(row.pending),
                time(row.late),
                trouble.map_or_else(dash, printable),
            ],
            health: Health::of_here(row),
            load: row.rates.map_or(0.0, |rates| rates.sent + rates.received),
        }
    };
    Sheet::new(&columns, rows.iter().map(line).collect(), order, filter)
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm::GroupId;

    fn group(name: &str, members: u32, regions: u32) -> GroupRow {
        GroupRow {
            group: GroupId(1),
            name: name.to_owned(),
            members,
            regions,
            publishers: 1,
        }
    }

    fn names(sheet: &Sheet) -> Vec<&str> {
        sheet
            .lines
            .iter()
            .map(|line| line.cells[0].as_str())
            .collect()
    }

    #[test]
    fn what_is_wrong_comes_first_then_what_costs_most() {
        let rows = [
            group("cheap", 4, 1),
            group("dear", 4, 9),
            group("unheard", 0, 0),
            group("also cheap", 4, 1),
        ];
        let sheet = groups(&rows, Order::Trouble, "");
        assert_eq!(names(&sheet), ["unheard", "dear", "also cheap", "cheap"]);
        assert_eq!(sheet.lines[0].health, Health::Doubtful);
        let sheet = groups(&rows, Order::Load, "");
        assert_eq!(names(&sheet), ["dear", "also cheap", "cheap", "unheard"]);
        let sheet = groups(&rows, Order::Name, "");
        assert_eq!(names(&sheet), ["also cheap", "cheap", "dear", "unheard"]);
        let sheet = groups(&rows, Order::Name, "cheap");
        assert_eq!(names(&sheet), ["also cheap", "cheap"]);
    }

    fn rates(set: impl Fn(&mut HereRates)) -> Option<HereRates> {
        let mut rates = HereRates::default();
        set(&mut rates);
        Some(rates)
    }

    #[test]
    fn nodes_of_this_host_say_what_is_wrong_with_them() {
        let well = HereNode {
            name: "well".to_owned(),
            rates: rates(|rates| rates.received = 9000.0),
            ..HereNode::default()
        };
        let losing = HereNode {
            name: "losing".to_owned(),
            rates: rates(|rates| rates.missing = 12.0),
            repair_p99: 0.004,
            ..HereNode::default()
        };
        let lost = HereNode {
            name: "lost".to_owned(),
            rates: rates(|rates| rates.lost = 1.0),
            ..HereNode::default()
        };
        let sheet = here(&[well, losing, lost], Order::Trouble, "");
        assert_eq!(names(&sheet), ["lost", "losing", "well"]);
        let health: Vec<Health> = sheet.lines.iter().map(|line| line.health).collect();
        assert_eq!(health, [Health::Bad, Health::Doubtful, Health::Good]);
        let text = sheet.render();
        assert!(text.contains("packets are lost on the way to it"), "{text}");
        assert!(text.contains("4.0 ms"), "{text}");
    }
}
