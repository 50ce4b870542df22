//! Sends by a connected socket for each recipient, in an io_uring.
//!
//! A third of what an unconnected `sendmsg` costs is asking the routing tables; a connected socket
//! keeps the answer, and the kernel renews it when routes change. The io_uring saves the system
//! calls. Nothing of this needs a privilege.
//!
//! Recipients must not notice, and neither may who receives by the caller's socket:
//!
//! - The sockets are bound to the port of the caller's socket, so that datagrams come from there.
//!   `SO_REUSEPORT` is set on it for that moment, which lets in sockets of the same user alone.
//! - They are bound to a multicast address that nobody uses. The kernel then takes the source
//!   address from the route, as it does for a socket bound to no address, and whatever arrives —
//!   answers, ICMP errors — is for the caller's socket, as ever.
//! - They live in the ring's own table and take up no descriptors.
//! - What fails is sent once more by the caller's socket, so that the kernel's errors are the same.
//! - Their send buffers do not add up: one datagram of each [`Flight`] goes by the caller's socket,
//!   and while the device still holds two of those, so does everything else.
//!
//! A recipient gets a socket at its second call in the same place of the list, some per call.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::address::Name;
use crate::backend::gather::Job;
use crate::backend::ring::{BY_SOCKET, Ring};
use crate::backend::{Call, Unavailable, portable};
use crate::clone::netlink::Netlink;
use crate::error::Errno;
use crate::options::{Options, user};
use crate::socket::{Socket, same_namespace};
use crate::sockopt::{check, option, set_option};

/// Most connected sockets, about 2 KB of the kernel's memory each. The ring's table cannot be larger
/// than the limit of descriptors (`ulimit -n`); then there are fewer.
const SOCKETS_MAX: usize = 4096;
/// Most new ones per call: each takes some ten microseconds.
const NEW_MAX: usize = 32;
/// A recipient that so many calls were not for loses its socket to another.
const IDLE_CALLS: u64 = 256;
/// Fewer datagrams than this go by the caller's socket, which is cheaper.
const DATAGRAMS_MIN: usize = 6;
/// The same for datagrams of which fewer than this fill half the send buffer, such as trains.
const FLIGHT_MIN: usize = 8;
/// How many sockets are looked at to find an idle one.
const LOOKS_MAX: usize = 8;
/// After so many failures in a row no socket is made any more.
const FAILURES_MAX: u32 = 3;
/// What the kernel counts for a datagram besides its bytes, about.
const OVERHEAD_BYTES: usize = 1280;
/// Links, and of both IP versions addresses, routes and rules.
const NEWS: u32 = 0x1 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400 | (1 << 18);
/// Reserved by IANA, and never a group.
const NO_GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 0);
/// The same with the reserved scope.
const NO_GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0);

/// The back-end.
#[derive(Debug)]
pub(super) struct Connected {
    ring: Ring,
    news: Netlink,
    /// By place in the ring's table.
    sockets: Vec<Peer>,
    places: HashMap<(SocketAddr, u8), u32>,
    /// By place in the list of recipients.
    marks: Vec<Mark>,
    /// Where each datagram of a submission goes.
    ways: Vec<u32>,
    /// Sockets that may yet be made in this call.
    budget: usize,
    failures: u32,
    /// Where the search for an idle socket goes on.
    hand: usize,
    calls: u64,
    flight: Flight,
    /// Datagrams sent by connected sockets.
    pub(super) sent: u64,
}

/// Whom a socket is connected to.
#[derive(Debug, Clone, Copy)]
struct Peer {
    to: SocketAddr,
    /// The caller's socket that it stands in for.
    socket: u8,
    /// The last call that was for it.
    used: u64,
}

/// What was at a place of the list the last time.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    /// The place of its socket; only to be tried first.
    place: u32,
    /// Tells the address from others, if it has no socket.
    trace: u32,
}

