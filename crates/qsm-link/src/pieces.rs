//! Datagrams that are too long for most paths, cut into pieces that pass them whole. Rule R-RELAY-44.
//!
//! ```text
//!  0x86 │ number (4) │ at (2) │ bytes of all (2) │ piece
//! ```
//!
//! Fragments of IP are dropped by many firewalls and translators of addresses, and each of them passes a network stack by
//! itself; pieces are of one length, so that they leave and come as one train, and those of several datagrams, too.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::stats::PieceStats;

/// First byte of a piece. Bit 0x40 is set in all of QUIC's datagrams.
const PIECE: u8 = 0x86;
/// Bytes in front of a piece.
const HEADER_BYTES: usize = 9;
/// Longest piece: with all headers it passes any path of IPv6.
const PIECE_MAX: usize = 1200;
/// Longest datagram that is not cut: with its headers it passes an Ethernet.
pub const WHOLE_MAX: usize = 1452;
/// Datagrams of which pieces are missing; of more the oldest goes.
const PARTS_MAX: usize = 64;

/// Bytes of each piece of a datagram of so many bytes: there are as few as can be. Zeros fill the last one.
fn piece_bytes(all: usize) -> usize {
    let count = all.div_ceil(PIECE_MAX).max(1);
    all.div_ceil(count).max(1)
}

/// A datagram of which pieces are missing.
#[derive(Debug)]
struct Part {
    from: SocketAddr,
    number: u32,
    bytes: Vec<u8>,
    /// Bit n: the piece in place n is missing.
    missing: u64,
    /// A piece had a mark of congestion.
    marked: bool,
}

/// Cuts long datagrams into pieces, at the port that sends them.
#[derive(Debug)]
pub struct Cutter {
    number: u32,
    /// Pieces of the newest one.
    pieces: Vec<u8>,
    cut: u64,
}

/// Joins pieces, at the port that they come to.
#[derive(Debug, Default)]
pub struct Joiner {
    parts: VecDeque<Part>,
    /// The newest datagram that is complete.
    whole: Vec<u8>,
    /// One of its pieces had a mark of congestion.
    marked: bool,
    stats: PieceStats,
}

/// A piece as it has come, without what fills it.
struct Piece<'a> {
    number: u32,
    place: usize,
    /// Bytes of the datagram.
    all: usize,
    bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    fn decode(datagram: &'a [u8]) -> Option<Self> {
        let (header, bytes) = datagram.split_at_checked(HEADER_BYTES)?;
        let number = u32::from_le_bytes(header[1..5].try_into().ok()?);
        let at = usize::from(u16::from_le_bytes(header[5..7].try_into().ok()?));
        let all = usize::from(u16::from_le_bytes(header[7..9].try_into().ok()?));
        let each = piece_bytes(all);
        let fits = at < all && at.is_multiple_of(each) && bytes.len() == each;
        fits.then(|| Self {
            number,
            place: at / each,
            all,
            bytes: &bytes[..each.min(all - at)],
        })
    }
}

impl Cutter {
    /// Numbers from behind this on: who begins anew is not to continue what it has left unfinished.
    #[must_use]
    pub fn new(number: u32) -> Self {
        Self {
            number,
            pieces: Vec::new(),
            cut: 0,
        }
    }

    /// Cuts a datagram of at most 65,535 bytes. Returns its pieces, one behind the other, and the bytes of each with what
    /// is in front of it.
    pub fn cut(&mut self, datagram: &[u8]) -> (&[u8], usize) {
        self.number = self.number.wrapping_add(1);
        self.cut += 1;
        self.pieces.clear();
        let all = u16::try_from(datagram.len()).unwrap_or(u16::MAX);
        let each = piece_bytes(usize::from(all));
        let starts = (0..all).step_by(each);
        for (at, piece) in starts.zip(datagram.chunks(each)) {
            self.pieces.push(PIECE);
            self.pieces.extend_from_slice(&self.number.to_le_bytes());
            self.pieces.extend_from_slice(&at.to_le_bytes());
            self.pieces.extend_from_slice(&all.to_le_bytes());
            self.pieces.extend_from_slice(piece);
        }
        let segment = HEADER_BYTES + each;
        let full = self.pieces.len().next_multiple_of(segment);
        self.pieces.resize(full, 0);
        (&self.pieces, segment)
    }

    /// Number of datagrams that it has cut.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.cut
    }
}

impl Joiner {
    /// Tells whether a datagram is a piece, to be given to [`Joiner::join`].
    #[must_use]
    pub fn is_piece(datagram: &[u8]) -> bool {
        datagram.first() == Some(&PIECE)
    }

    /// Takes a piece, which has come with a mark of congestion or without. True if a datagram is complete by it:
    /// [`Joiner::whole`].
    pub fn join(&mut self, from: SocketAddr, datagram: &[u8], marked: bool) -> bool {
        let Some(piece) = Piece::decode(datagram) else {
            self.stats.malformed += 1;
            return false;
        };
        let of = |part: &Part| {
            part.from == from && part.number == piece.number && part.bytes.len() == piece.all
        };
        let at = self.parts.iter().position(of);
        let at = at.unwrap_or_else(|| self.begin(from, &piece));
        let Some(part) = self.parts.get_mut(at) else {
            return false;
        };
        let start = piece.place * piece_bytes(piece.all);
        part.bytes[start..start + piece.bytes.len()].copy_from_slice(piece.bytes);
        part.missing &= !(1 << piece.place);
        part.marked |= marked;
        if part.missing != 0 {
            return false;
        }
        if let Some(part) = self.parts.remove(at) {
            (self.whole, self.marked) = (part.bytes, part.marked);
            self.stats.joined += 1;
        }
        true
    }

