//! Seals of origin in a stream (R-SEC-30): the sender signs what it has sent, in packets of the stream itself.
//!
//! ```text
//!   block   [ 5 | 6 | 7 | seal of 5 to 7 | 9 | 10... open |   room for a seal ]
//! ```
//!
//! A packet is noted when it is closed, in the order of its number; a seal is the next one after those that it is for. So
//! that there is always room for it, the last place of each block is left free: a seal takes no block of the pool, which
//! may have none. Receivers that wait for proof acknowledge nothing before it, so what comes up to the next seal leaves
//! whatever the window says, if no seal is on its way. Of a stream that has sent something before it is sealed, the first
//! seal says so: it has room behind the last place of a block, too, since it is short.

use core::time::Duration;
use std::sync::Arc;

use qsm_identity::NodeKey;
use qsm_origin::{SEAL_GROUP, Sealer};
use qsm_wire::{Chunk, DataHeader, Part};

use super::SendStream;
use super::seals::{SealedPast, StreamSeals};
use super::status::repeat;
use crate::{Destination, Instant, Outbox};

impl SendStream {
    /// Signs what is sent by this key, from the next packet on; `None`: signs it no more. Packets that are too short for a
    /// seal get none. Rules R-SEC-34, R-SEC-35.
    pub(crate) fn seal_by(&mut self, now: Instant, key: Option<Arc<NodeKey>>) {
        if key.is_some() == self.seals.is_some() {
            return;
        }
        self.close_packet(now, 0);
        let Some(key) = key else {
            self.write_seal(now);
            let highest = self.store.assembled();
            if let Some(seals) = self.seals.take() {
                let (upto, count) = (seals.last_upto(highest), seals.count);
                self.sealed = Some(Box::new(SealedPast { upto, count }));
            }
            self.store.set_unsealed(false);
            return;
        };
        let (highest, past) = (self.store.assembled(), self.sealed_past());
        let sealer = Sealer::new(self.id(), self.config.packet_bytes)
            .ok()
            .map(|sealer| sealer.at_most(usize::from(self.config.sealed_max)));
        let seals = sealer.map(|sealer| StreamSeals::new(key, sealer, highest, past));
        self.seals = seals.map(Box::new);
        if self.store.has_blocks() {
            self.begin_seals(now);
        }
    }

    fn sealed_past(&self) -> SealedPast {
        self.sealed.as_deref().copied().unwrap_or_default()
    }

    /// Number of the last seal up to this packet.
    pub(super) fn sealed_upto(&self, highest: u64) -> u64 {
        let seals = self.seals.as_ref();
        seals.map_or_else(|| self.sealed_past().upto, |seals| seals.last_upto(highest))
    }

    /// Says up to where the stream was not sealed, if that has not been said.
    pub(super) fn begin_seals(&mut self, now: Instant) {
        let head = self.next_head();
        let Some(seals) = &mut self.seals else {
            return;
        };
        let Some(unsealed) = seals.unsealed.take() else {
            return;
        };
        let content = seals
            .sealer
            .begin(&seals.key, &self.header, &head, unsealed);
        if let Ok(content) = content {
            self.append_seal(now, &head, &content);
        }
    }

    /// Takes note of the packet that has been closed last.
    #[cold]
    pub(super) fn note_closed(&mut self, now: Instant) {
        let sequence = self.store.assembled();
        if let Some(seals) = &mut self.seals
            && let Some(packet) = self.store.packet(sequence)
        {
            let noted = seals.sealer.note(since_start(now), packet);
            debug_assert!(noted.is_ok(), "packet {sequence}: {noted:?}");
            self.store.set_unsealed(true);
        }
    }

    /// When the next seal is due.
    pub(super) fn seal_timeout(&self) -> Option<Instant> {
        let due = self.seals.as_ref()?.sealer.due_at()?;
        Some(Instant(crate::nanoseconds(due)))
    }

    /// Seals written so far.
    pub(crate) fn seals(&self) -> u64 {
        let seals = self.seals.as_ref();
        seals.map_or_else(|| self.sealed_past().count, |seals| seals.count)
    }

    /// Tells whether something has been sent since the last seal.
    pub(super) fn owes_seal(&self) -> bool {
        let seals = self.seals.as_ref();
        seals.is_some_and(|seals| seals.sealer.noted() > 0)
    }

    /// Seals what was sent since the last seal, if that is due.
    #[inline]
    pub(super) fn seal_if_due(&mut self, now: Instant) {
        if self.seals.is_some() && self.seal_timeout().is_some_and(|due| due <= now) {
            self.close_packet(now, 0);
            self.write_seal(now);
        }
    }

    /// Seals what was sent since the last seal, if there is as much as one seal is for.
    #[inline]
    pub(super) fn seal_if_full(&mut self, now: Instant) {
        let seals = self.seals.as_ref();
        if seals.is_some_and(|seals| seals.sealer.is_full()) {
            self.write_seal(now);
        }
    }

