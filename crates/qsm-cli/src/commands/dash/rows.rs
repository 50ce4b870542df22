//! Rows of the page, with the names that the lists have in JSON.

use qsm::{AwayReason, GroupRow, Member, NodeRow, Origin, RegionRow};
use qsm_dash::{Health, HerePoint, Point, Row};
use serde_json::{Map, Value, json};

use super::super::list::{groups, nodes, regions};
use super::super::look::{self, HereNode, HereRates, Look};

/// Fields that the row has beside, or that change with every look and say nothing.
const LEFT_OUT: [&str; 5] = [
    "name",
    "trouble",
    "uptime_seconds",
    "description",
    "gateway",
];

/// A node of the cluster.
pub(super) fn node(row: &NodeRow) -> Row {
    let trouble = match (row.away, row.deaf) {
        (None, false) => None,
        _ => Some(nodes::state(row).replace("live, ", "")),
    };
    let remedy = match (row.away, row.deaf) {
        (Some(reason), _) => Some(away(reason)),
        (None, true) => {
            Some("it gets copies by unicast; `qsm doctor` on its host finds what blocks multicast")
        }
        (None, false) => None,
    };
    Row {
        key: row.origin.to_string(),
        name: row.name.clone(),
        health: health(look::Health::of_node(row)),
        trouble,
        remedy: remedy.map(str::to_owned),
        fields: fields(nodes::node_json(row)),
    }
}

fn away(reason: AwayReason) -> &'static str {
    match reason {
        AwayReason::Silent => {
            "see whether its process runs and its host is reached; what it misses is kept for a while"
        }
        AwayReason::Unreachable => {
            "the service hears it, members do not: `qsm doctor` on its host; see the network between them"
        }
        AwayReason::Slow | AwayReason::Demoted => {
            "`qsm explain` on its host says what holds it back"
        }
        _ => "see whether it still runs",
    }
}

/// A group.
pub(super) fn group(row: &GroupRow) -> Row {
    let health = health(look::Health::of_group(row));
    let unheard = health != Health::Good;
    Row {
        key: row.group.to_string(),
        name: row.name.clone(),
        health,
        trouble: unheard.then(|| "is published to, and nobody receives it".to_owned()),
        remedy: unheard.then(|| "see whether its receivers run, and spell its name so".to_owned()),
        fields: fields(groups::group_json(row)),
    }
}

/// A region. Members are told by the keys of nodes.
pub(super) fn region(row: &RegionRow) -> Row {
    let away = row.members.iter().filter(|member| member.is_away()).count();
    let all = row.members.len();
    let members = row.members.iter();
    let who: Vec<String> = members.map(|member: &Member| key(member.origin)).collect();
    let fields = fields(json!({
        "region": row.region.0,
        "view": row.view.0,
        "address": row.address,
        "multicast": row.address.ip().is_multicast(),
        "kind": regions::kind(row.kind),
        "groups": row.groups,
        "members": all,
        "away_members": away,
        "who": who,
    }));
    Row {
        key: row.region.to_string(),
        name: row.region.to_string(),
        health: health(look::Health::of_region(row)),
        trouble: (away > 0).then(|| format!("{away} of {all} members away")),
        // What is to be done is said of its members.
        remedy: None,
        fields,
    }
}

fn key(origin: Origin) -> String {
    origin.to_string()
}

/// A node of this host.
pub(super) fn here(node: &HereNode) -> Row {
    Row {
        key: format!("{}/{}", node.pid, node.name),
        name: node.name.clone(),
        health: health(look::Health::of_here(node)),
        trouble: node.trouble().map(str::to_owned),
        remedy: None,
        fields: fields(node.json()),
    }
}

fn health(health: look::Health) -> Health {
    match health {
        look::Health::Bad => Health::Bad,
        look::Health::Doubtful => Health::Doubtful,
        look::Health::Good => Health::Good,
    }
}

fn fields(json: Value) -> Map<String, Value> {
    match json {
        Value::Object(mut fields) => {
            fields.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
            fields
        }
        _ => Map::new(),
    }
}

