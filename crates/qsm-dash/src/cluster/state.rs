//! Knowledge of browsers, and how that differs from one look to the next.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::event::{self, Event, Rows};
use super::look::{Look, Point, Row};

/// Rows of a table that the page gets; of more it gets the worst, and the number of all.
pub const ROWS_MAX: usize = 20_000;
/// Events that are remembered.
const EVENTS_MAX: usize = 200;
/// Points that are remembered: five minutes.
const POINTS_MAX: usize = 300;

/// Tables with the thing that their rows are about; the last is for holders of the token.
const TABLES: [(&str, &str); 4] = [
    ("nodes", "node"),
    ("groups", "group"),
    ("regions", "region"),
    ("here", "node here"),
];
/// Index of the table that only holders of the token see.
const HERE: usize = 3;

/// Rights of a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Lists of the membership service.
    Lists,
    /// Everything.
    All,
}

/// Knowledge of browsers.
#[derive(Debug, Default)]
pub(crate) struct State {
    sequence: u64,
    /// Time of the last look at which the membership service answered; 0: none yet.
    seen: u64,
    /// The reason for which it did not.
    absent: Option<String>,
    tables: [Table; 4],
    events: VecDeque<Seen>,
    points: VecDeque<(u64, Point)>,
}

#[derive(Debug, Default)]
struct Table {
    rows: Rows,
    /// Rows that there are, of which `rows` may be the worst.
    total: usize,
    /// It was looked at before.
    known: bool,
}

/// An event of a table.
#[derive(Debug, Clone)]
struct Seen {
    table: usize,
    event: Event,
}

/// Difference between two looks, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    lists: String,
    all: String,
}

impl Change {
    /// As much as a browser may see.
    pub(crate) fn text(&self, rights: Rights) -> &str {
        match rights {
            Rights::Lists => &self.lists,
            Rights::All => &self.all,
        }
    }
}

