//! Messages, and what is missing between them, as C sees them.

use std::ffi::c_char;
use std::ptr::null;

use qsm::{LostCause, Message, Origin, Received};
use qsm_history::{Item, Joined, Missing, MissingCause};

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ItemKind {
    /// A message.
    Message = 1,
    /// Messages `number` to `last` of the sender in the group will never come.
    Lost = 2,
    /// `last` packets of the sender, which is gone, are lost; which messages were in them is not
    /// known.
    LostPackets = 3,
    /// `last` messages were dropped, because this subscription's queue was full.
    Dropped = 4,
    /// The node was away for `last` milliseconds, and has caught up: nothing is missing here.
    Back = 5,
    /// The node was away for too long and has begun a new life: something may be missing here.
    Excluded = 6,
    /// Something that this version of the interface has no name for.
    Other = 7,
    /// Messages `number` to `last` of the sender in the group were asked for of the past, and come
    /// neither way.
    NotKept = 8,
    /// The past of the group has come: `number` messages from keepers; `last` are not kept, and were
    /// told before. `sender` is the number of keepers that answered. Messages go on live.
    Joined = 9,
}

/// Why messages are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum QsmCause {
    /// Nothing is lost.
    None = 0,
    /// Nobody has them any more.
    Gone = 1,
    /// They were sent while the node was excluded.
    Excluded = 2,
    /// They were missing for longer than the subscription waits.
    Overdue = 3,
    /// They were missing when their lifetime was over.
    Expired = 4,
    /// Something that this version of the interface has no name for.
    Other = 5,
    /// Nobody keeps the group, or no keeper answers.
    NoKeeper = 6,
    /// More came live than there was room to hold while older messages were fetched.
    Held = 7,
}

impl QsmCause {
    fn of(cause: LostCause) -> Self {
        match cause {
            LostCause::Gone => Self::Gone,
            LostCause::Excluded => Self::Excluded,
            LostCause::Overdue => Self::Overdue,
            LostCause::Expired => Self::Expired,
            _ => Self::Other,
        }
    }

    fn of_missing(cause: MissingCause) -> Self {
        match cause {
            MissingCause::Gone => Self::Gone,
            MissingCause::NoKeeper => Self::NoKeeper,
            MissingCause::Held => Self::Held,
            _ => Self::Other,
        }
    }
}

/// A message, or what is missing before the next one. Its pointers last until its batch is released.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct QsmItem {
    /// The kind, which says what the other fields mean.
    pub kind: ItemKind,
    /// Length of the group's name, bytes.
    pub group_length: u32,
    /// Name of the group, without a nul at its end; null where there is none.
    pub group: *const c_char,
    /// Node that sent it.
    pub sender: u64,
    /// Life of that node.
    pub incarnation: u64,
    /// Of a message its number among this sender's messages to this group, from 1; the first that is
    /// lost.
    pub number: u64,
    /// As the kind says.
    pub last: u64,
    /// Content of a message.
    pub data: *const u8,
    /// Its length, bytes.
    pub length: usize,
    /// Of messages that are lost or not kept, why.
    pub cause: QsmCause,
}

impl QsmItem {
    pub(crate) fn of(item: &Item) -> Self {
        match item {
            Item::Kept(message) | Item::Message(message) => Self::of_message(message),
            Item::Missing(missing) => Self::of_missing(missing),
            Item::Joined(joined) => Self::of_joined(joined),
            Item::Told(told) => Self::of_told(told),
            _ => Self::counting(ItemKind::Other, 0),
        }
    }

    fn of_message(message: &Message) -> Self {
        Self {
            number: message.number(),
            data: message.bytes().as_ptr(),
            length: message.bytes().len(),
            ..Self::from_sender(ItemKind::Message, message.sender()).in_group(message.group())
        }
    }

    fn of_missing(missing: &Missing) -> Self {
        Self {
            number: missing.first,
            last: missing.last,
            cause: QsmCause::of_missing(missing.cause),
            ..Self::from_sender(ItemKind::NotKept, missing.sender).in_group(&missing.group)
        }
    }

    fn of_joined(joined: &Joined) -> Self {
        Self {
            sender: joined.keepers as u64,
            number: joined.kept,
            ..Self::counting(ItemKind::Joined, joined.missing).in_group(&joined.group)
        }
    }

    fn of_told(told: &Received) -> Self {
        match told {
            Received::Lost(lost) => Self {
                number: lost.first,
                last: lost.last,
                cause: QsmCause::of(lost.cause),
                ..Self::from_sender(ItemKind::Lost, lost.sender).in_group(&lost.group)
            },
            Received::LostPackets(lost) => Self {
                last: lost.packets,
                ..Self::from_sender(ItemKind::LostPackets, lost.sender)
            },
            Received::Dropped(dropped) => Self::counting(ItemKind::Dropped, dropped.messages),
            Received::Back(back) => {
                let milliseconds = u64::try_from(back.away.as_millis()).unwrap_or(u64::MAX);
                Self::counting(ItemKind::Back, milliseconds)
            }
            Received::Excluded(_) => Self::counting(ItemKind::Excluded, 0),
            _ => Self::counting(ItemKind::Other, 0),
        }
    }

    fn counting(kind: ItemKind, last: u64) -> Self {
        Self {
            last,
            ..Self::from_sender(kind, Origin::default())
        }
    }

    fn from_sender(kind: ItemKind, sender: Origin) -> Self {
        Self {
            kind,
            group_length: 0,
            group: null(),
            sender: sender.node.0,
            incarnation: u64::from(sender.incarnation.0),
            number: 0,
            last: 0,
            data: null(),
            length: 0,
            cause: QsmCause::None,
        }
    }

    fn in_group(self, name: &str) -> Self {
        Self {
            // Names have at most 255 bytes.
            group_length: name.len() as u32,
            group: name.as_ptr().cast(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_number() {
        let causes = [
            LostCause::Gone,
            LostCause::Excluded,
            LostCause::Overdue,
            LostCause::Expired,
        ];
        let numbers = causes.map(|cause| QsmCause::of(cause) as u32);
        assert_eq!(numbers, [1, 2, 3, 4]);
        let causes = [
            MissingCause::Gone,
            MissingCause::NoKeeper,
            MissingCause::Held,
        ];
        let numbers = causes.map(|cause| QsmCause::of_missing(cause) as u32);
        assert_eq!(numbers, [1, 6, 7]);
    }
}
