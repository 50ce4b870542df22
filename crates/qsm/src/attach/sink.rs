//! A core thread's end of a subscription's ring: messages go from the receive buffer into shared
//! memory, and the process is woken at most once at the end of a turn.

use std::collections::HashMap;
use std::sync::Arc;

use qsm_net::SharedMemory;
use qsm_wire::GroupId;

use super::error::CutReason;
use super::line::{End, Line};
use super::requests::EXTRA;
use super::ring::{Nonsense, Writer, Written, readers_bell};

use super::tally::Tally;
use crate::handoff::inbox::Offered;
use crate::handoff::message::{Delivery, Overflow};
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
    /// Nothing is written any more.
    over: bool,
    line: Arc<Line>,
    tally: Arc<Tally>,
}

impl RingSink {
    pub(super) fn new(
        names: &Arc<[Arc<str>]>,
        (memory, writer): (&Arc<SharedMemory>, Writer<EXTRA>),
        overflow: Overflow,
        line: &Arc<Line>,
        tally: &Arc<Tally>,
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
            over: false,
            line: Arc::clone(line),
            tally: Arc::clone(tally),
        }
    }

    fn drop_one(&mut self) {
        self.writer.drop_one();
        self.tally.dropped.add(1);
        if self.overflow == Overflow::Disconnect {
            self.over = true;
            self.writer.end();
        }
    }

    fn place(&mut self, message: &Delivery<'_>) -> Option<u32> {
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
}

impl ForeignQueue for RingSink {
    fn offer(&mut self, message: Delivery<'_>) -> Offered {
        let nothing = Offered {
            kept: false,
            dropped: 0,
        };
        let Some(place) = self.place(&message).filter(|_| !self.over) else {
            return nothing;
        };
        let life = u64::from(message.sender.incarnation.0) << 32;
        let extra = [
            u64::from(message.group_id.0) | life,
            message.sender.node.0,
            message.number,
        ];
        match self.writer.write(place, extra, message.bytes) {
            Ok(Written::Yes) => {
                self.tally.delivered.add(1);
                Offered {
                    kept: true,
                    dropped: 0,
                }
            }
            Ok(Written::Full | Written::Never) => {
                self.drop_one();
                // It is told all the same: a reader may sleep while one message is too long.
                Offered {
                    kept: true,
                    dropped: 1,
                }
            }
            Err(Nonsense::Position | Nonsense::Length) => {
                self.over = true;
                self.line.end(End::Cut(CutReason::Ring));
                nothing
            }
        }
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
}
