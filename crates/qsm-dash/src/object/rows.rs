//! The newest rows of an object, in the order in which they changed.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::change::Line;
use super::content::Content;

/// Rows that are kept and shown; beyond, those that changed longest ago are left out.
pub const OBJECT_ROWS_MAX: usize = 10_000;
/// Bytes of all rows together, likewise. 16 MiB.
pub const BYTES_MAX: usize = 16 << 20;
/// Keys that are gone and remembered; a browser that has not heard of the oldest ones gets everything anew.
pub const REMOVED_MAX: usize = 10_000;
/// Rows that a browser is told at once.
const TOLD_MAX: usize = 500;
/// Bytes of rows after which no further one is told at once.
const TOLD_BYTES: usize = 256 << 10;

/// A row as the page gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    /// Number of its last change.
    pub(crate) at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    /// Microseconds since 1970.
    time: u64,
    #[serde(flatten)]
    content: Content,
}

impl Row {
    fn bytes(&self) -> usize {
        let words = [&self.key, &self.sender].into_iter().flatten();
        self.content.bytes() + words.map(String::len).sum::<usize>()
    }
}

/// Rows by the number of their last change: 1, 2, 3, …
#[derive(Debug, Default)]
pub(crate) struct Rows {
    last: u64,
    rows: BTreeMap<u64, Row>,
    /// Rows of a map, by their keys.
    keys: BTreeMap<String, u64>,
    removed: BTreeMap<u64, String>,
    /// When something was forgotten of which a browser with older rows had to hear.
    forgotten: u64,
    bytes: usize,
    /// Rows that were left out for others.
    left_out: u64,
}

/// Place of a browser in the changes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// The last change that it was told.
    pub(crate) at: u64,
    /// The last change when it began: of what is gone since before it is not told.
    pub(crate) begun: u64,
}

/// Changes for a browser.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct News<'a> {
    set: Vec<&'a Row>,
    removed: Vec<&'a str>,
    /// Rows with lower numbers are left out from now on.
    first: u64,
    /// Number of the last change that this tells of.
    upto: u64,
    left_out: u64,
}

impl Rows {
    /// Takes an entry of a map.
    pub(crate) fn set(&mut self, key: String, written: SystemTime, value: Content) {
        self.last += 1;
        self.take_out(&key);
        self.keys.insert(key.clone(), self.last);
        self.put(Row {
            at: self.last,
            key: Some(key),
            sender: None,
            number: None,
            time: micros(written),
            content: value,
        });
    }

    /// Takes an entry of a map away.
    pub(crate) fn remove(&mut self, key: String) {
        self.last += 1;
        self.take_out(&key);
        self.removed.insert(self.last, key);
        if self.removed.len() > REMOVED_MAX
            && let Some((number, _)) = self.removed.pop_first()
        {
            self.forgotten = number;
        }
    }

    /// Takes all entries of a map away.
    pub(crate) fn clear(&mut self) {
        self.last += 1;
        *self = Self {
            last: self.last,
            forgotten: self.last,
            ..Self::default()
        };
    }

    /// Takes an entry of a log, or a message.
    pub(crate) fn push(&mut self, line: Line) {
        self.last += 1;
        self.put(Row {
            at: self.last,
            key: None,
            sender: line.sender,
            number: line.number,
            time: micros(line.time),
            content: line.content,
        });
    }

    /// The place of a browser that begins.
    pub(crate) fn begin(&self) -> Place {
        let begun = self.last;
        Place { at: 0, begun }
    }

    /// Tells whether a browser has to begin again, as it has rows that are gone unheard of.
    pub(crate) fn is_torn(&self, place: Place) -> bool {
        self.forgotten > place.at.max(place.begun)
    }

    /// Tells whether there is something behind a place.
    pub(crate) fn has_news(&self, place: Place) -> bool {
        place.at < self.last
    }

    /// The next changes behind a place, which moves on. `None`: there are none.
    pub(crate) fn news(&self, place: &mut Place) -> Option<News<'_>> {
        if !self.has_news(*place) {
            return None;
        }
        let (mut set, mut bytes) = (Vec::new(), 0);
        let mut upto = self.last;
        for (number, row) in self.rows.range(place.at + 1..) {
            if set.len() == TOLD_MAX || bytes >= TOLD_BYTES {
                upto = number - 1;
                break;
            }
            bytes += row.bytes();
            set.push(row);
        }
        let removed = self.removed.range(place.at + 1..=upto);
        let removed = removed.filter(|(number, _)| **number > place.begun);
        let removed = removed.map(|(_, key)| &**key).collect();
        place.at = upto;
        let first = self.rows.keys().next().copied();
        Some(News {
            set,
            removed,
            first: first.unwrap_or(self.last + 1),
            upto,
            left_out: self.left_out,
        })
    }

    fn put(&mut self, row: Row) {
        self.bytes += row.bytes();
        self.rows.insert(row.at, row);
        while self.rows.len() > OBJECT_ROWS_MAX || self.bytes > BYTES_MAX {
            let Some((_, row)) = self.rows.pop_first() else {
                break;
            };
            self.bytes -= row.bytes();
            self.left_out += 1;
            if let Some(key) = &row.key {
                self.keys.remove(key);
            }
        }
    }

    /// Takes the row of a key out, to be replaced.
    fn take_out(&mut self, key: &str) {
        let number = self.keys.remove(key);
        if let Some(row) = number.and_then(|number| self.rows.remove(&number)) {
            self.bytes -= row.bytes();
        }
    }
}

