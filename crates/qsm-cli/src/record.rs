//! How received messages are written: to the terminal, to pipes, to files.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use qsm::{Message, Origin, Relayed};
use qsm_console::failure::Failure;
use qsm_console::table::printable;
use qsm_object::{Decoded, Schema};
use serde::Serialize;

use crate::base64;
use crate::frames;
use qsm_console::utc;

/// How messages are told apart in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Each message and a line end.
    Lines,
    /// A message that is one line of text, and a line end; any other as it is.
    Stored,
    /// As [`Format::Lines`], each with its group, sender and number in front.
    Tagged,
    /// Nothing between messages.
    Raw,
    /// Length-framed, see [`frames`].
    Frames,
    /// One JSON object in each line.
    Json,
}

/// A message to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    /// Its group.
    pub(crate) group: &'a str,
    /// Who published it.
    pub(crate) sender: Origin,
    /// Its number.
    pub(crate) number: u64,
    /// Its content.
    pub(crate) bytes: &'a [u8],
    /// The name of its sender, if that is known and wanted.
    pub(crate) name: Option<&'a str>,
    /// Where it is from, if a gateway has it from another site.
    pub(crate) relayed: Option<Relayed<'a>>,
    /// The time of reading.
    pub(crate) time: SystemTime,
    /// Types of messages, if they are to be decoded.
    pub(crate) schema: Option<&'a Schema>,
}

impl<'a> Record<'a> {
    /// Of a message that is read now.
    pub(crate) fn of(
        message: &'a Message,
        name: Option<&'a str>,
        schema: Option<&'a Schema>,
    ) -> Self {
        Self {
            group: message.group(),
            sender: message.sender(),
            number: message.number(),
            bytes: message.bytes(),
            name,
            relayed: message.relayed(),
            time: SystemTime::now(),
            schema,
        }
    }
}

/// The line that `--json` writes; `text` if the content is UTF-8, else `base64`; of an object that was decoded
/// neither.
#[derive(Debug, Serialize)]
struct Line<'a> {
    time: String,
    group: &'a str,
    sender: String,
    name: Option<&'a str>,
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Elsewhere<'a>>,
    #[serde(flatten)]
    content: Content<'a>,
}

/// Field of a message that a gateway has relayed.
#[derive(Debug, Serialize)]
struct Elsewhere<'a> {
    site: &'a str,
    sender: String,
    name: &'a str,
    number: u64,
}

impl<'a> Elsewhere<'a> {
    fn of(relayed: &Relayed<'a>) -> Self {
        Self {
            site: relayed.site,
            sender: relayed.sender.to_string(),
            name: relayed.name,
            number: relayed.number,
        }
    }
}

/// Fields of a content: its size, and what is in it.
#[derive(Debug, Serialize)]
pub(crate) struct Content<'a> {
    size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(flatten)]
    object: Option<Object<'a>>,
}

impl<'a> Content<'a> {
    /// Of these bytes, read by a schema if there is one.
    pub(crate) fn of(bytes: &'a [u8], schema: Option<&'a Schema>) -> Self {
        let object = schema.map(|schema| Object::of(schema, bytes));
        let shown = object.as_ref().is_some_and(Object::is_read);
        let text = str::from_utf8(bytes).ok().filter(|_| !shown);
        Self {
            size: bytes.len(),
            text,
            base64: (text.is_none() && !shown).then(|| base64::encode(bytes)),
            object,
        }
    }
}

/// Fields that `--decode` adds: an object, or why the message is none.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Object<'a> {
    Read {
        #[serde(rename = "type")]
        kind: &'a str,
        version: u16,
        value: serde_json::Value,
    },
    Refused {
        undecoded: String,
    },
}

impl<'a> Object<'a> {
    fn of(schema: &'a Schema, message: &[u8]) -> Self {
        match schema.read(message) {
            Ok(Decoded {
                name: kind,
                version,
                value,
                ..
            }) => Self::Read {
                kind,
                version,
                value,
            },
            Err(error) => Self::Refused {
                undecoded: error.to_string(),
            },
        }
    }

    fn is_read(&self) -> bool {
        matches!(self, Self::Read { .. })
    }
}

impl Record<'_> {
    /// Appends the message in this format.
    pub(crate) fn append(&self, format: Format, to: &mut Vec<u8>) {
        match format {
            Format::Stored if !is_line(self.bytes) => to.extend_from_slice(self.bytes),
            Format::Raw => to.extend_from_slice(self.bytes),
            Format::Lines | Format::Stored => {
                to.extend_from_slice(self.bytes);
                to.push(b'\n');
            }
            Format::Tagged => {
                let group = printable(self.group);
                let tag = format!("{group} {} {}: ", self.sender, self.number);
                to.extend_from_slice(tag.as_bytes());
                to.extend_from_slice(self.bytes);
                to.push(b'\n');
            }
            Format::Frames => {
                // The library's limit is far below what the format can hold.
                let framed = frames::append_frame(self.bytes, to);
                debug_assert!(framed, "a message of more than 4 GiB");
            }
            Format::Json => self.append_json(to),
        }
    }

    fn append_json(&self, to: &mut Vec<u8>) {
        let line = Line {
            time: utc::rfc3339(self.time),
            group: self.group,
            sender: self.sender.to_string(),
            name: self.name,
            number: self.number,
            origin: self.relayed.as_ref().map(Elsewhere::of),
            content: Content::of(self.bytes, self.schema),
        };
        let kept = to.len();
        // Strings and numbers into memory: cannot fail. If it did, no half line may stay.
        if serde_json::to_writer(&mut *to, &line).is_err() {
            to.truncate(kept);
        }
        to.push(b'\n');
    }
}

