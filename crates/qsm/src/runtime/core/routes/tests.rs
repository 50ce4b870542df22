use std::sync::mpsc::channel;

use qsm_wire::{Incarnation, Origin};

use super::*;
use crate::handoff::inbox::Inbox;
use crate::handoff::message::{Capacity, Overflow};
use crate::relayed::Relayed;

/// Routes with subscribers of these groups, and what each has.
fn routes(subscribers: &[&[&str]], messages: usize) -> (Routes, Vec<Arc<Inbox<Received>>>) {
    let mut routes = Routes::default();
    let bytes = usize::MAX;
    let inbox = |_| Inbox::new(Capacity { messages, bytes }, Overflow::DropNewest);
    let inboxes: Vec<_> = (0..subscribers.len()).map(inbox).map(Arc::new).collect();
    for ((key, groups), inbox) in (0..).zip(subscribers).zip(&inboxes) {
        let names: Arc<[Arc<str>]> = groups.iter().map(|name| Arc::from(*name)).collect();
        routes.add(key, &names, Sink::Queue(Arc::clone(inbox)), None);
    }
    for (number, name) in (1..).zip(["x", "y", "z"]) {
        routes.bind_one(GroupId(number), name);
    }
    (routes, inboxes)
}

fn deliver(routes: &mut Routes, group: u32, number: u64) {
    routes.deliver(qsm_proto::Delivery {
        group: GroupId(group),
        sender: Origin::default(),
        number,
        bytes: b"bytes",
    });
}

fn lose(routes: &mut Routes, group: u32, first: u64, last: u64) {
    routes.miss(Miss::Messages {
        group: GroupId(group),
        sender: Origin::default(),
        first,
        last,
        cause: LossCause::Gone,
    });
}

/// Summary of what a subscription yields.
fn yields(inbox: &Inbox<Received>) -> Vec<String> {
    let received = std::iter::from_fn(|| inbox.try_recv().unwrap());
    let short = |received| match received {
        Received::Message(message) => format!("{}{}", message.group(), message.number()),
        Received::Lost(lost) => format!("-{}{}..{}", lost.group, lost.first, lost.last),
        Received::LostPackets(lost) => format!("-{} packets", lost.packets),
        Received::Dropped(dropped) => format!("-{}", dropped.messages),
        Received::Back(back) => format!("back {:?}", back.away),
        Received::Excluded(excluded) => format!("excluded {}", excluded.incarnation.0),
    };
    received.map(short).collect()
}

#[test]
fn subscriptions_of_a_group_each_get_the_loss_before_what_follows() {
    let (mut routes, inboxes) = routes(&[&["x"], &["x", "y"], &["y"]], 100);
    deliver(&mut routes, 1, 1);
    deliver(&mut routes, 2, 1);
    lose(&mut routes, 1, 2, 4);
    lose(&mut routes, 1, 5, 6);
    deliver(&mut routes, 1, 7);
    assert_eq!(yields(&inboxes[0]), ["x1", "-x2..6", "x7"]);
    assert_eq!(yields(&inboxes[1]), ["x1", "y1", "-x2..6", "x7"]);
    assert_eq!(yields(&inboxes[2]), ["y1"]);
}

#[test]
fn a_number_belongs_to_the_group_that_it_was_told_of_last() {
    let (mut routes, inboxes) = routes(&[&["x"], &["y"]], 100);
    routes.name_group(GroupId(1), "y");
    deliver(&mut routes, 1, 7);
    deliver(&mut routes, 2, 1);
    routes.name_group(GroupId(9), "nobody's");
    routes.name_group(GroupId(2), "x");
    deliver(&mut routes, 2, 2);
    assert_eq!(yields(&inboxes[0]), ["x2"]);
    assert_eq!(yields(&inboxes[1]), ["y7"]);
    assert_eq!(routes.stats().messages_unwanted, 1);
    routes.miss(Miss::Life {
        incarnation: Incarnation(1),
    });
    deliver(&mut routes, 1, 8);
    routes.name_group(GroupId(3), "y");
    deliver(&mut routes, 3, 1);
    assert_eq!(yields(&inboxes[1]), ["excluded 1", "y1"]);
    assert_eq!(routes.stats().messages_unwanted, 2);
}

