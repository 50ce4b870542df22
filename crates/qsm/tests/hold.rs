//! Subscriptions that hold senders up: nothing is dropped, and who publishes waits.

mod common;

use std::time::Instant;

use common::{PATIENCE, Place, Site, expect_numbers, pattern};
use qsm::{
    Embedded, GroupOptions, Limits, Node, Overflow, Publisher, RecvError, RequestError, SendError,
    Subscription,
};

const LENGTH: usize = 8000;

fn hold(messages: usize) -> GroupOptions {
    GroupOptions::default()
        .capacity_messages(messages)
        .overflow(Overflow::Hold)
}

/// A publisher's node, and one with little memory.
fn pair(site: &Site) -> (Node, Node) {
    let small = Limits {
        receive_bytes: 8 << 20,
        ..Limits::default()
    };
    let first = common::admitted(
        site.builder("a")
            .embedded_service(Embedded::Always)
            .queue_messages(100),
    );
    let second = common::admitted(site.builder("b").limits(small));
    (first, second)
}

/// Sends numbered messages until the publisher has waited for a second. Returns how many it took.
fn send_until_full(publisher: &Publisher) -> u64 {
    let (mut sent, mut last) = (0, Instant::now());
    while last.elapsed().as_secs() < 1 {
        match publisher.try_send(&pattern(sent + 1, LENGTH)) {
            Ok(()) => (sent, last) = (sent + 1, Instant::now()),
            Err(SendError::Full) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 50_000, "nobody waits");
    }
    sent
}

fn read(subscription: &Subscription, first: u64, last: u64) {
    expect_numbers(subscription, first..=last, |number| pattern(number, LENGTH));
}

#[test]
fn a_publisher_waits_for_a_reader_that_holds_and_nothing_is_missing() {
    let site = Site::new();
    let (a, b) = pair(&site);
    let subscription = b.group("x").options(hold(50)).subscribe().unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let sent = send_until_full(&publisher);
    assert!(subscription.holds() && subscription.queued() >= 50);
    let stats = b.stats().unwrap();
    assert!(stats.runtime.readers_full > 0 && !stats.protocol.reader_waits.is_zero());
    let queue = &stats.subscriptions[0];
    assert!(!queue.stats.full.is_zero() && queue.stats.full_for >= queue.stats.full);
    assert_eq!((&*queue.groups[0], queue.process), ("x", None));
    // It is heard all the same, and says what it has taken.
    assert_eq!(publisher.members().unwrap(), 1);
    read(&subscription, 1, sent);
    for number in sent + 1..=sent + 3000 {
        publisher.send(&pattern(number, LENGTH)).unwrap();
        read(&subscription, number, number);
    }
    a.flush(PATIENCE).unwrap();
    assert_eq!(subscription.dropped(), 0);
    assert_eq!(subscription.try_recv(), Ok(None));
    assert!(!subscription.holds());
    let stats = b.stats().unwrap();
    assert_eq!(stats.runtime.slow_consumer_drops, 0);
    // It was full now and then, and is so no more.
    let full = stats.subscriptions[0].stats.full;
    assert_eq!(b.stats().unwrap().subscriptions[0].stats.full, full);
}

#[test]
fn other_groups_of_the_node_wait_until_the_subscription_that_holds_is_dropped() {
    let site = Site::new();
    let (a, b) = pair(&site);
    let held = b.group("x").options(hold(50)).subscribe().unwrap();
    let other = b.subscribe(["y"]).unwrap();
    let (x, y) = (a.publisher("x").unwrap(), a.publisher("y").unwrap());
    for publisher in [&x, &y] {
        publisher.wait_for_members(1, PATIENCE).unwrap();
    }
    send_until_full(&x);
    y.send(b"behind").unwrap();
    drop(held);
    let got = other.recv_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(got.into_message().unwrap().bytes(), b"behind");
    a.flush(PATIENCE).unwrap();
}

#[test]
fn a_node_that_reads_what_it_publishes_waits_for_itself() {
    let site = Site::new();
    let (node, _other) = pair(&site);
    let subscription = node.group("x").options(hold(50)).subscribe().unwrap();
    let publisher = node.publisher("x").unwrap();
    let sent = send_until_full(&publisher);
    assert!(subscription.holds());
    read(&subscription, 1, sent);
    publisher.send(&pattern(sent + 1, LENGTH)).unwrap();
    read(&subscription, sent + 1, sent + 1);
    assert_eq!(subscription.dropped(), 0);
}

#[test]
fn what_a_node_holds_when_it_is_shut_down_can_be_read() {
    let site = Site::new();
    let (a, b) = pair(&site);
    let subscription = b.group("x").options(hold(10)).subscribe().unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=150 {
        publisher.send(&pattern(number, LENGTH)).unwrap();
    }
    // All of it is at the node, most of it not in the queue.
    a.flush(PATIENCE).unwrap();
    b.shutdown(PATIENCE).unwrap();
    read(&subscription, 1, 150);
    assert!(matches!(subscription.try_recv(), Err(RecvError::Closed(_))));
}

/// By name, and by a pattern, which has a queue behind its rings.
#[test]
fn a_publisher_waits_for_an_attached_reader_that_holds_and_nothing_is_missing() {
    for name in ["x", "*"] {
        let (site, place) = (Site::new(), Place::new());
        let (a, b) = pair(&site);
        let publisher = a.publisher("x").unwrap();
        let _share = b.share(place.path()).unwrap();
        let client = place.attach();
        let small = hold(50).capacity_bytes(100_000);
        let subscription = client.group(name).options(small).subscribe().unwrap();
        publisher.wait_for_members(1, PATIENCE).unwrap();
        let sent = send_until_full(&publisher);
        assert!(subscription.holds());
        let stats = b.stats().unwrap();
        assert!(stats.runtime.readers_full > 0 && !stats.protocol.reader_waits.is_zero());
        let queue = &stats.subscriptions[0];
        assert!(!queue.stats.full.is_zero() && queue.process == Some(std::process::id()));
        read(&subscription, 1, sent);
        for number in sent + 1..=sent + 500 {
            publisher.send(&pattern(number, LENGTH)).unwrap();
            read(&subscription, number, number);
        }
        a.flush(PATIENCE).unwrap();
        assert_eq!(subscription.dropped(), 0);
        assert_eq!(subscription.try_recv(), Ok(None));
        assert!(!subscription.holds());
        assert_eq!(b.stats().unwrap().runtime.slow_consumer_drops, 0);
    }
}

#[test]
fn who_cannot_hold_is_refused() {
    let node = Site::new().first("a");
    let newest = node.group("x").options(hold(10)).latest_by(|_| 0);
    assert!(matches!(newest.err(), Some(RequestError::Refused { .. })));
}
