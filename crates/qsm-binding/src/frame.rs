//! Frames: messages and notices, one behind the other in a buffer, as runtimes read them that follow no pointers.
//! [`Inlet`](crate::Inlet) has their layout.

use std::collections::HashMap;

use qsm::{LostCause, Message, Received};
use qsm_history::{Item, Joined, Missing, MissingCause};

/// Length of a frame without its content, bytes.
const HEAD: usize = 48;
/// Names that are remembered at most; then the list begins anew.
const NAMES_MAX: usize = 1 << 16;

/// Kinds of frames.
const NAME: i32 = 0;
const MESSAGE: i32 = 1;
const LOST: i32 = 2;
const LOST_PACKETS: i32 = 3;
const DROPPED: i32 = 4;
const BACK: i32 = 5;
const EXCLUDED: i32 = 6;
const OTHER: i32 = 7;
const NOT_KEPT: i32 = 8;
const JOINED: i32 = 9;

/// Number of a cause without one of its own.
const OTHER_CAUSE: i32 = 6;
/// Place of a cause in the kind of messages that are lost or not kept.
const CAUSE_SHIFT: i32 = 8;

/// The number of a cause.
fn cause(cause: LostCause) -> i32 {
    match cause {
        LostCause::Gone => 0,
        LostCause::Excluded => 1,
        LostCause::Overdue => 2,
        LostCause::Expired => 3,
        _ => OTHER_CAUSE,
    }
}

/// As [`cause`], of what is not kept.
fn cause_of_missing(cause: MissingCause) -> i32 {
    match cause {
        MissingCause::Gone => 0,
        MissingCause::NoKeeper => 4,
        MissingCause::Held => 5,
        _ => OTHER_CAUSE,
    }
}

/// Everything of a frame but its lengths and its content.
#[derive(Debug, Clone, Copy)]
struct Head {
    kind: i32,
    group: i32,
    node: u64,
    life: u64,
    number: u64,
    last: u64,
}

impl Head {
    fn new(kind: i32, last: u64) -> Self {
        let (group, node, life, number) = (-1, 0, 0, 0);
        Self {
            kind,
            group,
            node,
            life,
            number,
            last,
        }
    }

    fn sent_by(self, sender: qsm::Origin) -> Self {
        Self {
            node: sender.node.0,
            life: u64::from(sender.incarnation.0),
            ..self
        }
    }
}

/// A frame does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    /// Bytes that it needs, with the name before it.
    pub(crate) needed: usize,
}

/// Numbers of groups' names that the reader knows.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: HashMap<Box<str>, i32>,
    /// The one that was asked for last: messages of a group come in runs.
    last: Option<(Box<str>, i32)>,
}

impl Names {
    fn number(&self, name: &str) -> Option<i32> {
        match &self.last {
            Some((last, number)) if **last == *name => Some(*number),
            _ => self.numbers.get(name).copied(),
        }
    }

    fn remember(&mut self, name: &str, number: i32) {
        if self.last.as_ref().is_none_or(|(last, _)| **last != *name) {
            self.last = Some((name.into(), number));
        }
    }

    /// The number that a new name gets; the reader forgets the others when it is 0.
    fn add(&mut self, name: &str) -> i32 {
        if self.numbers.len() == NAMES_MAX {
            self.numbers.clear();
        }
        let number = self.numbers.len() as i32;
        self.numbers.insert(name.into(), number);
        number
    }
}

/// Frames of a buffer that is being filled.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    buffer: &'a mut [u8],
    used: usize,
}

