//! Datagrams as a capture in the classic format of pcap, with made-up headers of IP and UDP.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Times in nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Each packet begins with a header of IP.
const RAW_IP: u32 = 101;
const SNAP_BYTES: u32 = 262_144;
const UDP: u8 = 17;
const UDP_BYTES: usize = 8;

/// A datagram to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Captured<'a> {
    pub(crate) time: SystemTime,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: &'a [u8],
    /// Bytes of it that are kept.
    pub(crate) kept: usize,
}

/// A file of datagrams.
#[derive(Debug)]
pub(crate) struct Capture {
    file: BufWriter<File>,
    packet: Vec<u8>,
}

impl Capture {
    /// Makes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&MAGIC.to_le_bytes())?;
        // Version 2.4; no offset from UTC.
        file.write_all(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
        file.write_all(&SNAP_BYTES.to_le_bytes())?;
        file.write_all(&RAW_IP.to_le_bytes())?;
        let packet = Vec::new();
        Ok(Self { file, packet })
    }

    /// Adds a datagram. One of which the addresses are of two families is left out.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn add(&mut self, datagram: &Captured<'_>) -> io::Result<()> {
        self.packet.clear();
        let Some(whole) = put_headers(datagram, &mut self.packet) else {
            return Ok(());
        };
        let kept = datagram.kept.min(datagram.bytes.len());
        self.packet.extend_from_slice(&datagram.bytes[..kept]);
        let since = datagram.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let words = [
            since.as_secs(),
            since.subsec_nanos().into(),
            self.packet.len() as u64,
            whole as u64,
        ];
        for word in words {
            // Of times after 2106 the lower half.
            self.file.write_all(&word.to_le_bytes()[..4])?;
        }
        self.file.write_all(&self.packet)
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Appends headers of IP and UDP. Returns the length of the packet with all of its bytes.
fn put_headers(datagram: &Captured<'_>, to: &mut Vec<u8>) -> Option<usize> {
    let length = u16::try_from(UDP_BYTES + datagram.bytes.len()).ok()?;
    match (datagram.from.ip(), datagram.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(destination)) => {
            to.extend_from_slice(&[0x45, 0]);
            to.extend_from_slice(&(length.checked_add(20)?).to_be_bytes());
            to.extend_from_slice(&[0, 0, 0, 0, 64, UDP, 0, 0]);
            to.extend_from_slice(&from.octets());
            to.extend_from_slice(&destination.octets());
            let sum = internet_checksum(to);
            to[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        (IpAddr::V6(from), IpAddr::V6(destination)) => {
            to.extend_from_slice(&[0x60, 0, 0, 0]);
            to.extend_from_slice(&length.to_be_bytes());
            to.extend_from_slice(&[UDP, 64]);
            to.extend_from_slice(&from.octets());
            to.extend_from_slice(&destination.octets());
        }
        _ => return None,
    }
    to.extend_from_slice(&datagram.from.port().to_be_bytes());
    to.extend_from_slice(&datagram.to.port().to_be_bytes());
    to.extend_from_slice(&length.to_be_bytes());
    // No checksum.
    to.extend_from_slice(&[0, 0]);
    Some(to.len() + datagram.bytes.len())
}

/// The checksum of a header (RFC 1071).
fn internet_checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_lengths_and_the_checksum_of_ip() {
        let datagram = |from: &str, to: &str| {
            let mut packet = Vec::new();
            let captured = Captured {
                time: UNIX_EPOCH,
                from: from.parse().unwrap(),
                to: to.parse().unwrap(),
                bytes: &[7; 100],
                kept: 100,
            };
            let whole = put_headers(&captured, &mut packet);
            (packet, whole)
        };
        let (packet, whole) = datagram("10.0.0.1:5", "239.1.2.3:6");
        assert_eq!((packet.len(), whole), (28, Some(128)));
        assert_eq!(packet[2..4], 128_u16.to_be_bytes());
        // With its checksum a header sums up to nothing.
        assert_eq!(internet_checksum(&packet[..20]), 0);
        let (packet, whole) = datagram("[fd00::1]:5", "[ff15::2]:6");
        assert_eq!((packet.len(), whole), (48, Some(148)));
        assert_eq!(packet[4..6], 108_u16.to_be_bytes());
        assert_eq!(datagram("10.0.0.1:5", "[ff15::2]:6").1, None);
    }
}
