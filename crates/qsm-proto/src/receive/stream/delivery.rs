//! From packets in order to messages for the application.

use qsm_origin::SEAL_GROUP;
use qsm_wire::{Chunk, ChunkIter, Data, Origin, Part};

use super::numbers::{LostMessages, LostStep};
use super::{PacketState, ReceiveStream};
use crate::history::{Duty, History};
use crate::receive::{DeliveryContext, PacketPlace, Run, StreamContext, Verdict};
use crate::{Delivery, Instant, Miss};

/// Bytes of kept packets delivered in one go. One repair may let a whole window go on: without a
/// break nothing would be read meanwhile, and no token or request answered. Twice as much as is
/// read in one turn, so that a backlog shrinks although its sender goes on.
const DELIVERED_IN_ONE_GO_BYTES: usize = 1 << 20;

impl ReceiveStream {
    /// Delivers what can be delivered now, as much as is delivered in one go. Rule R-DATA-10.
    #[inline]
    pub fn deliver(&mut self, history: &History, held: bool, context: &mut StreamContext<'_>) {
        self.held = held;
        self.interrupted = Instant::NEVER;
        if self.proof.is_some() {
            self.settle(context);
        }
        if self.delivered < self.deliverable() || self.lost_numbers.is_some() {
            self.stopped = false;
            self.deliver_ready(history, held, context);
            self.tell_packets(&mut context.delivery);
        }
    }

    fn deliver_ready(&mut self, history: &History, held: bool, context: &mut StreamContext<'_>) {
        let mut bytes = 0;
        loop {
            if self.lost_numbers.is_some() && !held {
                self.tell_numbers(&mut context.delivery);
            }
            if self.delivered >= self.deliverable() {
                return;
            }
            let sequence = self.delivered + 1;
            match self.slot(sequence) {
                PacketState::Kept(_) if bytes >= DELIVERED_IN_ONE_GO_BYTES => {
                    self.interrupted = context.now;
                    return;
                }
                PacketState::Kept(place) => {
                    bytes += context.store.packet(place).len();
                    self.tell_packets(&mut context.delivery);
                    if !self.deliver_kept(sequence, place, history, held, context) {
                        return;
                    }
                }
                given_up @ (PacketState::Lost | PacketState::Expired) => {
                    let cursors = &mut context.delivery.cursors;
                    if self.pass_lost(sequence, history, held, cursors) == LostStep::Wait {
                        return;
                    }
                    self.note_passed(given_up == PacketState::Expired);
                    self.reassembly.reset();
                }
                PacketState::Received | PacketState::Missing => {}
            }
            self.delivered = sequence;
        }
    }

    /// Since when delivery has been interrupted that can go on; [`Instant::NEVER`]: it has not.
    #[must_use]
    pub fn interrupted(&self) -> Instant {
        self.interrupted
    }

    /// Packets have been given up: what comes after them may be delivered.
    pub(crate) fn go_on(&mut self, now: Instant) {
        self.interrupted = self.interrupted.min(now);
    }

    /// Forgets that delivery was interrupted: what waits is delivered on the next occasion.
    pub fn resume(&mut self) {
        self.interrupted = Instant::NEVER;
    }

    /// Whether something waits for delivery.
    #[must_use]
    pub fn undelivered(&self) -> bool {
        self.delivered < self.deliverable()
            || self.has_numbers_to_tell()
            || self.is_judged() && self.may_settle()
    }

    /// Delivers a kept packet unless it has to wait; frees its place if it need not be cached.
    fn deliver_kept(
        &mut self,
        sequence: u64,
        place: PacketPlace,
        history: &History,
        held: bool,
        context: &mut StreamContext<'_>,
    ) -> bool {
        // What is kept has been decoded before; another kind cannot be in here.
        let Some(data) = Data::read_again(context.store.packet(place)) else {
            return true;
        };
        let view = data.head.view;
        let role = history.role(view, sequence);
        match role.duty {
            Duty::Wait => return false,
            Duty::Deliver if held || self.stops_at(&data, role.duty, &context.delivery) => {
                return false;
            }
            Duty::Deliver => self.deliver_packet(&data, history, &mut context.delivery),
            Duty::Pass => context.delivery.stats.discard_not_mine += 1,
        }
        if (sequence <= self.purgeable() || !role.keeps) && !self.holds(sequence, context.store) {
            context.store.free(place);
            self.set(sequence, PacketState::Received);
        }
        true
    }