impl<'a> Frames<'a> {
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, used: 0 }
    }

    /// Bytes filled.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Appends an item, and the name of its group if the reader does not know it.
    pub(crate) fn append(&mut self, item: &Item, names: &mut Names) -> Result<(), Full> {
        match item {
            Item::Kept(message) | Item::Message(message) => self.append_message(message, names),
            Item::Missing(missing) => self.append_missing(missing, names),
            Item::Joined(joined) => self.append_joined(joined, names),
            Item::Told(told) => self.append_told(told, names),
            other => self.append_text(Head::new(OTHER, 0), &format!("{other:?}")),
        }
    }

    fn append_message(&mut self, message: &Message, names: &mut Names) -> Result<(), Full> {
        let head = Head {
            number: message.number(),
            ..Head::new(MESSAGE, 0).sent_by(message.sender())
        };
        self.append_of(message.group(), head, message.bytes(), names)
    }

    fn append_missing(&mut self, missing: &Missing, names: &mut Names) -> Result<(), Full> {
        let kind = NOT_KEPT | cause_of_missing(missing.cause) << CAUSE_SHIFT;
        let head = Head {
            number: missing.first,
            ..Head::new(kind, missing.last).sent_by(missing.sender)
        };
        self.append_of(&missing.group, head, missing.to_string().as_bytes(), names)
    }

    fn append_joined(&mut self, joined: &Joined, names: &mut Names) -> Result<(), Full> {
        let head = Head {
            number: joined.kept,
            node: joined.keepers as u64,
            ..Head::new(JOINED, joined.missing)
        };
        self.append_of(&joined.group, head, joined.to_string().as_bytes(), names)
    }

    fn append_told(&mut self, told: &Received, names: &mut Names) -> Result<(), Full> {
        let head = match told {
            Received::Lost(lost) => {
                let kind = LOST | cause(lost.cause) << CAUSE_SHIFT;
                let head = Head {
                    number: lost.first,
                    ..Head::new(kind, lost.last).sent_by(lost.sender)
                };
                return self.append_of(&lost.group, head, told.to_string().as_bytes(), names);
            }
            Received::LostPackets(lost) => {
                Head::new(LOST_PACKETS, lost.packets).sent_by(lost.sender)
            }
            Received::Dropped(dropped) => Head::new(DROPPED, dropped.messages),
            Received::Back(back) => {
                let nanoseconds = u64::try_from(back.away.as_nanos());
                Head::new(BACK, nanoseconds.unwrap_or(u64::MAX))
            }
            Received::Excluded(ended) => Head::new(EXCLUDED, u64::from(ended.incarnation.0)),
            _ => Head::new(OTHER, 0),
        };
        self.append_text(head, &told.to_string())
    }

    /// Appends a frame of no group.
    fn append_text(&mut self, head: Head, text: &str) -> Result<(), Full> {
        self.fits(length(text.len()))?;
        self.put(&head, text.as_bytes());
        Ok(())
    }

    fn append_of(
        &mut self,
        group: &str,
        head: Head,
        content: &[u8],
        names: &mut Names,
    ) -> Result<(), Full> {
        let known = names.number(group);
        let name = known.map_or_else(|| length(group.len()), |_| 0);
        self.fits(name + length(content.len()))?;
        let number = known.unwrap_or_else(|| {
            let number = names.add(group);
            let head = Head::new(NAME, 0);
            let head = Head {
                group: number,
                ..head
            };
            self.put(&head, group.as_bytes());
            number
        });
        names.remember(group, number);
        let head = Head {
            group: number,
            ..head
        };
        self.put(&head, content);
        Ok(())
    }

    fn fits(&self, needed: usize) -> Result<(), Full> {
        match needed <= self.buffer.len() - self.used {
            true => Ok(()),
            false => Err(Full { needed }),
        }
    }

    /// Writes a frame that fits.
    fn put(&mut self, head: &Head, content: &[u8]) {
        let frame = &mut self.buffer[self.used..self.used + length(content.len())];
        let (fields, body) = frame.split_at_mut(HEAD);
        // Messages have at most 16 MiB.
        fields[..4].copy_from_slice(&(length(content.len()) as i32).to_le_bytes());
        fields[4..8].copy_from_slice(&head.kind.to_le_bytes());
        fields[8..12].copy_from_slice(&head.group.to_le_bytes());
        fields[12..16].copy_from_slice(&(content.len() as i32).to_le_bytes());
        fields[16..24].copy_from_slice(&head.node.to_le_bytes());
        fields[24..32].copy_from_slice(&head.life.to_le_bytes());
        fields[32..40].copy_from_slice(&head.number.to_le_bytes());
        fields[40..].copy_from_slice(&head.last.to_le_bytes());
        body[..content.len()].copy_from_slice(content);
        self.used += length(content.len());
    }
}

/// Length of a frame with so much content.
fn length(content: usize) -> usize {
    (HEAD + content).next_multiple_of(8)
}
