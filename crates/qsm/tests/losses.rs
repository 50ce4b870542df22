//! A missed range is told in the subscriptions, exactly and in its place.

mod common;

use std::sync::mpsc::channel;

use common::{PATIENCE, Place, Site, next};
use qsm::{Delivery, Node, Origin, Publisher, Received, Subscription};

/// Messages sent while the receiver is away.
const MISSED: u64 = 10;

/// Holds the core thread of `node` until its cluster has taken it for dead, as the publisher knows,
/// and `meanwhile` is done.
fn be_away(node: &Node, publisher: &Publisher, meanwhile: impl FnOnce()) {
    let ((held, is_held), (release, released)) = (channel(), channel::<()>());
    let _upcalls = node
        .group("brake")
        .subscribe_with(move |delivery: Delivery<'_>| {
            // Afterwards it is told that it was away.
            if delivery.message().is_some() {
                held.send(()).unwrap();
                released.recv_timeout(PATIENCE).unwrap();
            }
        })
        .unwrap();
    let brake = node.publisher("brake").unwrap();
    brake.send(b"hold").unwrap();
    is_held.recv_timeout(PATIENCE).unwrap();
    while publisher.members().unwrap() > 0 {}
    meanwhile();
    release.send(()).unwrap();
}

fn expect(subscription: &Subscription, sender: Origin) {
    let first = next(subscription);
    assert_eq!((first.number(), first.sender()), (1, sender));
    let receive = || subscription.recv_timeout(PATIENCE).unwrap().unwrap();
    let Received::Away(_) = receive() else {
        panic!("first of all, that something may be missing");
    };
    let Received::Lost(lost) = receive() else {
        panic!("what is missing comes before the message that follows");
    };
    assert_eq!((&*lost.group, lost.sender), ("x", sender));
    assert_eq!((lost.first, lost.last), (2, 1 + MISSED));
    let after = next(subscription);
    assert_eq!((after.number(), after.bytes()), (2 + MISSED, &b"after"[..]));
}

#[test]
fn a_missed_range_comes_before_the_message_that_follows_it() {
    let (site, place) = (Site::new(), Place::new());
    let (sender, receiver) = (site.first("sender"), site.node("receiver"));
    let _share = receiver.share(place.path()).unwrap();
    let own = receiver.subscribe(["x"]).unwrap();
    let client = place.attach();
    let attached = client.subscribe(["x"]).unwrap();
    let publisher = sender.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(b"before").unwrap();
    sender.flush(PATIENCE).unwrap();
    be_away(&receiver, &publisher, || {
        for _ in 0..MISSED {
            publisher.send(b"missed").unwrap();
        }
    });
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(b"after").unwrap();
    let origin = sender.list_nodes().unwrap();
    let origin = origin.iter().find(|row| row.origin.node == sender.id());
    let origin = origin.unwrap().origin;
    expect(&own, origin);
    expect(&attached, origin);
}
