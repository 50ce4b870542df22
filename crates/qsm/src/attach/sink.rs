//! A core thread's end of a subscription's ring: messages go from the receive buffer into shared
//! memory, and the process is woken at most once at the end of a turn.

use std::collections::HashMap;
use std::sync::Arc;

use qsm_net::SharedMemory;
use qsm_wire::GroupId;

use super::error::CutReason;
use super::line::{End, Line};
use super::record;
use super::requests::EXTRA;
use super::ring::{Nonsense, Writer, Written, readers_bell};
use super::tally::Tally;
use crate::handoff::aside::{Item, Notices};
use crate::handoff::inbox::Offered;
use crate::handoff::message::{MessageRef, Overflow};
use crate::handoff::received::Received;
use crate::handoff::sink::ForeignQueue;

/// Writes the messages of one subscription that come on one core thread.
pub(super) struct RingSink {
    pub(super) names: Arc<[Arc<str>]>,
    places: HashMap<Arc<str>, u32>,
    /// The group of the latest message, and the place of its name: messages of a group often follow
    /// each other. Numbers may pass to other groups, so the name is compared.
    latest: Option<(GroupId, u32)>,
    writer: Writer<EXTRA>,
    memory: Arc<SharedMemory>,
    overflow: Overflow,
    /// What is to be written before the next message.
    notices: Notices<Received>,
    /// Nothing is written any more.
    over: bool,
    line: Arc<Line>,
    tally: Arc<Tally>,
    /// The process at the other end.
    process: u32,
}

impl RingSink {
    pub(super) fn new(
        names: &Arc<[Arc<str>]>,
        memory: &Arc<SharedMemory>,
        writer: Writer<EXTRA>,
        overflow: Overflow,
        line: &Arc<Line>,
        tally: &Arc<Tally>,
        process: u32,
    ) -> Self {
        let names = Arc::clone(names);
        let places = names.iter().cloned().zip(0..).collect();
        Self {
            names,
            places,
            latest: None,
            writer,
            memory: Arc::clone(memory),
            overflow,
            notices: Notices::default(),
            over: false,
            line: Arc::clone(line),
            tally: Arc::clone(tally),
            process,
        }
    }

    fn drop_one(&mut self) {
        self.writer.drop_one();
        self.tally.dropped.add(1);
        if let Some(notice) = Received::dropped(1) {
            self.notices.add(notice);
        }
        if self.overflow == Overflow::Disconnect {
            self.over = true;
            self.writer.end();
        }
    }

    fn place(&mut self, message: &MessageRef<'_>) -> Option<u32> {
        if let Some((group, place)) = self.latest
            && group == message.group_id
            && *self.names[place as usize] == *message.group
        {
            return Some(place);
        }
        let place = *self.places.get(message.group)?;
        self.latest = Some((message.group_id, place));
        Some(place)
    }

    /// For this message behind all notices: each of them written as soon as it fits, there would be
    /// one for each message dropped.
    fn has_room(&mut self, message: &[u8]) -> bool {
        let notices = self.notices.len() * record::NOTICE_BYTES;
        self.writer.has_room(message.len() + notices)
    }

    fn write(&mut self, record: &record::Written, bytes: &[u8]) -> Written {
        let written = self.writer.write(record.tag, record.extra, bytes);
        written.unwrap_or_else(|_: Nonsense| {
            self.over = true;
            self.line.end(End::Cut(CutReason::Ring));
            Written::Never
        })
    }

    /// The record of a notice; `None` for what this ring says nothing about.
    fn record(&self, notice: &Received) -> Option<record::Written> {
        Some(match notice {
            Received::Lost(lost) => record::Written::lost(*self.places.get(&lost.group)?, lost),
            Received::LostPackets(lost) => record::Written::lost_packets(*lost),
            Received::Dropped(_) => record::Written::dropped(self.writer.dropped()),
            Received::Back(back) => record::Written::back(*back),
            Received::Excluded(excluded) => record::Written::excluded(*excluded),
            Received::Message(_) => return None,
        })
    }
}

impl ForeignQueue for RingSink {
    fn offer(&mut self, message: MessageRef<'_>) -> Offered {
        let mut offered = Offered {
            kept: false,
            dropped: 0,
        };
        let Some(place) = self.place(&message).filter(|_| !self.over) else {
            return offered;
        };
        let fits = self.notices.is_empty() || (self.has_room(message.bytes) && self.catch_up());
        let record = record::Written::message(place, &message);
        if fits && self.write(&record, message.bytes) == Written::Yes {
            self.tally.delivered.add(1);
            offered.kept = true;
        } else if !self.over {
            self.drop_one();
            offered.dropped = 1;
        }
        offered
    }

    fn tell(&mut self, notice: Received) {
        if !self.over {
            self.notices.add(notice);
        }
    }

    fn catch_up(&mut self) -> bool {
        while let Some(notice) = self.notices.front().filter(|_| !self.over) {
            if let Some(record) = self.record(notice) {
                let last = record.last.map(u64::to_le_bytes);
                let bytes = last.as_ref().map_or(&[][..], |last| &last[..]);
                if self.write(&record, bytes) == Written::Full {
                    return false;
                }
            }
            self.notices.pop();
        }
        true
    }

    fn wake(&self) {
        if readers_bell(&self.memory).ring() {
            self.tally.wakes.add(1);
        }
    }

    fn queued_bytes(&self) -> usize {
        self.writer.queued_bytes()
    }

    fn dropped(&self) -> u64 {
        self.writer.dropped()
    }

    fn process(&self) -> Option<u32> {
        Some(self.process)
    }
}
