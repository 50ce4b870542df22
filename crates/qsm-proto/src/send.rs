//! Streams this node sends: packet assembly, window, pacing, heartbeats.
//!
//! One [`SendStream`] is one sender's packets on one channel, numbered from 1 without end
//! (R053: the second of the two levels; the first, per sender and group, comes in with each
//! message). Its life in one picture:
//!
//! ```text
//!  push()          poll_train()           handle_ack()
//!  messages ──► open packet ──► unsent ──► in flight ──► cached ──► stable
//!              assembled + 1   ≤ assembled  ≤ highest   ≤ cached   ≤ stable
//!                 bytes of packets are kept from here ──────┘         │
//!                 the window counts the bytes from here ──────────────┘
//! ```
//!
//! *One copy.* A message is copied once, from the application's bytes into the packet that will
//! carry it. Packets lie back to back in blocks of a [`BlockPool`], so that a run of packets of
//! one length is a train for UDP segmentation offload as it lies there, and the same bytes serve
//! as repair until the cachers have them.
//!
//! *Equal lengths.* Only packets of one length travel in a train, and trains are worth a factor
//! of ten in packets per second. A packet that is closed because the next message does not fit is
//! filled up to the length of the one before it, at the price of at most an eighth.
//!
//! *Three limits* decide what leaves: the window (what receivers can buffer, R134), the rate
//! ([`rate`], R102), and for the last, unfinished packet the time it may wait (R244). Memory is
//! bounded by the pool, and by a backlog limit per stream beyond which the application keeps its
//! messages (R139).
//!
//! *Silence* is the enemy of recovery by gaps: what follows the last packet tells nobody that it
//! is missing. So after data stops heartbeats say how far the stream goes, 2 ms after, doubling
//! to a second (G01, algorithms (b)), until everybody has everything. Should even that not help,
//! the sender sends the oldest packets again (R086); that practically never happens, and is
//! counted.
//!
//! Not here: who the receivers are, and how one message is put on several streams.

mod assemble;
mod batching;
mod feedback;
mod minimum;
mod passage;
mod past;
mod pool;
pub mod rate;
mod retained;
mod sealing;
mod seals;
mod status;
mod store;
mod timing;
mod transmit;

use core::time::Duration;

use qsm_wire::{
    ChannelId, Coverage, DATA_HEADER_BYTES, GroupId, Header, Opening, Parity, StreamId, TAG_BYTES,
    ViewNumber,
};

pub use self::batching::Batching;
pub use self::feedback::AckOutcome;
pub(crate) use self::passage::PacketDelays;
use self::passage::Passage;
pub(crate) use self::past::PastStreams;
pub use self::pool::{BLOCK_BYTES, BlockPool};
pub use self::retained::FreedMessage;
pub use self::transmit::Train;

use self::batching::BatchEnd;
use self::minimum::MinimumRate;
use self::rate::{Pacer, RateConfig};
use self::seals::{SealedPast, StreamSeals};
use self::status::Alarms;
use self::store::SendBuffer;
use self::timing::PacketTimes;
use crate::{Config, Instant};

/// Most bytes of a train: what one UDP send may carry (65,507), with some room. A block is filled
/// up to here.
pub const TRAIN_BYTES_MAX: usize = 65_000;
/// Most packets of a train: what every kernel with UDP segmentation offload takes.
pub const TRAIN_PACKETS_MAX: usize = 64;
/// Window before the first ACK, bytes: what the smallest usual receive buffer takes at once.
pub const FIRST_WINDOW_BYTES: usize = 64 << 10;
/// View openings remembered and announced.
pub const OPENINGS_MAX: usize = qsm_wire::Heartbeat::OPENINGS_MAX;

/// Unsent bytes beyond which a stream takes no further message: some twenty trains. Less would
/// idle the link while the application is asked for more; more only lengthens the queue.
const BACKLOG_BYTES: usize = 1 << 20;
/// Share of a receiver's memory that packets before a seal may take.
const SEALED_SHARE: usize = 4;
/// Share of the node's send memory that one stream's window may take.
const WINDOW_SHARE: usize = 4;

