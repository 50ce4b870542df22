//! Words that keepers and subscribers say to each other, and how they are written (R-HIST-1).

use qsm::{Incarnation, NodeId, Origin};
use serde::{Deserialize, Serialize};

/// Version of the format, the first byte of each word.
const FORMAT: u8 = 1;

/// Keeper or subscriber as others reach it, drawn by chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address(pub u64);

/// Sender as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sender {
    node: u64,
    incarnation: u32,
}

impl From<Origin> for Sender {
    fn from(origin: Origin) -> Self {
        Self {
            node: origin.node.0,
            incarnation: origin.incarnation.0,
        }
    }
}

impl From<Sender> for Origin {
    fn from(sender: Sender) -> Self {
        Self {
            node: NodeId(sender.node),
            incarnation: Incarnation(sender.incarnation),
        }
    }
}

/// Messages of a sender, by number. `first` is one more than `last` where none is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Span {
    pub(crate) sender: Sender,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Word of a keeper or subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Word {
    Ask(Ask),
    Have(Have),
    Fetch(Fetch),
    Chunk(Chunk),
}

/// Question to all keepers for what they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) from: Address,
    /// Of this subscriber: 1, 2, 3, …
    pub(crate) round: u32,
}

/// Answer of a keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Have {
    pub(crate) from: Address,
    pub(crate) round: u32,
    /// Of each sender, the messages between the first and the last that is kept.
    pub(crate) spans: Vec<Span>,
}

/// Question to one keeper for messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fetch {
    pub(crate) from: Address,
    pub(crate) to: Address,
    /// Number of this question.
    pub(crate) fetch: u32,
    pub(crate) spans: Vec<Span>,
}

/// Messages, to one subscriber. Without parts: the keeper is busy, and is to be asked again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    pub(crate) from: Address,
    pub(crate) fetch: u32,
    pub(crate) parts: Vec<Part>,
    /// The last one for this question.
    pub(crate) end: bool,
}

/// All that the keeper has of the messages `first..=through` of a sender.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) sender: Sender,
    pub(crate) first: u64,
    /// Less than `first` where the keeper knows of none of them yet.
    pub(crate) through: u64,
    pub(crate) messages: Vec<Written>,
}

/// Message with its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written {
    pub(crate) number: u64,
    /// The group's number, as the membership service gives it.
    pub(crate) group: u32,
    /// Content, with the trailer of a relayed message.
    pub(crate) bytes: Vec<u8>,
}

/// Writes a word. It cannot fail: the types have known lengths.
pub(crate) fn write(word: &Word) -> Vec<u8> {
    postcard::to_extend(word, vec![FORMAT]).unwrap_or_default()
}

/// Reads a word; `None` for nonsense, and for another version.
pub(crate) fn read(bytes: &[u8]) -> Option<Word> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => postcard::from_bytes(rest).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-HIST-1.
    #[test]
    fn words_are_these_bytes_and_nothing_else_is_one() {
        let origin = Origin {
            node: NodeId(300),
            incarnation: Incarnation(2),
        };
        let span = Span {
            sender: origin.into(),
            first: 5,
            last: 6,
        };
        let fetch = Word::Fetch(Fetch {
            from: Address(1),
            to: Address(2),
            fetch: 3,
            spans: vec![span],
        });
        let bytes = [1, 2, 1, 2, 3, 1, 0xac, 2, 2, 5, 6];
        assert_eq!(write(&fetch), bytes);
        let part = Part {
            sender: origin.into(),
            first: 5,
            through: 6,
            messages: vec![Written {
                number: 5,
                group: 7,
                bytes: b"hi".to_vec(),
            }],
        };
        let chunk = Word::Chunk(Chunk {
            from: Address(2),
            fetch: 3,
            parts: vec![part],
            end: true,
        });
        let answer = [1, 3, 2, 3, 1, 0xac, 2, 2, 5, 6, 1, 5, 7, 2, b'h', b'i', 1];
        assert_eq!(write(&chunk), answer);
        for word in [fetch, chunk] {
            let written = write(&word);
            assert_eq!(read(&written), Some(word));
            for cut in 0..written.len() {
                assert_eq!(read(&written[..cut]), None, "cut to {cut}");
            }
            let other = [&[FORMAT + 1], &written[1..]].concat();
            assert_eq!(read(&other), None, "of another version");
        }
    }
}
