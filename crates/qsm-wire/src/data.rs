use crate::raw::Reader;
use crate::{ChannelId, DecodeError, GroupId, HEADER_BYTES, Header, Kind, ViewNumber};

/// Bytes before the first chunk of a data packet.
pub const DATA_HEADER_BYTES: usize = HEADER_BYTES + 20;
/// Bytes before the content of a chunk.
pub const CHUNK_HEADER_BYTES: usize = 10;
/// Bytes of the total length that follows the chunk header of the first part of a message that
/// does not end in the same chunk.
pub const TOTAL_LENGTH_BYTES: usize = 4;
/// Most content bytes of one chunk (14 bits).
pub const CHUNK_LENGTH_MAX: usize = 0x3fff;

const FIRST: u16 = 0x4000;
const LAST: u16 = 0x8000;
/// Group number of a chunk that only fills the packet up to the size of its train.
const PADDING: u32 = u32::MAX;

/// The numbers of a data packet, after the common header.
///
/// ```text
/// 24         28       32                 40            44
/// +----------+--------+------------------+-------------+--- chunks
/// | channel  |  view  |  sequence (8)    |  view age   |
/// +----------+--------+------------------+-------------+---
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHeader {
    /// The path it travels.
    pub channel: ChannelId,
    /// The region view whose members shall deliver it.
    pub view: ViewNumber,
    /// Its number in the stream, from 1.
    pub sequence: u64,
    /// How many packets of the stream with the same view came before it: `sequence - view_age`
    /// is the view's first number. `u32::MAX` when it is that or more.
    pub view_age: u32,
}

impl DataHeader {
    /// Appends the 44 bytes that open a data packet.
    #[inline]
    pub fn encode(&self, header: &Header, out: &mut Vec<u8>) {
        // Put together on the stack: appending field by field would look for room each time.
        let mut bytes = [0; DATA_HEADER_BYTES];
        bytes[..24].copy_from_slice(&header.to_bytes(Kind::Data));
        bytes[24..28].copy_from_slice(&self.channel.0.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.view.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.view_age.to_le_bytes());
        out.extend_from_slice(&bytes);
    }

    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            channel: ChannelId(reader.u32()?),
            view: ViewNumber(reader.u32()?),
            sequence: reader.u64()?,
            view_age: reader.u32()?,
        })
    }

    /// First sequence number of this packet's view, unless that is too long ago to tell.
    #[must_use]
    #[inline]
    pub fn view_start(&self) -> Option<u64> {
        if self.view_age == u32::MAX {
            return None;
        }
        self.sequence.checked_sub(u64::from(self.view_age))
    }
}

/// A data packet: its numbers and its chunks.
#[derive(Debug, Clone, Copy)]
pub struct Data<'a> {
    /// The numbers.
    pub head: DataHeader,
    chunks: &'a [u8],
}

impl<'a> Data<'a> {
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let head = DataHeader::read(reader)?;
        if head.sequence == 0
            || (head.view_age != u32::MAX && head.sequence <= u64::from(head.view_age))
        {
            return Err(DecodeError::BadValue);
        }
        let chunks = reader.rest();
        while !is_filler(reader.rest()) {
            skip_chunk(reader)?;
        }
        *reader = Reader::new(&[]);
        Ok(Self { head, chunks })
    }

    /// A data packet that [`Packet::decode`](crate::Packet::decode) has accepted before: its
    /// chunks are not looked at, which may be in no cache any more. `None` if it is none.
    #[must_use]
    #[inline]
    pub fn read_again(packet: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(packet.get(HEADER_BYTES..)?);
        let is_data = packet[1] == Kind::Data as u8;
        let head = DataHeader::read(&mut reader).ok().filter(|_| is_data)?;
        Some(Self {
            head,
            chunks: reader.rest(),
        })
    }

    /// The chunks, in the order in which their messages were published.
    #[must_use]
    #[inline]
    pub fn chunks(&self) -> ChunkIter<'a> {
        ChunkIter {
            rest: Reader::new(self.chunks),
        }
    }
}

/// A whole message of one group, or a part of one.
///
/// ```text
/// 0        4          8         10         (14)
/// +--------+----------+---------+----------+--------- ...
/// | group  | message  |LF length| (total)  | content
/// +--------+----------+---------+----------+--------- ...
/// ```
/// L: last part; F: first part; `total` only when F without L.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The group it was published to.
    pub group: GroupId,
    /// Low 32 bits of the message's number among this sender's messages to this group (R053).
    pub message: u32,
    /// Whether the message begins here; if it does not end here too, its whole length in bytes.
    pub part: Part,
    /// The bytes.
    pub content: &'a [u8],
}

/// Which part of its message a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The first part of a message of `total` bytes.
    First {
        /// Length of the whole message.
        total: u32,
    },
    /// Neither first nor last.
    Middle,
    /// The last part.
    Last,
}

