//! What the tests share: a wire, receivers behind it, a small random generator.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use groupcast::wire::{Namespace, Wire};
use groupcast::{BackEnd, Error, Sender};

/// Receivers of each address family.
pub(crate) const RECEIVERS: u16 = 64;
pub(crate) const PORT: u16 = 9000;
/// Where what is sent last arrives.
const LAST_PORT: u16 = 9001;
/// How long a datagram may take over a wire in this machine.
const ARRIVAL_MAX: Duration = Duration::from_secs(5);

/// Tells that this test can run; if not, it is named as skipped.
pub(crate) fn privileged() -> bool {
    let Err(reason) = Namespace::new() else {
        return true;
    };
    lab::skip(reason);
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
            lab::pass_over(format_args!("back-end {back_end}: {reason}"));
            None
        }
        Err(error) => panic!("{back_end}: {error}"),
    }
}

/// Runs a test on every back-end that can be had here.
pub(crate) fn on_all(mtu: u32, body: impl Fn(&Wire, Sender, &str) + Sync) {
    if !privileged() {
        return;
    }
    let mut ran = Vec::new();
    for back_end in BackEnd::ALL {
        let wire = Wire::new(mtu).unwrap();
        if let Some(sender) = sender(&wire, back_end) {
            wire.near.run(|| body(&wire, sender, back_end.name()));
            ran.push(back_end);
        }
    }
    assert!(ran.contains(&BackEnd::Loop) && ran.contains(&BackEnd::Batch));
}

/// Gives up all capabilities of the calling thread.
pub(crate) fn drop_capabilities() {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let none = [0_u32; 6];
    // SAFETY: header and data are live and as long as version 3 asks for.
    let set = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    assert_eq!(set, 0);
}

/// Sets an option of a socket to a value laid out as the kernel expects it.
pub(crate) fn set_option<T>(socket: &UdpSocket, level: i32, name: i32, value: T) {
    // SAFETY: the pointer is to live memory of the length given.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    let error = std::io::Error::last_os_error();
    assert_eq!(set, 0, "option {name} of level {level}: {error}");
}

/// Sockets behind the wire, one for each address: first IPv4, then IPv6.
pub(crate) struct Receivers {
    pub(crate) sockets: Vec<(SocketAddr, UdpSocket)>,
    /// Two ends within the far namespace, for what is sent behind everything that is on its way.
    last: (UdpSocket, UdpSocket),
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
        let last_at = SocketAddr::new(Wire::receiver_v4(1), LAST_PORT);
        let last = wire.far.run(|| {
            let from = UdpSocket::bind("0.0.0.0:0").unwrap();
            (from, UdpSocket::bind(last_at).unwrap())
        });
        last.1.set_read_timeout(Some(ARRIVAL_MAX)).unwrap();
        Self {
            sockets,
            last,
            buffer: vec![0; 1 << 16],
        }
    }

    pub(crate) fn address(&self, place: usize) -> SocketAddr {
        self.sockets[place].0
    }

    /// The next datagram of a receiver; waits for it.
    pub(crate) fn receive(&mut self, place: usize) -> &[u8] {
        self.receive_whole(place).0
    }

    /// Where the next datagram of a receiver is from; waits for it.
    pub(crate) fn receive_from(&mut self, place: usize) -> SocketAddr {
        self.receive_whole(place).1
    }

    fn receive_whole(&mut self, place: usize) -> (&[u8], SocketAddr) {
        let start = Instant::now();
        loop {
            // Looked at before the socket, so that a process that was held up looks once more.
            let waited = start.elapsed();
            if let Ok((len, from)) = self.sockets[place].1.recv_from(&mut self.buffer) {
                return (&self.buffer[..len], from);
            }
            assert!(waited < ARRIVAL_MAX, "nothing came to receiver {place}");
            std::thread::yield_now();
        }
    }

    /// Returns when everything that was sent has arrived. Packets over veth and over loopback wait
    /// for their receivers in one queue of the CPU that sent them; so one from every CPU is sent
    /// after them.
    pub(crate) fn settle(&mut self) {
        let cpus = on_every_cpu(|cpu| {
            let to = self.last.1.local_addr().unwrap();
            self.last.0.send_to(&[cpu as u8], to).unwrap();
        });
        for _ in 0..cpus {
            let came = self.last.1.recv(&mut self.buffer);
            came.expect("what is sent last arrives");
        }
    }

    /// Fails if anything came that nobody asked for.
    pub(crate) fn assert_silent(&mut self) {
        self.settle();
        for (address, socket) in &self.sockets {
            let left = socket.recv(&mut self.buffer);
            assert!(left.is_err(), "a stray datagram at {address}: {left:?}");
        }
    }
}

/// Does something on each CPU that this process may use, from a thread that stays there; how many
/// there are.
fn on_every_cpu(work: impl Fn(usize) + Sync) -> usize {
    // SAFETY: plain data for which zeroes are valid.
    let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live set of the size given.
    let read = unsafe { libc::sched_getaffinity(0, size_of_val(&all), &raw mut all) };
    assert_eq!(read, 0);
    // SAFETY: looks at a bit of a live set, which has a place for each of these numbers.
    let ours = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &all) };
    let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize).filter(ours).collect();
    std::thread::scope(|scope| {
        for cpu in &cpus {
            let work = &work;
            scope.spawn(move || {
                // SAFETY: plain data for which zeroes are valid.
                let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
                // SAFETY: the set is live and has a place for this number.
                unsafe { libc::CPU_SET(*cpu, &mut one) };
                // SAFETY: the pointer is to a live set of the size given.
                let set = unsafe { libc::sched_setaffinity(0, size_of_val(&one), &raw const one) };
                assert_eq!(set, 0);
                work(*cpu);
            });
        }
    });
    cpus.len()
}

/// Makes room for the longest train.
pub(crate) fn enlarge_buffer(socket: &UdpSocket) {
    let bytes: libc::c_int = 4 << 20;
    // SAFETY: the pointer is to live memory of the length given.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
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
