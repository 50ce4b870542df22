//! A token while it is in a node's hands.

use qsm_wire::{
    HEADER_BYTES, Header, Marks, MemberIndex, Origin, Ranges, SeqRange, Slot, SlotHead, Token,
    TokenHead, TokenWriter,
};

use super::sets::NakSet;
use super::{Report, Streams};

/// Runs of missing packets a slot has room for in any case; sets beyond it are cut when the token
/// is full. Fewer runs make room for more streams per round and recovery slower, more the opposite.
const RANGES_PER_SLOT: usize = 4;
/// Bytes of a token without its slots: header, head, suspects, counts.
const FIXED_BYTES: usize = HEADER_BYTES + 41 + 2 * Token::SUSPECTS_MAX + 2;
/// Most streams in a token, however long the datagram: bounds the work on one token.
const SLOTS_MAX: usize = 128;

/// How many streams a token of that many bytes serves (G06).
pub(super) fn capacity(limit_bytes: usize) -> usize {
    let room = limit_bytes.saturating_sub(FIXED_BYTES);
    (room / Slot::encoded_bytes(RANGES_PER_SLOT)).clamp(1, SLOTS_MAX)
}

/// One stream in a token.
#[derive(Debug, Clone)]
pub(super) struct TokenEntry {
    pub(super) head: SlotHead,
    /// What the predecessor misses.
    pub(super) naks: NakSet,
    /// What all nodes of the partition so far miss.
    pub(super) common: NakSet,
    /// How far the cachers of each partition so far have got; 0: nothing said. Empty unless that
    /// is wanted (R094).
    pub(super) marks: Vec<u64>,
}

impl TokenEntry {
    /// A slot to which nobody has contributed yet.
    pub(super) fn new(origin: Origin, cutoff: u64, stable_upto: u64, cached_upto: u64) -> Self {
        Self {
            head: SlotHead {
                origin,
                cutoff,
                highest: 0,
                arrived: u64::MAX,
                cached: u64::MAX,
                stable: u64::MAX,
                stable_upto,
                cached_upto,
                losers: 0,
                naks_cut: false,
                common_cut: false,
            },
            naks: NakSet::default(),
            common: NakSet::default(),
            marks: Vec::new(),
        }
    }

    /// A slot put in on the way: those before did not contribute, so it makes no progress in this
    /// round except that the next one knows of the stream.
    pub(super) fn late(origin: Origin) -> Self {
        let mut entry = Self::new(origin, 0, 0, 0);
        entry.no_progress();
        entry
    }

    /// Adds one node's word (R065 a, e; X06). A node that never heard of the stream has none of
    /// it: the watermarks stay where they are (R-TOK-4).
    pub(super) fn contribute(&mut self, report: Option<Report>) {
        let Some(report) = report else {
            self.no_progress();
            return;
        };
        let head = &mut self.head;
        head.highest = head.highest.max(report.highest);
        head.arrived = head.arrived.min(report.arrived);
        head.cached = head.cached.min(report.cached);
        head.stable = head.stable.min(report.contiguous);
        head.losers = head.losers.saturating_add(u16::from(report.missing));
    }

    /// Some nodes have said nothing about this stream.
    pub(super) fn no_progress(&mut self) {
        self.limit(self.head.cached_upto, self.head.stable_upto);
    }

    /// Some nodes have at least this.
    pub(super) fn limit(&mut self, cached: u64, stable: u64) {
        self.head.arrived = self.head.arrived.min(stable);
        self.head.cached = self.head.cached.min(cached);
        self.head.stable = self.head.stable.min(stable);
    }

    fn merge(&mut self, other: &Self) {
        let (head, below) = (&mut self.head, &other.head);
        head.highest = head.highest.max(below.highest);
        head.arrived = head.arrived.min(below.arrived);
        head.cached = head.cached.min(below.cached);
        head.stable = head.stable.min(below.stable);
        head.losers = head.losers.saturating_add(below.losers);
        for (partition, mark) in other.marks.iter().enumerate() {
            self.mark(partition, *mark);
        }
    }

    /// The cachers of a partition have their part up to here (R094).
    fn mark(&mut self, partition: usize, upto: u64) {
        if partition >= Marks::MAX {
            return;
        }
        if self.marks.len() <= partition {
            self.marks.resize(partition + 1, 0);
        }
        let mark = &mut self.marks[partition];
        *mark = upto.max(*mark);
    }
}

/// A token's content.
#[derive(Debug, Clone)]
pub(super) struct Gathered {
    pub(super) head: TokenHead,
    pub(super) suspects: Vec<MemberIndex>,
    pub(super) slots: Vec<TokenEntry>,
}

