//! Where back-ends are measured: a wire, and a receiver that counts.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use groupcast::wire::{Namespace, Wire};
use groupcast::{BackEnd, Discard, Error, Group, Message, Recipient, Sender};

/// Where receivers listen.
pub(crate) const PORT: u16 = 9000;
/// What every payload consists of; the receiver checks it.
pub(crate) const FILL: u8 = 0x5a;
/// A queue that holds more than a sample: the receiver may be slower than the sender.
pub(crate) const RECEIVE_BUFFER_BYTES: libc::c_int = 512 << 20;
/// Datagrams that the receiver takes in one call.
const BATCH: usize = 64;
/// More than any datagram that is measured.
const DATAGRAM_MAX: usize = 2048;
/// How long the receiver may take to catch up.
const CATCH_UP: Duration = Duration::from_secs(3);
/// How long the receiver sleeps when nothing is there. It is never woken by the sender, which
/// would pay for that.
const NAP: Duration = Duration::from_micros(100);

/// Kinds of wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ends every packet before the driver: the send side alone.
    Discard,
    /// To a second namespace, delivered.
    Veth,
    /// Loopback, delivered.
    Loopback,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Discard, Self::Veth, Self::Loopback];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Discard => "discard",
            Self::Veth => "veth",
            Self::Loopback => "loopback",
        }
    }

    /// The address of a recipient.
    fn address(self, number: u16) -> IpAddr {
        match self {
            Self::Discard | Self::Veth => Wire::receiver_v4(number),
            Self::Loopback => Ipv4Addr::from(0x7f01_0000 | u32::from(number)).into(),
        }
    }
}

/// A wire with everything on it.
pub(crate) struct Range {
    kind: Kind,
    wire: Arc<Wire>,
    discard: Option<Discard>,
    sink: Option<Sink>,
    /// Bytes sent, of whole datagrams or trains.
    sent_bytes: u64,
    sent: u64,
}

impl Range {
    pub(crate) fn new(kind: Kind) -> io::Result<Self> {
        let wire = Wire::new(1500)?;
        wire.fix_neighbours()?;
        let discard = match kind {
            Kind::Discard => Some(wire.near.run(|| Discard::attach("wire0"))),
            Kind::Veth | Kind::Loopback => None,
        };
        let sink = match kind {
            Kind::Discard => None,
            Kind::Veth => Some(Sink::new(&wire.far)?),
            Kind::Loopback => {
                // Without these, loopback takes clones for strays with forged addresses.
                for name in ["accept_local", "route_localnet"] {
                    let path = format!("/proc/sys/net/ipv4/conf/all/{name}");
                    wire.near.run(|| std::fs::write(path, "1"))?;
                }
                Some(Sink::new(&wire.near)?)
            }
        };
        Ok(Self {
            kind,
            wire: Arc::new(wire),
            discard: discard.transpose().map_err(io::Error::other)?,
            sink,
            sent_bytes: 0,
            sent: 0,
        })
    }

    /// The wire, whose near namespace senders are to be used in.
    pub(crate) fn wire(&self) -> Arc<Wire> {
        Arc::clone(&self.wire)
    }

