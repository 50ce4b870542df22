//! Subscriptions of one group and node that want different things while messages are missing each get
//! what they asked for, and a loss to one is none to the others.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{PATIENCE, Place, Site, admitted, next, pattern};
use qsm::{
    DeliveryMode, FaultConfig, LostCause, Message, Node, Overflow, Received, RequestError,
    Subscription,
};

const COUNT: u64 = 4000;
const KEYS: u64 = 8;

/// Its number is in front; one in a hundred takes several packets.
fn content(number: u64) -> Vec<u8> {
    let length = if number.is_multiple_of(100) {
        5000
    } else {
        600
    };
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(pattern(number, length));
    bytes
}

fn check(message: &Message) -> u64 {
    let number = message.number();
    assert!(message.bytes() == content(number), "content of {number}");
    number
}

/// What a subscription yields until all numbers up to the last are accounted for: those that have come,
/// in their order, and how many were told as lost. Each is accounted for once.
fn read(subscription: &Subscription, in_order: bool) -> (Vec<u64>, u64) {
    let mut came = Vec::new();
    let mut settled = vec![false; COUNT as usize + 1];
    let mut lost = 0;
    let mut highest = 0;
    while came.len() as u64 + lost < COUNT {
        let numbers = match subscription.recv_timeout(PATIENCE).unwrap() {
            Some(Received::Message(message)) => {
                let number = check(&message);
                came.push(number);
                number..=number
            }
            Some(Received::Lost(told)) => {
                assert_eq!(told.cause, LostCause::Overdue);
                lost += told.last + 1 - told.first;
                told.first..=told.last
            }
            other => panic!("{other:?} after {}, {lost} lost", came.len()),
        };
        assert!(!in_order || *numbers.start() == highest + 1, "{numbers:?}");
        highest = *numbers.end();
        for number in numbers {
            let settled = &mut settled[number as usize];
            assert!(!*settled, "{number} twice");
            *settled = true;
        }
    }
    (came, lost)
}

#[test]
fn each_subscription_of_a_group_gets_what_it_asked_for_under_loss() {
    let (site, place) = (Site::new(), Place::new());
    let _service = site.service().start().unwrap();
    let node = |name: &str, seed, loss_ppm| {
        let fault = FaultConfig {
            seed,
            loss_ppm,
            ..FaultConfig::default()
        };
        admitted(site.builder(name).network(site.network().fault(fault)))
    };
    let (sender, lossy) = (node("sender", 1, 0), node("lossy", 2, 50_000));
    let neighbour = node("neighbour", 3, 50_000);
    let subscribe = |delivery| lossy.group("x").delivery(delivery).subscribe().unwrap();
    let ordered = subscribe(DeliveryMode::Ordered);
    let arrival = subscribe(DeliveryMode::Arrival);
    let hurried = subscribe(DeliveryMode::Within(Duration::ZERO));
    let patient = subscribe(DeliveryMode::Within(PATIENCE));
    let key = |message: qsm::MessageRef<'_>| message.number % KEYS;
    let newest = lossy.group("x").latest_by(key).unwrap();
    let (_share, _told) = place.share_and_tell(&lossy);
    let client = place.attach();
    let attach = |delivery| client.group("x").delivery(delivery).subscribe().unwrap();
    let attached_arrival = attach(DeliveryMode::Arrival);
    let attached_hurried = attach(DeliveryMode::Within(Duration::ZERO));
    let others = neighbour.subscribe(["x"]).unwrap();
    let publisher = sender.publisher("x").unwrap();
    publisher.wait_for_members(2, PATIENCE).unwrap();
    // All ways begin together.
    publisher.send(&content(1)).unwrap();
    sender.flush(PATIENCE).unwrap();
    for number in 2..=COUNT {
        publisher.send(&content(number)).unwrap();
    }
    let all: Vec<u64> = (1..=COUNT).collect();
    assert_eq!(read(&ordered, true), (all.clone(), 0));
    assert_eq!(read(&others, true), (all.clone(), 0));
    assert_eq!(read(&patient, true), (all.clone(), 0));
    for arrival in [&arrival, &attached_arrival] {
        let (mut came, lost) = read(arrival, false);
        assert_eq!(lost, 0);
        assert!(!came.is_sorted(), "some have overtaken others");
        came.sort_unstable();
        assert_eq!(came, all);
    }
    let (came, lost) = read(&hurried, true);
    assert!(came.is_sorted() && lost > 0, "{lost} lost");
    assert_eq!(read(&attached_hurried, true), (came, lost));
    let mut last = BTreeMap::new();
    while let Some(received) = newest.recv_timeout(Duration::ZERO).unwrap() {
        let Received::Message(message) = received else {
            panic!("{received:?}");
        };
        let number = check(&message);
        let before = last.insert(number % KEYS, number);
        assert!(before < Some(number), "{number} after {before:?}");
    }
    assert_eq!(last.len() as u64, KEYS);
    assert!(last.values().all(|number| *number > COUNT - KEYS));
    let stats = lossy.stats().unwrap();
    assert_eq!(stats.protocol.messages_overdue, lost);
    assert_eq!(stats.protocol.messages_lost, 0);
    assert!(stats.protocol.messages_ahead > 0);
}

#[test]
fn a_node_gets_its_own_messages_once_in_each_way_and_ways_end_with_their_subscriptions() {
    let site = Site::new();
    let node = site.first("a");
    let subscribe = |delivery| node.group("x").delivery(delivery).subscribe().unwrap();
    let arrival = subscribe(DeliveryMode::Arrival);
    let other = subscribe(DeliveryMode::Arrival);
    let publisher = node.publisher("x").unwrap();
    publisher.send(b"first").unwrap();
    assert_eq!(next(&arrival).number(), 1);
    assert_eq!(next(&other).number(), 1);
    drop(arrival);
    let ordered = subscribe(DeliveryMode::Ordered);
    publisher.send(b"second").unwrap();
    assert_eq!(next(&other).number(), 2);
    assert_eq!(next(&ordered).number(), 2);
    drop(other);
    publisher.send(b"third").unwrap();
    assert_eq!(next(&ordered).number(), 3);
    assert_eq!(ordered.try_recv().unwrap(), None);
    let pattern = node.group("*").delivery(DeliveryMode::Arrival);
    let pattern = pattern.subscribe().unwrap();
    publisher.send(b"fourth").unwrap();
    assert_eq!(next(&pattern).number(), 4);
    assert_eq!(next(&ordered).number(), 4);
    assert_eq!(pattern.try_recv().unwrap(), None);
}

fn refusal<T: std::fmt::Debug>(made: Result<T, RequestError>) -> String {
    made.unwrap_err().to_string()
}

#[test]
fn what_cannot_be_is_refused() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let (_share, _told) = place.share_and_tell(&engine);
    let client: Node = place.attach();
    let soon = DeliveryMode::Within(Duration::from_millis(1));
    for name in ["x", "*"] {
        assert!(client.group(name).delivery(soon).subscribe().is_ok());
    }
    let held = client.group("x").overflow(Overflow::Hold);
    let newest = held.latest_by(|message| message.number);
    assert!(refusal(newest).contains("holds up no senders"));
    let arrival = engine.group("x").delivery(DeliveryMode::Arrival);
    let arrival = arrival.overflow(Overflow::DropOldest);
    let newest = arrival.latest_by(|message| message.number);
    assert!(refusal(newest).contains("choose `DeliveryMode::Ordered`"));
    let newest = engine.group("x").delivery(soon);
    assert!(newest.latest_by(|message| message.number).is_ok());
}