fn micros(time: SystemTime) -> u64 {
    let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(rows: &mut Rows, key: &str, value: &str) {
        rows.set(key.to_owned(), UNIX_EPOCH, Content::of(value.as_bytes()));
    }

    fn line(rows: &mut Rows, content: Content) {
        rows.push(Line {
            time: UNIX_EPOCH,
            sender: None,
            number: None,
            content,
        });
    }

    /// A browser that holds what it is told.
    #[derive(Default)]
    struct Browser {
        place: Place,
        held: BTreeMap<String, Row>,
    }

    impl Browser {
        /// Reads all that there is; says whether it began again.
        fn read(&mut self, rows: &Rows) -> bool {
            let torn = rows.is_torn(self.place);
            if torn {
                *self = Self {
                    place: rows.begin(),
                    held: BTreeMap::new(),
                };
            }
            while let Some(news) = rows.news(&mut self.place) {
                for row in news.set {
                    self.held.insert(row.key.clone().unwrap(), row.clone());
                }
                for key in news.removed {
                    self.held.remove(key);
                }
                self.held.retain(|_, row| row.at >= news.first);
            }
            torn
        }

        fn keys(&self) -> Vec<&str> {
            self.held.keys().map(|key| &**key).collect()
        }
    }

    #[test]
    fn who_reads_seldom_gets_the_newest_state_and_what_is_gone() {
        let (mut rows, mut seldom) = (Rows::default(), Browser::default());
        for key in ["eur", "gbp", "usd"] {
            set(&mut rows, key, "1");
        }
        seldom.read(&rows);
        for value in 0..1000 {
            set(&mut rows, "eur", &value.to_string());
        }
        rows.remove("gbp".to_owned());
        let mut place = seldom.place;
        let news = rows.news(&mut place).unwrap();
        assert_eq!((news.set.len(), &*news.removed), (1, &["gbp"][..]));
        assert!(!seldom.read(&rows));
        assert_eq!(seldom.keys(), ["eur", "usd"]);
        assert_eq!(seldom.held["eur"].content, Content::of(b"999"));
        // Who comes now hears nothing of what is gone.
        let mut place = rows.begin();
        assert!(rows.news(&mut place).unwrap().removed.is_empty());
    }

    #[test]
    fn who_missed_that_rows_are_gone_begins_again() {
        let (mut rows, mut browser) = (Rows::default(), Browser::default());
        set(&mut rows, "old", "1");
        assert!(!browser.read(&rows));
        rows.remove("old".to_owned());
        for number in 0..REMOVED_MAX {
            rows.remove(number.to_string());
        }
        set(&mut rows, "new", "1");
        assert!(browser.read(&rows) && !rows.is_torn(browser.place));
        assert_eq!(browser.keys(), ["new"]);
        assert_eq!(rows.removed.len(), REMOVED_MAX);
        rows.clear();
        set(&mut rows, "newer", "1");
        assert!(browser.read(&rows));
        assert_eq!(browser.keys(), ["newer"]);
    }

    #[test]
    fn of_too_many_rows_those_that_changed_last_are_kept_and_the_rest_is_counted() {
        let (mut rows, mut browser) = (Rows::default(), Browser::default());
        for number in 0..OBJECT_ROWS_MAX {
            set(&mut rows, &format!("{number:05}"), "1");
        }
        browser.read(&rows);
        set(&mut rows, "00000", "2");
        set(&mut rows, "another", "1");
        browser.read(&rows);
        assert_eq!(browser.held.len(), OBJECT_ROWS_MAX);
        assert_eq!((browser.keys()[0], rows.left_out), ("00000", 1));
        assert!(!browser.held.contains_key("00001"));
        assert_eq!(rows.keys.len(), OBJECT_ROWS_MAX);
    }

    #[test]
    fn bytes_are_bounded_and_told_in_parts() {
        let mut rows = Rows::default();
        let content = Content::of(&[b'x'; 60 << 10]);
        for _ in 0..1000 {
            line(&mut rows, content.clone());
        }
        assert!(rows.bytes <= BYTES_MAX && rows.rows.len() < 300);
        let mut place = rows.begin();
        let news = rows.news(&mut place).unwrap();
        assert_eq!(news.set.len(), 5);
        assert_eq!(news.set[0].at, news.first);
        let mut small = Rows::default();
        for _ in 0..TOLD_MAX + 1 {
            line(&mut small, Content::of(b"x"));
        }
        let mut place = small.begin();
        assert_eq!(small.news(&mut place).unwrap().set.len(), TOLD_MAX);
        assert_eq!(small.news(&mut place).unwrap().set.len(), 1);
        assert_eq!(small.news(&mut place), None);
    }
}
