//! Messages that are handed out ahead of their order, for those who want them so (R-DATA-12).
//!
//! ```text
//!   packets   ... 7 | 8 | missing 9 | 10 | 11 | missing 12 | 13
//!                     ^ delivered               ^ a walk, as long as 12 is not missing for too long
//! ```
//!
//! Each way has a walk through the packets that are kept behind a gap. It passes what is missing
//! at once, or when that has been missing for as long as the way says. What comes behind it is
//! looked at when it comes.

use qsm_wire::{Chunk, Data, Part};

use super::{PacketState, ReceiveStream};
use crate::history::{Duty, History};
use crate::receive::{AheadMessage, Before, DeliveryContext, PacketPlace, StreamContext};
use crate::{Delivery, Instant, LossCause, Miss, Promptness};

/// Bytes of kept packets that a walk goes over in one go, as the delivery in order does.
const WALKED_IN_ONE_GO_BYTES: usize = 1 << 20;

/// How far messages of a stream have been handed out in one way.
#[derive(Debug)]
struct Walk {
    mode: Promptness,
    /// Everything up to here has been looked at, or is missing for too long.
    position: u64,
    /// Since when the stream has waited for another region.
    held_since: Option<Instant>,
    /// Since when something that is here has waited for the proof of what is before it.
    unproven_since: Option<Instant>,
}

impl Walk {
    /// Until when its packets wait for those of another region; `None`: they do not, or no longer.
    fn held_until(&self, now: Instant) -> Option<Instant> {
        let Promptness::Within(limit) = self.mode else {
            return None;
        };
        let until = self.held_since?.after(limit);
        (until > now).then_some(until)
    }
}

/// The walks of a stream. Made at its first gap that matters to somebody.
#[derive(Debug)]
pub(super) struct Walks {
    walks: Vec<Walk>,
    /// When one of them may go on.
    due: Instant,
}

/// A kept packet that is looked at.
#[derive(Debug, Clone, Copy)]
struct Look {
    mode: Promptness,
    sequence: u64,
    place: PacketPlace,
    /// It came behind the walk: each part in it may complete a message. Otherwise a last part may.
    alone: bool,
}

/// Fate of a walk at a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It goes on behind this packet.
    To(u64),
    /// It goes on at this time, unless something comes before.
    At(Instant),
}

impl ReceiveStream {
    /// Walks may go on now.
    pub(super) fn resume_walks(&mut self, now: Instant) {
        if let Some(walks) = &mut self.walks {
            walks.due = now;
        }
    }

    /// When messages are to be handed out ahead of their order because what is before them has
    /// been missing for too long; [`Instant::NEVER`]: nothing waits so.
    #[must_use]
    pub fn prompt_due(&self) -> Instant {
        let walks = self.walks.as_ref();
        let waits = walks.filter(|_| self.delivered < self.highest);
        waits.map_or(Instant::NEVER, |walks| walks.due)
    }

    /// Hands out what may be ahead of its order; `arrived`: this packet has just come.
    /// Rule R-DATA-12.
    #[cold]
    pub(crate) fn hurry(
        &mut self,
        arrived: Option<u64>,
        history: &History,
        context: &mut StreamContext<'_>,
    ) {
        // What is in order goes first, and goes on soon.
        let soon = self.interrupted != Instant::NEVER || self.is_stopped();
        let modes = context.delivery.cursors.prompt().modes();
        if soon || self.delivered >= self.highest || modes.is_empty() {
            return;
        }
        let known = self.walks.take();
        let mut walks = known.map_or_else(Vec::new, |known| known.walks);
        walks.retain(|walk| modes.contains(&walk.mode));
        for mode in modes {
            if !walks.iter().any(|walk| walk.mode == *mode) {
                walks.push(Walk {
                    mode: *mode,
                    position: self.delivered,
                    held_since: None,
                    unproven_since: None,
                });
            }
        }
        let mut due = Instant::NEVER;
        for walk in &mut walks {
            walk.position = walk.position.max(self.delivered);
            let behind = arrived.filter(|arrived| *arrived <= walk.position);
            let ready = |arrived: &u64| *arrived > self.delivered && !self.is_unproven(*arrived);
            if let Some(sequence) = behind.filter(ready)
                && let PacketState::Kept(place) = self.slot(sequence)
            {
                let look = Look {
                    mode: walk.mode,
                    sequence,
                    place,
                    alone: true,
                };
                self.look_at(look, history, context);
            }
            due = due.min(self.advance(walk, history, context));
        }
        self.walks = Some(Box::new(Walks { walks, due }));
    }

