use crate::marks::Marks;
use crate::range::put_ranges;
use crate::raw::{Reader, put_origin};
use crate::repair::flag;
use crate::{
    DecodeError, Header, Kind, MemberIndex, Origin, Ranges, RegionId, SeqRange, ViewNumber,
};

/// What identifies a token and what it gathers for the region as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenHead {
    /// The region.
    pub region: RegionId,
    /// The view whose rings it travels.
    pub view: ViewNumber,
    /// The region leader that opened the round. Two self-elected leaders have two tokens (R029).
    pub leader: Origin,
    /// The leader's round (G05).
    pub round: u64,
    /// 0: the ring of a partition; above: rings of leaders.
    pub level: u8,
    /// Which ring of the level.
    pub ring: u16,
    /// Nodes of the subtree that have taken part so far.
    pub visited: u16,
    /// Smallest receive rate so far, packets per second; `u32::MAX`: nobody is constrained.
    pub rate_packets: u32,
    /// Smallest receive buffer so far, bytes.
    pub credit_bytes: u32,
}

/// One stream's place in a token (R065).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotHead {
    /// The sender.
    pub origin: Origin,
    /// What counts as missing in this round: last round's `highest`.
    pub cutoff: u64,
    /// Highest number received by anybody so far; the next cutoff.
    pub highest: u64,
    /// Smallest number, over the nodes so far, of the highest that each has received from the
    /// sender, whatever is missing before it.
    pub arrived: u64,
    /// Smallest contiguous number cached, over the cachers so far.
    pub cached: u64,
    /// Smallest contiguous number received, over the nodes so far.
    pub stable: u64,
    /// Last round's result: everyone purges up to here.
    pub stable_upto: u64,
    /// Last round's result for cachers.
    pub cached_upto: u64,
    /// Nodes so far that missed something.
    pub losers: u16,
    /// Whether the predecessor misses more than its NAK set says.
    pub naks_cut: bool,
    /// Whether the partition misses more in common than `common` says.
    pub common_cut: bool,
}

const SLOT_HEAD_BYTES: usize = 12 + 7 * 8 + 2 + 4;

/// One stream's place in a received token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot<'a> {
    /// The numbers.
    pub head: SlotHead,
    /// What the predecessor misses of the packets its partition caches, up to the cutoff.
    pub naks: Ranges<'a>,
    /// What all nodes of the partition so far miss of these.
    pub common: Ranges<'a>,
}

impl<'a> Slot<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let origin = reader.origin()?;
        let [
            cutoff,
            highest,
            arrived,
            cached,
            stable,
            stable_upto,
            cached_upto,
        ] = [
            reader.u64()?,
            reader.u64()?,
            reader.u64()?,
            reader.u64()?,
            reader.u64()?,
            reader.u64()?,
            reader.u64()?,
        ];
        let losers = reader.u16()?;
        let naks_cut = flag(reader.u8()?)?;
        let common_cut = flag(reader.u8()?)?;
        let nak_count = reader.u8()?;
        let common_count = reader.u8()?;
        let head = SlotHead {
            origin,
            cutoff,
            highest,
            arrived,
            cached,
            stable,
            stable_upto,
            cached_upto,
            losers,
            naks_cut,
            common_cut,
        };
        let naks = Ranges::read(reader, nak_count)?;
        Ok(Self {
            head,
            naks,
            common: Ranges::read(reader, common_count)?,
        })
    }

    /// Bytes of a slot with that many ranges in all.
    #[must_use]
    pub fn encoded_bytes(ranges: usize) -> usize {
        SLOT_HEAD_BYTES + ranges * SeqRange::BYTES
    }
}

/// A token. Slots: one per stream with unstable packets (R063, R064).
#[derive(Debug, Clone, Copy)]
pub struct Token<'a> {
    /// Identity and region-wide results.
    pub head: TokenHead,
    suspects: &'a [u8],
    slots: &'a [u8],
    slot_count: u8,
    marks: &'a [u8],
}

impl<'a> Token<'a> {
    /// Most members a token reports as silent.
    pub const SUSPECTS_MAX: usize = 8;

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let head = TokenHead {
            region: RegionId(reader.u32()?),
            view: ViewNumber(reader.u32()?),
            leader: reader.origin()?,
            round: reader.u64()?,
            level: reader.u8()?,
            ring: reader.u16()?,
            visited: reader.u16()?,
            rate_packets: reader.u32()?,
            credit_bytes: reader.u32()?,
        };
        let suspect_count = usize::from(reader.u8()?);
        if suspect_count > Self::SUSPECTS_MAX {
            return Err(DecodeError::BadLength);
        }
        let suspects = reader.bytes(suspect_count * 2)?;
        let slot_count = reader.u8()?;
        let rest = reader.rest();
        for _ in 0..slot_count {
            Slot::read(reader)?;
        }
        let marks = reader.rest();
        let slots = &rest[..rest.len() - marks.len()];
        read_marks(reader, slot_count)?;
        Ok(Self {
            head,
            suspects,
            slots,
            slot_count,
            marks,
        })
    }

    /// Members that did not answer in this round.
    pub fn suspects(&self) -> impl Iterator<Item = MemberIndex> + use<'a> {
        let mut reader = Reader::new(self.suspects);
        core::iter::from_fn(move || reader.u16().ok().map(MemberIndex))
    }

    /// The streams.
    pub fn slots(&self) -> impl Iterator<Item = Slot<'a>> + use<'a> {
        let mut reader = Reader::new(self.slots);
        let slots = core::iter::from_fn(move || Slot::read(&mut reader).ok());
        slots.take(self.slot_count())
    }

    /// How far each partition has got with each of the streams (R094).
    pub fn marks(&self) -> impl Iterator<Item = Marks<'a>> + use<'a> {
        let mut reader = Reader::new(self.marks);
        let lists =
            core::iter::from_fn(move || Some(Marks::read(&mut reader).unwrap_or(Marks::NONE)));
        lists.take(self.slot_count())
    }

    /// How many streams there are.
    #[must_use]
    pub fn slot_count(&self) -> usize {
        usize::from(self.slot_count)
    }
}