/// What a stream needs to know, derived from [`Config`].
#[derive(Debug, Clone, Copy)]
pub struct SendConfig {
    /// Longest packet, bytes: a datagram without what packets leave free, for the tag of protection, and with
    /// parities for what these are longer by (R-NAK-15).
    pub packet_bytes: usize,
    /// Most packets between two seals: receivers keep them until the second comes, and have as little memory as this
    /// node (R-SEC-30).
    pub sealed_max: u16,
    /// Most bytes sent but not yet received by all, however much credit the receivers give.
    pub window_bytes: usize,
    /// How many times the credit the unstable bytes may be.
    pub kept_factor: u32,
    /// Most packets sent but not yet received by all: receivers look no farther ahead.
    pub window_packets: u64,
    /// Unsent bytes beyond which no message is taken. One message of any size is taken below it.
    pub backlog_bytes: usize,
    /// Longest wait of a packet for further messages (R244), if these say nothing else; nanoseconds.
    pub batch_delay_ns: u64,
    /// How long `cached_upto` may stand still before packets are sent again (R086).
    pub last_resort: Duration,
    /// From the last packet to the first heartbeat (G01).
    pub heartbeat_min: Duration,
    /// Bytes of a packet that its checksum covers.
    pub coverage: Coverage,
    /// Bounds of the rate.
    pub rate: RateConfig,
}

impl SendConfig {
    /// The part of a node's configuration that concerns its streams.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let window_bytes = (config.limits.send_bytes / WINDOW_SHARE).max(FIRST_WINDOW_BYTES);
        // With one token a second an ACK takes a few rounds (S2 §2.3.3).
        let rounds = config.pace.token_min.saturating_mul(5);
        let packet_bytes = match config.recovery.uses_parity() {
            true => config.parity_bytes().saturating_sub(Parity::OVERHEAD_BYTES),
            false => config.datagram_bytes.saturating_sub(TAG_BYTES),
        };
        let sealed_bytes = config.limits.receive_bytes / SEALED_SHARE;
        Self {
            packet_bytes,
            sealed_max: u16::try_from(sealed_bytes / packet_bytes.max(1)).unwrap_or(u16::MAX),
            window_bytes,
            kept_factor: u32::try_from(config.pace.kept_factor.max(1)).unwrap_or(u32::MAX),
            window_packets: config.limits.ahead_packets,
            backlog_bytes: BACKLOG_BYTES.min(window_bytes),
            batch_delay_ns: crate::nanoseconds(config.pace.batch_delay),
            last_resort: rounds.max(Duration::from_secs(3)),
            heartbeat_min: config.pace.heartbeat_min,
            coverage: config.coverage,
            rate: RateConfig::new(&config.pace),
        }
    }

    /// What a packet of full length holds in chunks.
    fn packet_room(&self) -> usize {
        self.packet_bytes.saturating_sub(DATA_HEADER_BYTES)
    }

    /// Packets of full length that a block holds.
    fn packets_per_block(&self) -> usize {
        (TRAIN_BYTES_MAX / self.packet_bytes.max(1)).max(1)
    }
}

/// A message to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The group it is published to.
    pub group: GroupId,
    /// Its number among this sender's messages to this group, from 1.
    pub number: u64,
    /// Its content.
    pub payload: &'a [u8],
}

/// Why a message is not taken. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError {
    /// The stream has been finished.
    Finished,
    /// Too much is unsent, or the pool is empty: try again after transmits and ACKs.
    Full,
    /// The message would not fit if the whole pool were free.
    TooLarge {
        /// The longest message that could be taken, bytes.
        max: usize,
    },
}

impl core::fmt::Display for PushError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Finished => f.write_str("the stream has been finished"),
            Self::Full => {
                f.write_str("send memory is full; try again after receivers acknowledged")
            }
            Self::TooLarge { max } => write!(
                f,
                "message is longer than the {max} bytes that the send memory can hold; raise limits.send_bytes"
            ),
        }
    }
}

impl core::error::Error for PushError {}

qsm_metrics::metrics! {
    /// Counters of a stream sent, since its start.
    #[derive(Copy)]
    pub struct SendCounters of "stream" {
        /// Messages taken.
        messages: counter(messages),
        /// Fresh packets handed out.
        packets: counter(packets),
        /// Bytes of fresh packets handed out.
        bytes: counter(bytes),
        /// Trains that fresh packets were handed out in.
        trains: counter(trains),
        /// Bytes that only fill packets up to the length of their train.
        padding_bytes: counter(bytes),
        /// Heartbeats sent because data stopped or the view changed.
        heartbeats: counter(packets),
        /// Packets sent again as last resort.
        last_resort: counter(packets),
        /// ACKs of rounds already known.
        acks_stale: counter(packets),
        /// ACKs that cannot be true.
        acks_malformed: counter(packets),
    }
}

