//! What is urgent is handled before what came before it (R071, R121, R122).

mod common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use common::{PATIENCE, Site, admitted};
use qsm::{Direction, Embedded, Tapped};
use qsm_wire::Kind;

const FIRST: &[u8] = b"the first message";
const LAST: &[u8] = b"the last message";
/// Messages in between; they fill several packets.
const MESSAGES: u64 = 30;

/// Kinds of the datagrams that a node has sent to the group or received there.
fn told(tapped: &Tapped<'_>, direction: Direction, mut tell: impl FnMut(Kind, &[u8])) {
    if tapped.direction == direction && tapped.group.is_some() {
        for datagram in tapped.datagrams() {
            tell(Kind::peek(datagram).unwrap(), datagram);
        }
    }
}

fn holds(datagram: &[u8], message: &[u8]) -> bool {
    datagram.windows(message.len()).any(|part| part == message)
}

/// Waits until a heartbeat that was sent after the last message has left: another one follows it.
fn wait_for_heartbeat(sent: &Receiver<(Kind, bool)>) {
    let next = || sent.recv_timeout(PATIENCE).unwrap();
    while !matches!(next(), (Kind::Data, true)) {}
    for _ in 0..2 {
        while next().0 != Kind::Heartbeat {}
    }
}

// Rule R-TOK-11.
#[test]
fn a_node_that_is_late_handles_control_before_the_data_that_came_before_it() {
    let site = Site::new();
    let (tell, sent) = channel();
    let a = admitted(
        site.builder("a")
            .embedded_service(Embedded::Always)
            .tap(move |tapped| {
                told(&tapped, Direction::Sent, |kind, datagram| {
                    // The test may have ended.
                    tell.send((kind, holds(datagram, LAST))).ok();
                });
            }),
    );
    let handled = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&handled);
    let b = admitted(site.builder("b").tap(move |tapped| {
        told(&tapped, Direction::Received, |kind, _| {
            notes.lock().unwrap().push(kind);
        });
    }));
    let ((held, is_held), (release, released)): (_, (Sender<()>, _)) = (channel(), channel());
    let (deliver, delivered) = channel();
    let _upcalls = b
        .group("x")
        .subscribe_with(move |delivery| {
            let Some(message) = delivery.message() else {
                return;
            };
            if message.bytes == FIRST {
                held.send(()).unwrap();
                released.recv_timeout(PATIENCE).unwrap();
            }
            deliver.send(message.number).ok();
        })
        .unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(FIRST).unwrap();
    is_held.recv_timeout(PATIENCE).unwrap();
    handled.lock().unwrap().clear();
    for _ in 0..MESSAGES {
        publisher.send(&[7; 1000]).unwrap();
    }
    publisher.send(LAST).unwrap();
    wait_for_heartbeat(&sent);
    release.send(()).unwrap();
    for number in 1..=MESSAGES + 2 {
        assert_eq!(delivered.recv_timeout(PATIENCE).unwrap(), number);
    }
    let handled = handled.lock().unwrap().clone();
    let first = |kind| handled.iter().position(|other| *other == kind).unwrap();
    assert!(first(Kind::Heartbeat) < first(Kind::Data), "{handled:?}");
    let stats = b.stats().unwrap();
    assert!(stats.runtime.received_first > 0);
    // What the heartbeat announced lay in the socket.
    assert_eq!(stats.protocol.naks_sent, 0);
}