    /// Tells whether one of its pieces had a mark.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    /// The datagram that was completed last.
    #[must_use]
    pub fn whole(&self) -> &[u8] {
        &self.whole
    }

    /// The same, to be opened in place.
    pub fn whole_mut(&mut self) -> &mut [u8] {
        &mut self.whole
    }

    /// Counters of what has come.
    #[must_use]
    pub fn stats(&self) -> PieceStats {
        self.stats
    }

    /// Begins a datagram with this piece. Returns its place.
    fn begin(&mut self, from: SocketAddr, piece: &Piece<'_>) -> usize {
        let mut bytes = core::mem::take(&mut self.whole);
        if self.parts.len() == PARTS_MAX
            && let Some(oldest) = self.parts.pop_front()
        {
            self.stats.incomplete += 1;
            bytes = oldest.bytes;
        }
        // What it held is overwritten piece by piece.
        bytes.resize(piece.all, 0);
        let places = piece.all.div_ceil(piece_bytes(piece.all));
        self.parts.push_back(Part {
            from,
            number: piece.number,
            bytes,
            missing: u64::MAX >> (u64::BITS as usize - places),
            marked: false,
        });
        self.parts.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    fn datagram(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at / 7) as u8).collect()
    }

    fn cut(cutter: &mut Cutter, datagram: &[u8]) -> Vec<Vec<u8>> {
        let (pieces, each) = cutter.cut(datagram);
        pieces.chunks(each).map(<[u8]>::to_vec).collect()
    }

    /// R-RELAY-44.
    #[test]
    fn a_long_datagram_is_whole_again_in_whatever_order_its_pieces_come() {
        let (mut ours, mut theirs) = (Cutter::new(7), Joiner::default());
        for length in [1, 1200, 1201, 4132, 65_507, 65_535] {
            let long = datagram(length);
            let mut all = cut(&mut ours, &long);
            assert_eq!(all.len(), length.div_ceil(PIECE_MAX));
            assert!(all.iter().all(|piece| piece.len() == all[0].len()));
            assert!(all[0].len() <= HEADER_BYTES + PIECE_MAX);
            let marked = length == 4132;
            all.rotate_left(1);
            let (last, others) = all.split_last().unwrap();
            for piece in others {
                assert!(Joiner::is_piece(piece));
                assert!(!theirs.join(address(1), piece, marked && piece == &others[0]));
                assert!(!theirs.join(address(1), piece, false), "again");
            }
            assert!(theirs.join(address(1), last, false));
            assert_eq!((theirs.whole(), theirs.is_marked()), (&long[..], marked));
        }
        assert_eq!((ours.count(), theirs.stats().joined), (6, 6));
        assert_eq!(theirs.stats().incomplete, 0);
    }

    #[test]
    fn the_format_does_not_change() {
        let long = datagram(1203);
        let all = cut(&mut Cutter::new(0x0102_0303), &long);
        assert_eq!(all[0][..9], [0x86, 4, 3, 2, 1, 0, 0, 0xb3, 4]);
        assert_eq!(all[0][9..], long[..602]);
        assert_eq!(all[1][..9], [0x86, 4, 3, 2, 1, 0x5a, 2, 0xb3, 4]);
        assert_eq!(all[1][9..610], long[602..]);
        assert_eq!((all.len(), all[1].len(), all[1][610]), (2, 611, 0));
    }

    #[test]
    fn pieces_of_several_senders_and_datagrams_are_kept_apart() {
        let mut theirs = Joiner::default();
        let (one, other) = (datagram(3000), vec![9; 3000]);
        let (ones, others) = (
            cut(&mut Cutter::new(0), &one),
            cut(&mut Cutter::new(0), &other),
        );
        for at in 0..2 {
            assert!(!theirs.join(address(1), &ones[at], false));
            assert!(!theirs.join(address(2), &others[at], false));
        }
        assert!(theirs.join(address(2), &others[2], false));
        assert_eq!(theirs.whole(), other);
        assert!(theirs.join(address(1), &ones[2], false));
        assert_eq!(theirs.whole(), one);
    }

    #[test]
    fn what_stays_incomplete_gives_way_and_is_counted() {
        let (mut ours, mut theirs) = (Cutter::new(0), Joiner::default());
        let first = cut(&mut ours, &datagram(2000));
        assert!(!theirs.join(address(1), &first[0], false));
        for _ in 0..PARTS_MAX {
            let piece = &cut(&mut ours, &datagram(2000))[0];
            assert!(!theirs.join(address(1), piece, false));
        }
        assert_eq!(theirs.stats().incomplete, 1);
        assert!(
            !theirs.join(address(1), &first[1], false),
            "it was given up"
        );
        assert_eq!(theirs.parts.len(), PARTS_MAX);
    }

    #[test]
    fn what_is_no_piece_is_refused_and_counted() {
        let mut theirs = Joiner::default();
        let all = cut(&mut Cutter::new(0), &datagram(2000));
        for length in 0..all[0].len() {
            assert!(!theirs.join(address(1), &all[0][..length], false));
        }
        let mut elsewhere = all[1].clone();
        elsewhere[5] ^= 1;
        assert!(!theirs.join(address(1), &elsewhere, false));
        let refused = all[0].len() as u64 + 1;
        assert_eq!(theirs.stats().malformed, refused);
        assert!(theirs.parts.is_empty());
    }
}
