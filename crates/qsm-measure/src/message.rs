//! What a benchmark sends: messages that prove where they belong, and say when they were sent.
//!
//! ```text
//!   plain     word, noise
//!   stamped   word, mark, id, intended, called, earlier id, earlier handed, noise
//!   last      word, number of messages sent
//! ```
//!
//! All fields are 64-bit and little-endian. The word is the kind and the number in the group. The
//! noise is a part of one long random table, which part follows from the sender, the group and the
//! number: a message that is cut, mixed up or delivered in another's place does not fit.
//!
//! A message cannot say when it left, since it is written before. So it says that of an earlier
//! one, whose arrival the receiver remembers.

use qsm::NodeId;

/// Shortest plain message.
pub(crate) const PLAIN_BYTES: usize = 8;
/// Shortest stamped message.
pub(crate) const STAMPED_BYTES: usize = 56;
/// Length of the last message.
pub(crate) const LAST_BYTES: usize = 16;

/// Finds a stamp in a datagram. Nothing else begins so but by an accident of one in 2^64.
const MARK: u64 = 0x9e1d_5a7c_f06b_38e3;
/// Where the mark is in a stamped message.
const MARK_AT: usize = 8;
/// How far from a datagram's beginning its first message is looked for, bytes: beyond all headers.
const HEAD_BYTES: usize = 256;
/// Different beginnings of noise.
const BEGINNINGS: u64 = 1024;
/// The number in a word; the kind is above.
const NUMBER_BITS: u32 = 56;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Something to be counted.
    Plain,
    /// Something to be timed: [`Stamp::read`] says when it was sent.
    Stamped,
    /// The sender has sent so many messages, this one not among them.
    Last(u64),
}

/// When a message was sent, in nanoseconds of the sender's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    /// The message among all timed ones: see [`Stamp::id`].
    pub(crate) id: u64,
    /// When it should have been sent; 0 if only its way back is to be timed.
    pub(crate) intended: u64,
    /// When `send` was called.
    pub(crate) called: u64,
    /// An earlier message, 0 for none,
    pub(crate) earlier: u64,
    /// and when that one was handed to the kernel.
    pub(crate) handed: u64,
}

impl Stamp {
    /// The `index`th message, from 0, of the sender with this tag: the port it sends from, by which
    /// receivers tell its packets from others' repairs.
    #[must_use]
    pub(crate) fn id(tag: u16, index: u64) -> u64 {
        u64::from(tag) << 48 | (index + 1)
    }

    /// Which of the sender's messages an id is, from 0.
    #[must_use]
    pub(crate) fn index(id: u64) -> u64 {
        (id & ((1 << 48) - 1)).saturating_sub(1)
    }

    /// The sender's part of an id.
    #[must_use]
    pub(crate) fn tag(id: u64) -> u16 {
        (id >> 48) as u16
    }

    /// The stamp of a message that begins here; nothing else of it is verified.
    #[must_use]
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let field = |at: usize| word_at(bytes, MARK_AT + 8 * at);
        (field(0)? == MARK).then_some(())?;
        Some(Self {
            id: field(1)?,
            intended: field(2)?,
            called: field(3)?,
            earlier: field(4)?,
            handed: field(5)?,
        })
    }
}

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at + 8)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

/// What all noise is taken from.
#[derive(Debug, Default)]
pub(crate) struct Noise {
    table: Vec<u8>,
    state: u64,
}

impl Noise {
    /// For messages up to this length; it grows when there are longer ones.
    #[must_use]
    pub(crate) fn new(bytes: usize) -> Self {
        let mut noise = Self {
            table: Vec::new(),
            state: MARK,
        };
        noise.cover(bytes);
        noise
    }

