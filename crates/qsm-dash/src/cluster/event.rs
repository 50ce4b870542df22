//! Events, as they follow from two looks.

use std::collections::BTreeMap;

use serde::Serialize;

use super::look::{Health, Row};

/// Events of one kind in one table after one look that are told one by one.
const EACH_MAX: usize = 5;

/// Something that happened between two looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Event {
    /// Milliseconds since 1970, of the later look.
    pub(crate) time: u64,
    /// State that it leads to: a word of [`Health`].
    pub(crate) health: &'static str,
    /// Thing that it is about, as in `node`.
    pub(crate) about: &'static str,
    /// Name of the thing; empty for several.
    pub(crate) name: String,
    /// Words on what happened.
    pub(crate) text: String,
}

/// Rows by their keys.
pub(crate) type Rows = BTreeMap<String, Row>;

/// Differences between two looks at one table that are worth a line.
pub(crate) fn between(time: u64, about: &'static str, before: &Rows, now: &Rows) -> Vec<Event> {
    let (mut events, mut new, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    let event = |row: &Row, health: Health, text: String| Event {
        time,
        health: health.name(),
        about,
        name: row.name.clone(),
        text,
    };
    for (key, row) in now {
        match before.get(key) {
            None => {
                let text = row.trouble.as_ref();
                let text = text.map_or_else(|| "is new".to_owned(), |it| format!("is new; {it}"));
                new.push(event(row, row.health, text));
            }
            Some(old) if old.trouble != row.trouble || old.health != row.health => {
                let text = row.trouble.clone();
                let text = text.unwrap_or_else(|| "is well again".to_owned());
                events.push(event(row, row.health, text));
            }
            Some(_) => {}
        }
    }
    for (_, row) in before.iter().filter(|(key, _)| !now.contains_key(*key)) {
        gone.push(event(row, Health::Doubtful, "is gone".to_owned()));
    }
    let several = [
        (events, "have changed"),
        (new, "are new"),
        (gone, "are gone"),
    ];
    let told = several
        .into_iter()
        .flat_map(|(events, what)| shorten(events, what));
    told.collect()
}

/// The first ones, and a line on the number of the rest.
fn shorten(mut events: Vec<Event>, what: &str) -> Vec<Event> {
    let rest = events.len().saturating_sub(EACH_MAX);
    let Some(last) = events.get(EACH_MAX).cloned() else {
        return events;
    };
    events.truncate(EACH_MAX);
    events.push(Event {
        name: String::new(),
        text: format!("{rest} more {what}"),
        ..last
    });
    events
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn rows(of: &[(&str, Option<&str>)]) -> Rows {
        let row = |&(name, trouble): &(&str, Option<&str>)| Row {
            key: name.to_owned(),
            name: name.to_owned(),
            health: trouble.map_or(Health::Good, |_| Health::Bad),
            trouble: trouble.map(str::to_owned),
            remedy: None,
            fields: Map::new(),
        };
        of.iter()
            .map(row)
            .map(|row| (row.key.clone(), row))
            .collect()
    }

    fn told(events: &[Event]) -> Vec<String> {
        let told = events.iter();
        told.map(|it| format!("{} {} {}", it.health, it.name, it.text))
            .collect()
    }

    #[test]
    fn comings_goings_and_troubles_are_told() {
        let before = rows(&[("a", None), ("b", Some("away")), ("c", None), ("d", None)]);
        let now = rows(&[("a", Some("away")), ("b", None), ("c", None), ("e", None)]);
        assert_eq!(
            told(&between(7, "node", &before, &now)),
            [
                "bad a away",
                "good b is well again",
                "good e is new",
                "doubtful d is gone"
            ]
        );
        assert_eq!(between(7, "node", &now, &now), []);
    }

    #[test]
    fn many_of_a_kind_are_one_line() {
        let names: Vec<String> = (0..40).map(|number| format!("n{number:02}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), None)).collect();
        let told = told(&between(7, "node", &rows(&[]), &rows(&many)));
        assert_eq!(told.len(), EACH_MAX + 1);
        assert_eq!(told[EACH_MAX], "good  35 more are new");
    }
}