/// Reads the file of `--decode`.
pub(crate) fn read_schema(path: &Path) -> Result<Schema, Failure> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::usage(
            format!("cannot read the schema {shown}: {error}"),
            "give a file of types, as docs/guides/objects.md has them",
        )
    })?;
    Schema::parse(&text).map_err(|error| {
        let fault = format!("{shown}: {error}");
        Failure::usage(fault, "mend that line; docs/guides/objects.md has the form")
    })
}

/// Returns whether a message is one line of text, without its end, as `qsm pub` makes them of its
/// input.
fn is_line(bytes: &[u8]) -> bool {
    let control = |letter: char| letter.is_control() && letter != '\t';
    str::from_utf8(bytes).is_ok_and(|text| !text.contains(control))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use qsm::{Incarnation, NodeId};

    use super::*;

    fn written(bytes: &[u8], format: Format) -> String {
        let record = Record {
            group: "g/\"1\"",
            sender: Origin {
                node: NodeId(0xab),
                incarnation: Incarnation(2),
            },
            number: 7,
            bytes,
            name: Some("desk"),
            relayed: None,
            time: UNIX_EPOCH + Duration::from_millis(1500),
            schema: None,
        };
        let mut out = b"|".to_vec();
        record.append(format, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_says_where_a_relayed_message_is_from() {
        let relayed = Relayed::new("lon", "ticker", Origin::default(), 4);
        let line = Elsewhere::of(&relayed);
        let line = serde_json::to_string(&line).unwrap();
        let sender = Origin::default();
        let expected = format!(
            "{{\"site\":\"lon\",\"sender\":\"{sender}\",\"name\":\"ticker\",\"number\":4}}"
        );
        assert_eq!(line, expected);
    }

    #[test]
    fn each_format_is_as_documented() {
        assert_eq!(written(b"hi", Format::Lines), "|hi\n");
        assert_eq!(written(b"hi", Format::Raw), "|hi");
        assert_eq!(written(b"hi", Format::Frames), "|\u{2}\0\0\0hi");
        assert_eq!(written(b"hi", Format::Tagged), "|g/\"1\" ab.2 7: hi\n");
        let line = |size: usize, content: &str| {
            format!(
                "|{{\"time\":\"1970-01-01T00:00:01.500000Z\",\"group\":\"g/\\\"1\\\"\",\"sender\":\"ab.2\",\
                 \"name\":\"desk\",\"number\":7,\"size\":{size},{content}}}\n"
            )
        };
        let text = line(3, "\"text\":\"h\\ni\"");
        assert_eq!(written(b"h\ni", Format::Json), text);
        let base64 = line(1, "\"base64\":\"/w==\"");
        assert_eq!(written(b"\xff", Format::Json), base64);
    }

    #[test]
    fn objects_are_shown_by_their_schema_and_others_as_they_are() {
        let schema = Schema::parse("type Quote = 17 v2 { symbol: string }").unwrap();
        let shown = |bytes| {
            let (name, schema) = (None, Some(&schema));
            let time = UNIX_EPOCH;
            let sender = Origin::default();
            let (group, number) = ("g", 1);
            let record = Record {
                group,
                sender,
                number,
                bytes,
                name,
                relayed: None,
                time,
                schema,
            };
            let mut out = Vec::new();
            record.append(Format::Json, &mut out);
            serde_json::from_slice::<serde_json::Value>(&out).unwrap()
        };
        let object = shown(b"\x11\x02\x03EUR");
        assert_eq!(object["value"], serde_json::json!({"symbol": "EUR"}));
        assert_eq!(
            (&object["type"], &object["version"]),
            (&"Quote".into(), &2.into())
        );
        assert!(object.get("text").is_none() && object.get("base64").is_none());
        let other = shown(b"hello");
        assert_eq!(other["text"], "hello");
        let reason = other["undecoded"].as_str().unwrap();
        assert!(
            reason.starts_with("type 104 is not known, but 17;"),
            "{reason}"
        );
    }

    #[test]
    fn lines_are_stored_as_lines_and_all_else_exactly_as_it_was_sent() {
        for line in ["", "hi", "a\tb", "ä"] {
            let stored = format!("|{line}\n");
            assert_eq!(written(line.as_bytes(), Format::Stored), stored);
        }
        for other in ["a\nb\n", "a\n", "\0", "a\rb"] {
            let stored = format!("|{other}");
            assert_eq!(written(other.as_bytes(), Format::Stored), stored);
        }
        let mut out = Vec::new();
        let record = Record {
            group: "g",
            sender: Origin::default(),
            number: 1,
            bytes: b"\xff\xfe",
            name: None,
            relayed: None,
            time: UNIX_EPOCH,
            schema: None,
        };
        record.append(Format::Stored, &mut out);
        assert_eq!(out, b"\xff\xfe");
    }
}
