//! What the public interface cannot bring about: older kernels, and ten seconds that pass.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use super::tap::Attachment;
use super::*;
use crate::message::Message;
use crate::recipient::Recipients;
use crate::sockopt::set_option;
use crate::wire::{Namespace, Wire};

const RECEIVERS: u16 = 8;
/// How long a datagram, or a change of the kernel's mind, may take within this machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A cloning back-end and whom it sends to.
struct Rig {
    cloner: Cloner,
    portable: Portable,
    socket: Socket,
    faults: Faults,
    receivers: Vec<(SocketAddr, UdpSocket)>,
}

impl Rig {
    fn new(wire: &Wire) -> Self {
        let receivers = wire.far.run(|| {
            let bound = (1..=RECEIVERS).map(|number| {
                let to = SocketAddr::new(Wire::receiver_v4(number), 9000);
                let socket = UdpSocket::bind(to).unwrap();
                socket.set_read_timeout(Some(PATIENCE)).unwrap();
                (to, socket)
            });
            bound.collect()
        });
        let socket = Socket::owned(UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        Self {
            cloner: Cloner::new(std::slice::from_ref(&socket)).unwrap(),
            portable: Portable::batch(),
            socket,
            faults: Faults::new(),
            receivers,
        }
    }

    /// Sends to all at this second; what became of each.
    fn send(&mut self, message: Message<'_>, now_s: u64) -> Vec<Errno> {
        let to = self.receivers.iter().map(|(to, _)| *to);
        let recipients: Vec<_> = to.map(Recipient::new).collect();
        let indices: Vec<u32> = (0..recipients.len() as u32).collect();
        let mut errors = vec![Errno::SENT; recipients.len()];
        let call = Call {
            message,
            recipients: Recipients::Slice(&recipients),
            socket: &self.socket,
            socket_index: 0,
        };
        let (portable, faults) = (&mut self.portable, &mut self.faults);
        let cloner = &mut self.cloner;
        cloner.send(&call, &indices, &mut errors, portable, faults, now_s);
        errors
    }

    /// Sends at this second, and checks that it comes to all, in so many bytes a piece.
    fn deliver(&mut self, payload: &[u8], segment: u16, now_s: u64) {
        let errors = self.send(Message::train(payload, segment), now_s);
        assert!(errors.iter().all(|error| error.sent()), "{errors:?}");
        for (to, socket) in &self.receivers {
            for piece in payload.chunks(usize::from(segment)) {
                let mut buffer = [0; 2000];
                let len = socket.recv(&mut buffer).expect("it arrives");
                assert!(buffer[..len] == *piece, "at {to}");
            }
        }
    }

    /// Delivers until clones are made, at this second.
    fn warm_up(&mut self, now_s: u64) {
        for _ in 0..3 {
            self.deliver(b"warm", 100, now_s);
        }
        assert!(self.cloner.counts.cloned > 0, "{:?}", self.cloner.counts);
    }
}

/// Runs a test on a wire, where there can be one.
fn on_wire(body: impl FnOnce(&Wire) + Send) {
    if let Err(reason) = Namespace::new() {
        return lab::skip(reason);
    }
    let wire = Wire::new(1500).unwrap();
    wire.near.run(|| body(&wire));
}

#[test]
fn trains_go_by_the_socket_where_the_tap_takes_none() {
    on_wire(|wire| {
        let mut rig = Rig::new(wire);
        rig.warm_up(100);
        assert_eq!(rig.cloner.trains, Some(SEGMENTS_UDP), "since Linux 6.2");
        let train = [7; 5000];
        let cloned = rig.cloner.counts.cloned;
        rig.deliver(&train, 1000, 100);
        assert!(rig.cloner.counts.cloned > cloned);
        rig.cloner.trains = None;
        let before = rig.cloner.counts;
        rig.deliver(&train, 1000, 100);
        assert_eq!(rig.cloner.counts, before);
    });
}

#[test]
fn a_packet_that_the_tap_refuses_is_no_lost_hook() {
    /// What no kernel knows, as kernels before 6.2 do not know trains of UDP.
    const UNKNOWN: u8 = 0x3f;
    on_wire(|wire| {
        let mut rig = Rig::new(wire);
        rig.warm_up(100);
        let tap = rig.cloner.tap.as_ref().unwrap();
        assert!(takes_trains(tap, SEGMENTS_UDP) && !takes_trains(tap, UNKNOWN));
        let device = rig.cloner.device().map(str::to_owned);
        rig.cloner.trains = Some(UNKNOWN);
        for _ in 0..3 {
            rig.deliver(&[7; 5000], 1000, 100);
        }
        assert_eq!(rig.cloner.counts.hooks_lost, 0);
        assert_eq!(rig.cloner.device(), device.as_deref());
        let cloned = rig.cloner.counts.cloned;
        rig.deliver(b"no train", 100, 100);
        assert!(rig.cloner.counts.cloned > cloned);
    });
}

#[test]
fn a_classic_filter_clones_where_the_kernel_has_no_links() {
    on_wire(|wire| {
        let mut rig = Rig::new(wire);
        let tap = Tap::with(&rig.cloner.program, Attachment::Filter).unwrap();
        let device = tap.name().to_owned();
        rig.cloner.tap = Some(tap);
        rig.warm_up(100);
        assert_eq!(rig.cloner.counts.hooks_lost, 0);
        assert_eq!(rig.cloner.device(), Some(&*device));
        // It is gone with its device, which is noticed.
        wire.near.ip(&format!("link del {device}\n")).unwrap();
        rig.deliver(b"all the same", 100, 100);
        assert_eq!(rig.cloner.counts.hooks_lost, 1);
        let cloned = rig.cloner.counts.cloned;
        rig.deliver(b"and again", 100, 100);
        assert!(rig.cloner.counts.cloned > cloned);
    });
}

/// A program that ends every packet and leaves its mark and priority.
fn witness_program(map: i32) -> Vec<u64> {
    use super::asm::{Assembler, Register};
    use Register::{R0, R1, R2, R7};
    let mut asm = Assembler::default();
    asm.map_value(R7, map);
    asm.load(R2, R1, program::SKB_MARK);
    asm.store(R7, 0, R2);
    asm.load(R2, R1, program::SKB_PRIORITY);
    asm.store(R7, 4, R2);
    asm.set(R0, program::TC_ACT_STOLEN);
    asm.exit();
    asm.finish()
}

#[test]
fn clones_have_the_sockets_mark_and_priority() {
    on_wire(|wire| {
        let mut rig = Rig::new(wire);
        rig.warm_up(100);
        let fd = rig.socket.fd();
        set_option(fd, libc::SOL_SOCKET, libc::SO_MARK, 0x1234).unwrap();
        set_option(fd, libc::SOL_SOCKET, libc::SO_PRIORITY, 5).unwrap();
        assert!(rig.socket.refresh());
        rig.cloner.forget();
        let arena = Arena::new(4096).unwrap();
        let witness = bpf::load(&witness_program(arena.map()), c"witness").unwrap();
        // SAFETY: the name ends with a zero byte.
        let ifindex = unsafe { libc::if_nametoindex(c"wire0".as_ptr()) };
        tap::attach_filter(&witness, ifindex, tap::Hook::Egress).unwrap();
        let cloned = rig.cloner.counts.cloned;
        let errors = rig.send(Message::new(b"marked"), 100);
        assert!(errors.iter().all(|error| error.sent()), "{errors:?}");
        assert_eq!(rig.cloner.counts.cloned, cloned + u64::from(RECEIVERS));
        assert_eq!((arena.read_u32(0), arena.read_u32(4)), (0x1234, 5));
    });
}

/// Lets the kernel give a silent neighbour up after a fraction of a second.
fn make_impatient() {
    let settings = [
        ("base_reachable_time_ms", "20"),
        ("delay_first_probe_time", "0"),
        ("retrans_time_ms", "10"),
        ("ucast_solicit", "1"),
        ("app_solicit", "0"),
        ("mcast_solicit", "1"),
    ];
    for (name, value) in settings {
        fs::write(format!("/proc/sys/net/ipv4/neigh/wire0/{name}"), value).unwrap();
    }
}

#[test]
fn a_next_hop_that_falls_silent_is_found_out() {
    on_wire(|wire| {
        make_impatient();
        let mut rig = Rig::new(wire);
        let mut now_s = 100;
        rig.warm_up(now_s);
        // The far end takes packets, but answers no question for its address any more.
        let silence = "/proc/sys/net/ipv4/conf/wire1/arp_ignore";
        wire.far.run(|| fs::write(silence, "8")).unwrap();
        let start = Instant::now();
        let unreachable = Errno::new(libc::EHOSTUNREACH);
        while !rig.faults.values().any(|fault| *fault == unreachable) {
            assert!(start.elapsed() < PATIENCE, "the silence was not found out");
            // As if ten seconds had passed: the next hop gets a datagram by the socket.
            now_s += 10;
            rig.send(Message::new(b"anybody there"), now_s);
            rig.socket.drain(&mut rig.faults);
        }
        let cloned = rig.cloner.counts.cloned;
        rig.send(Message::new(b"nobody"), now_s + 1);
        assert_eq!(
            rig.cloner.counts.cloned, cloned,
            "clones for a dead next hop"
        );
    });
}
