//! Changes of objects, and how they are written.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use qsm_console::table::printable;
use qsm_console::utc;
use qsm_object::Schema;
use qsm_replica::{LiveMap, LogEvent, MapChange, Stamp};
use serde::Serialize;

use crate::record::Content;

/// A change of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// An entry of a map has this value.
    Set {
        key: String,
        /// When it was written, if it is still there.
        written: Option<SystemTime>,
        value: Vec<u8>,
    },
    /// An entry of a map is gone.
    Removed { key: String },
    /// Entries of a map went unseen: those that follow are all.
    Restart,
    /// An entry of a log.
    Entry {
        written: SystemTime,
        content: Vec<u8>,
    },
    /// Entries of a log came and went unseen.
    Missed { entries: u64 },
    /// A text as it is now.
    Text(String),
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    time: String,
    object: &'static str,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    #[serde(flatten)]
    content: Option<Content<'a>>,
}

impl Change {
    /// One of a map, whose state tells when it was written; `None` for what a newer library may tell.
    pub(super) fn of_map(change: MapChange, map: &LiveMap) -> Option<Self> {
        match change {
            MapChange::Set { key, value } => {
                let stamp = map.read(|map| map.stamp(&key));
                Some(Self::Set {
                    written: stamp.map(time_of),
                    key,
                    value,
                })
            }
            MapChange::Removed { key } => Some(Self::Removed { key }),
            MapChange::Restart => Some(Self::Restart),
            _ => None,
        }
    }

    /// One of a log, likewise.
    pub(super) fn of_log(event: LogEvent) -> Option<Self> {
        match event {
            LogEvent::Entry { stamp, content } => {
                let written = time_of(stamp);
                Some(Self::Entry { written, content })
            }
            LogEvent::Missed { entries } => Some(Self::Missed { entries }),
            _ => None,
        }
    }

    /// A line for people.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Set { key, value, .. } => format!("{} = {}\n", printable(key), shown(value)),
            Self::Removed { key } => format!("{} removed\n", printable(key)),
            Self::Restart => "all entries follow\n".to_owned(),
            Self::Entry { content, .. } => format!("{}\n", shown(content)),
            Self::Missed { entries } => format!("{entries} entries missed\n"),
            Self::Text(text) => format!("{text}\n"),
        }
    }

    /// A line for programs.
    pub(super) fn json(
        &self,
        object: &'static str,
        schema: Option<&Schema>,
        now: SystemTime,
    ) -> String {
        let mut line = Line {
            time: utc::rfc3339(now),
            object,
            event: self.event(),
            key: None,
            written: None,
            entries: None,
            content: None,
        };
        match self {
            Self::Set { key, value, .. } => {
                line.key = Some(key);
                line.content = Some(Content::of(value, schema));
            }
            Self::Removed { key } => line.key = Some(key),
            Self::Restart => {}
            Self::Entry { written, content } => {
                line.written = Some(utc::rfc3339(*written));
                line.content = Some(Content::of(content, schema));
            }
            Self::Missed { entries } => line.entries = Some(*entries),
            Self::Text(text) => line.content = Some(Content::of(text.as_bytes(), None)),
        }
        // Strings and numbers into memory: cannot fail.
        let mut text = serde_json::to_string(&line).unwrap_or_default();
        text.push('\n');
        text
    }

    fn event(&self) -> &'static str {
        match self {
            Self::Set { .. } => "set",
            Self::Removed { .. } => "removed",
            Self::Restart => "restart",
            Self::Entry { .. } => "entry",
            Self::Missed { .. } => "missed",
            Self::Text(_) => "text",
        }
    }
}

fn time_of(stamp: Stamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(stamp.time)
}

/// A value for people: text in one line, or how long it is.
pub(super) fn shown(value: &[u8]) -> String {
    match str::from_utf8(value) {
        Ok(text) => printable(text),
        Err(_) => format!("({} bytes)", value.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_lines_for_people_and_for_programs() {
        let key = || "eur".to_owned();
        let value = b"1.08\n".to_vec();
        let change = Change::Set {
            key: key(),
            written: None,
            value,
        };
        assert_eq!(change.line(), "eur = 1.08\\n\n");
        let written = UNIX_EPOCH + Duration::from_secs(1);
        let content = vec![0xff];
        let now = UNIX_EPOCH;
        let time = "\"time\":\"1970-01-01T00:00:00.000000Z\"";
        let expected =
            "\"object\":\"map\",\"event\":\"set\",\"key\":\"eur\",\"size\":5,\"text\":\"1.08\\n\"";
        assert_eq!(
            change.json("map", None, now),
            format!("{{{time},{expected}}}\n")
        );
        let entry = Change::Entry { written, content };
        assert_eq!(entry.line(), "(1 bytes)\n");
        let expected = "\"event\":\"entry\",\"written\":\"1970-01-01T00:00:01.000000Z\",\"size\":1,\"base64\":\"/w==\"";
        let line = entry.json("log", None, now);
        assert_eq!(line, format!("{{{time},\"object\":\"log\",{expected}}}\n"));
        assert_eq!(Change::Removed { key: key() }.line(), "eur removed\n");
        let missed = Change::Missed { entries: 3 };
        assert_eq!(
            missed.json("log", None, now),
            format!("{{{time},\"object\":\"log\",\"event\":\"missed\",\"entries\":3}}\n")
        );
    }
}