    /// Goes on with a walk. Returns when there may be more to do.
    fn advance(
        &self,
        walk: &mut Walk,
        history: &History,
        context: &mut StreamContext<'_>,
    ) -> Instant {
        let mut bytes = 0;
        walk.held_since = match self.held {
            true => walk.held_since.or(Some(context.now)),
            false => None,
        };
        while walk.position < self.highest {
            let next = walk.position + 1;
            let step = match self.slot(next) {
                PacketState::Received | PacketState::Lost | PacketState::Expired => Step::To(next),
                PacketState::Missing => self.pass_gap(walk.mode, next, context.now),
                PacketState::Kept(_) if self.is_unproven(next) => {
                    self.pass_unproven(walk, next, context.now)
                }
                PacketState::Kept(_) if bytes >= WALKED_IN_ONE_GO_BYTES => Step::At(context.now),
                PacketState::Kept(place) => match walk.held_until(context.now) {
                    Some(at) => Step::At(at),
                    None => {
                        bytes += context.store.packet(place).len();
                        let look = Look {
                            mode: walk.mode,
                            sequence: next,
                            place,
                            alone: false,
                        };
                        self.look_at(look, history, context)
                    }
                },
            };
            match step {
                Step::To(position) => walk.position = position,
                Step::At(due) => return due,
            }
        }
        Instant::NEVER
    }

    /// Tells whether a walk passes what is missing.
    fn pass_gap(&self, mode: Promptness, first: u64, now: Instant) -> Step {
        let Some(gap) = self.gaps.find(first) else {
            return Step::To(first);
        };
        let due = match mode {
            Promptness::Arrival => return Step::To(gap.last),
            Promptness::Within(limit) => gap.found.after(limit),
        };
        if due <= now {
            Step::To(gap.last)
        } else if gap.last == self.highest {
            // Nothing is there that could be handed out.
            Step::At(Instant::NEVER)
        } else {
            Step::At(due)
        }
    }

    /// Tells whether a walk passes what is here and waits for its proof: as what is missing, if something that is proven
    /// is behind it. What comes to be proven resumes the walk.
    fn pass_unproven(&self, walk: &mut Walk, first: u64, now: Instant) -> Step {
        let mut behind = (first + 1..=self.highest)
            .filter(|sequence| matches!(self.slot(*sequence), PacketState::Kept(_)));
        let waits = behind.find(|sequence| !self.is_unproven(*sequence));
        let Some(waits) = waits else {
            walk.unproven_since = None;
            return Step::At(Instant::NEVER);
        };
        let since = *walk.unproven_since.get_or_insert(now);
        let due = match walk.mode {
            Promptness::Arrival => now,
            Promptness::Within(limit) => since.after(limit),
        };
        match due <= now {
            true => Step::To(waits - 1),
            false => Step::At(due),
        }
    }

    /// From this packet on some have been proven: their messages are handed out, as far as nobody was told that they will
    /// not be, though walks have passed them.
    pub(super) fn walk_again(&mut self, first: u64) {
        for walk in self.walks.iter_mut().flat_map(|walks| &mut walks.walks) {
            walk.position = walk.position.min(first - 1);
        }
    }

    /// Hands out the messages of a kept packet that are wanted so.
    fn look_at(&self, look: Look, history: &History, context: &mut StreamContext<'_>) -> Step {
        let Look {
            mode,
            sequence,
            place,
            alone,
        } = look;
        // What is kept has been decoded before; another kind cannot be in here.
        let Some(data) = Data::read_again(context.store.packet(place)) else {
            return Step::To(sequence);
        };
        match history.role(data.head.view, sequence).duty {
            Duty::Wait => return Step::At(Instant::NEVER),
            Duty::Pass => return Step::To(sequence),
            Duty::Deliver => {}
        }
        // Readers take no more (R-DATA-13).
        if context.delivery.cursors.full().stops(&data) {
            return Step::At(Instant::NEVER);
        }
        for chunk in data.chunks() {
            let prompt = context.delivery.cursors.prompt();
            if !prompt.of(chunk.group).contains(&mode)
                || history.gave_up(data.head.view, chunk.group)
                || self.is_barred(chunk.group)
            {
                continue;
            }
            let ends = alone || chunk.part == Part::Last;
            if chunk.part == Part::Whole {
                self.hand_out(mode, sequence, &chunk, chunk.content, &mut context.delivery);
            } else if ends && let Some(bytes) = self.assemble(sequence, &chunk, context) {
                self.hand_out(mode, sequence, &chunk, &bytes, &mut context.delivery);
            }
        }
        Step::To(sequence)
    }

    /// A message of several packets, if all of them are kept; `chunk` is a part of it, in this
    /// packet.
    fn assemble(
        &self,
        sequence: u64,
        chunk: &Chunk<'_>,
        context: &StreamContext<'_>,
    ) -> Option<Vec<u8>> {
        let last = self.find_end(sequence, chunk, context)?;
        let mut first = sequence;
        let total = loop {
            match self.part(first, chunk, context)?.part {
                Part::First { total } => break usize::try_from(total).ok()?,
                _ => first -= 1,
            }
        };
        if total > context.delivery.message_bytes_max {
            return None;
        }
        let mut bytes = Vec::new();
        for packet in first..=last {
            bytes.extend_from_slice(self.part(packet, chunk, context)?.content);
        }
        (bytes.len() == total).then_some(bytes)
    }

