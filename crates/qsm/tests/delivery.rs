//! What is published arrives at all subscribers, once, in order, whole.

mod common;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::mpsc::channel;

use common::{PATIENCE, Site, block_on, expect_numbers, next, pattern};
use futures_core::Stream;
use qsm::{CloseReason, FaultConfig, Node, RecvError};

#[test]
fn three_nodes_get_what_each_of_them_publishes() {
    let site = Site::new();
    let nodes = [site.first("a"), site.node("b"), site.node("c")];
    let subscriptions = nodes
        .each_ref()
        .map(|node| node.subscribe(["x", "y"]).unwrap());
    let publishers = nodes.each_ref().map(|node| node.publisher("x").unwrap());
    for publisher in &publishers {
        publisher.wait_for_members(2, PATIENCE).unwrap();
    }
    for number in 1..=100 {
        for publisher in &publishers {
            publisher.send(&pattern(number, 300)).unwrap();
        }
    }
    for subscription in &subscriptions {
        let mut last = nodes.each_ref().map(|node| (node.id(), 0));
        for _ in 0..300 {
            let message = next(subscription);
            assert_eq!(message.group(), "x");
            let sender = message.sender().node;
            let (_, number) = last.iter_mut().find(|(node, _)| *node == sender).unwrap();
            *number += 1;
            assert_eq!(message.number(), *number);
            assert_eq!(message.bytes(), pattern(*number, 300));
        }
        assert_eq!(subscription.try_recv().unwrap(), None);
    }
}

#[test]
fn a_publisher_need_not_be_a_member() {
    let site = Site::new();
    let (publishing, receiving) = (site.first("a"), site.node("b"));
    let subscription = receiving.subscribe(["x"]).unwrap();
    let publisher = publishing.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=1000 {
        publisher.send(&pattern(number, 100)).unwrap();
    }
    expect_numbers(&subscription, 1..=1000, |number| pattern(number, 100));
    publishing.flush(PATIENCE).unwrap();
    assert_eq!(publishing.stats().unwrap().protocol.messages_delivered, 0);
}

#[test]
fn nodes_with_an_inbox_each_share_a_region_and_get_what_is_for_them_alone_by_unicast() {
    let site = Site::new();
    let names = ["a", "b", "c"];
    let nodes = [site.first("a"), site.node("b"), site.node("c")];
    let inbox = |name: &str| format!("inbox/{name}");
    let subscribe = |(node, name): (&Node, &str)| {
        let common = node.subscribe(["all"]).unwrap();
        (common, node.subscribe([inbox(name)]).unwrap())
    };
    let subscriptions: Vec<_> = nodes.iter().zip(names).map(subscribe).collect();
    let publisher = site.node("p");
    let all = publisher.publisher("all").unwrap();
    let inboxes = names.map(|name| publisher.publisher(inbox(name)).unwrap());
    all.wait_for_members(3, PATIENCE).unwrap();
    for inbox in &inboxes {
        inbox.wait_for_members(1, PATIENCE).unwrap();
    }
    for number in 1..=2000 {
        all.send(&pattern(number, 300)).unwrap();
        for inbox in &inboxes {
            inbox.send(&pattern(number, 1000)).unwrap();
        }
    }
    for (common, inbox) in &subscriptions {
        expect_numbers(common, 1..=2000, |number| pattern(number, 300));
        expect_numbers(inbox, 1..=2000, |number| pattern(number, 1000));
    }
    publisher.flush(PATIENCE).unwrap();
    let regions = publisher.list_regions().unwrap();
    let (shared, private): (Vec<_>, Vec<_>) = regions
        .iter()
        .partition(|region| region.address.ip().is_multicast());
    assert_eq!((shared.len(), private.len()), (1, 3));
    assert_eq!(shared[0].members.len(), 3);
    assert!(private.iter().all(|region| region.members.len() == 1));
}

/// Three members of a group, with these faults and a random sequence each, after all of them have
/// got everything that the first one published.
fn nodes_with_faults(fault: FaultConfig, payload_checksums: bool) -> (Site, [Node; 3]) {
    let site = Site::new();
    let _service = site.service().start().unwrap();
    let nodes = [1, 2, 3].map(|seed| {
        let network = site.network().fault(FaultConfig { seed, ..fault });
        let builder = site.builder("faulty").network(network);
        common::admitted(builder.payload_checksums(payload_checksums))
    });
    let subscriptions = nodes.each_ref().map(|node| node.subscribe(["x"]).unwrap());
    let publisher = nodes[0].publisher("x").unwrap();
    publisher.wait_for_members(2, PATIENCE).unwrap();
    for number in 1..=5000 {
        publisher.send(&pattern(number, 1000)).unwrap();
    }
    for subscription in &subscriptions {
        expect_numbers(subscription, 1..=5000, |number| pattern(number, 1000));
    }
    (site, nodes)
}

#[test]
fn losses_are_repaired() {
    let fault = FaultConfig {
        loss_ppm: 50_000,
        duplicate_ppm: 10_000,
        reorder_ppm: 10_000,
        ..FaultConfig::default()
    };
    let (_site, nodes) = nodes_with_faults(fault, false);
    let lost: u64 = nodes
        .iter()
        .map(|node| node.stats().unwrap().port.faults.lost)
        .sum();
    assert!(lost > 0);
}

/// Of every hundred datagrams two have a changed bit, anywhere: without the checksum over messages
/// the content would be wrong, without any, packets would say what nobody said.
#[test]
fn damage_is_found_and_repaired() {
    let fault = FaultConfig {
        damage_ppm: 20_000,
        damage_bytes: usize::MAX,
        ..FaultConfig::default()
    };
    let (_site, nodes) = nodes_with_faults(fault, true);
    for node in &nodes {
        let stats = node.stats().unwrap();
        assert!(stats.port.faults.damaged > 0);
        assert!(stats.protocol.discard_damaged > 0);
    }
}

