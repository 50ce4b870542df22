//! Captures in the classic format of pcap, with made-up headers of IP and UDP.

use std::fs;
use std::path::Path;

/// A datagram as it is captured.
#[derive(Debug, Clone)]
pub(crate) struct Datagram {
    pub(crate) from_port: u16,
    pub(crate) to_port: u16,
    pub(crate) content: Vec<u8>,
    /// Bytes that the capture keeps of the content, if it does not keep all.
    pub(crate) kept: Option<usize>,
}

const RAW_IP: u32 = 101;
const HEADERS: usize = 28;

/// A datagram of a node to the membership service's port.
pub(crate) fn datagram(content: &[u8]) -> Datagram {
    Datagram {
        from_port: 40_000,
        to_port: 4481,
        content: content.to_vec(),
        kept: None,
    }
}

/// A datagram of the membership service to a node.
pub(crate) fn from_service(content: &[u8]) -> Datagram {
    Datagram {
        from_port: 4481,
        to_port: 40_000,
        ..datagram(content)
    }
}

pub(crate) fn write(path: &Path, datagrams: &[Datagram]) {
    let mut out = Vec::new();
    out.extend_from_slice(&0xa1b2_c3d4_u32.to_le_bytes());
    out.extend_from_slice(&[2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&262_144_u32.to_le_bytes());
    out.extend_from_slice(&RAW_IP.to_le_bytes());
    for datagram in datagrams {
        put(&mut out, datagram);
    }
    fs::write(path, out).expect("a capture can be written");
}

fn put(out: &mut Vec<u8>, datagram: &Datagram) {
    let whole = HEADERS + datagram.content.len();
    let kept = HEADERS + datagram.kept.unwrap_or(datagram.content.len());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&u32::try_from(kept).unwrap().to_le_bytes());
    out.extend_from_slice(&u32::try_from(whole).unwrap().to_le_bytes());
    let start = out.len();
    let length = u16::try_from(whole).expect("IP has 16 bits for the length");
    out.extend_from_slice(&[0x45, 0]);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&[0, 0, 0, 0, 16, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    out.extend_from_slice(&datagram.from_port.to_be_bytes());
    out.extend_from_slice(&datagram.to_port.to_be_bytes());
    out.extend_from_slice(&(length - 20).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&datagram.content);
    out.truncate(start + kept);
}
