//! Looks at the packets themselves: every byte and every checksum at the receivers' device.
//!
//! Over veth the kernel leaves UDP checksums to a receiver that does not check them either. So the
//! sender's device is told not to make them, which has them made in software for clones as well as
//! for the socket's own packets, and a packet socket beside the receivers takes what arrives.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use groupcast::wire::Wire;
use groupcast::{BackEnd, Message, Sender};

use crate::range::{FILL, PORT, RECEIVE_BUFFER_BYTES, Range, set};

const RECIPIENTS: usize = 1000;
const PAYLOAD_BYTES: usize = 1000;
const FRAME_MAX: usize = 2048;
/// Ethernet and IPv4 header.
const UDP_AT: usize = 34;
const UDP_BYTES: usize = 8;

/// What arrived of one call by a back-end.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) back_end: BackEnd,
    /// Datagrams to the receivers' port.
    pub(crate) captured: usize,
    /// Those with the right bytes and right checksums.
    pub(crate) right: usize,
}

/// Sends one call by each back-end and looks at every packet.
pub(crate) fn run(
    range: &mut Range,
    senders: &mut [(BackEnd, Sender)],
) -> io::Result<Vec<Verdict>> {
    let wire = range.wire();
    let off = wire.near.run(|| {
        let mut ethtool = Command::new("ethtool");
        ethtool.args(["-K", "wire0", "tx", "off"]).output()
    });
    if !off?.status.success() {
        return Err(io::Error::other("ethtool cannot switch checksums off"));
    }
    let capture = Capture::new(&wire)?;
    let group = range.group(RECIPIENTS, 0);
    let payload = [FILL; PAYLOAD_BYTES];
    let mut verdicts = Vec::new();
    for (back_end, sender) in senders {
        range.sample(sender, &Message::new(&payload), &group, Duration::ZERO);
        let (mut captured, mut right) = (0, 0);
        while let Some(frame) = capture.next() {
            if let Some(fine) = judge(&frame) {
                captured += 1;
                right += usize::from(fine);
            }
        }
        verdicts.push(Verdict {
            back_end: *back_end,
            captured,
            right,
        });
    }
    Ok(verdicts)
}

/// A packet socket beside the receivers.
struct Capture(OwnedFd);

impl Capture {
    fn new(wire: &Wire) -> io::Result<Self> {
        wire.far.run(|| {
            let protocol = i32::from((libc::ETH_P_IP as u16).to_be());
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            // SAFETY: takes integers only.
            let fd = unsafe { libc::socket(libc::AF_PACKET, kind, protocol) };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the call has just made this descriptor for us alone.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
            set(&socket, level, name, RECEIVE_BUFFER_BYTES);
            Ok(Self(socket))
        })
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut frame = vec![0; FRAME_MAX];
        let (at, room) = (frame.as_mut_ptr().cast(), frame.len());
        // SAFETY: the buffer is live, writable and of the length given.
        let len = unsafe { libc::recv(self.0.as_raw_fd(), at, room, 0) };
        frame.truncate(usize::try_from(len).ok()?);
        Some(frame)
    }
}

/// Whether a frame is right; `None` if it is not for the receivers' port.
fn judge(frame: &[u8]) -> Option<bool> {
    let port = frame.get(UDP_AT + 2..UDP_AT + 4)?;
    if frame[23] != libc::IPPROTO_UDP as u8 || port != PORT.to_be_bytes() {
        return None;
    }
    let (ip, udp) = (&frame[14..UDP_AT], &frame[UDP_AT..]);
    // The pseudo header: both addresses, the protocol, the length.
    let pseudo = sum(&ip[12..20]) + u32::from(ip[9]) + udp.len() as u32;
    let whole = udp.len() == UDP_BYTES + PAYLOAD_BYTES;
    let bytes = udp[UDP_BYTES..].iter().all(|byte| *byte == FILL);
    let made = udp[6..8] != [0, 0];
    let sums = fold(sum(ip)) == 0xffff && fold(pseudo + sum(udp)) == 0xffff;
    Some(whole && bytes && made && sums)
}

/// Of 16-bit words.
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2).map(|two| match two {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        _ => u32::from(two[0]) << 8,
    });
    words.sum()
}

fn fold(sum: u32) -> u32 {
    let once = (sum & 0xffff) + (sum >> 16);
    (once & 0xffff) + (once >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame to a receiver with right checksums.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; UDP_AT + UDP_BYTES];
        frame.extend([FILL; PAYLOAD_BYTES]);
        frame[14] = 0x45;
        frame[23] = libc::IPPROTO_UDP as u8;
        frame[26..34].copy_from_slice(&[10, 79, 0, 1, 10, 81, 0, 1]);
        frame[UDP_AT + 2..UDP_AT + 4].copy_from_slice(&PORT.to_be_bytes());
        let ip = !(fold(sum(&frame[14..34])) as u16);
        frame[24..26].copy_from_slice(&ip.to_be_bytes());
        let pseudo = sum(&frame[26..34]) + 17 + (UDP_BYTES + PAYLOAD_BYTES) as u32;
        let udp = !(fold(pseudo + sum(&frame[UDP_AT..])) as u16);
        frame[UDP_AT + 6..UDP_AT + 8].copy_from_slice(&udp.to_be_bytes());
        frame
    }

    #[test]
    fn any_wrong_byte_is_seen() {
        assert_eq!(judge(&frame()), Some(true));
        for at in (14..UDP_AT + 2).chain(UDP_AT + 6..UDP_AT + UDP_BYTES + PAYLOAD_BYTES) {
            let mut wrong = frame();
            wrong[at] ^= 0x10;
            assert_ne!(judge(&wrong), Some(true), "byte {at}");
        }
        let mut unmade = frame();
        unmade[UDP_AT + 6..UDP_AT + 8].fill(0);
        assert_eq!(judge(&unmade), Some(false));
    }
}
