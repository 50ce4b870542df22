//! Shards: what of a Data packet is summed up in a parity, so that the packet can be made again byte for byte.
//!
//! ```text
//!  packet  │ version, kind, 0 │ checksum │ source, group │ sequence │ released │ payload
//!                                  └────────────┐             ┌──────────┘         │
//!  shard                  │ length of payload │ checksum │ released │ payload, and zeros
//! ```
//!
//! What is left out is the same in all packets of a session, or the packet's number, which the block says. (R-RELAY-71)

use crate::packet::{
    Body, CHECK_AT, CHECK_END, DATA_HEADER_BYTES, Data, HEADER_BYTES, Packet, SessionId,
};
use crate::parity::HEAD_BYTES;

/// Bytes of a parity in front of its sum.
pub(crate) const PARITY_HEADER_BYTES: usize = HEADER_BYTES + 11;

/// Shard of a Data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard<'a> {
    pub(crate) head: [u8; HEAD_BYTES],
    pub(crate) payload: &'a [u8],
}

impl<'a> Shard<'a> {
    /// The shard of a Data packet, as it travels; `None` if it is too short or too long for one.
    pub(crate) fn of(packet: &'a [u8]) -> Option<Self> {
        let (header, payload) = packet.split_first_chunk::<DATA_HEADER_BYTES>()?;
        let length = u16::try_from(payload.len()).ok()?;
        let mut head = [0; HEAD_BYTES];
        head[..2].copy_from_slice(&length.to_le_bytes());
        head[2..6].copy_from_slice(&header[CHECK_AT..CHECK_END]);
        head[6..].copy_from_slice(&header[HEADER_BYTES + 8..]);
        Some(Self { head, payload })
    }

    /// The packet of this number, out of its shard with zeros behind; `None` if that is no packet of the session.
    pub(crate) fn packet(session: SessionId, sequence: u64, shard: &[u8]) -> Option<Vec<u8>> {
        let (head, rest) = shard.split_first_chunk::<HEAD_BYTES>()?;
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let (payload, zeros) = rest.split_at_checked(length)?;
        if zeros.iter().any(|byte| *byte != 0) {
            return None;
        }
        let released = u64::from_le_bytes(*head.last_chunk()?);
        let body = Body::Data(Data {
            sequence,
            released,
            payload,
        });
        let mut packet = Vec::with_capacity(DATA_HEADER_BYTES + length);
        Packet { session, body }.encode(&mut packet);
        let fits = packet[CHECK_AT..CHECK_END] == head[2..6];
        (fits && Packet::decode(&packet).is_ok()).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId {
        source: 7,
        group: 0xefc0_0001,
    };

    fn data(payload: &[u8]) -> Vec<u8> {
        let data = Data {
            sequence: 9,
            released: 4,
            payload,
        };
        let (session, body) = (SESSION, Body::Data(data));
        let mut bytes = Vec::new();
        Packet { session, body }.encode(&mut bytes);
        bytes
    }

    fn padded(packet: &[u8], zeros: usize) -> Vec<u8> {
        let shard = Shard::of(packet).unwrap();
        let mut bytes = [&shard.head, shard.payload].concat();
        bytes.resize(bytes.len() + zeros, 0);
        bytes
    }

    /// R-RELAY-71.
    #[test]
    fn a_packet_comes_back_out_of_its_shard_byte_for_byte() {
        for payload in [&b""[..], b"abc", &[7; 1400]] {
            let packet = data(payload);
            for zeros in [0, 1, 200] {
                let shard = padded(&packet, zeros);
                assert_eq!(Shard::packet(SESSION, 9, &shard), Some(packet.clone()));
            }
        }
    }

    /// R-RELAY-71: of another session, number, length or checksum.
    #[test]
    fn what_is_no_packet_of_the_session_does_not_come_out() {
        let shard = padded(&data(b"abc"), 2);
        let other = SessionId {
            source: 8,
            ..SESSION
        };
        assert_eq!(Shard::packet(other, 9, &shard), None);
        assert_eq!(Shard::packet(SESSION, 10, &shard), None);
        for at in (0..HEAD_BYTES).chain(HEAD_BYTES + 3..shard.len()) {
            let mut changed = shard.clone();
            changed[at] ^= 1;
            assert_eq!(Shard::packet(SESSION, 9, &changed), None, "byte {at}");
        }
        for end in 0..shard.len() - 2 {
            assert_eq!(Shard::packet(SESSION, 9, &shard[..end]), None);
        }
    }
}
