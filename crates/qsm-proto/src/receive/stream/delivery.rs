//! From packets in order to messages for the application.

use qsm_wire::{Chunk, Data, Part, StreamId};

use super::{ReceiveStream, Slot};
use crate::history::{Duty, History};
use crate::receive::{Desk, Inbox, Place, Verdict};
use crate::{Delivery, Event};

impl ReceiveStream {
    /// Delivers what can be delivered now.
    pub fn deliver(&mut self, history: &History, held: bool, inbox: &mut Inbox<'_>) {
        while self.delivered < self.contiguous {
            let sequence = self.delivered + 1;
            match self.slot(sequence) {
                Slot::Kept(place) => {
                    if !self.deliver_kept((sequence, place), history, held, inbox) {
                        return;
                    }
                }
                Slot::Lost => self.reassembly.reset(),
                Slot::Received | Slot::Missing => {}
            }
            self.delivered = sequence;
        }
    }

    /// Whether something waits for delivery.
    #[must_use]
    pub fn undelivered(&self) -> bool {
        self.delivered < self.contiguous
    }

    /// Delivers a kept packet unless it has to wait; frees its place if it need not be cached.
    fn deliver_kept(
        &mut self,
        (sequence, place): (u64, Place),
        history: &History,
        held: bool,
        inbox: &mut Inbox<'_>,
    ) -> bool {
        // What is kept has been decoded before; another kind cannot be in here.
        let Some(data) = Data::read_again(inbox.store.packet(place)) else {
            return true;
        };
        let view = data.head.view;
        match history.duty(view) {
            Duty::Wait => return false,
            Duty::Deliver if held => return false,
            Duty::Deliver => self.deliver_packet(&data, history, &mut inbox.desk),
            Duty::Pass => inbox.desk.stats.discard_not_mine += 1,
        }
        if sequence <= self.watermarks.stable_upto || !history.keeps(view, sequence) {
            inbox.store.free(place);
            self.set(sequence, Slot::Received);
        }
        true
    }

    pub(super) fn deliver_packet(
        &mut self,
        data: &Data<'_>,
        history: &History,
        desk: &mut Desk<'_>,
    ) {
        for chunk in data.chunks() {
            let over = history.gave_up(data.head.view, chunk.group);
            if chunk.part == Part::Whole && !over {
                deliver_message(self.id, &chunk, chunk.content, desk);
                continue;
            }
            if over || !desk.cursors.subscribed(chunk.group) {
                let ends = matches!(chunk.part, Part::Whole | Part::Last);
                desk.stats.messages_filtered += u64::from(ends);
                continue;
            }
            match self.reassembly.add(&chunk, desk.message_bytes_max) {
                Ok(true) => {
                    deliver_message(self.id, &chunk, self.reassembly.bytes(), desk);
                    self.reassembly.reset();
                }
                Ok(false) => {}
                Err(()) => desk.stats.discard_chunk += 1,
            }
        }
    }
}

fn deliver_message(id: StreamId, chunk: &Chunk<'_>, bytes: &[u8], desk: &mut Desk<'_>) {
    let sender = id.origin;
    let number = match desk.cursors.take(sender, chunk.group, chunk.message) {
        Verdict::Deliver(number) => number,
        Verdict::DeliverAfterLoss { first, number } => {
            desk.stats.messages_lost += number - first;
            let (group, last) = (chunk.group, number - 1);
            desk.events.push(Event::Lost {
                group,
                sender,
                first,
                last,
            });
            number
        }
        Verdict::Duplicate => {
            desk.stats.duplicates += 1;
            return;
        }
        Verdict::NotSubscribed => {
            desk.stats.messages_filtered += 1;
            return;
        }
    };
    desk.stats.messages_delivered += 1;
    desk.stats.bytes_delivered += bytes.len() as u64;
    desk.out.deliver(Delivery {
        group: chunk.group,
        sender,
        number,
        bytes,
    });
}