/// Sums of a look.
pub(super) fn point(cluster: &Look, here: &[HereNode]) -> Point {
    let (sent, received) = cluster.rates();
    let known = cluster.trouble.is_none();
    let rates = here.iter().filter_map(|node| node.rates);
    let sum = |rate: fn(HereRates) -> f64| {
        let known = rates.clone().next().is_some();
        known.then(|| rates.clone().map(rate).sum())
    };
    let longest = |time: fn(&HereNode) -> f64| {
        let times = here.iter().map(time).filter(|time| *time > 0.0);
        times.max_by(f64::total_cmp)
    };
    Point {
        sent: known.then(|| f64::from(sent)),
        received: known.then_some(received as f64),
        here: HerePoint {
            missing: sum(|rates| rates.missing),
            repaired: sum(|rates| rates.repaired),
            lost: sum(|rates| rates.lost + rates.dropped),
            repair_p99: longest(|node| node.repair_p99),
            stable_p99: longest(|node| node.stable_p99),
        },
    }
}

#[cfg(test)]
mod tests {
    use qsm::{Incarnation, NodeId, Rates, RegionId, RegionKind, ViewNumber};

    use super::*;

    fn member(number: u64, away: Option<AwayReason>) -> Member {
        Member {
            origin: Origin {
                node: NodeId(number),
                incarnation: Incarnation(1),
            },
            address: "10.0.0.1:7".parse().unwrap(),
            joined: ViewNumber(1),
            left: None,
            away,
        }
    }

    fn node_row(away: Option<AwayReason>, deaf: bool) -> NodeRow {
        NodeRow {
            origin: member(0x1f, None).origin,
            name: "<b>desk</b>".to_owned(),
            address: "10.0.0.1:4484".parse().unwrap(),
            region: Some(RegionId(4)),
            subscriptions: 2,
            publications: 0,
            away,
            deaf,
            about: None,
            rates: Some(Rates {
                sent: 10,
                received: 2000,
            }),
            grant: None,
            description: None,
        }
    }

    #[test]
    fn nodes_have_their_trouble_and_the_names_of_their_list() {
        let row = node(&node_row(Some(AwayReason::Silent), false));
        assert_eq!(
            (row.key.as_str(), row.name.as_str()),
            ("1f.1", "<b>desk</b>")
        );
        assert_eq!(
            (row.health, row.trouble.as_deref()),
            (Health::Bad, Some("away: silent"))
        );
        assert!(row.remedy.is_some() && row.fields["address"] == "10.0.0.1:4484");
        assert!(LEFT_OUT.iter().all(|name| !row.fields.contains_key(*name)));
        let row = node(&node_row(None, true));
        assert_eq!(
            row.trouble.as_deref(),
            Some("deaf: multicast does not reach it")
        );
        assert_eq!(node(&node_row(None, false)).trouble, None);
    }

    #[test]
    fn regions_name_their_members_by_the_keys_of_nodes() {
        let row = region(&RegionRow {
            region: RegionId(4),
            view: ViewNumber(2),
            address: "239.192.0.4:4484".parse().unwrap(),
            kind: RegionKind::Exact,
            groups: 3,
            members: vec![member(0x1f, None), member(2, Some(AwayReason::Slow))],
        });
        assert_eq!(row.fields["who"], json!(["1f.1", "2.1"]));
        assert_eq!(row.fields["who"][0], node(&node_row(None, false)).key);
        assert_eq!(row.trouble.as_deref(), Some("1 of 2 members away"));
        assert_eq!(
            (row.health, &row.fields["multicast"]),
            (Health::Doubtful, &json!(true))
        );
    }

    #[test]
    fn sums_are_unknown_where_nothing_has_said_them() {
        let silent = Look {
            trouble: Some(qsm_console::failure::Failure::timeout("a", "b")),
            ..Look::default()
        };
        assert_eq!(point(&silent, &[]), Point::default());
        let rates = |missing, lost| HereNode {
            rates: Some(HereRates {
                missing,
                lost,
                dropped: 1.0,
                ..HereRates::default()
            }),
            repair_p99: missing / 1000.0,
            ..HereNode::default()
        };
        let look = Look {
            nodes: vec![node_row(None, false)],
            ..Look::default()
        };
        let point = point(
            &look,
            &[rates(2.0, 0.0), rates(5.0, 3.0), HereNode::default()],
        );
        assert_eq!((point.sent, point.received), (Some(10.0), Some(2000.0)));
        let here = point.here;
        assert_eq!((here.missing, here.lost), (Some(7.0), Some(5.0)));
        assert_eq!((here.repair_p99, here.stable_p99), (Some(0.005), None));
    }
}