/// How far the acknowledgements go.
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    /// Highest packet handed out for sending.
    highest: u64,
    /// All cachers have their part up to here, or nobody is waited for.
    cached: u64,
    /// Everybody has received this packet or a later one; not below what is stable.
    arrived: u64,
    /// Newest round heard of.
    round: (ViewNumber, u64),
}

/// What need not count as in flight although it is not stable: the cachers of its partition have
/// it (R094). Its bytes stay until the watermark comes, since packets share blocks.
#[derive(Debug, Clone, Copy, Default)]
struct PressureRelief {
    packets: u64,
    bytes: usize,
}

/// The packet length that padding aims at.
#[derive(Debug, Clone, Copy, Default)]
struct PaddingRun {
    /// Length of the packets of the present run; 0 when all packets have been sent.
    bytes: u32,
    /// The last packet was too short to be padded: the next such one sets a new length. A single
    /// one only ends its train.
    short: bool,
}

impl PaddingRun {
    fn closed(&mut self, length: usize) {
        let short = length < self.bytes();
        if !short || self.short {
            self.bytes = u32::try_from(length).unwrap_or(u32::MAX);
        }
        self.short = short;
    }

    fn bytes(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }
}

/// How far a stream that has ended went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    /// Highest packet number given.
    pub highest: u64,
    /// Where its last views begin, oldest first; never empty.
    pub openings: Vec<Opening>,
    /// Number of its last seal; 0: it has had none.
    pub sealed: u64,
}

/// Way in which a stream takes messages. Most take them freely, and pay for nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intake {
    /// The open packet waits as the configuration says, if there is one.
    Freely,
    /// The open packet waits until its own end (R-DATA-15).
    Patiently,
    /// No more.
    Finished,
}

/// One sender's packets on one channel. See the module.
#[derive(Debug)]
pub struct SendStream {
    config: SendConfig,
    header: Header,
    channel: ChannelId,
    /// Where views begin, oldest first; never empty.
    openings: Vec<Opening>,
    store: SendBuffer,
    marks: Marks,
    /// What receivers' buffers take, bytes.
    window_bytes: usize,
    /// Bytes sent and not known to have arrived.
    under_way_bytes: usize,
    /// Bytes sent and not stable.
    in_flight_bytes: usize,
    /// What partitions have of these (R094).
    relief: PressureRelief,
    /// Bytes of closed packets not yet sent.
    closed_bytes: usize,
    run: PaddingRun,
    /// Until when the open packet waits, if messages are taken patiently.
    batch_end: BatchEnd,
    pacer: Pacer,
    /// The rate below which no receiver holds it (R-RATE-10); none before it has one.
    minimum: Option<Box<MinimumRate>>,
    alarms: Alarms,
    counters: SendCounters,
    /// Sendings of packets that are not stable yet; none before the first.
    sendings: Option<Box<PacketTimes>>,
    /// Way of a packet until it is sent, if that is timed.
    passage: Option<Box<Passage>>,
    /// Seals of what is sent, if that is signed.
    seals: Option<Box<StreamSeals>>,
    /// Seals that are over: of a time when it was signed.
    sealed: Option<Box<SealedPast>>,
    intake: Intake,
    /// Members that were away have not said yet that they have what was sent before the newest view.
    confirms: bool,
}

impl SendStream {
    /// A stream without packets, whose first messages belong to `view`. `header` is what its
    /// packets begin with; its origin must be the stream's.
    #[must_use]
    pub fn new(config: SendConfig, header: Header, id: StreamId, view: ViewNumber) -> Self {
        Self {
            pacer: Pacer::new(config.rate),
            minimum: None,
            config,
            header,
            channel: id.channel,
            openings: vec![Opening { view, start: 1 }],
            store: SendBuffer::default(),
            marks: Marks::default(),
            window_bytes: FIRST_WINDOW_BYTES.min(config.window_bytes),
            under_way_bytes: 0,
            in_flight_bytes: 0,
            relief: PressureRelief::default(),
            closed_bytes: 0,
            run: PaddingRun::default(),
            batch_end: BatchEnd::OPEN,
            alarms: Alarms::new(config.heartbeat_min),
            counters: SendCounters::default(),
            sendings: None,
            passage: None,
            seals: None,
            sealed: None,
            intake: Intake::Freely,
            confirms: false,
        }
    }

