//! How received messages are written: to the terminal, to pipes, to files.

use qsm::{Message, Origin};
use qsm_console::table::printable;
use serde::Serialize;

use crate::base64;
use crate::frames;

/// How messages are told apart in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Each message and a line end.
    Lines,
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
}

impl<'a> From<&'a Message> for Record<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            group: message.group(),
            sender: message.sender(),
            number: message.number(),
            bytes: message.bytes(),
        }
    }
}

/// What `--json` writes; `text` if the content is UTF-8, else `base64`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    group: &'a str,
    sender: String,
    number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl Record<'_> {
    /// Appends the message in this format.
    pub(crate) fn append(&self, format: Format, to: &mut Vec<u8>) {
        match format {
            Format::Raw => to.extend_from_slice(self.bytes),
            Format::Lines => {
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
        let text = str::from_utf8(self.bytes).ok();
        let line = Line {
            group: self.group,
            sender: self.sender.to_string(),
            number: self.number,
            text,
            base64: text.is_none().then(|| base64::encode(self.bytes)),
        };
        let kept = to.len();
        // Strings and numbers into memory: cannot fail. If it did, no half line may stay.
        if serde_json::to_writer(&mut *to, &line).is_err() {
            to.truncate(kept);
        }
        to.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
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
        };
        let mut out = b"|".to_vec();
        record.append(format, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_format_is_as_documented() {
        assert_eq!(written(b"hi", Format::Lines), "|hi\n");
        assert_eq!(written(b"hi", Format::Raw), "|hi");
        assert_eq!(written(b"hi", Format::Frames), "|\u{2}\0\0\0hi");
        assert_eq!(written(b"hi", Format::Tagged), "|g/\"1\" ab.2 7: hi\n");
        assert_eq!(
            written(b"h\ni", Format::Json),
            "|{\"group\":\"g/\\\"1\\\"\",\"sender\":\"ab.2\",\"number\":7,\"text\":\"h\\ni\"}\n"
        );
        assert_eq!(
            written(b"\xff", Format::Json),
            "|{\"group\":\"g/\\\"1\\\"\",\"sender\":\"ab.2\",\"number\":7,\"base64\":\"/w==\"}\n"
        );
    }
}
