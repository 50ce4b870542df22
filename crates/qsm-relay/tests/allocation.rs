//! Decoding allocates nothing (R-RELAY-1), a relay passes packets on without allocating, and an idle
//! session takes no more than S1's "few kilobytes" (R174).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

use qsm_relay::{
    Body, Data, Heartbeat, Join, Joined, Missing, Nack, Packet, Relay, Report, SessionId, Timing,
};
use qsm_wire::Instant;

struct Counting;

thread_local! {
    static ASKED: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; the counters are plain cells of the
// calling thread without destructor, so they may be used at any time.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.set(ASKED.get() + layout.size());
        HELD.set(HELD.get() + layout.size() as isize);
        // SAFETY: the caller's layout is passed on as it is.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as isize);
        // SAFETY: the pointer came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes requested by this thread while `work` runs.
fn asked(work: impl FnOnce()) -> usize {
    let before = ASKED.get();
    work();
    ASKED.get() - before
}

const PARENT: &str = "10.0.0.1:4500";

fn child(number: u16) -> SocketAddr {
    SocketAddr::new([10, 0, 1, 1].into(), number)
}

fn session(group: u32) -> SessionId {
    SessionId { source: 1, group }
}

fn packet(group: u32, body: Body<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let session = session(group);
    Packet { session, body }.encode(&mut bytes);
    bytes
}

fn report(child: u64, upto: u64) -> Report {
    Report {
        child,
        first: 1,
        upto,
        receivers: 1,
    }
}

/// A relay that is a member of a session with so many receivers.
fn joined(relay: &mut Relay, group: u32, children: u16) {
    let now = Instant(0);
    for number in 1..=children {
        let onward = relay.handle_datagram(
            now,
            child(number),
            &packet(group, Body::Join(Join::new(u64::from(number)))),
        );
        assert!(onward.is_empty());
    }
    let answer = Joined {
        first: 1,
        highest: 0,
        known: false,
        rated: false,
        parity: false,
    };
    let answer = packet(group, Body::Joined(answer));
    assert!(
        relay
            .handle_datagram(now, PARENT.parse().unwrap(), &answer)
            .is_empty()
    );
    for number in 1..=children {
        let ack = packet(group, Body::Ack(report(u64::from(number), 0)));
        assert!(relay.handle_datagram(now, child(number), &ack).is_empty());
    }
    let mut bytes = Vec::new();
    while relay.poll_transmit(&mut bytes).is_some() {}
}

fn relay() -> Relay {
    let ms = Duration::from_millis(1);
    Relay::new(PARENT.parse().unwrap(), 99, Timing::new(ms, ms))
}

fn data(sequence: u64, payload: &[u8]) -> Vec<u8> {
    let released = sequence.saturating_sub(50).min(sequence - 1);
    packet(
        7,
        Body::Data(Data {
            sequence,
            released,
            payload,
        }),
    )
}

#[test]
fn decoding_allocates_nothing() {
    let mut missing = Missing::one(3);
    for sequence in [9, 10, 40] {
        assert!(missing.push(sequence));
    }
    let report = report(1, 2);
    let heartbeat = Heartbeat {
        highest: 9,
        released: 2,
        finished: false,
    };
    for body in [
        Body::Data(Data {
            sequence: 2,
            released: 1,
            payload: &[7; 1000],
        }),
        Body::Nack(Nack { report, missing }),
        Body::Ack(report),
        Body::Join(Join::new(3)),
        Body::Heartbeat(heartbeat),
    ] {
        let bytes = packet(7, body);
        let count = asked(|| {
            let packet = Packet::decode(&bytes).expect("legal");
            if let Body::Nack(nack) = packet.body {
                assert_eq!(nack.missing.iter().count(), 4);
            }
        });
        assert_eq!(count, 0, "{body:?}");
        for end in 0..bytes.len() {
            assert_eq!(asked(|| assert!(Packet::decode(&bytes[..end]).is_err())), 0);
        }
    }
}

#[test]
fn packets_in_order_are_passed_on_without_allocating() {
    let mut relay = relay();
    joined(&mut relay, 7, 50);
    let parent = PARENT.parse().unwrap();
    let packets: Vec<Vec<u8>> = (1..=100)
        .map(|sequence| data(sequence, &[1; 4096]))
        .collect();
    let mut copies = 0;
    let count = asked(|| {
        for bytes in &packets {
            let onward = relay.handle_datagram(Instant(5), parent, bytes);
            copies += relay.addresses(onward).count();
        }
    });
    assert_eq!((copies, count), (5000, 0));
}

/// R-RELAY-3: an idle session with fifty children, counted at the allocator and by the relay itself.
#[test]
fn an_idle_session_takes_four_kilobytes_at_most() {
    const SESSIONS: u32 = 100;
    let mut relay = relay();
    // What is the relay's own is there before.
    joined(&mut relay, 0, 50);
    let before = HELD.get();
    for group in 1..=SESSIONS {
        joined(&mut relay, group, 50);
    }
    let held = (HELD.get() - before) / isize::try_from(SESSIONS).unwrap();
    assert!(held <= 4096, "{held} bytes a session");
    let said = relay.session_bytes(session(5)).unwrap();
    assert!(said <= 4096, "{said} bytes by its own account");
    assert!(
        held.unsigned_abs() < said * 3 / 2,
        "{held} held, {said} said"
    );
}

/// A loss takes memory for a while alone.
#[test]
fn what_a_loss_takes_is_given_back() {
    let mut relay = relay();
    joined(&mut relay, 7, 50);
    let parent = PARENT.parse().unwrap();
    let mut bytes = Vec::new();
    for lost in (2..3000).step_by(3) {
        for sequence in [lost - 1, lost + 1] {
            assert_eq!(
                relay
                    .handle_datagram(Instant(5), parent, &data(sequence, b"x"))
                    .children
                    .len(),
                50
            );
        }
        while relay.poll_transmit(&mut bytes).is_some() {}
        let repair = Data {
            sequence: lost,
            released: lost - 1,
            payload: b"x",
        };
        let repair = packet(7, Body::Repair(repair));
        assert_eq!(
            relay
                .handle_datagram(Instant(6), parent, &repair)
                .children
                .len(),
            50
        );
    }
    relay.handle_timeout(Instant(2_000_000_000));
    assert_eq!(relay.nack_states(session(7)), 0);
    assert!(relay.session_bytes(session(7)).unwrap() <= 4096);
}
