//! A cluster that is made up, and a dashboard of it.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod client;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use qsm_dash::{
    Cluster, Config, Dash, Explanation, Health, HerePoint, Look, Object, ObjectKind, ObjectPage,
    Point, Row, Section, Source, Subject, Token,
};
use serde_json::{Value, json};

pub(crate) use client::TOKEN;

/// Names that a page must take for text.
pub(crate) const HOSTILE: [&str; 4] = [
    "<img src=x onerror=\"document.title='broken'\">",
    "</script><script>document.title='broken'</script>",
    "a\u{202e}b\nevent: whole\ndata: {}\n\n",
    "javascript:alert(1)'\"`${document.title='broken'}",
];

/// Nodes in regions of 50 by turns, of which each twentieth publishes, and groups.
pub(crate) struct Made {
    pub(crate) nodes: usize,
    pub(crate) groups: usize,
    pub(crate) looks: Arc<AtomicU64>,
}

impl Made {
    pub(crate) fn new(nodes: usize, groups: usize) -> Self {
        Self {
            nodes,
            groups,
            looks: Arc::default(),
        }
    }

    fn node(&self, number: usize, look: u64) -> Row {
        // One that is away from the third look on.
        let away = number == 7 && look > 2;
        let publishes = number.is_multiple_of(20);
        let rate = 1000 + (number as u64 * 37 + look * 101) % 500;
        row(
            format!("{number:x}.1"),
            format!("node-{number:03}"),
            away.then_some("away: silent"),
            json!({
                "address": format!("10.0.0.{}:4484", number % 250),
                "away": away.then_some("silent"),
                "deaf": false,
                "host": format!("host-{}", number / 4),
                "publishes": u32::from(publishes),
                "receives": if publishes { 0 } else { 12 },
                "received_per_second": if publishes { 0 } else { 10 * rate },
                "region": (!publishes).then_some(number % self.regions()),
                "sent_per_second": if publishes { rate } else { 0 },
                "version": "0.2.0",
            }),
        )
    }

    fn regions(&self) -> usize {
        self.nodes.div_ceil(50)
    }

    fn region(&self, region: usize) -> Row {
        let members = (0..self.nodes).filter(|number: &usize| !number.is_multiple_of(20));
        let members = members.filter(|number| number % self.regions() == region);
        let who: Vec<String> = members.map(|number| format!("{number:x}.1")).collect();
        row(
            region.to_string(),
            region.to_string(),
            None,
            json!({
                "region": region,
                "view": 3,
                "address": format!("239.192.0.{region}:4484"),
                "multicast": true,
                "groups": 12,
                "members": who.len(),
                "away_members": 0,
                "who": who,
            }),
        )
    }

    fn group(number: usize) -> Row {
        let name = HOSTILE.get(number).map(|name| (*name).to_owned());
        let name = name.unwrap_or_else(|| format!("prices/{number:06}"));
        let counts = json!({ "number": number, "members": 45, "regions": 1, "publishers": 2 });
        row(number.to_string(), name, None, counts)
    }
}

fn row(key: String, name: String, trouble: Option<&str>, fields: Value) -> Row {
    Row {
        key,
        name,
        health: trouble.map_or(Health::Good, |_| Health::Bad),
        trouble: trouble.map(str::to_owned),
        remedy: trouble.map(|_| "see whether its process runs".to_owned()),
        fields: fields.as_object().cloned().unwrap_or_default(),
    }
}

impl Source for Made {
    fn look(&self) -> Look {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        let wave = 200.0 * (look as f64 / 5.0).sin();
        let here = row(
            "1/here".to_owned(),
            "here".to_owned(),
            None,
            json!({ "pid": 1, "missing_per_second": 2.0 }),
        );
        Look {
            cluster: Ok(Cluster {
                nodes: (0..self.nodes)
                    .map(|number| self.node(number, look))
                    .collect(),
                groups: (0..self.groups).map(Self::group).collect(),
                regions: (0..self.regions())
                    .map(|region| self.region(region))
                    .collect(),
            }),
            here: vec![here],
            point: Point {
                sent: Some(12_000.0 + wave),
                received: Some(11_000.0 - wave),
                here: HerePoint {
                    missing: Some(20.0 + wave / 20.0),
                    repaired: Some(19.0),
                    lost: Some(0.0),
                    repair_p99: Some(0.002),
                    stable_p99: Some(0.012),
                },
            },
        }
    }

    fn explain(&self, subject: &Subject) -> Result<Explanation, String> {
        match subject {
            Subject::Node(name) if name == "nobody" => Err("nobody knows it".to_owned()),
            Subject::Node(name) | Subject::Group(name) => Ok(Explanation {
                sections: vec![
                    Section::Heading(format!("this is {name}")),
                    Section::Table {
                        columns: vec!["RECEIVER".to_owned(), "BEHIND".to_owned()],
                        numbers: vec![false, true],
                        rows: vec![vec![name.clone(), "3".to_owned()]],
                    },
                ],
                regions: vec![0],
                publishers: vec!["node-000".to_owned()],
                ..Explanation::default()
            }),
        }
    }
}

fn config() -> Config {
    Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        token: Token::new(TOKEN).unwrap(),
        names: vec!["desk.example".to_owned()],
    }
}

/// A dashboard at a port of its own.
pub(crate) fn serve(made: Made) -> Dash {
    Dash::start(config(), made).unwrap()
}

/// A page of an object at a port of its own.
pub(crate) fn show(kind: ObjectKind) -> ObjectPage {
    let object = Object {
        kind,
        cluster: "floor".to_owned(),
        group: HOSTILE[0].to_owned(),
    };
    ObjectPage::start(config(), object).unwrap()
}