    /// A stream that goes on after what was sent on this channel before.
    #[must_use]
    pub fn resume(config: SendConfig, header: Header, id: StreamId, past: Past) -> Self {
        let mut stream = Self::new(config, header, id, ViewNumber(0));
        stream.store = SendBuffer::after_packets(past.highest);
        stream.marks.highest = past.highest;
        stream.marks.cached = past.highest;
        stream.marks.arrived = past.highest;
        stream.openings = past.openings;
        let upto = past.sealed;
        stream.sealed = (upto > 0).then(|| Box::new(SealedPast { upto, count: 0 }));
        stream
    }

    /// Ends the stream: returns its memory, and what is to be remembered of it.
    #[must_use]
    pub fn end(mut self, pool: &mut BlockPool) -> Past {
        // Packets that were never sent give their numbers back, unless an opening has told them.
        let told = self.opening().start - 1;
        let highest = self.marks.highest.max(told);
        let sealed = self.sealed_upto(highest);
        self.no_receivers(pool);
        Past {
            highest,
            openings: self.openings,
            sealed,
        }
    }

    /// Members are away: keeps what becomes stable from now on. Rule R-VIEW-13.
    pub fn begin_retaining(&mut self) {
        self.store.begin_retaining();
    }

    /// Members that were away are live in the newest view: they have yet to say that they have what
    /// was sent before it. Acknowledgements of older views, which come late, do not speak for them.
    pub fn await_returned(&mut self) {
        let freed = self.store.freed_upto();
        self.confirms = self.retains() && freed + 1 < self.opening().start;
    }

    /// All live members of the newest view have everything up to here; `away`: there are others. To be
    /// called before the ACK is handled that says so: what nobody lacks takes no room from what becomes
    /// stable by it.
    pub fn confirm_retained(&mut self, pool: &mut BlockPool, stable_upto: u64, away: bool) {
        self.confirms &= stable_upto + 1 < self.opening().start;
        let passing = self.passed_upto() > self.stable_upto().max(stable_upto);
        match self.confirms || passing {
            _ if away || !self.retains() => {}
            true => self.store.forget_retained(stable_upto, pool),
            false => self.store.end_retaining(pool),
        }
    }

    /// Whether packets are kept of which members that were away have yet to say that they have them.
    #[must_use]
    pub fn confirms(&self) -> bool {
        self.confirms
    }

    /// Whether packets are kept for members that are away, or were.
    #[must_use]
    pub fn retains(&self) -> bool {
        self.store.retains()
    }

    /// Packets up to here were freed while members were away, because what is kept for these was
    /// as much as may be.
    #[must_use]
    pub fn overrun(&self) -> u64 {
        self.store.overrun()
    }

    /// Takes the messages of packets freed so since they were taken last.
    pub(crate) fn take_freed(&mut self) -> Vec<FreedMessage> {
        self.store.take_freed()
    }

    /// Which stream this is.
    #[must_use]
    pub fn id(&self) -> StreamId {
        StreamId {
            origin: self.header.origin,
            channel: self.channel,
        }
    }

    /// Messages from now on belong to this view of the region; those before keep the old one
    /// (R054). Views not newer than the present one change nothing.
    pub fn open_view(&mut self, now: Instant, view: ViewNumber) {
        if view <= self.view() {
            return;
        }
        self.close_packet(now, 0);
        // Who leaves with this view needs the proof of what was sent before.
        self.write_seal(now);
        let start = self.store.assembled() + 1;
        self.openings.push(Opening { view, start });
        if let [.., oldest, between, _] = self.openings[..]
            && oldest.start == between.start
            && between.start == start
        {
            // Of views that begin at the same packet the first and the last say all.
            self.openings.remove(self.openings.len() - 2);
        }
        if self.openings.len() > OPENINGS_MAX {
            self.openings.remove(0);
        }
        if self.marks.highest > 0 {
            self.alarms.announce(now, view);
        }
    }

    /// The view that messages now belong to.
    #[must_use]
    pub fn view(&self) -> ViewNumber {
        self.opening().view
    }

    /// Where the last views begin in the stream, oldest first; at most [`OPENINGS_MAX`].
    #[must_use]
    pub fn openings(&self) -> &[Opening] {
        &self.openings
    }

    fn opening(&self) -> Opening {
        let none = Opening {
            view: ViewNumber(0),
            start: 1,
        };
        self.openings.last().copied().unwrap_or(none)
    }

    /// No message will follow. What there is will still be sent; heartbeats then say so.
    pub fn finish(&mut self, now: Instant) {
        if self.intake == Intake::Finished {
            return;
        }
        self.close_packet(now, 0);
        self.write_seal(now);
        self.intake = Intake::Finished;
        if self.marks.highest > 0 {
            self.alarms.heartbeat_now(now);
        }
    }

