//! The clients: each a socket that checks the sequence, the content and the jitter of its stream.

use std::io;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use groupcast::wire::Wire;
use rtp_types::RtpPacket;

use crate::server::{first_sequence, payload, ticks};

const FIRST_PORT: u16 = 20_000;
/// Clients share this many addresses, each with a port of its own.
const ADDRESSES: usize = 250;
/// Rest between two rounds through all sockets. The kernel notes when a packet came, so that
/// looking late does not blur the jitter.
const REST: Duration = Duration::from_millis(5);

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    socket: UdpSocket,
    pub(crate) address: SocketAddr,
    source: u32,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets out of sequence, of another stream, or with wrong content.
    pub(crate) wrong: u64,
    /// Interarrival jitter as RFC 3550 §6.4.1 defines it, nanoseconds.
    pub(crate) jitter_ns: f64,
    /// When the last packet came.
    last_ns: Option<u64>,
}

impl Client {
    fn new(source: u32) -> io::Result<Self> {
        let number = source as usize;
        let ip = Wire::receiver_v4((1 + number % ADDRESSES) as u16);
        let address = SocketAddr::new(ip, FIRST_PORT + number as u16);
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        let on: libc::c_int = 1;
        // SAFETY: the pointer is to live memory of the length given.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        assert_eq!(set, 0, "every socket can note times");
        Ok(Self {
            socket,
            address,
            source,
            packets: 0,
            bytes: 0,
            wrong: 0,
            jitter_ns: 0.0,
            last_ns: None,
        })
    }

    /// Takes a packet if one has come.
    fn receive(&mut self, file: &[u8]) -> bool {
        let mut buffer = [0; 2048];
        let Some((len, arrival_ns)) = self.read(&mut buffer) else {
            return false;
        };
        let number = self.packets;
        self.packets += 1;
        let right = RtpPacket::parse(&buffer[..len]).is_ok_and(|packet| {
            let sequence = first_sequence(self.source).wrapping_add(number as u16);
            let timestamp = self
                .source
                .wrapping_add(ticks().wrapping_mul(number as u32));
            packet.ssrc() == self.source
                && packet.sequence_number() == sequence
                && packet.timestamp() == timestamp
                && packet.payload() == payload(file, number as usize)
        });
        self.wrong += u64::from(!right);
        self.bytes += len as u64;
        if let Some(last_ns) = self.last_ns {
            let sent_apart = f64::from(ticks()) / 90_000.0 * 1e9;
            let apart = arrival_ns.saturating_sub(last_ns) as f64;
            self.jitter_ns += ((apart - sent_apart).abs() - self.jitter_ns) / 16.0;
        }
        self.last_ns = Some(arrival_ns);
        true
    }

    /// A datagram and when it came.
    fn read(&self, buffer: &mut [u8]) -> Option<(usize, u64)> {
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut control = [0_u64; 8];
        // SAFETY: plain data for which zeroes are valid.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        // SAFETY: the header points to live, writable memory of the sizes that it states.
        let len = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, 0) };
        let len = usize::try_from(len).ok()?;
        // One control message: a header of 16 bytes, then seconds and nanoseconds.
        let [_, _, seconds, nanoseconds, ..] = control;
        Some((len, seconds * 1_000_000_000 + nanoseconds))
    }
}

/// Makes clients in the calling thread's namespace.
pub(crate) fn gather(count: usize) -> io::Result<Vec<Client>> {
    (0..count as u32).map(Client::new).collect()
}

/// Receives until told to stop, and then what is still there.
pub(crate) fn listen(clients: &mut [Client], file: &[u8], stop: &AtomicBool) {
    loop {
        let last = stop.load(Ordering::Acquire);
        for client in clients.iter_mut() {
            while client.receive(file) {}
        }
        if last {
            return;
        }
        std::thread::sleep(REST);
    }
}
