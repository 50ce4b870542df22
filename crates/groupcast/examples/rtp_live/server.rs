//! The server: one live stream to a group, each client with an RTP header of its own.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use groupcast::{Error, Group, Message, Recipient, Sender};
use rtp_types::RtpPacketBuilder;
use rtp_types::RtpPacketMut;

/// MPEG transport stream, RFC 3551.
const PAYLOAD_TYPE: u8 = 33;
/// Five packets of a transport stream, whole ones as RFC 2250 wants it.
pub(crate) const PAYLOAD_BYTES: usize = 5 * 188;
const BITS_PER_SECOND: u64 = 100_000;
const CLOCK_HZ: u64 = 90_000;
/// Bytes of an RTP header without extras.
pub(crate) const HEADER_BYTES: usize = 12;

/// What a run cost, and what it sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    /// CPU time of the server's thread, with what the kernel did in it.
    pub(crate) cpu: Duration,
    pub(crate) wall: Duration,
    pub(crate) packets: u64,
    /// Datagrams that did not leave.
    pub(crate) failed: u64,
}

/// Time from one packet to the next.
pub(crate) fn interval() -> Duration {
    Duration::from_nanos(PAYLOAD_BYTES as u64 * 8 * 1_000_000_000 / BITS_PER_SECOND)
}

/// RTP clock ticks from one packet to the next.
pub(crate) fn ticks() -> u32 {
    (PAYLOAD_BYTES as u64 * 8 * CLOCK_HZ / BITS_PER_SECOND) as u32
}

/// The payloads of a file, over and over.
pub(crate) fn payload(file: &[u8], number: usize) -> &[u8] {
    let payloads = file.len() / PAYLOAD_BYTES;
    &file[number % payloads * PAYLOAD_BYTES..][..PAYLOAD_BYTES]
}

/// Where a client's sequence numbers begin: anywhere, as RFC 3550 wants it.
pub(crate) fn first_sequence(source: u32) -> u16 {
    (source.wrapping_mul(0x9e37_79b1) >> 16) as u16
}

/// A group of these clients; client `n` gets source `n`.
pub(crate) fn audience(clients: &[SocketAddr]) -> Group {
    let mut group = Group::new();
    for (source, to) in (0..).zip(clients) {
        let header = RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(PAYLOAD_TYPE)
            .sequence_number(first_sequence(source))
            .timestamp(source)
            .ssrc(source)
            .write_vec()
            .expect("a header without extras is valid");
        let added = group.add(&Recipient::new(*to).prepend(&header));
        added.expect("clients have different addresses, and there is room for them");
    }
    group
}

/// Sends packets of the stream at its rate, or, unpaced, as fast as it goes.
pub(crate) fn serve(
    sender: &mut Sender,
    group: &mut Group,
    file: &[u8],
    packets: u64,
    paced: bool,
) -> Result<Report, Error> {
    let (cpu, start) = (thread_cpu(), Instant::now());
    let mut failed = 0;
    for number in 0..packets {
        if paced {
            let due = interval() * u32::try_from(number).unwrap_or(u32::MAX);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
        let message = Message::new(payload(file, number as usize));
        let sent = sender.send_group(&message, group, None)?;
        failed += (group.len() - sent) as u64;
        for (_, header) in group.prepended_mut() {
            advance(header);
        }
    }
    Ok(Report {
        cpu: thread_cpu() - cpu,
        wall: start.elapsed(),
        packets,
        failed,
    })
}

/// The header of a client's next packet.
fn advance(header: &mut [u8]) {
    let sequence = u16::from_be_bytes([header[2], header[3]]);
    let timestamp = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let mut packet = RtpPacketMut::parse(header).expect("made by `audience`");
    packet.set_sequence_number(sequence.wrapping_add(1));
    packet.set_timestamp(timestamp.wrapping_add(ticks()));
}

fn thread_cpu() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to a `timespec` that we own.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Room for so many descriptors (R193); how many there may be if that is fewer.
pub(crate) fn raise_descriptors(wanted: u64) -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes to a limit that we own.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if limit.rlim_cur >= wanted {
        return Ok(());
    }
    limit.rlim_cur = wanted;
    limit.rlim_max = limit.rlim_max.max(wanted);
    // SAFETY: reads a limit that we own.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{wanted} descriptors are needed; raise the limit with `ulimit -n {wanted}`"
    )))
}