/// R-RELAY-63: also for upcalls, and where the group's number changes.
#[test]
fn what_a_second_gateway_publishes_again_reaches_no_subscription() {
    let (mut routes, inboxes) = routes(&[&["x"], &["x", "y"]], 100);
    let (upcalls, upcalled) = channel();
    let upcall = move |delivery: Delivery<'_>| {
        let message = delivery.message().map(|message| message.number);
        upcalls.send(message).unwrap();
    };
    routes.add(
        9,
        &[Arc::from("y")].into(),
        Sink::Upcall(Box::new(upcall)),
        None,
    );
    let mut relay = |group: u32, number: u64, relayed: u64| {
        let mut bytes = b"1.0842".to_vec();
        Relayed::new("fra", "ticker", Origin::default(), relayed).append(&mut bytes);
        routes.deliver(qsm_proto::Delivery {
            group: GroupId(group),
            sender: Origin::default(),
            number,
            bytes: &bytes,
        });
        routes.name_group(GroupId(1), "x");
    };
    for (number, relayed) in [(1, 40), (2, 41), (3, 40), (4, 41), (5, 42)] {
        relay(1, number, relayed);
    }
    relay(2, 6, 1);
    relay(2, 7, 1);
    assert_eq!(yields(&inboxes[0]), ["x1", "x2", "x5"]);
    assert_eq!(yields(&inboxes[1]), ["x1", "x2", "x5", "y6"]);
    assert_eq!(upcalled.try_iter().collect::<Vec<_>>(), [Some(6)]);
    assert_eq!(routes.stats().relayed_again, 3);
}

#[test]
fn losses_get_through_a_full_queue_in_their_place() {
    let (mut routes, inboxes) = routes(&[&["x"]], 2);
    for number in 1..=3 {
        deliver(&mut routes, 1, number);
    }
    lose(&mut routes, 1, 4, 5);
    deliver(&mut routes, 1, 6);
    let first = inboxes[0].try_recv().unwrap();
    assert!(matches!(first, Some(Received::Message(_))));
    deliver(&mut routes, 1, 7);
    assert_eq!(yields(&inboxes[0]), ["x2", "-2", "-x4..5", "x7"]);
}

#[test]
fn packets_are_told_to_their_groups_and_an_absence_to_all() {
    let (mut routes, inboxes) = routes(&[&["x", "y"], &["z"]], 100);
    let groups = [GroupId(1), GroupId(2), GroupId(9)];
    routes.miss(Miss::Packets {
        groups: &groups,
        sender: Origin::default(),
        packets: 3,
    });
    routes.miss(Miss::Life {
        incarnation: Incarnation(4),
    });
    assert_eq!(yields(&inboxes[0]), ["-3 packets", "excluded 4"]);
    assert_eq!(yields(&inboxes[1]), ["excluded 4"]);
}

#[test]
fn a_return_is_told_to_subscriptions_of_its_region_in_order() {
    let (mut routes, inboxes) = routes(&[&["x", "y"], &["z"]], 2);
    deliver(&mut routes, 1, 1);
    deliver(&mut routes, 2, 1);
    routes.back(&[GroupId(1), GroupId(2)], Duration::from_secs(3));
    assert_eq!(yields(&inboxes[0]), ["x1", "y1", "back 3s"]);
    deliver(&mut routes, 1, 2);
    assert_eq!(yields(&inboxes[0]), ["x2"]);
    assert!(yields(&inboxes[1]).is_empty());
}

#[test]
fn upcalls_are_told_in_order() {
    let (mut routes, _) = routes(&[], 1);
    let (tell, told) = channel();
    let upcall = move |delivery: Delivery<'_>| {
        let short = match delivery {
            Delivery::Message(message) => message.number.to_string(),
            Delivery::Lost(lost) => format!("-{}..{}", lost.first, lost.last),
            other => format!("{other:?}"),
        };
        tell.send(short).unwrap();
    };
    let upcall = Sink::Upcall(Box::new(upcall));
    routes.add(7, &[Arc::from("x")].into(), upcall, None);
    routes.bind_one(GroupId(1), "x");
    deliver(&mut routes, 1, 1);
    lose(&mut routes, 1, 2, 3);
    deliver(&mut routes, 1, 4);
    drop(routes);
    assert_eq!(told.iter().collect::<Vec<_>>(), ["1", "-2..3", "4"]);
}