    /// Seals what was sent since the last seal; no packet is open. Rule R-SEC-30.
    #[cold]
    pub(super) fn write_seal(&mut self, now: Instant) {
        let head = self.next_head();
        let room = self
            .store
            .packets_after(self.store.end(), self.config.packet_bytes);
        let Some(seals) = self.seals.as_mut().filter(|_| room > 0) else {
            return;
        };
        let Ok(content) = seals.sealer.seal(&seals.key, &self.header, &head) else {
            return;
        };
        self.append_seal(now, &head, &content);
    }

    fn append_seal(&mut self, now: Instant, head: &DataHeader, content: &[u8]) {
        if let Some(seals) = &mut self.seals {
            seals.note_written(now, head.sequence);
        }
        self.store.open(now, &self.header, head);
        self.store.append(&Chunk {
            group: SEAL_GROUP,
            message: 0,
            part: Part::Whole,
            content,
        });
        // Not filled up: a seal is told by its length, too.
        let (messages, coverage) = (self.counters.messages, self.config.coverage);
        self.closed_bytes += self.store.close(0, messages, coverage);
        self.store.set_unsealed(false);
    }

    /// Nobody is there any more for whom it would have to be sealed.
    pub(super) fn forget_unsealed(&mut self) {
        if let Some(seals) = &mut self.seals {
            seals.sealer.forget();
            seals.forget_written();
        }
    }

    /// The head of the next packet.
    pub(super) fn next_head(&self) -> DataHeader {
        let opening = self.opening();
        let sequence = self.store.assembled() + 1;
        DataHeader {
            channel: self.channel,
            view: opening.view,
            sequence,
            view_age: u32::try_from(sequence - opening.start).unwrap_or(u32::MAX),
        }
    }

    /// Packets of full size that the last block takes beyond its first `end` bytes.
    pub(super) fn packets_here(&self, end: usize) -> usize {
        let room = self.store.packets_after(end, self.config.packet_bytes);
        room.saturating_sub(usize::from(self.seals.is_some()))
    }

    /// The same of an empty block.
    pub(super) fn packets_per_block(&self) -> usize {
        let packets = self.config.packets_per_block();
        packets
            .saturating_sub(usize::from(self.seals.is_some()))
            .max(1)
    }

    /// Most seals that come before the last of so many more packets.
    pub(super) fn seals_among(&self, packets: usize) -> usize {
        self.seals.as_ref().map_or(0, |seals| {
            let all = seals.sealer.noted() + packets + 1;
            all / seals.sealer.packets_max() + usize::from(seals.unsealed.is_some())
        })
    }

    /// Room for the seal that follows the open packet if that is closed now; 0: none does.
    pub(super) fn next_seal_bytes(&self) -> usize {
        let open = usize::from(self.store.is_open());
        let seals = self.seals.as_ref();
        let full = seals.is_some_and(|seals| {
            let sealer = &seals.sealer;
            sealer.noted() + open >= sealer.packets_max()
        });
        if full { self.config.packet_bytes } else { 0 }
    }

    /// Forgets the seals that everybody has.
    pub(super) fn note_sealed_upto(&mut self, now: Instant, passed: u64) {
        if let Some(seals) = &mut self.seals {
            seals.note_passed(now, passed);
        }
    }

    /// When the oldest seal on its way is sent again.
    pub(super) fn repeat_timeout(&self) -> Option<Instant> {
        let again = self.seals.as_ref()?.again;
        (again != Instant::NEVER).then_some(again)
    }

    /// Sends the oldest seal on its way again, if it has not been acknowledged for long: who has lost it and got a forged
    /// packet in its place does not ask for it. Rule R-SEC-30.
    pub(super) fn repeat_seal(&mut self, now: Instant, channel: Destination, out: &mut Outbox) {
        let passed = self.passed_upto();
        let Some(seals) = self.seals.as_mut().filter(|seals| seals.again <= now) else {
            return;
        };
        seals.note_passed(now, passed);
        if let Some(seal) = seals.take_again(now)
            && let Some(packet) = self.packet(seal)
        {
            repeat(packet, channel, out);
            self.counters.last_resort += 1;
        }
    }

    /// Packets that leave next whatever the window says: up to a seal, if none is on its way.
    #[inline]
    pub(super) fn unheld_packets(&self) -> usize {
        match &self.seals {
            None => 0,
            Some(seals) => self.packets_to_seal(seals),
        }
    }

    #[cold]
    fn packets_to_seal(&self, seals: &StreamSeals) -> usize {
        let highest = self.marks.highest;
        let passed = self.passed_upto();
        let mut waited_for = seals.written.iter().copied().filter(|seal| *seal > passed);
        let upto = match waited_for.next() {
            Some(seal) if seal <= highest => highest,
            Some(seal) => seal,
            None => self.assembled_upto(),
        };
        usize::try_from(upto - highest).unwrap_or(usize::MAX)
    }
}