    pub(super) fn deliver_packet(
        &mut self,
        data: &Data<'_>,
        history: &History,
        delivery: &mut DeliveryContext<'_>,
    ) {
        if self.lost_numbers.is_some() {
            delivery.loss = self.loss_cause();
        }
        let mut chunks = data.chunks();
        let mut next = chunks.next();
        while let Some(chunk) = next {
            let barred = self.is_barred(chunk.group);
            let over = barred || history.gave_up(data.head.view, chunk.group);
            if chunk.part == Part::Whole && !over {
                next = deliver_run(self.id.origin, chunk, &mut chunks, delivery);
                continue;
            }
            next = chunks.next();
            if over || !delivery.cursors.subscribed(chunk.group) {
                let ends = matches!(chunk.part, Part::Whole | Part::Last);
                delivery.stats.messages_filtered += u64::from(ends && !barred);
                self.note_barred(&chunk, delivery.stats);
                continue;
            }
            match self.reassembly.add(&chunk, delivery.message_bytes_max) {
                Ok(true) => {
                    let bytes = self.reassembly.bytes();
                    deliver_message(self.id.origin, &chunk, bytes, delivery);
                    self.reassembly.reset();
                }
                Ok(false) => {}
                Err(()) => {
                    delivery.stats.discard_chunk += 1;
                    if chunk.part == Part::Last {
                        lose_message(self.id.origin, &chunk, delivery);
                    }
                }
            }
        }
    }
}

/// Delivers a whole message, and those of its group that follow it. Returns what comes after them.
fn deliver_run<'p>(
    sender: Origin,
    first: Chunk<'p>,
    chunks: &mut ChunkIter<'p>,
    delivery: &mut DeliveryContext<'_>,
) -> Option<Chunk<'p>> {
    // Who wants the group in another way gets one message after the other.
    if delivery.cursors.is_special() && !delivery.cursors.prompt().of(first.group).is_empty() {
        deliver_message(sender, &first, first.content, delivery);
        return chunks.next();
    }
    let expected = delivery.cursors.expected(sender, first.group);
    let run = expected.and_then(|expected| Run::begin(sender, first, expected, chunks));
    let Some(mut run) = run else {
        deliver_message(sender, &first, first.content, delivery);
        return chunks.next();
    };
    delivery.out.deliver_run(&mut run);
    run.by_ref()
        .for_each(|message| delivery.out.deliver(message));
    let (messages, bytes, next) = run.end();
    delivery.stats.messages_delivered += messages;
    delivery.stats.bytes_delivered += bytes;
    next
}

fn deliver_message(
    sender: Origin,
    chunk: &Chunk<'_>,
    bytes: &[u8],
    delivery: &mut DeliveryContext<'_>,
) {
    let Some(number) = take_message(sender, chunk, delivery) else {
        return;
    };
    delivery.hand_out(Delivery {
        group: chunk.group,
        sender,
        number,
        bytes,
    });
}

/// The last part of a message has come without the others: they are lost, and with it the message.
/// Rule R-DATA-11.
fn lose_message(sender: Origin, chunk: &Chunk<'_>, delivery: &mut DeliveryContext<'_>) {
    if let Some(number) = take_message(sender, chunk, delivery) {
        delivery.lose(LostMessages {
            group: chunk.group,
            sender,
            first: number,
            last: number,
        });
    }
}

/// The number of a message that is next in turn, after those before it have been named that did not
/// come; `None`: it is not for this node, or came before.
fn take_message(
    sender: Origin,
    chunk: &Chunk<'_>,
    delivery: &mut DeliveryContext<'_>,
) -> Option<u64> {
    let group = chunk.group;
    Some(match delivery.cursors.take(sender, group, chunk.message) {
        Verdict::Deliver(number) => number,
        Verdict::DeliverAfterLoss { first, number } => {
            delivery.lose(LostMessages {
                group,
                sender,
                first,
                last: number - 1,
            });
            number
        }
        Verdict::DeliverAfterAbsence { first, number } => {
            delivery.tell(Miss::Absence {
                group,
                sender,
                first,
                last: number - 1,
            });
            number
        }
        Verdict::Duplicate => {
            delivery.stats.duplicates += 1;
            return None;
        }
        Verdict::NotSubscribed => {
            // A seal is no message.
            delivery.stats.messages_filtered += u64::from(group != SEAL_GROUP);
            return None;
        }
    })
}