impl Chunk<'_> {
    /// The bits of a message's number that travel (R053).
    #[must_use]
    #[inline]
    pub fn low(number: u64) -> u32 {
        (number & u64::from(u32::MAX)) as u32
    }

    /// Bytes it takes in a packet.
    #[must_use]
    #[inline]
    pub fn encoded_bytes(&self) -> usize {
        let total = if matches!(self.part, Part::First { .. }) {
            TOTAL_LENGTH_BYTES
        } else {
            0
        };
        CHUNK_HEADER_BYTES + total + self.content.len()
    }

    /// Appends the chunk. Content beyond [`CHUNK_LENGTH_MAX`] is the caller's error and is cut.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let content = &self.content[..self.content.len().min(CHUNK_LENGTH_MAX)];
        let flags = match self.part {
            Part::Whole => FIRST | LAST,
            Part::First { .. } => FIRST,
            Part::Middle => 0,
            Part::Last => LAST,
        };
        let length = u16::try_from(content.len()).unwrap_or(0) | flags;
        let mut head = [0; CHUNK_HEADER_BYTES];
        head[..4].copy_from_slice(&self.group.0.to_le_bytes());
        head[4..8].copy_from_slice(&self.message.to_le_bytes());
        head[8..].copy_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&head);
        if let Part::First { total } = self.part {
            out.extend_from_slice(&total.to_le_bytes());
        }
        out.extend_from_slice(content);
    }

    /// Fills a packet up by `gap_bytes`, to the length of its train: with a padding chunk, or, if
    /// the gap is shorter than a chunk's header, with zero bytes, which end a packet. `false` if
    /// the gap is too long for one chunk; nothing is appended then (R-PKT-5).
    pub fn pad(out: &mut Vec<u8>, gap_bytes: usize) -> bool {
        let Some(length) = gap_bytes.checked_sub(CHUNK_HEADER_BYTES) else {
            out.resize(out.len() + gap_bytes, 0);
            return true;
        };
        if length > CHUNK_LENGTH_MAX {
            return false;
        }
        out.extend_from_slice(&PADDING.to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&u16::try_from(length).unwrap_or(0).to_le_bytes());
        out.resize(out.len() + length, 0);
        true
    }
}

/// Iterates over the chunks of a checked packet, skipping padding.
#[derive(Debug, Clone, Copy)]
pub struct ChunkIter<'a> {
    rest: Reader<'a>,
}

impl<'a> ChunkIter<'a> {
    #[inline]
    fn step(&mut self) -> Option<Result<Chunk<'a>, DecodeError>> {
        loop {
            if is_filler(self.rest.rest()) {
                return None;
            }
            match read_chunk(&mut self.rest) {
                Ok(chunk) if chunk.group.0 == PADDING => {}
                other => return Some(other),
            }
        }
    }
}

impl<'a> Iterator for ChunkIter<'a> {
    type Item = Chunk<'a>;

    #[inline]
    fn next(&mut self) -> Option<Chunk<'a>> {
        self.step()?.ok()
    }
}

/// Whether nothing follows but the end of a packet: nothing, or zeros too few to be a chunk.
#[inline]
fn is_filler(rest: &[u8]) -> bool {
    rest.len() < CHUNK_HEADER_BYTES && rest.iter().all(|byte| *byte == 0)
}

/// Whether a whole chunk is there, and on to the next.
#[inline]
fn skip_chunk(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let [.., w0, w1] = reader.array::<CHUNK_HEADER_BYTES>()?;
    let word = u16::from_le_bytes([w0, w1]);
    let total = match word & (FIRST | LAST) {
        FIRST => TOTAL_LENGTH_BYTES,
        _ => 0,
    };
    reader.bytes(total + content_bytes(word)).map(|_| ())
}

/// How much content a chunk says it has.
#[inline]
fn content_bytes(word: u16) -> usize {
    usize::from(word) & CHUNK_LENGTH_MAX
}

#[inline]
fn read_chunk<'a>(reader: &mut Reader<'a>) -> Result<Chunk<'a>, DecodeError> {
    // Of all fields at once it is asked whether they are there.
    let [g0, g1, g2, g3, m0, m1, m2, m3, w0, w1] = reader.array()?;
    let group = GroupId(u32::from_le_bytes([g0, g1, g2, g3]));
    let message = u32::from_le_bytes([m0, m1, m2, m3]);
    let word = u16::from_le_bytes([w0, w1]);
    let part = match (word & FIRST != 0, word & LAST != 0) {
        (true, true) => Part::Whole,
        (true, false) => Part::First {
            total: reader.u32()?,
        },
        (false, false) => Part::Middle,
        (false, true) => Part::Last,
    };
    let content = reader.bytes(content_bytes(word))?;
    Ok(Chunk {
        group,
        message,
        part,
        content,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Packet};

    fn packet(gap_bytes: usize) -> Vec<u8> {
        let head = DataHeader {
            channel: ChannelId(1),
            view: ViewNumber(1),
            sequence: 1,
            view_age: 0,
        };
        let chunk = Chunk {
            group: GroupId(1),
            message: 1,
            part: Part::Whole,
            content: b"content",
        };
        let mut bytes = Vec::new();
        head.encode(&Header::default(), &mut bytes);
        chunk.encode(&mut bytes);
        assert!(Chunk::pad(&mut bytes, gap_bytes));
        bytes
    }

    #[test]
    fn padding_of_any_length_is_skipped() {
        let plain = packet(0).len();
        for gap_bytes in 0..50 {
            let bytes = packet(gap_bytes);
            assert_eq!(bytes.len(), plain + gap_bytes);
            let body = Packet::decode(&bytes).map(|packet| packet.body);
            let Ok(Body::Data(data)) = body else {
                panic!("gap {gap_bytes}: {body:?}");
            };
            let again = Data::read_again(&bytes).expect("it is a data packet");
            assert_eq!(again.head, data.head);
            for data in [data, again] {
                let contents: Vec<&[u8]> = data.chunks().map(|chunk| chunk.content).collect();
                assert_eq!(contents, [b"content"]);
            }
        }
    }

    #[test]
    fn the_end_of_a_packet_is_filled_with_zeros_only() {
        let mut bytes = packet(9);
        *bytes.last_mut().expect("it is not empty") = 1;
        assert_eq!(
            Packet::decode(&bytes).map(|_| ()),
            Err(DecodeError::Truncated)
        );
    }
}