fn since_start(now: Instant) -> Duration {
    Duration::from_nanos(now.0)
}

#[cfg(test)]
mod tests {
    use qsm_origin::{Seal, Verdict, Verifier};
    use qsm_wire::{
        Ack, Data, GroupId, Header, Incarnation, NodeId, Origin, RegionId, StreamId, ViewNumber,
    };

    use super::*;
    use crate::Config;
    use crate::send::{BlockPool, Message, SendConfig};
    use crate::stats::Histogram;

    const MS: Duration = Duration::from_millis(1);

    struct Sender {
        stream: SendStream,
        pool: BlockPool,
        key: Arc<NodeKey>,
        number: u64,
        sent: Vec<Vec<u8>>,
    }

    impl Sender {
        fn new(pool_bytes: usize) -> Self {
            let address = ([10, 0, 0, 1], 7000).into();
            let config = Config::new(NodeId(1), address);
            let origin = Origin {
                node: NodeId(1),
                incarnation: Incarnation(1),
            };
            let header = Header {
                cluster: 7,
                origin,
                ..Header::default()
            };
            let id = StreamId {
                origin,
                channel: qsm_wire::ChannelId(3),
            };
            let mut stream = SendStream::new(SendConfig::new(&config), header, id, ViewNumber(1));
            let seed = [5; 32];
            let key = Arc::new(NodeKey::from_seed(&seed).unwrap());
            stream.seal_by(Instant(0), Some(Arc::clone(&key)));
            Self {
                stream,
                pool: BlockPool::new(pool_bytes, 0),
                key,
                number: 0,
                sent: Vec::new(),
            }
        }

        fn push(&mut self, now: Instant, bytes: usize) -> bool {
            let message = Message {
                group: GroupId(4),
                number: self.number + 1,
                payload: &vec![7; bytes],
            };
            let taken = self.stream.push(now, &mut self.pool, message).is_ok();
            self.number += u64::from(taken);
            self.stream.check_invariants();
            taken
        }

        /// Sends what may leave.
        fn poll(&mut self, now: Instant) {
            while let Some(train) = self.stream.poll_train(now) {
                let packets = train.bytes.chunks(train.segment_bytes);
                self.sent.extend(packets.map(<[u8]>::to_vec));
            }
            self.stream.check_invariants();
        }

        fn acknowledge(&mut self, now: Instant, upto: u64) {
            self.acknowledge_cached(now, upto, upto);
        }

        /// All have it up to one number, and cachers keep it up to another.
        fn acknowledge_cached(&mut self, now: Instant, upto: u64, cached: u64) {
            let ack = Ack {
                stream: self.stream.id(),
                region: RegionId(1),
                view: ViewNumber(1),
                round: upto,
                stable_upto: upto,
                cached_upto: cached,
                arrived_upto: self.stream.highest(),
                rate_packets: u32::MAX,
                credit_bytes: 1 << 16,
                losers: 0,
            };
            let mut times = Histogram::default();
            self.stream
                .handle_ack(now, &mut self.pool, &ack, &mut times);
            self.stream.check_invariants();
        }

        /// Seals that are sent again up to this millisecond: when, and their numbers.
        fn repeated(&mut self, until: u64) -> Vec<(u64, u64)> {
            let (channel, mut outbox) = (([239, 0, 0, 1], 7).into(), Outbox::new());
            let mut repeated = Vec::new();
            while let Some(due) = self.stream.next_timeout()
                && due.0 <= until * 1_000_000
            {
                let channel = Destination::Group(channel);
                let unanswered = self.stream.handle_timeout(due, channel, &mut outbox);
                assert!(!unanswered || due >= Instant(0).after(MS * 500));
                while let Some(sent) = outbox.pop() {
                    let is_seal = matches!(Seal::read(sent.bytes), Ok(Some(_)));
                    let seal = Data::read_again(sent.bytes).filter(|_| is_seal);
                    repeated.extend(seal.map(|seal| (due.0 / 1_000_000, seal.head.sequence)));
                }
            }
            repeated
        }

        /// Last packet that seals prove.
        fn proven_upto(&self) -> u64 {
            let mut verifier = Verifier::new(7, self.stream.id(), self.key.public());
            let mut findings = Vec::new();
            for packet in &self.sent {
                let verdict = verifier.take(packet, &mut findings);
                assert!(matches!(verdict, Verdict::Waits | Verdict::Proven));
            }
            assert!(findings.iter().all(|one| one.verdict == Verdict::Proven));
            (1..).find(|n| !verifier.is_proven(*n)).unwrap() - 1
        }

