//! A tap sees what crosses the border to the kernel, and when.

mod common;

use std::sync::mpsc::channel;
use std::time::Instant;

use common::{PATIENCE, Site, admitted};
use qsm::{Direction, Embedded};

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
                drop(seen.send((direction, tapped.at)));
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
    assert_eq!(message.bytes(), MARK);
    let mut times = [None, None];
    while times.contains(&None) {
        let (direction, at) = taps.recv_timeout(PATIENCE).unwrap();
        times[usize::from(direction == Direction::Received)].get_or_insert(at);
    }
    let [sent, received] = times.map(Option::unwrap);
    assert!(published <= sent && sent <= received && received <= delivered);
}