#[test]
fn many_groups_are_entered_at_once_and_kept_apart() {
    let site = Site::new();
    let (a, b) = (site.first("a"), site.node("b"));
    let names: Vec<String> = (0..500).map(|group| format!("group/{group}")).collect();
    let subscription = b.subscribe(&names).unwrap();
    let odd: Vec<&String> = names.iter().skip(1).step_by(2).collect();
    let odd = b.subscribe(odd).unwrap();
    let publishers = a.groups(&names).publishers().unwrap();
    publishers[499].wait_for_members(1, PATIENCE).unwrap();
    for publisher in &publishers {
        publisher.send(publisher.group().as_bytes()).unwrap();
    }
    let mut seen: Vec<String> = (0..500)
        .map(|_| {
            let message = next(&subscription);
            assert_eq!(message.group().as_bytes(), message.bytes());
            message.group().to_owned()
        })
        .collect();
    seen.sort_unstable();
    let mut expected = names.clone();
    expected.sort_unstable();
    assert_eq!(seen, expected);
    for _ in 0..250 {
        let message = next(&odd);
        let number: u32 = message.group()["group/".len()..].parse().unwrap();
        assert_eq!(number % 2, 1);
    }
    assert_eq!(odd.try_recv().unwrap(), None);
}

#[test]
fn a_message_of_16_mebibytes_arrives_whole() {
    let site = Site::new();
    let (a, b) = (site.first("a"), site.node("b"));
    let subscription = b.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=3 {
        publisher.send(&pattern(number, 16 << 20)).unwrap();
    }
    expect_numbers(&subscription, 1..=3, |number| pattern(number, 16 << 20));
}

#[test]
fn an_empty_message_is_a_message() {
    let site = Site::new();
    let a = site.first("a");
    let subscription = a.subscribe(["x"]).unwrap();
    a.publisher("x").unwrap().send(b"").unwrap();
    assert_eq!(next(&subscription).bytes(), b"");
}

#[test]
fn upcalls_get_borrowed_bytes_on_the_core_thread() {
    let site = Site::new();
    let (a, b) = (site.first("a"), site.node("b"));
    let (told, heard) = channel();
    let upcalls = b
        .group("x")
        .subscribe_with(move |delivery| {
            let delivery = delivery.message().expect("nothing is lost");
            let thread = std::thread::current().name().map(str::to_owned);
            let copy = (
                delivery.group.to_owned(),
                delivery.number,
                delivery.bytes.to_vec(),
            );
            told.send((thread, copy)).unwrap();
        })
        .unwrap();
    assert_eq!(upcalls.groups().collect::<Vec<_>>(), ["x"]);
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=10 {
        publisher.send(&pattern(number, 5000)).unwrap();
    }
    for number in 1..=10 {
        let (thread, copy) = heard.recv_timeout(PATIENCE).unwrap();
        assert_eq!(thread.as_deref(), Some("qsm-core"));
        assert_eq!(copy, ("x".to_owned(), number, pattern(number, 5000)));
    }
    assert_eq!(b.stats().unwrap().runtime.upcalls, 10);
}

#[test]
fn a_subscription_is_an_iterator_and_a_stream() {
    let site = Site::new();
    let a = site.first("a");
    let mut subscription = a.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    let sender = std::thread::spawn(move || {
        for number in 1..=20 {
            block_on(publisher.send_async(&pattern(number, 50))).unwrap();
        }
    });
    let numbers: Vec<u64> = subscription
        .messages()
        .take(10)
        .map(|message| message.unwrap().number())
        .collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
    for number in 11..=20 {
        let message = block_on(poll_fn(|context| {
            Pin::new(&mut subscription).poll_next(context)
        }));
        let message = common::message(message.transpose().unwrap());
        assert_eq!(message.number(), number);
    }
    sender.join().unwrap();
    a.shutdown(PATIENCE).unwrap();
    let mut poll = || {
        block_on(poll_fn(|context| {
            Pin::new(&mut subscription).poll_next(context)
        }))
    };
    let closed = RecvError::Closed(CloseReason::ShutDown);
    assert_eq!(poll(), Some(Err(closed)));
    assert_eq!(poll(), None);
    assert_eq!(subscription.messages().count(), 0);
}

/// A publisher made within a function, as a new user writes it.
fn publish_once(node: &Node, number: u64) {
    let publisher = node.publisher("x").unwrap();
    publisher.send(&pattern(number, 100)).unwrap();
}

#[test]
fn what_was_accepted_is_sent_also_when_publishers_come_and_go_at_once() {
    let site = Site::new();
    let (receiving, publishing) = (site.first("a"), site.node("b"));
    let subscription = receiving.subscribe(["x"]).unwrap();
    for number in 1..=20 {
        publish_once(&publishing, number);
    }
    expect_numbers(&subscription, 1..=20, |number| pattern(number, 100));
}

#[test]
fn a_publisher_that_is_made_again_knows_the_members() {
    let site = Site::new();
    let (receiving, publishing) = (site.first("a"), site.node("b"));
    let subscription = receiving.subscribe(["x"]).unwrap();
    for number in 1..=20 {
        let publisher = publishing.publisher("x").unwrap();
        publisher.wait_for_members(1, PATIENCE).unwrap();
        publisher.send(&pattern(number, 100)).unwrap();
    }
    publishing.flush(PATIENCE).unwrap();
    expect_numbers(&subscription, 1..=20, |number| pattern(number, 100));
}