    /// A sender of the near namespace.
    pub(crate) fn sender(&self, back_end: BackEnd) -> Result<Sender, Error> {
        self.wire.near.run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").expect("a free port");
            Sender::with(vec![socket], back_end)
        })
    }

    /// A group of so many recipients with so many prepended bytes each.
    pub(crate) fn group(&self, recipients: usize, own_bytes: usize) -> Group {
        let own = vec![FILL; own_bytes];
        let mut group = Group::new();
        for number in 1..=recipients {
            let to = (self.kind.address(number as u16), PORT).into();
            let added = group.add(&Recipient::new(to).prepend(&own));
            added.expect("addresses differ and are few");
        }
        group
    }

    /// Nanoseconds per recipient, from as many calls as fit the time.
    pub(crate) fn sample(
        &mut self,
        sender: &mut Sender,
        message: &Message<'_>,
        group: &Group,
        time: Duration,
    ) -> f64 {
        let own = group.iter().next().map_or(0, |first| first.prepend.len());
        let bytes = (message.payload.len() + own) as u64;
        let mut calls = 0;
        let start = Instant::now();
        loop {
            let sent = sender.send_group(message, group, None).unwrap_or(0);
            self.sent += sent as u64;
            self.sent_bytes += sent as u64 * bytes;
            calls += 1;
            let elapsed = start.elapsed();
            if elapsed >= time {
                self.settle();
                return elapsed.as_nanos() as f64 / f64::from(calls) / group.len() as f64;
            }
        }
    }

    /// Waits until the receiver has what was sent.
    fn settle(&self) {
        let Some(sink) = &self.sink else { return };
        let start = Instant::now();
        while sink.bytes() < self.sent_bytes && start.elapsed() < CATCH_UP {
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Share of what was sent that was received, in per cent, since the last question.
    pub(crate) fn delivered(&mut self) -> f64 {
        self.settle();
        let (got, sent) = match (&self.sink, &self.discard) {
            (Some(sink), _) => (sink.take_bytes(), self.sent_bytes),
            // Counts packets since it was attached; a train is one.
            (None, Some(discard)) => (discard.packets(), self.sent),
            (None, None) => (0, 1),
        };
        if self.sink.is_some() {
            self.sent_bytes = 0;
        }
        100.0 * got as f64 / sent as f64
    }
}

/// A thread that receives, checks and counts.
struct Sink {
    bytes: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    fn new(namespace: &Namespace) -> io::Result<Self> {
        let socket = namespace.run(|| UdpSocket::bind(("0.0.0.0", PORT)))?;
        socket.set_nonblocking(true)?;
        let bytes = Arc::new(AtomicU64::new(0));
        let end = Arc::new(AtomicBool::new(false));
        set(
            &socket,
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            RECEIVE_BUFFER_BYTES,
        );
        let thread = std::thread::spawn({
            let (bytes, end) = (Arc::clone(&bytes), Arc::clone(&end));
            move || {
                pin(1);
                receive(&socket, &bytes, &end);
            }
        });
        Ok(Self {
            bytes,
            end,
            thread: Some(thread),
        })
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    fn take_bytes(&self) -> u64 {
        self.bytes.swap(0, Ordering::AcqRel)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("groupcast: the receiver failed");
        }
    }
}

fn receive(socket: &UdpSocket, bytes: &AtomicU64, end: &AtomicBool) {
    let mut buffers = vec![[0_u8; DATAGRAM_MAX]; BATCH];
    let mut parts: Vec<libc::iovec> = buffers
        .iter_mut()
        .map(|buffer| libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        })
        .collect();
    // SAFETY: plain data for which zeroes are valid.
    let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for (header, part) in headers.iter_mut().zip(&mut parts) {
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
    }
    let fd = socket.as_raw_fd();
    loop {
        let (first, count) = (headers.as_mut_ptr(), BATCH as u32);
        // SAFETY: the headers describe live, writable buffers of the lengths that they state.
        let got = unsafe { libc::recvmmsg(fd, first, count, libc::MSG_DONTWAIT, ptr::null_mut()) };
        let Ok(got) = usize::try_from(got) else {
            if end.load(Ordering::Acquire) {
                return;
            }
            std::thread::sleep(NAP);
            continue;
        };
        let right = headers[..got]
            .iter()
            .zip(&buffers)
            .filter_map(|(header, buffer)| {
                let len = header.msg_len as usize;
                let right = len > 0 && buffer[0] == FILL && buffer[len - 1] == FILL;
                right.then_some(len as u64)
            });
        bytes.fetch_add(right.sum(), Ordering::AcqRel);
    }
}

/// Sets an option of a socket of ours.
pub(crate) fn set(socket: &impl AsRawFd, level: i32, name: i32, value: libc::c_int) {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer is to live memory of the length given.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            len,
        )
    };
    assert_eq!(set, 0, "root may set socket options");
}

/// The calling thread stays on this CPU.
pub(crate) fn pin(cpu: usize) {
    // SAFETY: plain data for which zeroes are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours, and so few CPUs fit it.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the pointer is to a live set of the size given.
    let pinned = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if pinned != 0 {
        eprintln!("groupcast: cannot pin to CPU {cpu}; figures will scatter more");
    }
}