impl Gathered {
    /// Copies a received token. Slots that contradict themselves or repeat a stream are left out:
    /// where a stream is left out, it makes no progress.
    pub(super) fn from_wire(token: &Token<'_>) -> Self {
        let mut slots: Vec<TokenEntry> = Vec::with_capacity(token.slot_count());
        for (slot, marks) in token.slots().zip(token.marks()) {
            let sound = slot.head.stable_upto <= slot.head.cached_upto;
            let known = slots
                .iter()
                .any(|entry| entry.head.origin == slot.head.origin);
            if sound && !known {
                slots.push(TokenEntry {
                    head: slot.head,
                    naks: nak_set(&slot.naks, slot.head.naks_cut),
                    common: nak_set(&slot.common, slot.head.common_cut),
                    marks: marks.iter().collect(),
                });
            }
        }
        Self {
            head: token.head,
            suspects: token.suspects().collect(),
            slots,
        }
    }

    /// A node takes part: counted once, with what it can bear (R065 g).
    pub(super) fn visit(&mut self, streams: &dyn Streams) {
        self.head.visited = self.head.visited.saturating_add(1);
        self.head.rate_packets = self.head.rate_packets.min(streams.receive_rate());
        self.head.credit_bytes = self.head.credit_bytes.min(streams.credit_bytes());
    }

    /// Adds what another ring has gathered (R066). A stream that only one of the two knows gets a
    /// slot, but no progress.
    pub(super) fn merge(&mut self, below: &Self, capacity: usize) {
        self.head.visited = self.head.visited.saturating_add(below.head.visited);
        self.head.rate_packets = self.head.rate_packets.min(below.head.rate_packets);
        self.head.credit_bytes = self.head.credit_bytes.min(below.head.credit_bytes);
        for suspect in &below.suspects {
            self.suspect(*suspect);
        }
        for entry in &mut self.slots {
            match below.slot(entry.head.origin) {
                Some(other) => entry.merge(other),
                None => entry.no_progress(),
            }
        }
        for entry in &below.slots {
            if self.slots.len() >= capacity {
                break;
            }
            if self.slot(entry.head.origin).is_none() {
                let mut entry = entry.clone();
                entry.no_progress();
                self.slots.push(entry);
            }
        }
    }

    /// The slot of a stream.
    pub(super) fn slot(&self, origin: Origin) -> Option<&TokenEntry> {
        self.slots.iter().find(|entry| entry.head.origin == origin)
    }

    /// Notes a silent member for the region leader.
    pub(super) fn suspect(&mut self, member: MemberIndex) {
        if self.suspects.len() < Token::SUSPECTS_MAX && !self.suspects.contains(&member) {
            self.suspects.push(member);
        }
    }

    /// Some members have said nothing, about any stream.
    pub(super) fn no_progress(&mut self) {
        for entry in &mut self.slots {
            entry.no_progress();
        }
    }

    /// What has been gathered is what the members of this partition say (R094).
    pub(super) fn mark(&mut self, partition: usize) {
        for entry in &mut self.slots {
            // Who has all it must have says u64::MAX.
            let top = entry.head.highest.max(entry.head.cutoff);
            entry.mark(partition, entry.head.cached.min(top));
        }
    }

    /// Forgets the sets of missing packets: they concern one partition only.
    pub(super) fn clear_sets(&mut self) {
        for entry in &mut self.slots {
            entry.naks = NakSet::default();
            entry.common = NakSet::default();
        }
    }

    /// Writes the datagram. Sets are cut where the token would become too long.
    pub(super) fn encode(&self, header: &Header, limit_bytes: usize, out: &mut Vec<u8>) {
        let range_bytes = Slot::encoded_bytes(1) - Slot::encoded_bytes(0);
        let marks: usize = self.slots.iter().map(|slot| slot.marks.len()).sum();
        let for_marks = Marks::encoded_bytes(self.slots.len(), marks);
        let fixed = FIXED_BYTES + self.slots.len() * Slot::encoded_bytes(0) + for_marks;
        let mut room = limit_bytes.saturating_sub(fixed) / range_bytes;
        let mut writer = TokenWriter::new(header, &self.head, &self.suspects, limit_bytes, out);
        for (at, entry) in self.slots.iter().enumerate() {
            let share = room / (self.slots.len() - at);
            let for_common = entry.common.ranges.len().min(share / 2);
            let naks = entry.naks.shortened(share - for_common);
            let common = entry.common.shortened(share - naks.ranges.len());
            let head = SlotHead {
                naks_cut: naks.cut,
                common_cut: common.cut,
                ..entry.head
            };
            let fits = writer.slot(&head, naks.ranges.as_slice(), common.ranges.as_slice());
            if !fits {
                break;
            }
            room = room.saturating_sub(naks.ranges.len() + common.ranges.len());
        }
        // Where they do not fit, the watermarks have to do.
        writer.marks(self.slots.iter().map(|slot| slot.marks.as_slice()));
    }
}

fn nak_set(ranges: &Ranges<'_>, cut: bool) -> NakSet {
    NakSet::new(&ranges.iter().collect::<Vec<SeqRange>>(), cut)
}
