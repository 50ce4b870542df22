//! What the records of a subscription's ring mean: messages, and what is missing between them.
//!
//! ```text
//!   tag      kind: 4, place of the group's name: 28
//!   extra    group: 32 and incarnation: 32, node, number; of messages in the log: first word, end, 0
//!   bytes    of a message its content, of a loss the last number lost
//! ```

use std::sync::Arc;
use std::time::Duration;

use qsm_wire::{NodeId, Origin};

use super::extra::{extra, message_extra, message_of, sender};
use super::log::Run;
use super::requests::EXTRA;
use super::ring::Record;
use crate::handoff::message::MessageRef;
use crate::handoff::received::{Back, Excluded, Lost, LostCause, LostPackets};

/// Bits of a tag that are the place of a name.
const PLACE_BITS: u32 = 28;
const PLACE: u32 = (1 << PLACE_BITS) - 1;

/// Most that a notice takes in a ring, bytes.
pub(super) const NOTICE_BYTES: usize = (2 + EXTRA) * size_of::<u64>();

const MESSAGE: u32 = 0;
const LOST: u32 = 1;
const LOST_PACKETS: u32 = 2;
const DROPPED: u32 = 3;
const EXCLUDED: u32 = 4;
const BACK: u32 = 5;

/// A record as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) tag: u32,
    pub(super) extra: [u64; EXTRA],
    /// Instead of a message's content.
    pub(super) last: Option<u64>,
}

impl Written {
    /// A message of the group with the name in this place; its content follows.
    pub(super) fn message(place: u32, message: &MessageRef<'_>) -> Self {
        Self {
            tag: tag(MESSAGE, place),
            extra: message_extra(message),
            last: None,
        }
    }

    pub(super) fn lost(place: u32, lost: &Lost) -> Self {
        Self {
            tag: tag(LOST, place),
            extra: extra(code_of(lost.cause), lost.sender, lost.first),
            last: Some(lost.last),
        }
    }

    pub(super) fn lost_packets(lost: LostPackets) -> Self {
        Self {
            tag: tag(LOST_PACKETS, 0),
            extra: extra(0, lost.sender, lost.packets),
            last: None,
        }
    }

    /// So many were dropped in all, up to here.
    pub(super) fn dropped(total: u64) -> Self {
        Self {
            tag: tag(DROPPED, 0),
            extra: extra(0, Origin::default(), total),
            last: None,
        }
    }

    pub(super) fn excluded(excluded: Excluded) -> Self {
        let node = NodeId(0);
        let incarnation = excluded.incarnation;
        Self {
            tag: tag(EXCLUDED, 0),
            extra: extra(0, Origin { node, incarnation }, 0),
            last: None,
        }
    }

    pub(super) fn back(back: Back) -> Self {
        let nanoseconds = u64::try_from(back.away.as_nanos()).unwrap_or(u64::MAX);
        Self {
            tag: tag(BACK, 0),
            extra: extra(0, Origin::default(), nanoseconds),
            last: None,
        }
    }
}

/// A record as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read<'a> {
    Message(&'a Arc<str>, MessageRef<'a>),
    Lost(Lost),
    LostPackets(LostPackets),
    /// In all, up to here.
    Dropped(u64),
    Back(Back),
    Excluded(Excluded),
}

impl<'a> Read<'a> {
    /// `None` for what is no record.
    pub(super) fn of(record: Record<'a, EXTRA>, names: &'a [Arc<str>]) -> Option<Self> {
        let [group, _, number] = record.extra;
        let name = || names.get((record.tag & PLACE) as usize);
        let sender = sender(record.extra);
        Some(match record.tag >> PLACE_BITS {
            MESSAGE => {
                let group = name()?;
                Self::Message(group, message_of(group, record.extra, record.bytes))
            }
            LOST => Self::Lost(Lost {
                group: Arc::clone(name()?),
                sender,
                first: number,
                last: u64::from_le_bytes(record.bytes.try_into().ok()?),
                cause: cause_of(group as u32),
            }),
            LOST_PACKETS => Self::LostPackets(LostPackets {
                sender,
                packets: number,
            }),
            DROPPED => Self::Dropped(number),
            EXCLUDED => Self::Excluded(Excluded {
                incarnation: sender.incarnation,
            }),
            BACK => Self::Back(Back {
                away: Duration::from_nanos(number),
            }),
            _ => return None,
        })
    }
}