/// How much may be on its way before the device is asked.
#[derive(Debug, Clone, Copy, Default)]
struct Flight {
    /// Datagrams that fill half the send buffer of the caller's socket; 0: all go by that.
    max: usize,
    /// Datagrams since the last one by the caller's socket.
    since: usize,
    /// What the kernel counts for one.
    bytes: usize,
}

impl Connected {
    pub(super) fn new() -> Result<Self, Unavailable> {
        let news = Netlink::new(NEWS);
        Ok(Self {
            ring: Ring::new(false, SOCKETS_MAX)?,
            news: news.map_err(|e| Unavailable::kernel("open a netlink socket", e))?,
            sockets: Vec::new(),
            places: HashMap::new(),
            marks: Vec::new(),
            ways: Vec::new(),
            budget: 0,
            failures: 0,
            hand: 0,
            calls: 0,
            flight: Flight::default(),
            sent: 0,
        })
    }

    /// Lets go of all sockets: routes or the caller's socket have changed.
    pub(super) fn forget(&mut self) {
        self.ring.clear_places(self.sockets.len());
        self.sockets.clear();
        self.places.clear();
        self.failures = 0;
    }

    /// Begins a call of so many datagrams or trains.
    pub(super) fn begin(&mut self, call: &Call<'_>, datagrams: usize) {
        const SENDS_AS_USUAL: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        self.flight.max = 0;
        let usual = call.message.flags & !SENDS_AS_USUAL == 0;
        if datagrams < DATAGRAMS_MIN || !usual || !may_stand_in(&call.socket.options) {
            return;
        }
        let bytes = call.message.payload.len() + OVERHEAD_BYTES;
        let buffer = option(call.socket.fd(), libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(0);
        let max = buffer as usize / bytes / 2;
        if max < FLIGHT_MIN {
            return;
        }
        self.flight.max = max;
        self.flight.bytes = bytes;
        let changed = self.news.news().is_none_or(|news| !news.is_empty());
        if changed && !self.sockets.is_empty() {
            self.forget();
        }
        self.calls += 1;
        self.budget = if self.failures < FAILURES_MAX {
            NEW_MAX
        } else {
            0
        };
        if self.marks.len() < call.recipients.len() {
            self.marks.resize(call.recipients.len(), Mark::default());
        }
    }

    /// Sends what the headers describe.
    pub(super) fn submit(
        &mut self,
        call: &Call<'_>,
        jobs: &[Job],
        headers: &mut [libc::mmsghdr],
        results: &mut [Errno],
    ) {
        let (fd, flags) = (call.socket.fd(), call.message.flags);
        if self.flight.max == 0 {
            return portable::send_batch(fd, flags, headers, results);
        }
        self.find_ways(call, jobs);
        let step = self.flight.max;
        let ways = std::mem::take(&mut self.ways);
        let chunks = headers.chunks_mut(step).zip(results.chunks_mut(step));
        for ((headers, results), ways) in chunks.zip(ways.chunks(step)) {
            if self.device_lags(fd) {
                portable::send_batch(fd, flags, headers, results);
                continue;
            }
            self.launch(call, headers, ways, results);
        }
        self.ways = ways;
    }

    /// Sends a flight.
    fn launch(
        &mut self,
        call: &Call<'_>,
        headers: &mut [libc::mmsghdr],
        ways: &[u32],
        results: &mut [Errno],
    ) {
        let mut ways = ways.to_vec();
        self.flight.since += ways.len();
        if self.flight.since >= self.flight.max
            && let Some(last) = ways.last_mut()
        {
            *last = BY_SOCKET;
            self.flight.since = 0;
        }
        for (header, way) in headers.iter_mut().zip(&ways) {
            if *way != BY_SOCKET {
                header.msg_hdr.msg_name = std::ptr::null_mut();
                header.msg_hdr.msg_namelen = 0;
                self.sent += 1;
            }
        }
        self.ring.submit(
            call.socket.fd(),
            call.message.flags,
            headers,
            results,
            &ways,
        );
    }

    /// Whether the device still holds two of the datagrams that went by the caller's socket.
    fn device_lags(&self, fd: i32) -> bool {
        let mut held: libc::c_int = 0;
        // SAFETY: TIOCOUTQ writes an integer, which is ours.
        let told = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut held) };
        told == 0 && held as usize > self.flight.bytes * 3 / 2
    }

    /// Finds each datagram's socket, and makes some of those that are missing.
    fn find_ways(&mut self, call: &Call<'_>, jobs: &[Job]) {
        self.ways.clear();
        let mut wanted = Vec::new();
        for (at, job) in jobs.iter().enumerate() {
            let to = call.recipients.at(job.recipient as usize).to;
            let mark = &mut self.marks[job.recipient as usize];
            let known = self.sockets.get_mut(mark.place as usize);
            if let Some(peer) = known.filter(|p| p.to == to && p.socket == call.socket_index) {
                peer.used = self.calls;
                self.ways.push(mark.place);
                continue;
            }
            self.ways.push(BY_SOCKET);
            if let Some(place) = self.places.get(&(to, call.socket_index)) {
                mark.place = *place;
                self.sockets[*place as usize].used = self.calls;
                self.ways[at] = *place;
            } else if self.budget > 0 && may_be_connected(to) {
                let seen = trace(to);
                if mark.trace == seen {
                    self.budget -= 1;
                    wanted.push((at, to));
                }
                mark.trace = seen;
            }
        }
        if !wanted.is_empty() {
            self.make(call, &wanted);
        }
    }

    /// Makes sockets for these datagrams' recipients.
    fn make(&mut self, call: &Call<'_>, wanted: &[(usize, SocketAddr)]) {
        let fd = call.socket.fd();
        let shared = |value| set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, value);
        let before = option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT).unwrap_or(0);
        if shared(1).is_err() {
            self.failures = FAILURES_MAX;
            return;
        }
        for (at, to) in wanted {
            if self.failures >= FAILURES_MAX {
                break;
            }
            match self.add(call, *to) {
                Some(place) => self.ways[*at] = place,
                None => self.failures += 1,
            }
        }
        if shared(before).is_err() {
            unreachable!("what could be switched on a moment ago can be switched back");
        }
    }

    /// Makes a socket for a recipient; its place.
    fn add(&mut self, call: &Call<'_>, to: SocketAddr) -> Option<u32> {
        if let Some(place) = self.places.get(&(to, call.socket_index)) {
            return Some(*place);
        }
        let place = if self.sockets.len() < self.ring.places() {
            self.sockets.len()
        } else {
            let idle = self.idle_place();
            if idle.is_none() {
                self.budget = 0;
            }
            idle?
        };
        let socket = connect(call.socket, self.news.fd(), to).ok()?;
        self.ring.put(place, socket.as_raw_fd()).ok()?;
        self.failures = 0;
        let peer = Peer {
            to,
            socket: call.socket_index,
            used: self.calls,
        };
        if let Some(old) = self.sockets.get_mut(place) {
            self.places.remove(&(old.to, old.socket));
            *old = peer;
        } else {
            self.sockets.push(peer);
        }
        let place = place as u32;
        self.places.insert((to, call.socket_index), place);
        Some(place)
    }

    /// The place of a socket that has not been used for long.
    fn idle_place(&mut self) -> Option<usize> {
        for _ in 0..LOOKS_MAX {
            self.hand = (self.hand + 1) % self.sockets.len();
            if self.sockets[self.hand].used + IDLE_CALLS < self.calls {
                return Some(self.hand);
            }
        }
        None
    }
}