    /// The packet with the last part of a message of several.
    fn find_end(
        &self,
        sequence: u64,
        chunk: &Chunk<'_>,
        context: &StreamContext<'_>,
    ) -> Option<u64> {
        let part = |packet| Some((packet, self.part(packet, chunk, context)?));
        let mut parts = (sequence..=self.highest).map_while(part);
        let end = parts.find(|(_, part)| part.part == Part::Last);
        end.map(|(packet, _)| packet)
    }

    /// The part of the same message in this packet, if that waits for its turn.
    fn part<'s>(
        &self,
        sequence: u64,
        of: &Chunk<'_>,
        context: &'s StreamContext<'_>,
    ) -> Option<Chunk<'s>> {
        if sequence <= self.delivered || self.is_unproven(sequence) {
            return None;
        }
        let data = Data::read_again(self.packet(sequence, context.store)?)?;
        let mut chunks = data.chunks();
        chunks.find(|chunk| {
            chunk.part != Part::Whole && chunk.group == of.group && chunk.message == of.message
        })
    }

    /// Hands out a message unless that was done before, and tells what is missing before it.
    fn hand_out(
        &self,
        mode: Promptness,
        sequence: u64,
        chunk: &Chunk<'_>,
        bytes: &[u8],
        delivery: &mut DeliveryContext<'_>,
    ) {
        let (group, sender) = (chunk.group, self.id.origin);
        let cursors = &mut delivery.cursors;
        let Some(ahead) = cursors.take_ahead(mode, sender, group, chunk.message) else {
            return;
        };
        let last = ahead.number - 1;
        let miss = match ahead.before {
            Before::Nothing => None,
            Before::Lost(first) => Some(Miss::Messages {
                group,
                sender,
                first,
                last,
                cause: LossCause::Overdue,
            }),
            Before::Absence(first) => Some(Miss::Absence {
                group,
                sender,
                first,
                last,
            }),
            Before::Unknown => {
                // What waits for another region may be missing a packet of that.
                let packets = self.skipped_before(sequence).max(self.held.into());
                (packets > 0).then_some(Miss::Packets {
                    groups: core::slice::from_ref(&chunk.group),
                    sender,
                    packets,
                })
            }
        };
        if let Some(miss) = miss {
            if let Before::Lost(first) | Before::Absence(first) = ahead.before {
                delivery.stats.messages_overdue += ahead.number - first;
            }
            delivery.out.miss_promptly(mode, miss);
        }
        delivery.stats.messages_ahead += 1;
        let message = Delivery {
            group,
            sender,
            number: ahead.number,
            bytes,
        };
        delivery.out.deliver_promptly(mode, message);
    }

    /// Packets before this one that have not come, of those that have yet to have their turn.
    fn skipped_before(&self, sequence: u64) -> u64 {
        let before = self.delivered + 1..sequence;
        let absent = |packet: &u64| {
            let slot = self.slot(*packet);
            slot == PacketState::Missing || slot.is_given_up()
        };
        before.filter(absent).count() as u64
    }
}

impl DeliveryContext<'_> {
    /// Hands out a message that has its turn, in every way in which it was not before.
    #[inline]
    pub(super) fn hand_out(&mut self, message: Delivery<'_>) {
        self.stats.messages_delivered += 1;
        self.stats.bytes_delivered += message.bytes.len() as u64;
        self.out.deliver(message);
        if self.cursors.is_special() {
            self.hand_out_promptly(message);
        }
    }

    #[cold]
    fn hand_out_promptly(&mut self, message: Delivery<'_>) {
        let prompt = self.cursors.prompt_mut();
        let place = AheadMessage {
            group: message.group,
            sender: message.sender,
            number: message.number,
        };
        for at in 0..prompt.of(message.group).len() {
            let mode = prompt.of(message.group)[at];
            if prompt.take_turn(mode, place) {
                self.out.deliver_promptly(mode, message);
            }
        }
    }

    /// Tells what will not come, in every way in which that was not told before.
    #[cold]
    pub(super) fn tell(&mut self, miss: Miss<'_>) {
        self.out.miss(miss);
        let (Miss::Messages {
            group,
            sender,
            first,
            last,
            ..
        }
        | Miss::Absence {
            group,
            sender,
            first,
            last,
        }) = miss
        else {
            return;
        };
        let prompt = self.cursors.prompt_mut();
        let number = last;
        for at in 0..prompt.of(group).len() {
            let mode = prompt.of(group)[at];
            let last = AheadMessage {
                group,
                sender,
                number,
            };
            for range in prompt.pass(mode, last, first) {
                let (first, last) = range.into_inner();
                let told = match miss {
                    Miss::Absence { .. } => Miss::Absence {
                        group,
                        sender,
                        first,
                        last,
                    },
                    Miss::Messages { cause, .. } => Miss::Messages {
                        group,
                        sender,
                        first,
                        last,
                        cause,
                    },
                    Miss::Packets { .. } | Miss::Life { .. } => return,
                };
                self.out.miss_promptly(mode, told);
            }
        }
    }
}
