//! From packets in order to messages for the application.

use qsm_wire::{Chunk, ChunkIter, Data, Origin, Part};

use super::{ReceiveStream, Slot};
use crate::history::{Duty, History};
use crate::receive::{Desk, Inbox, Place, Run, Verdict};
use crate::{Delivery, Event, Instant, Miss};

/// Bytes of kept packets delivered in one go. One repair may let a whole window go on: without a
/// break nothing would be read meanwhile, and no token or request answered. Twice as much as is
/// read in one turn, so that a backlog shrinks although its sender goes on.
const DELIVERED_IN_ONE_GO_BYTES: usize = 1 << 20;

impl ReceiveStream {
    /// Delivers what can be delivered now, as much as is delivered in one go. Rule R-DATA-10.
    pub fn deliver(&mut self, history: &History, held: bool, inbox: &mut Inbox<'_>) {
        self.interrupted = Instant::NEVER;
        let mut bytes = 0;
        while self.delivered < self.contiguous {
            let sequence = self.delivered + 1;
            match self.slot(sequence) {
                Slot::Kept(_) if bytes >= DELIVERED_IN_ONE_GO_BYTES => {
                    self.interrupted = inbox.now;
                    return;
                }
                Slot::Kept(place) => {
                    bytes += inbox.store.packet(place).len();
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

    /// Since when delivery has been interrupted that can go on; [`Instant::NEVER`]: it has not.
    #[must_use]
    pub fn interrupted(&self) -> Instant {
        self.interrupted
    }

    /// Forgets that delivery was interrupted: what waits is delivered on the next occasion.
    pub fn resume(&mut self) {
        self.interrupted = Instant::NEVER;
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
        let care = history.care(view, sequence);
        match care.duty {
            Duty::Wait => return false,
            Duty::Deliver if held => return false,
            Duty::Deliver => self.deliver_packet(&data, history, &mut inbox.desk),
            Duty::Pass => inbox.desk.stats.discard_not_mine += 1,
        }
        if sequence <= self.watermarks.stable_upto || !care.keeps {
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
        let mut chunks = data.chunks();
        let mut next = chunks.next();
        while let Some(chunk) = next {
            let over = history.gave_up(data.head.view, chunk.group);
            if chunk.part == Part::Whole && !over {
                next = deliver_run(self.id.origin, chunk, &mut chunks, desk);
                continue;
            }
            next = chunks.next();
            if over || !desk.cursors.subscribed(chunk.group) {
                let ends = matches!(chunk.part, Part::Whole | Part::Last);
                desk.stats.messages_filtered += u64::from(ends);
                continue;
            }
            match self.reassembly.add(&chunk, desk.message_bytes_max) {
                Ok(true) => {
                    let bytes = self.reassembly.bytes();
                    deliver_message(self.id.origin, &chunk, bytes, desk);
                    self.reassembly.reset();
                }
                Ok(false) => {}
                Err(()) => desk.stats.discard_chunk += 1,
            }
        }
    }
}

/// Delivers a whole message, and those of its group that follow it. Returns what comes after them.
fn deliver_run<'p>(
    sender: Origin,
    first: Chunk<'p>,
    chunks: &mut ChunkIter<'p>,
    desk: &mut Desk<'_>,
) -> Option<Chunk<'p>> {
    let expected = desk.cursors.expected(sender, first.group);
    let run = expected.and_then(|expected| Run::begin(sender, first, expected, chunks));
    let Some(mut run) = run else {
        deliver_message(sender, &first, first.content, desk);
        return chunks.next();
    };
    desk.out.deliver_run(&mut run);
    run.by_ref().for_each(|message| desk.out.deliver(message));
    let (messages, bytes, next) = run.end();
    desk.stats.messages_delivered += messages;
    desk.stats.bytes_delivered += bytes;
    next
}

fn deliver_message(sender: Origin, chunk: &Chunk<'_>, bytes: &[u8], desk: &mut Desk<'_>) {
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
            desk.out.miss(Miss::Messages {
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
