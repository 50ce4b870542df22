//! Marks of congestion in the header of IP (ECN, RFC 3168), as a router makes them.

use crate::lane::HEADER_BYTES;

/// Bits of the codepoint; both are set in a mark.
const CE: u8 = 3;

/// Marks the packet in an Ethernet frame. False if it says that it cannot be marked, or has a mark.
pub(crate) fn mark(frame: &mut [u8]) -> bool {
    let (kind, packet) = match frame.split_at_mut_checked(HEADER_BYTES) {
        Some((header, packet)) => ([header[12], header[13]], packet),
        None => return false,
    };
    match (kind, packet) {
        ([0x08, 0x00], packet) if packet.len() >= 20 => mark_v4(packet),
        // The traffic class lies across the first two bytes.
        ([0x86, 0xdd], [_, second, ..]) => {
            let capable = is_capable(*second >> 4);
            if capable {
                *second |= CE << 4;
            }
            capable
        }
        _ => false,
    }
}

/// The header's checksum follows (RFC 1624).
fn mark_v4(packet: &mut [u8]) -> bool {
    let before = u16::from_be_bytes([packet[0], packet[1]]);
    if !is_capable(packet[1]) {
        return false;
    }
    packet[1] |= CE;
    let after = u16::from_be_bytes([packet[0], packet[1]]);
    let sum = u16::from_be_bytes([packet[10], packet[11]]);
    let mut sum = u32::from(!sum) + u32::from(!before) + u32::from(after);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    let [high, low] = (!(sum as u16)).to_be_bytes();
    (packet[10], packet[11]) = (high, low);
    true
}

/// ECT(0) or ECT(1).
fn is_capable(bits: u8) -> bool {
    matches!(bits & CE, 1 | 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with this header of IPv4.
    fn v4(header: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00]);
        frame.extend(header);
        frame
    }

    /// The ones' complement sum of a header that is whole.
    fn sum(header: &[u8]) -> u16 {
        let words = header
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// The header of RFC 1071's worked examples elsewhere, 192.168.0.1 to 192.168.0.199, with this codepoint.
    fn header(bits: u8) -> Vec<u8> {
        let mut header = vec![
            0x45, bits, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0x00,
            0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        let check = (!sum(&header)).to_be_bytes();
        header[10..12].copy_from_slice(&check);
        header
    }

    #[test]
    fn what_can_be_marked_is_and_its_checksum_holds() {
        for (bits, marked) in [(0, false), (1, true), (2, true), (3, false), (0xba, true)] {
            let mut frame = v4(&header(bits));
            assert_eq!(mark(&mut frame), marked, "{bits}");
            let packet = &frame[HEADER_BYTES..];
            assert_eq!(packet[1], if marked { bits | 3 } else { bits });
            assert_eq!(sum(packet), 0xffff, "{bits}");
        }
    }

    #[test]
    fn the_class_of_ipv6_is_marked_and_other_frames_are_left() {
        let mut frame = v4(&[0x60, 0x20, 1, 2]);
        (frame[12], frame[13]) = (0x86, 0xdd);
        assert!(mark(&mut frame));
        assert_eq!(frame[HEADER_BYTES..], [0x60, 0x30, 1, 2]);
        assert!(!mark(&mut frame), "it has one");
        (frame[12], frame[13]) = (0x08, 0x06);
        assert!(!mark(&mut frame) && !mark(&mut []) && !mark(&mut v4(&[0x45, 2])));
    }
}