/// Whether connected sockets may send what a socket with these options is to send. A new kernel
/// is needed for them to go by `IP_UNICAST_IF`.
fn may_stand_in(options: &Options) -> bool {
    options.local.ip().is_unspecified() && !options.special && options.unicast_device == 0
}

/// Whether a connected socket sends as an unconnected one would.
fn may_be_connected(to: SocketAddr) -> bool {
    match to {
        SocketAddr::V4(to) => !to.ip().is_multicast() && !to.ip().is_broadcast(),
        SocketAddr::V6(to) => {
            let plain = to.flowinfo() == 0 && to.ip().to_ipv4_mapped().is_none();
            plain && !to.ip().is_multicast()
        }
    }
}

/// A few bits that tell an address from others.
fn trace(to: SocketAddr) -> u32 {
    let ip = match to.ip() {
        IpAddr::V4(ip) => u32::from(ip),
        IpAddr::V6(ip) => ip.octets().chunks(4).fold(0, |sum, four| {
            let word = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
            (sum ^ word).rotate_left(9)
        }),
    };
    ip.rotate_left(16) ^ u32::from(to.port()) | 1 << 31
}

/// A connected socket that sends as `main` does.
fn connect(main: &Socket, news: i32, to: SocketAddr) -> io::Result<OwnedFd> {
    let family = if main.v6 {
        libc::AF_INET6
    } else {
        libc::AF_INET
    };
    // SAFETY: takes integers only.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: the call has just made this descriptor for us alone.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // The calling thread may be in another namespace by now.
    if !same_namespace(fd, main.fd()) || !same_namespace(news, main.fd()) {
        return Err(io::Error::from_raw_os_error(libc::EXDEV));
    }
    // Rules may send datagrams of another user elsewhere.
    if user(fd)? != main.options.user {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    copy_options(main, fd)?;
    let any: IpAddr = if main.v6 {
        NO_GROUP_V6.into()
    } else {
        NO_GROUP_V4.into()
    };
    let own = Name::new(SocketAddr::new(any, main.options.local.port()));
    // SAFETY: `own` is an address of the length given.
    check(unsafe { libc::bind(fd, own.as_ptr().cast(), own.len()) })?;
    let peer = Name::new(to);
    // SAFETY: `peer` is an address of the length given.
    check(unsafe { libc::connect(fd, peer.as_ptr().cast(), peer.len()) })?;
    Ok(socket)
}

/// Sets the options of the caller's socket that differ from what a new one has.
fn copy_options(main: &Socket, fd: i32) -> io::Result<()> {
    let options = &main.options;
    let (level, report, ttl, tos, discover) = if main.v6 {
        (
            libc::IPPROTO_IPV6,
            libc::IPV6_RECVERR,
            libc::IPV6_UNICAST_HOPS,
            libc::IPV6_TCLASS,
            libc::IPV6_MTU_DISCOVER,
        )
    } else {
        (
            libc::IPPROTO_IP,
            libc::IP_RECVERR,
            libc::IP_TTL,
            libc::IP_TOS,
            libc::IP_MTU_DISCOVER,
        )
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    // So that full queues are reported.
    set_option(fd, level, report, 1)?;
    set_option(fd, level, discover, option(main.fd(), level, discover)?)?;
    set_option(fd, level, ttl, i32::from(options.ttl))?;
    let others = [
        (level, tos, u32::from(options.tos)),
        (libc::SOL_SOCKET, libc::SO_PRIORITY, options.priority),
        (libc::SOL_SOCKET, libc::SO_MARK, options.mark),
        (libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, options.device),
    ];
    for (level, name, value) in others {
        if value != 0 {
            set_option(fd, level, name, value as i32)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_need_more_than_a_route_are_not_connected_to() {
        let may = |text: &str| may_be_connected(text.parse().unwrap());
        assert!(may("10.0.0.1:9") && may("[fd00::1]:9") && may("[fe80::1%3]:9"));
        assert!(!may("224.0.0.1:9") && !may("255.255.255.255:9"));
        assert!(!may("[ff02::1]:9") && !may("[::ffff:10.0.0.1]:9"));
    }

    #[test]
    fn the_trace_of_no_address_is_that_of_an_empty_place() {
        for text in ["0.0.0.0:0", "10.0.0.1:9000", "[::]:0", "[fd00::1]:9000"] {
            assert_ne!(trace(text.parse().unwrap()), Mark::default().trace);
        }
    }
}
