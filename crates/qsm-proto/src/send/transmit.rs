//! From packets to trains.

use super::minimum::MinimumRate;
use super::passage::{ClosedPacket, PacketDelays};
use super::{Intake, PaddingRun, SendStream, TRAIN_BYTES_MAX, TRAIN_PACKETS_MAX, wide};
use crate::Instant;

/// Packets to be sent with one system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Train<'a> {
    /// The packets, end to end.
    pub bytes: &'a [u8],
    /// Length of each packet but the last, which may be shorter.
    pub segment_bytes: usize,
    /// How many there are.
    pub packets: usize,
    /// Sequence number of the first.
    pub first: u64,
}

/// A train being put together.
#[derive(Debug, Clone, Copy)]
struct TrainPlan {
    packets: usize,
    bytes: usize,
    segment_bytes: usize,
    packets_max: usize,
    /// What the window leaves.
    bytes_max: usize,
    /// So many packets are allowed whatever the window says.
    free_packets: usize,
    /// The window allows none of it.
    beyond_window: bool,
}

impl TrainPlan {
    /// Adds a packet, unless it is longer than the first, follows a shorter one, or is too much.
    fn add(&mut self, length: usize) -> bool {
        let ended = self.bytes != self.packets * self.segment_bytes;
        let free = self.packets < self.free_packets;
        if self.packets == self.packets_max
            || ended
            || (self.packets > 0 && length > self.segment_bytes)
            || self.bytes + length > TRAIN_BYTES_MAX
            || (self.bytes + length > self.bytes_max && !free)
        {
            return false;
        }
        if self.packets == 0 {
            self.segment_bytes = length;
        }
        self.packets += 1;
        self.bytes += length;
        true
    }
}

