//! Format of a parity, behind the header of its packet.

use qsm_wire::DecodeError;

/// Numbers that a parity covers at most, from its first one on.
pub const BLOCK_MAX: u64 = 16;
/// Rows of one block at most, as `qsm-parity` has them.
pub const ROWS_MAX: u8 = 8;
/// Bytes of a shard in front of the payload.
pub(crate) const HEAD_BYTES: usize = 14;

/// One row of sums over Data that a parent has sent a child, as `qsm-parity` makes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parity<'a> {
    /// Number of the first packet in it.
    pub first: u64,
    /// Bit n: the packet `first` + n is in it. Bit 0 is set.
    pub covered: u16,
    /// Number of the row.
    pub row: u8,
    /// The sum: of heads, 14 bytes, then of payloads.
    pub sum: &'a [u8],
}

impl<'a> Parity<'a> {
    /// Numbers of the packets in it, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        let (first, covered) = (self.first, self.covered);
        (0..BLOCK_MAX).filter_map(move |at| (covered >> at & 1 == 1).then_some(first + at))
    }

    /// Checks what follows the header. Rule R-RELAY-1.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let split = bytes.split_first_chunk::<8>();
        let (first, rest) = split.ok_or(DecodeError::Truncated)?;
        let split = rest.split_first_chunk::<3>();
        let ([low, high, row], sum) = split.ok_or(DecodeError::Truncated)?;
        if sum.len() < HEAD_BYTES {
            return Err(DecodeError::Truncated);
        }
        let parity = Self {
            first: u64::from_le_bytes(*first),
            covered: u16::from_le_bytes([*low, *high]),
            row: *row,
            sum,
        };
        let numbered = parity.first > 0 && parity.first < u64::MAX - BLOCK_MAX;
        let legal = numbered && parity.covered & 1 == 1 && parity.row < ROWS_MAX;
        legal.then_some(parity).ok_or(DecodeError::BadValue)
    }

    /// Writes what follows the header.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.covered.to_le_bytes());
        out.push(self.row);
        out.extend_from_slice(self.sum);
    }
}
