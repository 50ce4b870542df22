//! Groups whose senders nobody holds: a reader that does not read loses messages, and is told which.

mod common;

use std::thread;

use common::{PATIENCE, Site, pattern};
use qsm::{
    Embedded, GroupOptions, GroupPace, HintList, Limits, Node, Overflow, Pace, Received,
    Subscription, UnservedCause,
};

const LENGTH: usize = 8000;
const MESSAGES: u64 = 8000;

/// The publisher's node, which waits for nobody and sends no faster than a loopback takes.
fn publisher(site: &Site) -> Node {
    let hints = HintList::new().pace(GroupPace::Uncontrolled, ["x"]);
    let builder = site.builder("a").embedded_service(Embedded::Always);
    let limits = Limits {
        send_bytes: 32 << 20,
        retention_bytes: 8 << 20,
        ..Limits::default()
    };
    let pace = Pace {
        rate_max_packets: 5000,
        ..Pace::default()
    };
    let builder = builder.hints(hints.finish().unwrap()).limits(limits);
    common::admitted(builder.pace(pace))
}

/// Reads until all numbers have come or are told as lost, each in its turn. Returns those that are lost.
fn read(subscription: &Subscription) -> u64 {
    let (mut next, mut lost) = (1, 0);
    while next <= MESSAGES {
        let received = subscription.recv_timeout(PATIENCE).unwrap();
        match received.expect("something should have come") {
            Received::Message(message) => {
                assert_eq!(message.number(), next);
                assert!(message.bytes() == pattern(next, LENGTH), "{next}");
                next += 1;
            }
            Received::Lost(range) => {
                assert_eq!(range.first, next);
                lost += range.last + 1 - next;
                next = range.last + 1;
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(next, MESSAGES + 1);
    lost
}

// Rule R-RATE-10.
#[test]
fn a_reader_that_does_not_read_holds_nobody_and_is_told_what_it_lost() {
    let site = Site::new();
    let a = publisher(&site);
    let small = Limits {
        receive_bytes: 8 << 20,
        ..Limits::default()
    };
    let b = common::admitted(site.builder("b").limits(small));
    let c = site.node("c");
    let held = GroupOptions::default()
        .capacity_messages(50)
        .overflow(Overflow::Hold);
    let stopped = b.group("x").options(held).subscribe().unwrap();
    let reading = c.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(2, PATIENCE).unwrap();
    thread::scope(|scope| {
        // Whatever this host does meanwhile: what does not come is told.
        let reader = scope.spawn(|| read(&reading));
        for number in 1..=MESSAGES {
            publisher.send(&pattern(number, LENGTH)).unwrap();
        }
        reader.join().unwrap();
    });
    assert!(stopped.holds(), "it has not read");
    let lost = read(&stopped);
    assert!(lost > 0, "{lost}");
    let flushed = a.flush(PATIENCE).unwrap();
    let named = flushed.unserved.iter();
    let mut named = named.filter(|unserved| unserved.cause == UnservedCause::Overrun);
    assert!(
        named.any(|unserved| unserved.receivers.iter().any(|one| one.node == b.id())),
        "{flushed:?}"
    );
    let stats = a.stats().unwrap().protocol;
    assert!(stats.passed_over > 0 && stats.sent_beyond_window > 0);
    assert_eq!(b.stats().unwrap().protocol.messages_lost, lost);
}
