//! The same handles over a node of one's own and over the engine of another process.

mod common;

use std::future::poll_fn;
use std::pin::Pin;

use common::{PATIENCE, Place, Site, block_on, expect_numbers, message, next, pattern};
use futures_core::Stream;
use qsm::{Node, Pull, RequestError, Subscription};

fn stream_next(subscription: &mut Subscription) -> qsm::Message {
    let mut pinned = Pin::new(subscription);
    let received = block_on(poll_fn(|context| pinned.as_mut().poll_next(context)));
    message(received.transpose().unwrap())
}

/// What every node can do, with a subscription and a publisher of its own.
fn exercise(node: &Node, group: &str) {
    // All of it has room, however slow this thread is.
    let own = node.group(group).capacity_bytes(16 << 20);
    let mut subscription = own.subscribe().unwrap();
    let publisher = node.publisher(group).unwrap();
    publisher.send(b"one").unwrap();
    assert_eq!(next(&subscription).bytes(), b"one");
    // A task that waits is woken.
    let sender = std::thread::spawn(move || {
        for number in 2..=2000 {
            block_on(publisher.send_async(&pattern(number, 5000))).unwrap();
        }
        publisher
    });
    for number in 2..=2000 {
        let message = stream_next(&mut subscription);
        assert_eq!(message.number(), number);
        assert!(message.bytes() == pattern(number, 5000));
    }
    let publisher = sender.join().unwrap();
    let task = std::thread::spawn(move || block_on(subscription.recv_async()));
    publisher.send(b"last").unwrap();
    assert_eq!(message(task.join().unwrap().ok()).bytes(), b"last");
    let names = |name: &str| {
        node.list_groups()
            .unwrap()
            .iter()
            .any(|row| row.name == name)
    };
    assert!(names(group) && !names("another"));
    assert!(!node.list_nodes().unwrap().is_empty());
    assert!(!node.list_regions().unwrap().is_empty());
    node.flush(PATIENCE).unwrap();
}

#[test]
fn an_own_and_an_attached_node_can_do_the_same() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    exercise(&engine, "own");
    let _share = engine.share(place.path()).unwrap();
    exercise(&place.attach(), "attached");
}

#[test]
fn what_an_attached_node_cannot_do_is_a_named_error() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let _share = engine.share(place.path()).unwrap();
    let node = place.attach();
    let publisher = node.publisher("x").unwrap();
    let feed = publisher.feed(|_: &mut Vec<u8>| Pull::End).map(drop);
    let errors = [
        feed,
        node.leave(["x"]),
        node.wait_admitted(PATIENCE),
        node.stats().map(drop),
        node.core_stats().map(drop),
        node.io_report().map(drop),
    ];
    for error in errors.map(Result::unwrap_err) {
        assert!(matches!(error, RequestError::NotAttached { .. }), "{error}");
    }
    let error = node.share(place.path()).map(drop).unwrap_err();
    assert!(error.to_string().contains("attach"), "{error}");
    assert!(engine.attachment().unwrap().is_none());
}

#[test]
fn the_last_clone_of_a_publisher_gives_up_the_role() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let share = engine.share(place.path()).unwrap();
    let subscription = engine.subscribe(["x"]).unwrap();
    let publisher = engine.publisher("x").unwrap();
    let clone = publisher.clone();
    drop(publisher);
    clone.send(&pattern(1, 10)).unwrap();
    expect_numbers(&subscription, [1], |number| pattern(number, 10));
    drop(clone);
    let publishers = || engine.stats().unwrap().publishers.len();
    assert_eq!(publishers(), 0);
    let attached = place.attach();
    let publisher = attached.publisher("x").unwrap();
    let clone = publisher.clone();
    drop(publisher);
    clone.send(b"attached").unwrap();
    assert_eq!(next(&subscription).bytes(), b"attached");
    assert_eq!(share.clients()[0].stats.publishers, 1);
}