        fn seals(&self) -> usize {
            let seals = self
                .sent
                .iter()
                .filter_map(|packet| Seal::read(packet).ok());
            seals.flatten().count()
        }
    }

    // Rule R-SEC-30.
    #[test]
    fn a_seal_follows_five_milliseconds_after_the_first_packet_and_none_follows_a_seal() {
        let mut sender = Sender::new(1 << 20);
        let start = Instant(1000);
        assert!(sender.push(start, 100));
        sender.poll(start);
        assert_eq!((sender.sent.len(), sender.seals()), (1, 0));
        assert_eq!(sender.stream.seal_timeout(), Some(start.after(MS * 5)));
        sender.poll(start.after(MS * 4));
        assert_eq!(sender.seals(), 0);
        sender.poll(start.after(MS * 5));
        assert_eq!((sender.seals(), sender.proven_upto()), (1, 2));
        assert_eq!(sender.stream.seal_timeout(), None);
        sender.poll(start.after(MS * 50));
        assert_eq!(sender.sent.len(), 2);
    }

    // Rule R-SEC-30.
    #[test]
    fn many_packets_have_a_seal_each_83_and_large_messages_too() {
        let mut sender = Sender::new(1 << 23);
        let mut now = Instant(1000);
        assert!(sender.push(now, 300_000));
        assert!(sender.push(now, 1000));
        for _ in 0..40 {
            sender.poll(now);
            sender.acknowledge(now, sender.proven_upto());
            now = now.after(MS);
        }
        assert_eq!(sender.stream.unsent_bytes(), 0);
        assert_eq!(sender.proven_upto(), sender.sent.len() as u64);
        assert!(sender.seals() >= 3);
        sender.acknowledge(now, sender.stream.highest());
        assert!(sender.stream.is_idle());
        assert_eq!(sender.pool.lent_blocks(), 0);
    }

    // Rule R-SEC-30.
    #[test]
    fn a_small_window_lets_packets_go_on_to_their_seal_and_a_full_pool_has_room_for_it() {
        let mut sender = Sender::new(1 << 17);
        let mut now = Instant(1000);
        let mut acknowledged = 0;
        for _ in 0..200 {
            while sender.push(now, 1300) {}
            sender.poll(now);
            now = now.after(MS);
            // Receivers acknowledge nothing but what is proven.
            let proven = sender.proven_upto();
            assert!(proven == 0 || proven > acknowledged || sender.stream.owes_seal());
            acknowledged = proven;
            sender.acknowledge(now, proven);
        }
        assert!(sender.number > 1000, "only {} messages", sender.number);
    }

    // Rule R-SEC-30.
    #[test]
    fn who_ends_seals_and_a_new_view_begins_behind_a_seal() {
        let mut sender = Sender::new(1 << 20);
        let now = Instant(1000);
        sender.push(now, 100);
        sender.stream.open_view(now, ViewNumber(2));
        assert_eq!(sender.stream.openings().last().unwrap().start, 3);
        sender.push(now, 100);
        assert!(!sender.stream.is_idle());
        sender.stream.finish(now);
        sender.poll(now);
        assert_eq!((sender.sent.len(), sender.proven_upto()), (4, 4));
    }

    // Rule R-SEC-30.
    #[test]
    fn the_oldest_seal_is_sent_again_until_it_is_acknowledged() {
        let mut sender = Sender::new(1 << 20);
        let start = Instant(0);
        for at in [0, 100] {
            sender.push(start.after(MS * at), 100);
            sender.poll(start.after(MS * at));
            sender.poll(start.after(MS * (at + 5)));
        }
        assert_eq!(sender.sent.len(), 4);
        // Packets 2 and 4 are seals. All is kept, and nobody knows that one was forged.
        sender.acknowledge_cached(start.after(MS * 200), 0, 4);
        assert_eq!(sender.repeated(900), []);
        assert_eq!(
            sender.repeated(12_000),
            [(1005, 2), (3005, 2), (7005, 2), (11_005, 2)]
        );
        sender.acknowledge(start.after(MS * 12_000), 2);
        assert_eq!(sender.repeated(16_000), [(13_000, 4), (15_000, 4)]);
        assert_eq!(sender.stream.counters().last_resort, 6);
        sender.acknowledge(start.after(MS * 16_000), 4);
        assert_eq!(sender.stream.next_timeout(), None);
    }

    #[test]
    fn what_nobody_is_left_for_is_not_sealed() {
        let mut sender = Sender::new(1 << 20);
        let now = Instant(1000);
        sender.push(now, 100);
        sender.poll(now);
        sender.stream.no_receivers(&mut sender.pool);
        assert!(sender.stream.is_idle() && sender.pool.lent_blocks() == 0);
        sender.poll(now.after(MS * 10));
        assert_eq!(sender.sent.len(), 1);
    }
}