impl SendStream {
    /// The next packets to send, as far as window and rate allow, as the longest train that can
    /// be had: packets of one length that lie together, the last possibly shorter. They count as
    /// sent. `None`: nothing to send now; [`SendStream::next_timeout`] says when to ask again.
    ///
    /// The last packet, which still has room, leaves when nothing is before it and it has waited
    /// for the batch delay (R244); with none, at once.
    pub fn poll_train(&mut self, now: Instant) -> Option<Train<'_>> {
        self.poll_train_of(now, TRAIN_PACKETS_MAX)
    }

    /// As [`SendStream::poll_train`], of so many packets at most.
    pub fn poll_train_of(&mut self, now: Instant, packets: usize) -> Option<Train<'_>> {
        self.refill(now);
        let plan = self.plan(now, packets.min(TRAIN_PACKETS_MAX));
        if plan.packets == 0 {
            if self.pacer.packets() > 0 {
                self.pacer.held_otherwise();
            }
            self.note_held(now);
            return None;
        }
        let first = self.marks.highest + 1;
        self.marks.highest += wide(plan.packets);
        self.in_flight_bytes += plan.bytes;
        self.under_way_bytes += plan.bytes;
        self.closed_bytes -= plan.bytes;
        if self.closed_bytes == 0 {
            self.run = PaddingRun::default();
        }
        self.pacer.spend(now, plan.packets);
        if let Some(minimum) = &mut self.minimum {
            minimum.spend(plan.packets, plan.beyond_window);
        }
        self.alarms.data_sent(now, self.config.last_resort);
        let sendings = self.sendings.get_or_insert_default();
        sendings.note(now, self.marks.highest);
        if let Some(passage) = &mut self.passage {
            passage.leave(now, self.marks.highest);
        }
        self.counters.trains += 1;
        self.counters.packets += wide(plan.packets);
        self.counters.bytes += wide(plan.bytes);
        Some(Train {
            bytes: self.store.bytes(first, plan.bytes)?,
            segment_bytes: plan.segment_bytes,
            packets: plan.packets,
            first,
        })
    }

    /// So many copies of each packet are sent as well: together they are no more than the operator
    /// allows (R-RATE-7).
    pub fn share_rate(&mut self, now: Instant, copies: usize) {
        self.pacer.share(now, copies);
    }

    /// Packets besides the stream's have left, which count towards its rate.
    pub(crate) fn spend_rate(&mut self, now: Instant, packets: usize) {
        self.pacer.spend(now, packets);
    }

    /// Whether [`SendStream::poll_train`] would return something now.
    pub fn can_send(&mut self, now: Instant) -> bool {
        self.refill(now);
        let sends = self.plan(now, TRAIN_PACKETS_MAX).packets > 0;
        if !sends {
            self.note_held(now);
        }
        sends
    }

    /// Times packets from now on.
    pub(crate) fn time_packets(&mut self) {
        self.passage.get_or_insert_default();
    }

    /// The longest delays of packets that have left since this was called last, and of what is held
    /// now; none of a stream whose packets are not timed.
    pub(crate) fn take_delays(&mut self, now: Instant) -> PacketDelays {
        let passage = self.passage.as_mut();
        passage.map_or_else(PacketDelays::default, |passage| passage.take(now))
    }

    /// Nothing may leave now: what is ready is held.
    fn note_held(&mut self, now: Instant) {
        let ready = self.closed_bytes > 0 || self.ripe(now);
        if let Some(passage) = self.passage.as_mut().filter(|_| ready) {
            passage.hold(now);
        }
    }

    /// The open packet is to be closed now.
    #[cold]
    pub(super) fn follow_open(&mut self, now: Instant) {
        let end = self.open_end();
        if let Some((passage, opened)) = self.passage.as_mut().zip(self.store.open_since()) {
            let packet = ClosedPacket {
                sequence: self.store.assembled() + 1,
                opened,
                end,
            };
            passage.close(now, packet);
        }
    }

    fn refill(&mut self, now: Instant) {
        self.pacer.refill(now);
        if let Some(minimum) = &mut self.minimum {
            minimum.settle(now);
        }
    }

    /// Whether packets wait for receivers: for room in the window, or for the rate that one of them
    /// has named.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let minimum = self.minimum.as_deref();
        if minimum.is_some_and(MinimumRate::is_unlimited) {
            return false;
        }
        let unsent = self.store.after(self.marks.highest).next();
        unsent.is_some_and(|entry| self.exceeds_window(entry.length()) || self.pacer.is_advised())
    }

    /// Tells whether window or rate have no room for the next packet as it is, which may still be open.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        let unsent = self.store.after(self.marks.highest).next();
        self.pacer.packets() == 0
            || self.exceeds_window(
                unsent.map_or_else(|| self.store.open_bytes(), |entry| entry.length()),
            )
    }

    fn exceeds_window(&self, length: usize) -> bool {
        let exceeds = length > self.window_left_bytes() || self.window_left_packets() == 0;
        exceeds && self.unheld_packets() == 0
    }

    fn plan(&mut self, now: Instant, packets_max: usize) -> TrainPlan {
        self.seal_if_due(now);
        let unheld = self.unheld_packets();
        let window = TrainPlan {
            packets: 0,
            bytes: 0,
            segment_bytes: 0,
            packets_max: self
                .pacer
                .packets()
                .min(packets_max)
                .min(self.window_left_packets().max(unheld)),
            bytes_max: self.window_left_bytes(),
            free_packets: unheld.max(usize::from(self.in_flight_bytes() == 0)),
            beyond_window: false,
        };
        let plan = self.fill(now, window);
        let Some(minimum) = self.minimum.as_deref().filter(|_| plan.packets == 0) else {
            return plan;
        };
        let packets_max = self.pacer.packets().min(packets_max);
        let beyond = TrainPlan {
            packets_max: packets_max.min(minimum.packets()),
            bytes_max: usize::MAX,
            beyond_window: true,
            ..plan
        };
        self.fill(now, beyond)
    }

    fn fill(&mut self, now: Instant, mut plan: TrainPlan) -> TrainPlan {
        let mut block = None;
        for entry in self.store.after(self.marks.highest) {
            if *block.get_or_insert(entry.block) != entry.block || !plan.add(entry.length()) {
                return plan;
            }
        }
        let together = block.is_none_or(|block| block == self.store.last_block());
        if self.ripe(now) && together && plan.add(self.store.open_bytes()) {
            self.close_packet(now, 0);
        }
        plan
    }

    /// Whether the open packet need not wait for more messages.
    fn ripe(&self, now: Instant) -> bool {
        match self.intake {
            Intake::Patiently => self.store.is_open() && self.batch_end.is_over(now),
            _ => {
                let since = self.store.open_since();
                since.is_some_and(|since| {
                    now.0.saturating_sub(since.0) >= self.config.batch_delay_ns
                })
            }
        }
    }

    /// The bytes of a packet that has been sent and is still kept, as they were sent: a repair.
    #[must_use]
    pub fn packet(&self, sequence: u64) -> Option<&[u8]> {
        if sequence > self.marks.highest {
            return None;
        }
        self.store.packet(sequence)
    }

    /// The bytes of a packet, sent or not, that is still kept. One that takes more messages has no checksum yet.
    #[must_use]
    pub fn assembled(&self, sequence: u64) -> Option<&[u8]> {
        let open = || (sequence == self.assembled_upto()).then(|| self.store.open_packet());
        self.store.packet(sequence).or_else(|| open().flatten())
    }

    /// Highest packet, sent or not, that has messages.
    #[must_use]
    pub fn assembled_upto(&self) -> u64 {
        self.store.assembled() + u64::from(self.store.is_open())
    }

    /// Packets up to here are not kept any more.
    #[must_use]
    pub fn freed_upto(&self) -> u64 {
        self.store.freed_upto()
    }

    /// When to call [`SendStream::poll_train`] and [`SendStream::handle_timeout`] next, if
    /// nothing else happens before. What can be sent at once needs no timeout: poll until
    /// nothing comes.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout_from(Instant(0))
    }

    /// The same, where nothing new may leave before that time.
    pub(crate) fn next_timeout_from(&self, leaves_from: Instant) -> Option<Instant> {
        let new = [self.train_timeout(), self.seal_timeout()];
        let new = new.into_iter().flatten().min();
        let new = new.map(|at| at.max(leaves_from));
        [new, self.alarms.next_timeout(), self.repeat_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    fn train_timeout(&self) -> Option<Instant> {
        let unsent = self.store.after(self.marks.highest).next();
        let (length, ripe) = match unsent {
            Some(entry) => (entry.length(), None),
            None if self.store.is_open() => (self.store.open_bytes(), self.open_end().timeout()),
            None => return None,
        };
        let waits = self.exceeds_window(length);
        let timeout = self.pacer.next_timeout().max(ripe);
        if waits && self.in_flight_bytes() > 0 {
            let minimum = self.minimum.as_deref()?.next_timeout()?;
            return timeout.max(Some(minimum));
        }
        timeout
    }
}