    /// Where a sender's noise in one group begins.
    #[must_use]
    pub(crate) fn salt(node: NodeId, group: usize) -> u64 {
        // Fibonacci hashing (Knuth, TAOCP 3, 6.4): the high bits depend on all.
        (node.0 ^ (group as u64).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
    }

    fn cover(&mut self, bytes: usize) {
        // xorshift64 (Marsaglia 2003), continued where it stopped: a longer table begins the same.
        while self.table.len() < bytes + BEGINNINGS as usize {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            self.table.extend_from_slice(&self.state.to_le_bytes());
        }
    }

    fn part(&self, salt: u64, number: u64, bytes: usize) -> &[u8] {
        let begin = (salt.wrapping_add(number) % BEGINNINGS) as usize;
        &self.table[begin..begin + bytes]
    }

    /// Writes a plain message of that length into an empty buffer.
    pub(crate) fn write_plain(&self, message: &mut Vec<u8>, salt: u64, number: u64, bytes: usize) {
        message.extend_from_slice(&number.to_le_bytes());
        message.extend_from_slice(self.part(salt, number, bytes.saturating_sub(PLAIN_BYTES)));
    }

    /// Writes a stamped message of that length into an empty buffer.
    pub(crate) fn write_stamped(
        &self,
        message: &mut Vec<u8>,
        stamp: Stamp,
        salt: u64,
        number: u64,
        bytes: usize,
    ) {
        let word = 1 << NUMBER_BITS | number;
        let Stamp {
            id,
            intended,
            called,
            earlier,
            handed,
        } = stamp;
        for field in [word, MARK, id, intended, called, earlier, handed] {
            message.extend_from_slice(&field.to_le_bytes());
        }
        message.extend_from_slice(self.part(salt, number, bytes.saturating_sub(STAMPED_BYTES)));
    }

    /// What a message is, if it is the one with this number, whole and unchanged.
    #[must_use]
    pub(crate) fn read(&mut self, message: &[u8], salt: u64, number: u64) -> Option<Kind> {
        let word = word_at(message, 0)?;
        if word & ((1 << NUMBER_BITS) - 1) != number {
            return None;
        }
        let (kind, head) = match word >> NUMBER_BITS {
            0 => (Kind::Plain, PLAIN_BYTES),
            1 if word_at(message, MARK_AT) == Some(MARK) => (Kind::Stamped, STAMPED_BYTES),
            2 => (Kind::Last(word_at(message, 8)?), LAST_BYTES),
            _ => return None,
        };
        let rest = message.get(head..)?;
        self.cover(rest.len());
        (rest == self.part(salt, number, rest.len())).then_some(kind)
    }
}

/// The last message, the `number`th of its group.
#[must_use]
pub(crate) fn last(number: u64, messages: u64) -> [u8; LAST_BYTES] {
    let mut bytes = [0; LAST_BYTES];
    bytes[..8].copy_from_slice(&(2 << NUMBER_BITS | number).to_le_bytes());
    bytes[8..].copy_from_slice(&messages.to_le_bytes());
    bytes
}

/// The stamp of a datagram's first message; `at` is where the last one was, which is where this
/// one is nearly always.
#[must_use]
pub(crate) fn first_stamp(datagram: &[u8], at: &mut usize) -> Option<Stamp> {
    let here = |at: usize| datagram.get(at..).and_then(Stamp::read);
    if let Some(stamp) = here(*at) {
        return Some(stamp);
    }
    let found = (0..HEAD_BYTES).find_map(|at| Some((at, here(at)?)));
    let (found_at, stamp) = found?;
    *at = found_at;
    Some(stamp)
}

/// The stamps of all messages of a datagram. Looks at every byte.
pub(crate) fn all_stamps(datagram: &[u8]) -> impl Iterator<Item = Stamp> {
    (0..datagram.len()).filter_map(|at| Stamp::read(&datagram[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        id: 5,
        intended: 6,
        called: 7,
        earlier: 4,
        handed: 3,
    };

    fn salt() -> u64 {
        Noise::salt(NodeId(77), 3)
    }

    fn stamped(bytes: usize) -> Vec<u8> {
        let mut message = Vec::new();
        Noise::new(bytes).write_stamped(&mut message, STAMP, salt(), 9, bytes);
        message
    }

    #[test]
    fn messages_are_read_as_they_were_written_by_a_receiver_that_did_not_know_their_length() {
        let mut noise = Noise::new(0);
        for bytes in [STAMPED_BYTES, 57, 5000] {
            let message = stamped(bytes);
            assert_eq!(message.len(), bytes);
            assert_eq!(noise.read(&message, salt(), 9), Some(Kind::Stamped));
            assert_eq!(Stamp::read(&message), Some(STAMP));
        }
        for bytes in [PLAIN_BYTES, 9, 70_000] {
            let mut message = Vec::new();
            Noise::new(bytes).write_plain(&mut message, salt(), 9, bytes);
            assert_eq!(message.len(), bytes);
            assert_eq!(noise.read(&message, salt(), 9), Some(Kind::Plain));
        }
        assert_eq!(noise.read(&last(1, 42), salt(), 1), Some(Kind::Last(42)));
    }

    #[test]
    fn a_message_in_anothers_place_or_with_any_byte_changed_is_refused() {
        let mut noise = Noise::new(0);
        let message = stamped(200);
        let elsewhere = Noise::salt(NodeId(77), 4);
        let otherwise = Noise::salt(NodeId(78), 3);
        assert_eq!(noise.read(&message, elsewhere, 9), None);
        assert_eq!(noise.read(&message, otherwise, 9), None);
        assert_eq!(noise.read(&message, salt(), 8), None);
        assert_eq!(noise.read(&message[..55], salt(), 9), None);
        let times = 16..STAMPED_BYTES;
        for at in (0..message.len()).filter(|at| !times.contains(at)) {
            let mut changed = message.clone();
            changed[at] ^= 1;
            assert_eq!(noise.read(&changed, salt(), 9), None, "byte {at}");
        }
    }

    #[test]
    fn stamps_are_found_in_datagrams() {
        let mut datagram = vec![1; 61];
        datagram.extend(stamped(100));
        datagram.push(0);
        datagram.extend(stamped(90));
        let mut at = 0;
        for _ in 0..2 {
            assert_eq!(first_stamp(&datagram, &mut at), Some(STAMP));
            assert_eq!(at, 61);
        }
        assert_eq!(all_stamps(&datagram).count(), 2);
        assert_eq!(first_stamp(&[0; 3000], &mut at), None);
    }

    #[test]
    fn an_id_says_who_and_is_never_none() {
        let id = Stamp::id(0xffff, 1 << 40);
        assert_eq!((Stamp::tag(id), Stamp::index(id)), (0xffff, 1 << 40));
        assert_ne!(Stamp::id(0, 0), 0);
    }
}
