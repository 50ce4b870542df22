//! Captured packets as they are kept: control packets whole, of data the heads.
//!
//! A train that passed the card in one piece would have one head. It is cut into the packets that the network has,
//! or a receiver gets, each with headers of its own.

use qsm_wire::{CLUSTER_AT, HEADER_BYTES, Kind, is_intact};

use crate::pcapng::internet_checksum;

const UDP: u8 = 17;
const UDP_BYTES: usize = 8;
const V6_BYTES: usize = 40;

/// Number of packets by what they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Data, repairs among them.
    pub(super) data: u64,
    /// All other packets of Quicksilver.
    pub(super) control: u64,
    /// IGMP and MLD, and what else is no packet of Quicksilver's.
    pub(super) other: u64,
}

impl Tally {
    /// All of them.
    pub(super) fn all(self) -> u64 {
        self.data + self.control + self.other
    }
}

/// A packet as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    /// What is kept.
    pub(super) bytes: &'a [u8],
    /// Bytes that it had.
    pub(super) length: usize,
}

/// Divides packets, and cuts them.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Bytes of data packets that are kept, behind the headers of IP and UDP. `None`: all is kept as it is.
    heads: Option<usize>,
    /// A packet of a train, with its headers.
    packet: Vec<u8>,
    /// Packets so far.
    pub(super) tally: Tally,
}