    /// Nothing is unsent, and everybody has everything.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.unsent_bytes() == 0 && self.stable_upto() == self.marks.highest && !self.owes_seal()
    }

    /// Highest packet sent; 0 before the first.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.marks.highest
    }

    /// All cachers have their part of everything up to here.
    #[must_use]
    pub fn cached_upto(&self) -> u64 {
        self.marks.cached
    }

    /// Bytes of packets that wait to be sent, the open one included.
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        self.closed_bytes + self.store.open_bytes()
    }

    /// Messages taken that not everybody is known to have.
    #[must_use]
    pub fn pending_messages(&self) -> u64 {
        self.counters.messages - self.store.messages_upto(self.stable_upto())
    }

    /// Messages of which some part waits to be sent.
    #[must_use]
    pub fn unsent_messages(&self) -> u64 {
        self.counters.messages - self.store.messages_upto(self.marks.highest)
    }

    /// Bytes of packets that wait to be sent, or are sent and not known to be at everybody.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.in_flight_bytes + self.unsent_bytes()
    }

    /// Bytes sent that not everybody is known to have, without what is passed over.
    #[must_use]
    pub fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes - self.relief.bytes
    }

    /// Packets sent that not everybody is known to have, without those that are passed over.
    #[must_use]
    pub fn in_flight_packets(&self) -> u64 {
        self.marks.highest - self.passed_upto() - self.relief.packets
    }

    /// Bytes that may be sent before anybody is known to have received them.
    #[must_use]
    pub fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    /// What may be sent now: as much as receivers' buffers take, and as they can keep where
    /// something is missing. Rule R-RATE-4.
    fn window_left_bytes(&self) -> usize {
        let unstable = self.in_flight_bytes();
        let buffered = self.under_way_bytes.min(unstable);
        let kept = self
            .window_bytes
            .saturating_mul(self.config.kept_factor as usize);
        let kept = kept.min(self.config.window_bytes);
        let buffers = self.window_bytes.saturating_sub(buffered);
        buffers.min(kept.saturating_sub(unstable))
    }

    /// The same in packets.
    fn window_left_packets(&self) -> usize {
        let room = self
            .config
            .window_packets
            .saturating_sub(self.in_flight_packets());
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Packets per second aimed at; [`rate::UNLIMITED`] for no limit.
    #[must_use]
    pub fn rate(&self) -> u32 {
        self.pacer.target()
    }

    /// What the stream has done.
    #[must_use]
    pub fn counters(&self) -> &SendCounters {
        &self.counters
    }

    /// Asserts what must hold after every call (architecture, invariant 3).
    ///
    /// # Panics
    /// If it does not; the message says what.
    pub fn check_invariants(&self) {
        let Marks {
            highest,
            cached,
            arrived,
            ..
        } = self.marks;
        let (passed, assembled) = (self.passed_upto(), self.store.assembled());
        assert!(
            self.stable_upto() <= passed
                && passed <= cached
                && cached <= highest
                && highest <= assembled,
            "passed {passed} <= cached {cached} <= highest {highest} <= assembled {assembled}"
        );
        assert!(
            passed <= arrived && arrived <= highest,
            "passed {passed} <= arrived {arrived} <= highest {highest}"
        );
        let (mut unsent, mut in_flight, mut under_way) = (0, 0, 0);
        for (number, packet) in (passed + 1..).zip(self.store.after(passed)) {
            let bytes = packet.length();
            if number > highest {
                unsent += bytes;
                continue;
            }
            in_flight += bytes;
            if number > arrived {
                under_way += bytes;
            }
        }
        assert_eq!(self.closed_bytes, unsent, "unsent bytes");
        assert_eq!(self.in_flight_bytes, in_flight, "bytes in flight");
        assert_eq!(self.under_way_bytes, under_way, "bytes under way");
        assert!(
            self.relief.bytes <= self.in_flight_bytes && self.relief.packets <= highest - passed,
            "{:?} of {} bytes in flight",
            self.relief,
            self.in_flight_bytes
        );
        let starts = self.openings.windows(2);
        assert!(
            starts
                .into_iter()
                .all(|pair| pair[0].view < pair[1].view && pair[0].start <= pair[1].start),
            "openings out of order: {:?}",
            self.openings
        );
        self.store.check();
    }
}

/// A count as the wire has it.
fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
