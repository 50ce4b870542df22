//! Packets in a file of the format pcapng (draft-ietf-opsawg-pcapng), as Wireshark reads it.
//!
//! Each packet begins with the header of IP; what is below is not kept. Times are in nanoseconds.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Says in which order bytes stand.
const MAGIC: u32 = 0x1a2b_3c4d;
/// Each packet begins with a header of IP.
const RAW_IP: u16 = 101;
const UDP: u8 = 17;
const UDP_BYTES: usize = 8;
/// Blocks are written together until there are so many bytes of them.
const TOGETHER_BYTES: usize = 1 << 16;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

const IF_NAME: u16 = 2;
const IF_TIME_UNIT: u16 = 9;
const IF_RECEIVED: u16 = 4;
const IF_LOST: u16 = 5;
const SECTION_PROGRAM: u16 = 4;
const PACKET_FLAGS: u16 = 2;

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

/// A packet to be written, from the header of IP on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole<'a> {
    pub(crate) time: SystemTime,
    /// Which of the file's interfaces.
    pub(crate) interface: u32,
    /// It left the host there, or it came.
    pub(crate) leaving: Option<bool>,
    /// What is kept of it.
    pub(crate) bytes: &'a [u8],
    /// Bytes that it had.
    pub(crate) length: usize,
}

/// A file of packets, readable for its user alone. Blocks are written whole, or not at all.
#[derive(Debug)]
pub(crate) struct Capture {
    file: File,
    /// Bytes in the file.
    written: u64,
    /// Blocks that are not written yet.
    blocks: Vec<u8>,
    packet: Vec<u8>,
}

impl Capture {
    /// Makes the file, in place of one that is there, for packets of these interfaces.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn create(path: &Path, interfaces: &[&str]) -> io::Result<Self> {
        let mut open = OpenOptions::new();
        open.write(true).create(true).truncate(true).mode(0o600);
        let mut capture = Self {
            file: open.open(path)?,
            written: 0,
            blocks: Vec::new(),
            packet: Vec::new(),
        };
        let mut section = Block::new(SECTION);
        section.put(&MAGIC.to_le_bytes());
        // Version 1.0; the section's length is not known yet.
        section.put(&[1, 0, 0, 0]);
        section.put(&[0xff; 8]);
        let program = concat!("qsm ", env!("CARGO_PKG_VERSION"));
        section.option(SECTION_PROGRAM, program.as_bytes());
        section.end(&mut capture.blocks);
        for name in interfaces {
            let mut interface = Block::new(INTERFACE);
            interface.put(&RAW_IP.to_le_bytes());
            // Packets are kept up to any length.
            interface.put(&[0; 6]);
            interface.option(IF_NAME, name.as_bytes());
            interface.option(IF_TIME_UNIT, &[9]);
            interface.end(&mut capture.blocks);
        }
        capture.flush()?;
        Ok(capture)
    }

    /// Bytes in the file, with those that are to be written.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.blocks.len() as u64
    }

    /// Adds a datagram, with headers that are made up. One of which the addresses are of two families is left out.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn add(&mut self, datagram: &Captured<'_>) -> io::Result<()> {
        let mut packet = std::mem::take(&mut self.packet);
        packet.clear();
        let added = match put_headers(datagram, &mut packet) {
            Some(length) => {
                let kept = datagram.kept.min(datagram.bytes.len());
                packet.extend_from_slice(&datagram.bytes[..kept]);
                self.add_whole(&Whole {
                    time: datagram.time,
                    interface: 0,
                    leaving: None,
                    bytes: &packet,
                    length,
                })
            }
            None => Ok(()),
        };
        self.packet = packet;
        added
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn add_whole(&mut self, packet: &Whole<'_>) -> io::Result<()> {
        let mut block = Block::new(PACKET);
        block.put(&packet.interface.to_le_bytes());
        block.put_time(packet.time);
        // No packet of IP is longer.
        block.put(&(packet.bytes.len() as u32).to_le_bytes());
        block.put(&(packet.length as u32).to_le_bytes());
        block.put(packet.bytes);
        block.pad();
        if let Some(leaving) = packet.leaving {
            let direction = if leaving { 2_u32 } else { 1 };
            block.option(PACKET_FLAGS, &direction.to_le_bytes());
        }
        block.end(&mut self.blocks);
        match self.blocks.len() < TOGETHER_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    /// Adds how many packets of an interface were taken, and how many were lost.
    pub(crate) fn add_statistics(&mut self, interface: u32, taken: u64, lost: u64) {
        let mut block = Block::new(STATISTICS);
        block.put(&interface.to_le_bytes());
        block.put_time(SystemTime::now());
        block.option(IF_RECEIVED, &taken.to_le_bytes());
        block.option(IF_LOST, &lost.to_le_bytes());
        block.end(&mut self.blocks);
    }

    /// Writes what is left to be written.
    ///
    /// # Errors
    /// It cannot be written. The file ends with a whole block nevertheless.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.blocks);
        match &written {
            Ok(()) => self.written += self.blocks.len() as u64,
            // Half a block would make readers complain; where it cannot be taken away, they do.
            Err(_) => drop(self.file.set_len(self.written)),
        }
        self.blocks.clear();
        written
    }
}

/// A block that is being made.
struct Block {
    bytes: Vec<u8>,
    options: bool,
}

impl Block {
    fn new(kind: u32) -> Self {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&kind.to_le_bytes());
        // Its length, when that is known.
        bytes.extend_from_slice(&[0; 4]);
        let options = false;
        Self { bytes, options }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The upper half of the time comes first.
    fn put_time(&mut self, time: SystemTime) {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        // Until the year 2554.
        let nanos = since.as_nanos() as u64;
        self.put(&((nanos >> 32) as u32).to_le_bytes());
        self.put(&(nanos as u32).to_le_bytes());
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, number: u16, value: &[u8]) {
        self.options = true;
        self.put(&number.to_le_bytes());
        // Names and numbers are short.
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        self.pad();
    }

    fn end(mut self, to: &mut Vec<u8>) {
        if self.options {
            self.put(&[0; 4]);
        }
        let length = (self.bytes.len() as u32 + 4).to_le_bytes();
        self.put(&length);
        self.bytes[4..8].copy_from_slice(&length);
        to.extend_from_slice(&self.bytes);
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
pub(crate) fn internet_checksum(header: &[u8]) -> u16 {
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
