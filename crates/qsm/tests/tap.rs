//! A tap sees what crosses the border to the kernel, and when.

mod common;

use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use common::{PATIENCE, Site, admitted};
use qsm::{CloseReason, Direction, Embedded, RequestError, SendError};

const MARK: &[u8] = b"a message that is looked for";

#[test]
fn a_tap_times_a_message_at_both_ends() {
    let site = Site::new();
    let (seen, taps) = channel();
    let tapped = |direction: Direction| {
        let seen = seen.clone();
        move |tapped: qsm::Tapped<'_>| {
            let mut datagrams = tapped.datagrams();
            let carries = |datagram: &[u8]| datagram.windows(MARK.len()).any(|part| part == MARK);
            // Not a repair, which is sent to one.
            let data = tapped.direction == direction && tapped.group.is_some();
            if data && datagrams.any(carries) {
                // The test may have ended.
                seen.send((direction, tapped.at)).ok();
            }
        }
    };
    let sender = admitted(
        site.builder("a")
            .embedded_service(Embedded::Always)
            .tap(tapped(Direction::Sent)),
    );
    let receiver = admitted(site.builder("b").tap(tapped(Direction::Received)));
    let subscription = receiver.subscribe(["x"]).unwrap();
    let publisher = sender.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let published = Instant::now();
    publisher.send(MARK).unwrap();
    let message = subscription.recv_timeout(PATIENCE).unwrap().unwrap();
    let delivered = Instant::now();
    let message = common::message(Some(message));
    assert_eq!(message.bytes(), MARK);
    let mut times = [None, None];
    while times.contains(&None) {
        let (direction, at) = taps.recv_timeout(PATIENCE).unwrap();
        times[usize::from(direction == Direction::Received)].get_or_insert(at);
    }
    let [sent, received] = times.map(Option::unwrap);
    assert!(published <= sent && sent <= received && received <= delivered);
}

#[test]
fn a_tap_that_panics_on_a_publishers_thread_ends_the_node_and_says_why() {
    let site = Site::new();
    let here = thread::current().id();
    let tap = move |_: qsm::Tapped<'_>| {
        // Only a node that sleeps is lent to who publishes.
        assert!(thread::current().id() != here, "the application's mistake");
    };
    let builder = site.builder("a").embedded_service(Embedded::Always);
    let (a, b) = (admitted(builder.tap(tap)), site.node("b"));
    let _subscription = b.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let begun = Instant::now();
    let reason = loop {
        assert!(begun.elapsed() < PATIENCE, "it never slept");
        match publisher.send(MARK) {
            Ok(_) => {}
            Err(SendError::Closed(reason)) => break reason,
            Err(error) => panic!("{error}"),
        }
        // So that the core thread has time to fall asleep.
        match a.flush(PATIENCE) {
            Ok(_) => {}
            Err(RequestError::Closed(reason)) => break reason,
            Err(error) => panic!("{error}"),
        }
    };
    let message = "the application's mistake".to_owned();
    assert_eq!(reason, CloseReason::Panicked { message });
}
