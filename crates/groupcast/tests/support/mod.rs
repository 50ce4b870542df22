//! What the tests share: a wire, receivers behind it, a small random generator.

use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use groupcast::wire::Wire;
use groupcast::{BackEnd, Error, Sender};

/// Receivers of each address family.
pub(crate) const RECEIVERS: u16 = 64;
pub(crate) const PORT: u16 = 9000;
/// How long a datagram may take over a wire in this machine.
const ARRIVAL_MAX: Duration = Duration::from_secs(5);

/// Whether this test can run; says loudly if not. The test harness swallows what `eprintln!` prints
/// in tests that pass, but not this.
pub(crate) fn privileged(test: &str) -> bool {
    let Err(reason) = Wire::new(1500) else {
        return true;
    };
    let line = format!("SKIPPED {test}: needs root to make network namespaces ({reason})\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    false
}

/// A sender with this back-end in the near namespace; `None`, and says so, where it cannot be had.
pub(crate) fn sender(wire: &Wire, back_end: BackEnd) -> Option<Sender> {
    let made = wire.near.run(|| {
        let sockets = ["0.0.0.0:0", "[::]:0"].map(|any| UdpSocket::bind(any).unwrap());
        Sender::with(Vec::from(sockets), back_end)
    });
    match made {
        Ok(sender) => Some(sender),
        Err(Error::Unavailable(reason)) => {
            let line = format!("SKIPPED back-end {back_end}: {reason}\n");
            std::io::stderr().write_all(line.as_bytes()).unwrap();
            None
        }
        Err(error) => panic!("{back_end}: {error}"),
    }
}

/// Sockets behind the wire, one for each address: first IPv4, then IPv6.
pub(crate) struct Receivers {
    sockets: Vec<(SocketAddr, UdpSocket)>,
    buffer: Vec<u8>,
}

impl Receivers {
    pub(crate) fn new(wire: &Wire) -> Self {
        let addresses = (1..=RECEIVERS)
            .map(Wire::receiver_v4)
            .chain((1..=RECEIVERS).map(Wire::receiver_v6));
        let addresses: Vec<_> = addresses.map(|ip| SocketAddr::new(ip, PORT)).collect();
        let sockets = wire.far.run(|| {
            let bound = addresses.iter().map(|address| {
                let socket = UdpSocket::bind(address).unwrap();
                socket.set_nonblocking(true).unwrap();
                enlarge_buffer(&socket);
                (*address, socket)
            });
            bound.collect()
        });
        Self {
            sockets,
            buffer: vec![0; 1 << 16],
        }
    }

    pub(crate) fn address(&self, place: usize) -> SocketAddr {
        self.sockets[place].0
    }

    /// The next datagram of a receiver; waits for it.
    pub(crate) fn receive(&mut self, place: usize) -> &[u8] {
        let start = Instant::now();
        loop {
            if let Ok(len) = self.sockets[place].1.recv(&mut self.buffer) {
                return &self.buffer[..len];
            }
            let waited = start.elapsed();
            assert!(waited < ARRIVAL_MAX, "nothing came to receiver {place}");
            std::thread::yield_now();
        }
    }

    /// Fails if anything came that nobody asked for.
    pub(crate) fn assert_silent(&mut self) {
        std::thread::sleep(Duration::from_millis(20));
        for (address, socket) in &self.sockets {
            let left = socket.recv(&mut self.buffer);
            assert!(left.is_err(), "a stray datagram at {address}: {left:?}");
        }
    }
}

/// Makes room for the longest train.
pub(crate) fn enlarge_buffer(socket: &UdpSocket) {
    let bytes: libc::c_int = 4 << 20;
    // SAFETY: the pointer is to live memory of the length given.
    let set = unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(socket),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const bytes).cast(),
            size_of_val(&bytes) as libc::socklen_t,
        )
    };
    assert_eq!(set, 0);
}

/// Numbers that are the same in every run (xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }
}
