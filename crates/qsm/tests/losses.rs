//! What a node misses that stands still: nothing while it is waited for, and then a range that is told
//! in the subscriptions, exactly and in its place.

mod common;

use std::sync::mpsc::channel;
use std::time::Duration;

use common::{PATIENCE, Place, Site, admitted, next};
use qsm::{
    Delivery, Embedded, Event, Events, Node, Origin, Publisher, Received, Service, ServiceEvent,
    Subscription,
};

/// Messages sent while the receiver stands still.
const MISSED: u64 = 10;

/// Holds the core thread of `node` until `meanwhile` is done.
fn stand_still(node: &Node, meanwhile: impl FnOnce()) {
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
    meanwhile();
    release.send(()).unwrap();
}

fn send_missed(publisher: &Publisher) {
    for _ in 0..MISSED {
        publisher.send(b"missed").unwrap();
    }
}

fn expect(subscription: &Subscription, sender: Origin) {
    let first = next(subscription);
    assert_eq!((first.number(), first.sender()), (1, sender));
    let receive = || subscription.recv_timeout(PATIENCE).unwrap().unwrap();
    let Received::Excluded(_) = receive() else {
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
    let builder = site.builder("sender").embedded_service(Embedded::Always);
    let sender = admitted(builder.gone_after(Duration::from_secs(1)));
    let receiver = site.node("receiver");
    let _share = receiver.share(place.path()).unwrap();
    let own = receiver.subscribe(["x"]).unwrap();
    let client = place.attach();
    let attached = client.subscribe(["x"]).unwrap();
    let publisher = sender.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(b"before").unwrap();
    sender.flush(PATIENCE).unwrap();
    stand_still(&receiver, || {
        // It is excluded.
        while publisher.members().unwrap() > 0 {}
        send_missed(&publisher);
    });
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(b"after").unwrap();
    let origin = sender.list_nodes().unwrap();
    let origin = origin.iter().find(|row| row.origin.node == sender.id());
    let origin = origin.unwrap().origin;
    expect(&own, origin);
    expect(&attached, origin);
}

/// Waits until the service says that somebody is away.
fn wait_for_away(service: &Service) {
    let away = |event: ServiceEvent| match event {
        ServiceEvent::Away { name, .. } => name == "receiver",
        ServiceEvent::Excluded { .. } => panic!("excluded"),
        _ => false,
    };
    while !away(service.next_event().unwrap()) {}
}

/// Those of a reader about an absence, until it is over.
fn absence(events: &Events) -> Vec<Event> {
    let mut told = Vec::new();
    while !matches!(told.last(), Some(Event::Back { .. })) {
        let event = events.recv_timeout(PATIENCE).unwrap().unwrap();
        if let Event::Away { .. } | Event::Back { .. } | Event::Excluded = event {
            told.push(event);
        }
    }
    told
}

#[test]
fn a_node_that_is_waited_for_misses_nothing_and_is_told_of_its_absence() {
    let (site, place) = (Site::new(), Place::new());
    let service = site.service().gone_after(Duration::from_secs(3600));
    let service = service.start().unwrap();
    let node = |name| admitted(site.builder(name).service(service.address()));
    let (sender, receiver) = (node("sender"), node("receiver"));
    let _share = receiver.share(place.path()).unwrap();
    let (own, client) = (receiver.subscribe(["x"]).unwrap(), place.attach());
    let attached = client.subscribe(["x"]).unwrap();
    let events = [receiver.events(), client.events()];
    let publisher = sender.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    stand_still(&receiver, || {
        wait_for_away(&service);
        send_missed(&publisher);
    });
    for subscription in [&own, &attached] {
        let numbers = (0..MISSED).map(|_| next(subscription).number());
        assert!(numbers.eq(1..=MISSED));
        // Behind what was sent meanwhile, and as long as nobody was heard of it.
        let Some(Received::Back(back)) = subscription.recv_timeout(PATIENCE).unwrap() else {
            panic!("not told that it was away");
        };
        assert!(back.away >= Duration::from_millis(500), "{back:?}");
    }
    for events in events {
        let told = absence(&events);
        let [Event::Away { region, .. }, Event::Back { region: back, .. }] = told[..] else {
            panic!("{told:?}");
        };
        assert_eq!(region, back);
    }
}