/// Checks the lists that follow the slots: one for each, or none at all.
fn read_marks(reader: &mut Reader<'_>, slot_count: u8) -> Result<(), DecodeError> {
    let some = !reader.is_empty();
    let mut said = 0;
    for _ in 0..u8::from(some) * slot_count {
        said += Marks::read(reader)?.len();
    }
    if some && said == 0 {
        return Err(DecodeError::TrailingBytes);
    }
    Ok(())
}

/// Appends a token slot by slot.
#[derive(Debug)]
pub struct TokenWriter<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    limit_bytes: usize,
    count_at: usize,
}

impl<'a> TokenWriter<'a> {
    /// Begins a token that may take up to `limit_bytes`. Suspects beyond the limit are left out.
    pub fn new(
        header: &Header,
        head: &TokenHead,
        suspects: &[MemberIndex],
        limit_bytes: usize,
        out: &'a mut Vec<u8>,
    ) -> Self {
        let start = out.len();
        header.encode(Kind::Token, out);
        out.extend_from_slice(&head.region.0.to_le_bytes());
        out.extend_from_slice(&head.view.0.to_le_bytes());
        put_origin(out, head.leader);
        out.extend_from_slice(&head.round.to_le_bytes());
        out.push(head.level);
        out.extend_from_slice(&head.ring.to_le_bytes());
        out.extend_from_slice(&head.visited.to_le_bytes());
        out.extend_from_slice(&head.rate_packets.to_le_bytes());
        out.extend_from_slice(&head.credit_bytes.to_le_bytes());
        let suspects = &suspects[..suspects.len().min(Token::SUSPECTS_MAX)];
        out.push(u8::try_from(suspects.len()).unwrap_or(0));
        for suspect in suspects {
            out.extend_from_slice(&suspect.0.to_le_bytes());
        }
        let count_at = out.len();
        out.push(0);
        Self {
            out,
            start,
            limit_bytes,
            count_at,
        }
    }

    /// Appends a slot; `false` if it does not fit any more (G06: it waits for a later round).
    pub fn slot(&mut self, head: &SlotHead, naks: &[SeqRange], common: &[SeqRange]) -> bool {
        let naks = &naks[..naks.len().min(Ranges::MAX)];
        let common = &common[..common.len().min(Ranges::MAX)];
        let bytes = Slot::encoded_bytes(naks.len() + common.len());
        let used = self.out.len() - self.start;
        if used + bytes > self.limit_bytes || self.out[self.count_at] == u8::MAX {
            return false;
        }
        self.out[self.count_at] += 1;
        put_origin(self.out, head.origin);
        for number in [
            head.cutoff,
            head.highest,
            head.arrived,
            head.cached,
            head.stable,
            head.stable_upto,
            head.cached_upto,
        ] {
            self.out.extend_from_slice(&number.to_le_bytes());
        }
        self.out.extend_from_slice(&head.losers.to_le_bytes());
        self.out.extend_from_slice(&[
            u8::from(head.naks_cut),
            u8::from(head.common_cut),
            u8::try_from(naks.len()).unwrap_or(0),
            u8::try_from(common.len()).unwrap_or(0),
        ]);
        put_ranges(self.out, naks);
        put_ranges(self.out, common);
        true
    }

    /// Ends the token with how far each partition has got, a list for each slot (R094); `false`,
    /// and nothing is appended, if nothing is said or it does not fit.
    pub fn marks<'m>(self, lists: impl Iterator<Item = &'m [u64]> + Clone) -> bool {
        let lists = lists.take(usize::from(self.out[self.count_at]));
        let count = lists.clone().map(|list| list.len().min(Marks::MAX)).sum();
        let bytes = Marks::encoded_bytes(lists.clone().count(), count);
        let used = self.out.len() - self.start;
        if bytes == 0 || used + bytes > self.limit_bytes {
            return false;
        }
        for list in lists {
            Marks::encode(list, self.out);
        }
        true
    }
}

/// Receipt for a token; without it the token is sent again, and at last past the silent node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenAck {
    /// The region.
    pub region: RegionId,
    /// Who opened the round.
    pub leader: Origin,
    /// The round.
    pub round: u64,
    /// The level of the ring.
    pub level: u8,
}

impl TokenAck {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            region: RegionId(reader.u32()?),
            leader: reader.origin()?,
            round: reader.u64()?,
            level: reader.u8()?,
        })
    }

    /// Appends the packet.
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        header.encode(Kind::TokenAck, out);
        out.extend_from_slice(&self.region.0.to_le_bytes());
        put_origin(out, self.leader);
        out.extend_from_slice(&self.round.to_le_bytes());
        out.push(self.level);
    }
}