/// A reference to messages of the group with the name in this place.
pub(super) fn reference(place: u32, run: Run) -> Written {
    Written {
        tag: tag(MESSAGE, place),
        extra: [run.start as u64, run.end as u64, 0],
        last: None,
    }
}

/// A reference as it is read: the place of the name, and where the messages lie. `None` for what is
/// no reference.
pub(super) fn referred(tag: u32, extra: [u64; EXTRA]) -> Option<Referred> {
    let [start, end] = [extra[0], extra[1]].map(usize::try_from);
    let run = Run {
        start: start.ok()?,
        end: end.ok()?,
    };
    (tag >> PLACE_BITS == MESSAGE && run.start < run.end).then_some(Referred {
        place: (tag & PLACE) as usize,
        run,
    })
}

/// Messages in the log, of the group with the name in this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Referred {
    pub(super) place: usize,
    pub(super) run: Run,
}

/// Places are far fewer: see [`groups_max`](super::ShareOptions::groups_max).
fn tag(kind: u32, place: u32) -> u32 {
    (kind << PLACE_BITS) | (place & PLACE)
}

/// The group's field of a loss says why; what this version does not know is a loss all the same.
fn code_of(cause: LostCause) -> u32 {
    match cause {
        LostCause::Gone => 0,
        LostCause::Excluded => 1,
        LostCause::Overdue => 2,
        LostCause::Expired => 3,
    }
}

fn cause_of(code: u32) -> LostCause {
    match code {
        1 => LostCause::Excluded,
        2 => LostCause::Overdue,
        3 => LostCause::Expired,
        _ => LostCause::Gone,
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{GroupId, Incarnation};

    use super::*;

    fn read<'a>(written: Written, bytes: &'a [u8], names: &'a [Arc<str>]) -> Option<Read<'a>> {
        let Written { tag, extra, .. } = written;
        Read::of(Record { tag, extra, bytes }, names)
    }

    #[test]
    fn references_are_read_as_they_were_written_and_nonsense_is_none() {
        let (start, end) = (usize::MAX - 1, usize::MAX);
        let run = Run { start, end };
        let Written { tag, extra, .. } = reference(7, run);
        assert_eq!(referred(tag, extra), Some(Referred { place: 7, run }));
        assert_eq!(referred(tag | (LOST << PLACE_BITS), extra), None);
        assert_eq!(referred(tag, [5, 5, 0]), None);
    }

    #[test]
    fn records_are_read_as_they_were_written_and_nonsense_is_none() {
        let names: Vec<Arc<str>> = vec![Arc::from("a"), Arc::from("b")];
        let sender = Origin {
            node: NodeId(u64::MAX),
            incarnation: Incarnation(u32::MAX),
        };
        let message = MessageRef {
            group: "b",
            group_id: GroupId(u32::MAX),
            sender,
            number: u64::MAX,
            bytes: b"content",
        };
        let written = Written::message(1, &message);
        let expected = Read::Message(&names[1], message);
        assert_eq!(read(written, b"content", &names), Some(expected));
        assert_eq!(read(Written::message(2, &message), b"", &names), None);
        let (group, first, last) = (Arc::clone(&names[0]), 3, u64::MAX);
        let lost = Lost {
            group,
            sender,
            first,
            last,
            cause: LostCause::Expired,
        };
        let written = Written::lost(0, &lost);
        let bytes = last.to_le_bytes();
        let expected = Some(Read::Lost(lost.clone()));
        assert_eq!(read(written, &bytes, &names), expected);
        assert_eq!(read(written, &bytes[..7], &names), None);
        assert_eq!(read(Written::lost(2, &lost), &bytes, &names), None);
        let packets = 9;
        let packets = LostPackets { sender, packets };
        let expected = Some(Read::LostPackets(packets));
        assert_eq!(read(Written::lost_packets(packets), b"", &names), expected);
        let expected = Some(Read::Dropped(17));
        assert_eq!(read(Written::dropped(17), b"", &names), expected);
        let excluded = Excluded {
            incarnation: Incarnation(4),
        };
        let expected = Some(Read::Excluded(excluded));
        assert_eq!(read(Written::excluded(excluded), b"", &names), expected);
        let back = Back {
            away: Duration::from_millis(1500),
        };
        let expected = Some(Read::Back(back));
        assert_eq!(read(Written::back(back), b"", &names), expected);
        for kind in 6..16 {
            let written = Written {
                tag: tag(kind, 0),
                ..written
            };
            assert_eq!(read(written, &bytes, &names), None);
        }
    }
}