impl Pieces {
    pub(super) fn new(heads: Option<usize>) -> Self {
        Self {
            heads,
            packet: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Gives what is to be kept of a packet, in its order, until one is refused.
    pub(super) fn each<E, K>(&mut self, packet: &[u8], mut keep: K) -> Result<(), E>
    where
        K: FnMut(Piece<'_>) -> Result<(), E>,
    {
        let whole = Piece {
            bytes: packet,
            length: packet.len(),
        };
        let Some(at) = payload_at(packet) else {
            self.tally.other += 1;
            return keep(whole);
        };
        let payload = &packet[at..];
        if Kind::peek(payload) != Some(Kind::Data) {
            self.tally.control += 1;
            return keep(whole);
        }
        let each = packet_bytes(payload);
        self.tally.data += payload.len().div_ceil(each.max(1)) as u64;
        let Some(heads) = self.heads else {
            return keep(whole);
        };
        if each >= payload.len() {
            let kept = packet.len().min(at + heads);
            return keep(Piece {
                bytes: &packet[..kept],
                ..whole
            });
        }
        for one in payload.chunks(each) {
            self.packet.clear();
            self.packet.extend_from_slice(&packet[..at]);
            self.packet.extend_from_slice(&one[..one.len().min(heads)]);
            shorten_headers(&mut self.packet, at, one.len());
            keep(Piece {
                bytes: &self.packet,
                length: at + one.len(),
            })?;
        }
        Ok(())
    }
}

/// Place of the payload of a UDP datagram that is in one packet and has no headers beside those of IP and UDP.
fn payload_at(packet: &[u8]) -> Option<usize> {
    let first = *packet.first()?;
    let (header, protocol) = match first >> 4 {
        4 => {
            let fragment = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]);
            if fragment & 0x3fff != 0 {
                return None;
            }
            (usize::from(first & 15) * 4, *packet.get(9)?)
        }
        6 => (V6_BYTES, *packet.get(6)?),
        _ => return None,
    };
    let at = header + UDP_BYTES;
    (protocol == UDP && packet.len() >= at).then_some(at)
}

/// Bytes of each packet in a payload but the last, which may be shorter: its own length if it is no train. The
/// checksum of a header covers the length of its packet, so no other length fits.
fn packet_bytes(payload: &[u8]) -> usize {
    let length = payload.len();
    if length < 2 * HEADER_BYTES || is_intact(payload) {
        return length;
    }
    let (version, cluster) = (payload[0], &payload[CLUSTER_AT..][..4]);
    let begins =
        |at: &usize| payload[*at] == version && payload[at + CLUSTER_AT..][..4] == *cluster;
    (HEADER_BYTES..length - HEADER_BYTES)
        .filter(begins)
        .find(|at| is_intact(&payload[..*at]))
        .unwrap_or(length)
}

/// Writes the length of a datagram with so many bytes of payload into headers of a longer one.
fn shorten_headers(packet: &mut [u8], at: usize, payload: usize) {
    let udp = at - UDP_BYTES;
    // Less than before, and that had room.
    let long = (UDP_BYTES + payload) as u16;
    match packet[0] >> 4 {
        4 => {
            packet[2..4].copy_from_slice(&((at + payload) as u16).to_be_bytes());
            packet[10..12].copy_from_slice(&[0, 0]);
            let sum = internet_checksum(&packet[..udp]);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        _ => packet[4..6].copy_from_slice(&long.to_be_bytes()),
    }
    packet[udp + 4..udp + 6].copy_from_slice(&long.to_be_bytes());
    // No checksum: the train had one, if the card had not left it to be filled in.
    packet[udp + 6..udp + 8].copy_from_slice(&[0, 0]);
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use qsm_wire::{HeaderTemplate, Kind, Origin, seal};

    use super::*;

    fn datagram(kind: Kind, bytes: usize) -> Vec<u8> {
        let mut datagram = Vec::new();
        let header = HeaderTemplate::new(7).header(Origin::default());
        header.encode(kind, &mut datagram);
        datagram.resize(bytes, 0);
        seal(&mut datagram, qsm_wire::Coverage::Head);
        datagram
    }

    fn ipv4(payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[9] = UDP;
        packet.extend_from_slice(payload);
        shorten_headers(&mut packet, 28, payload.len());
        packet
    }

    fn kept(packet: &[u8], heads: Option<usize>) -> (Vec<(Vec<u8>, usize)>, Tally) {
        let (mut pieces, mut kept) = (Pieces::new(heads), Vec::new());
        let Ok(()) = pieces.each(packet, |piece| {
            kept.push((piece.bytes.to_vec(), piece.length));
            Ok::<(), Infallible>(())
        });
        (kept, pieces.tally)
    }

    #[test]
    fn trains_are_cut_into_packets_of_which_the_heads_are_kept() {
        let (long, short) = (datagram(Kind::Data, 400), datagram(Kind::Data, 90));
        let train = [&long[..], &long, &short].concat();
        let (pieces, tally) = kept(&ipv4(&train), Some(60));
        let head = |of: &[u8]| (ipv4(of)[..28 + 60].to_vec(), 28 + of.len());
        assert_eq!(pieces, [head(&long), head(&long), head(&short)]);
        assert_eq!((tally.data, tally.all()), (3, 3));
        // Kept whole it stays as it is, and counts as many.
        let (pieces, tally) = kept(&ipv4(&train), None);
        assert_eq!(pieces, [(ipv4(&train), 28 + 890)]);
        assert_eq!(tally.data, 3);
    }

    #[test]
    fn single_packets_of_data_are_cut_and_all_others_whole() {
        let data = ipv4(&datagram(Kind::Data, 400));
        let (pieces, _) = kept(&data, Some(60));
        assert_eq!(pieces, [(data[..88].to_vec(), 428)]);
        let control = ipv4(&datagram(Kind::Token, 400));
        let (pieces, tally) = kept(&control, Some(60));
        assert_eq!(pieces, [(control, 428)]);
        assert_eq!(tally.control, 1);
        let mut query = vec![0; 36];
        query[0] = 0x46;
        query[9] = 2;
        let (pieces, tally) = kept(&query, Some(0));
        assert_eq!(pieces, [(query, 36)]);
        assert_eq!(tally.other, 1);
    }

    #[test]
    fn nothing_that_comes_panics() {
        let train = [datagram(Kind::Data, 100), datagram(Kind::Data, 100)].concat();
        let packet = ipv4(&train);
        for length in 0..packet.len() {
            let (pieces, _) = kept(&packet[..length], Some(10));
            assert!(!pieces.is_empty());
        }
        for at in 0..packet.len() {
            let mut damaged = packet.clone();
            damaged[at] ^= 0xff;
            assert!(!kept(&damaged, Some(10)).0.is_empty());
        }
    }
}