impl State {
    /// Everything, as JSON.
    pub(crate) fn whole(&self, rights: Rights) -> String {
        let tables = (0..TABLES.len()).filter(|&at| may_see(rights, at));
        let tables = tables.map(|at| {
            let table = &self.tables[at];
            let rows = table.rows.iter();
            let rows = rows.map(|(key, row)| (key.clone(), Value::Object(row.object())));
            let rows: Map<String, Value> = rows.collect();
            let whole = json!({ "total": table.total, "rows": rows });
            (TABLES[at].0.to_owned(), whole)
        });
        let tables: Map<String, Value> = tables.collect();
        let points = self.points.iter();
        let points = points.map(|&(time, point)| point_json(time, point, rights));
        json!({
            "sequence": self.sequence,
            "seen": self.seen,
            "absent": self.absent,
            "rights": match rights { Rights::Lists => "lists", Rights::All => "all" },
            "tables": tables,
            "events": events_json(self.events.iter(), rights),
            "points": points.collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// Takes a look, at so many milliseconds since 1970. Where the service did not answer, what it said
    /// before stays.
    pub(crate) fn take(&mut self, time: u64, look: Look) -> Change {
        self.sequence += 1;
        let mut taken: [Option<Vec<Row>>; 4] = [None, None, None, Some(look.here)];
        match look.cluster {
            Ok(cluster) => {
                self.seen = time;
                self.absent = None;
                taken[0] = Some(cluster.nodes);
                taken[1] = Some(cluster.groups);
                taken[2] = Some(cluster.regions);
            }
            Err(why) => self.absent = Some(why),
        }
        let (mut differences, mut events) = (Vec::new(), Vec::new());
        for (at, rows) in taken.into_iter().enumerate() {
            let Some(rows) = rows else { continue };
            let table = &mut self.tables[at];
            let old = table.replace(rows);
            differences.push((at, difference(&old, table)));
            if old.known {
                let found = event::between(time, TABLES[at].1, &old.rows, &table.rows);
                events.extend(found.into_iter().map(|event| Seen { table: at, event }));
            }
        }
        self.remember(time, look.point, &events);
        let change = |rights| {
            let tables = differences.iter().filter(|(at, _)| may_see(rights, *at));
            let tables =
                tables.filter_map(|(at, it)| Some((TABLES[*at].0.to_owned(), it.clone()?)));
            json!({
                "sequence": self.sequence,
                "seen": self.seen,
                "absent": self.absent,
                "tables": tables.collect::<Map<String, Value>>(),
                "events": events_json(events.iter(), rights),
                "point": point_json(time, look.point, rights),
            })
            .to_string()
        };
        Change {
            lists: change(Rights::Lists),
            all: change(Rights::All),
        }
    }

    fn remember(&mut self, time: u64, point: Point, events: &[Seen]) {
        self.points.push_back((time, point));
        let old = self.points.len().saturating_sub(POINTS_MAX);
        self.points.drain(..old);
        self.events.extend(events.iter().cloned());
        let old = self.events.len().saturating_sub(EVENTS_MAX);
        self.events.drain(..old);
    }
}

impl Table {
    /// Takes these rows; returns the table as it was.
    fn replace(&mut self, mut rows: Vec<Row>) -> Self {
        let total = rows.len();
        if total > ROWS_MAX {
            rows.sort_by(|a, b| (a.health, &a.key).cmp(&(b.health, &b.key)));
            rows.truncate(ROWS_MAX);
        }
        let rows = rows.into_iter().map(|row| (row.key.clone(), row)).collect();
        let now = Self {
            rows,
            total,
            known: true,
        };
        std::mem::replace(self, now)
    }
}

fn may_see(rights: Rights, table: usize) -> bool {
    rights == Rights::All || table != HERE
}

fn events_json<'a>(events: impl Iterator<Item = &'a Seen>, rights: Rights) -> Value {
    let events = events.filter(|seen| may_see(rights, seen.table));
    events.map(|seen| json!(seen.event)).collect()
}

fn point_json(time: u64, point: Point, rights: Rights) -> Value {
    let point = match rights {
        Rights::Lists => point.public(),
        Rights::All => point,
    };
    let mut object = json!(point);
    object["time"] = time.into();
    object
}

/// Rows that are new or differ, with the fields that do; keys of those that are gone. `None`: all is
/// as it was.
fn difference(before: &Table, now: &Table) -> Option<Value> {
    let mut set = Map::new();
    for (key, row) in &now.rows {
        match before.rows.get(key) {
            Some(old) if old == row => {}
            Some(old) => {
                let old = old.object();
                let fields = row.object().into_iter();
                let fields = fields.filter(|(name, value)| old.get(name) != Some(value));
                set.insert(key.clone(), Value::Object(fields.collect()));
            }
            None => {
                set.insert(key.clone(), Value::Object(row.object()));
            }
        }
    }
    let gone = before.rows.keys();
    let gone: Vec<&String> = gone.filter(|key| !now.rows.contains_key(*key)).collect();
    let same = set.is_empty() && gone.is_empty() && before.total == now.total;
    (!same).then(|| json!({ "total": now.total, "set": set, "gone": gone }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::look::{Cluster, Health, HerePoint};

    fn row(name: &str, sent: u64, health: Health) -> Row {
        let mut fields = Map::new();
        fields.insert("sent_per_second".to_owned(), sent.into());
        fields.insert("region".to_owned(), 3.into());
        Row {
            key: format!("key of {name}"),
            name: name.to_owned(),
            health,
            trouble: (health != Health::Good).then(|| "away: silent".to_owned()),
            remedy: None,
            fields,
        }
    }

    fn look(nodes: Vec<Row>, here: Vec<Row>) -> Look {
        let cluster = Cluster {
            nodes,
            ..Cluster::default()
        };
        let here_point = HerePoint {
            missing: Some(2.0),
            ..HerePoint::default()
        };
        Look {
            cluster: Ok(cluster),
            here,
            point: Point {
                sent: Some(9.0),
                received: None,
                here: here_point,
            },
        }
    }

    fn parsed(change: &Change, rights: Rights) -> Value {
        serde_json::from_str(change.text(rights)).unwrap()
    }

    #[test]
    fn browsers_get_the_fields_that_differ_and_the_keys_of_who_is_gone() {
        let mut state = State::default();
        let good = |name, sent| row(name, sent, Health::Good);
        state.take(
            1,
            look(vec![good("a", 1), good("b", 2), good("c", 3)], vec![]),
        );
        let now = vec![good("a", 1), row("b", 2, Health::Bad), good("d", 4)];
        let change = parsed(&state.take(2, look(now, vec![])), Rights::All);
        let nodes = &change["tables"]["nodes"];
        assert_eq!(nodes["gone"], json!(["key of c"]));
        let set = nodes["set"].as_object().unwrap();
        assert_eq!(set.keys().collect::<Vec<_>>(), ["key of b", "key of d"]);
        assert_eq!(
            set["key of b"],
            json!({ "health": "bad", "trouble": "away: silent" })
        );
        assert_eq!(set["key of d"]["region"], 3);
        let told = change["events"].as_array().unwrap().iter();
        let told: Vec<_> = told.map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(told, ["b", "d", "c"]);
        let again = vec![good("a", 1), row("b", 2, Health::Bad), good("d", 4)];
        let same = parsed(&state.take(3, look(again, vec![])), Rights::All);
        assert_eq!((&same["tables"], &same["events"]), (&json!({}), &json!([])));
    }

    #[test]
    fn a_whole_and_its_differences_make_the_next_whole() {
        let (mut state, mut seen) = (State::default(), Map::new());
        for round in 0..20_u64 {
            let there = (0..8).filter(|number| (number + round) % 3 != 0);
            let rows =
                there.map(|number| row(&format!("n{number}"), number * (round / 4), Health::Good));
            let change = parsed(
                &state.take(round, look(rows.collect(), vec![])),
                Rights::Lists,
            );
            let nodes = &change["tables"]["nodes"];
            for (key, fields) in nodes["set"].as_object().into_iter().flatten() {
                let row = seen.entry(key).or_insert_with(|| json!({}));
                let fields = fields.as_object().unwrap().clone();
                row.as_object_mut().unwrap().extend(fields);
            }
            for key in nodes["gone"].as_array().into_iter().flatten() {
                seen.remove(key.as_str().unwrap());
            }
            let whole: Value = serde_json::from_str(&state.whole(Rights::Lists)).unwrap();
            assert_eq!(whole["tables"]["nodes"]["rows"], json!(seen), "{round}");
        }
    }

    #[test]
    fn nodes_of_this_host_are_for_holders_of_the_token() {
        let mut state = State::default();
        state.take(1, look(vec![], vec![]));
        let here = vec![row("secret", 1, Health::Bad)];
        let change = state.take(2, look(vec![], here));
        assert!(change.text(Rights::All).contains("secret"));
        assert_eq!(parsed(&change, Rights::All)["point"]["missing"], 2.0);
        for text in [change.text(Rights::Lists), &state.whole(Rights::Lists)] {
            assert!(!text.contains("secret") && !text.contains("2.0"), "{text}");
        }
        assert!(state.whole(Rights::All).contains("secret"));
    }

    #[test]
    fn what_was_known_stays_while_the_service_does_not_answer() {
        let mut state = State::default();
        state.take(5, look(vec![row("a", 1, Health::Good)], vec![]));
        let mut silent = look(vec![], vec![]);
        silent.cluster = Err("no membership service answered".to_owned());
        let change = parsed(&state.take(6, silent), Rights::Lists);
        assert_eq!(
            (&change["seen"], &change["tables"]),
            (&json!(5), &json!({}))
        );
        assert_eq!(change["absent"], "no membership service answered");
        assert!(state.whole(Rights::Lists).contains("key of a"));
    }

    #[test]
    fn of_too_many_rows_the_worst_are_sent_and_all_are_counted() {
        let mut state = State::default();
        let mut rows: Vec<_> = (0..=ROWS_MAX)
            .map(|number| row(&format!("n{number:06}"), 1, Health::Good))
            .collect();
        rows.last_mut().unwrap().health = Health::Bad;
        state.take(1, look(rows, vec![]));
        let nodes = &state.tables[0];
        assert_eq!((nodes.total, nodes.rows.len()), (ROWS_MAX + 1, ROWS_MAX));
        assert!(nodes.rows.values().any(|row| row.health == Health::Bad));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut state = State::default();
        for round in 0..1000_u64 {
            let name = format!("n{round}");
            state.take(round, look(vec![row(&name, 1, Health::Good)], vec![]));
        }
        assert_eq!(state.points.len(), POINTS_MAX);
        assert_eq!(state.events.len(), EVENTS_MAX);
    }
}
