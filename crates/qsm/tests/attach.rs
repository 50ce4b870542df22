//! Attached processes get what nodes get. Here each is an attachment of its own within the test's
//! process; `attach_processes.rs` has real processes.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use common::{PATIENCE, Place, Site, next, pattern, wait_for};
use qsm::attach::{AttachError, ClientRow, Share, ShareError, ShareEvent};
use qsm::{
    CloseReason, Event, GroupOptions, MessageRef, Node, Overflow, RecvError, RequestError,
    SendError, Subscription,
};

fn expect(subscription: &Subscription, numbers: impl IntoIterator<Item = u64>, length: usize) {
    for number in numbers {
        let message = next(subscription);
        assert_eq!(message.number(), number, "{message:?}");
        let same = message.bytes() == pattern(number, length);
        assert!(same, "{message:?}: {:?}", &message.bytes()[..8]);
    }
}

/// What the engine has counted of the process.
fn counted(client: &Node) -> ClientRow {
    client.attachment().unwrap().unwrap()
}

fn row(share: &Share, client: &Node) -> ClientRow {
    let rows = share.clients();
    *rows
        .iter()
        .find(|row| row.client == counted(client).client)
        .unwrap()
}

#[test]
fn a_client_gets_the_newest_message_of_each_key() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let _share = engine.share(place.path()).unwrap();
    let client = place.attach();
    let key_of = |message: MessageRef<'_>| message.bytes[0];
    let latest = client.group("prices").latest_by(key_of).unwrap();
    let publisher = client.publisher("prices").unwrap();
    for value in 0..200 {
        publisher.send(&[value % 2, value]).unwrap();
    }
    // Whatever has been read by then, the last of each key comes last.
    let mut last = [0; 2];
    let mut read = 0;
    while last != [198, 199] {
        let message = common::message(latest.recv_timeout(PATIENCE).unwrap());
        let [key, value] = *message.bytes() else {
            panic!("{message:?}");
        };
        assert!(value >= last[usize::from(key)]);
        last[usize::from(key)] = value;
        read += 1;
    }
    assert_eq!((read + latest.replaced(), latest.dropped()), (200, 0));
    client.shutdown(PATIENCE).unwrap();
    assert!(matches!(latest.recv(), Err(RecvError::Closed(_))));
}

#[test]
fn messages_go_both_ways_whole_and_in_order() {
    const MESSAGES: u64 = 3000;
    let (site, place) = (Site::new(), Place::new());
    let (engine, remote) = (site.first("engine"), site.node("remote"));
    let _share = engine.share(place.path()).unwrap();
    let clients = [place.attach(), place.attach()];
    assert_eq!(
        clients.each_ref().map(|client| counted(client).client),
        [1, 2]
    );
    let groups = ["down", "other"];
    let down = clients
        .each_ref()
        .map(|client| client.subscribe(groups).unwrap());
    let up = remote.subscribe(["up"]).unwrap();
    let source = remote.publisher("down").unwrap();
    source.wait_for_members(1, PATIENCE).unwrap();
    let publishers = clients
        .each_ref()
        .map(|client| client.publisher("up").unwrap());
    publishers[0].wait_for_members(1, PATIENCE).unwrap();
    assert_eq!(publishers[1].members().unwrap(), 1);
    // Of the first client even numbers, of the second odd ones.
    for number in 1..=MESSAGES {
        source.send(&pattern(number, 700)).unwrap();
        publishers[number as usize % 2]
            .send(&number.to_le_bytes())
            .unwrap();
    }
    for subscription in &down {
        expect(subscription, 1..=MESSAGES, 700);
    }
    let mut last = [0, 0];
    for number in 1..=MESSAGES {
        let message = next(&up);
        // Both are one sender to the cluster, and the order of each is kept.
        assert_eq!(
            (message.number(), message.sender().node),
            (number, engine.id())
        );
        let sent = u64::from_le_bytes(message.bytes().try_into().unwrap());
        let from = sent as usize % 2;
        assert!(
            sent == last[from] + 2 || sent <= 2,
            "{sent} after {}",
            last[from]
        );
        last[from] = sent;
    }
    let rows = clients.each_ref().map(counted);
    for row in rows {
        let counted = (
            row.stats.subscriptions,
            row.stats.publishers,
            row.stats.delivered,
            row.stats.published,
        );
        assert_eq!(counted, (1, 1, MESSAGES, MESSAGES / 2));
        assert_eq!((row.pid, row.stats.dropped), (std::process::id(), 0));
    }
}

#[test]
fn processes_of_one_engine_hear_each_other_also_without_a_network_of_others() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let _share = engine.share(place.path()).unwrap();
    let (one, other) = (place.attach(), place.attach());
    let subscription = other.subscribe(["x"]).unwrap();
    let own = engine.subscribe(["x"]).unwrap();
    let publisher = one.publisher("x").unwrap();
    for number in 1..=100 {
        publisher.send(&pattern(number, 50)).unwrap();
    }
    expect(&subscription, 1..=100, 50);
    common::expect_numbers(&own, 1..=100, |number| pattern(number, 50));
}

#[test]
fn one_engine_of_two_cores_keeps_the_order_of_each_group() {
    let (site, place) = (Site::new(), Place::new());
    let engine = common::admitted(
        site.builder("engine")
            .cores(2)
            .embedded_service(qsm::Embedded::Always),
    );
    let _share = engine.share(place.path()).unwrap();
    let client = place.attach();
    let names: Vec<String> = (0..20).map(|group| format!("group/{group}")).collect();
    assert!(names.iter().any(|name| engine.core_of(name) == 1));
    let subscription = client.subscribe(&names).unwrap();
    let publishers = client.groups(&names).publishers().unwrap();
    for number in 1..=50 {
        for publisher in &publishers {
            publisher.send(&pattern(number, 90)).unwrap();
        }
    }
    let mut last = vec![0; names.len()];
    for _ in 0..50 * names.len() {
        let message = next(&subscription);
        let group: usize = message.group()["group/".len()..].parse().unwrap();
        last[group] += 1;
        assert_eq!(message.number(), last[group]);
        assert_eq!(message.bytes(), pattern(last[group], 90));
    }
    assert_eq!(subscription.try_recv().unwrap(), None);
}

/// The reason for all of this: a packet wakes those who want it, and nobody else.
#[test]
fn a_packet_wakes_only_those_who_subscribe_to_its_group_and_each_once() {
    let (site, place) = (Site::new(), Place::new());
    let (engine, remote) = (site.first("engine"), site.node("remote"));
    let share = engine.share(place.path()).unwrap();
    let clients: Vec<Node> = (0..10).map(|_| place.attach()).collect();
    let mut waiting = Vec::new();
    let (tell, told) = channel();
    for (at, client) in clients.iter().enumerate() {
        // The first three hear it.
        let group = if at < 3 { "wanted" } else { "other" };
        let subscription = client.subscribe([group]).unwrap();
        let tell = tell.clone();
        waiting.push(thread::spawn(move || {
            while let Ok(received) = subscription.recv() {
                let number = common::message(Some(received)).number();
                tell.send((at, number)).unwrap();
            }
        }));
    }
    let publisher = remote.publisher("wanted").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=20 {
        publisher.send(b"one packet").unwrap();
        // All have it before the next one goes.
        let mut heard: Vec<_> = (0..3)
            .map(|_| told.recv_timeout(PATIENCE).unwrap())
            .collect();
        heard.sort_unstable();
        assert_eq!(heard, [(0, number), (1, number), (2, number)]);
    }
    for (at, client) in clients.iter().enumerate() {
        let row = row(&share, client);
        let expected = if at < 3 { 20 } else { 0 };
        assert_eq!(row.stats.delivered, expected, "client {at}");
        assert!(
            row.stats.wakes <= expected,
            "client {at}: {} wakes",
            row.stats.wakes
        );
    }
    drop(clients);
    waiting
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn upcalls_run_in_the_attached_process_and_end_when_dropped() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let share = engine.share(place.path()).unwrap();
    let client = place.attach();
    let (tell, told) = channel();
    let upcalls = client
        .group("x")
        .subscribe_with(move |delivery| {
            let message = delivery.message().expect("nothing is lost");
            tell.send((
                message.group.to_owned(),
                message.number,
                message.bytes.to_vec(),
            ))
            .unwrap();
        })
        .unwrap();
    assert!(upcalls.groups().eq(["x"]));
    client.publisher("x").unwrap().send(b"hello").unwrap();
    let heard = told.recv_timeout(PATIENCE).unwrap();
    assert_eq!(heard, ("x".to_owned(), 1, b"hello".to_vec()));
    drop(upcalls);
    // The thread has ended, and with it the closure.
    assert!(told.recv_timeout(PATIENCE).is_err());
    // One request after another: the answer to this one comes after the group was left.
    assert_eq!(counted(&client).stats.subscriptions, 0);
    assert_eq!(row(&share, &client).stats.subscriptions, 0);
}

/// Fills the ring of a subscription that nobody reads, of so many bytes.
fn overfill(place: &Place, engine: &Node, overflow: Overflow) -> (Node, Subscription) {
    let client = place.attach();
    let options = GroupOptions::default()
        .capacity_bytes(4096)
        .overflow(overflow);
    let subscription = client.group("x").options(options).subscribe().unwrap();
    let publisher = engine.publisher("x").unwrap();
    for number in 1..=20 {
        publisher.send(&pattern(number, 1000)).unwrap();
    }
    engine.flush(PATIENCE).unwrap();
    (client, subscription)
}

#[test]
fn a_slow_reader_is_told_how_much_it_missed_and_goes_on() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let share = engine.share(place.path()).unwrap();
    let (client, subscription) = overfill(&place, &engine, Overflow::DropNewest);
    // 1032 bytes each.
    expect(&subscription, 1..=3, 1000);
    common::expect_dropped(subscription.try_recv().unwrap(), 17);
    assert_eq!(subscription.try_recv().unwrap(), None);
    assert_eq!(
        (subscription.dropped(), subscription.queued_bytes()),
        (17, 0)
    );
    let counted = row(&share, &client);
    assert_eq!((counted.stats.delivered, counted.stats.dropped), (3, 17));
    assert_eq!(engine.stats().unwrap().runtime.slow_consumer_drops, 17);
    let rows = engine.stats().unwrap().subscriptions;
    assert_eq!((rows[0].stats.dropped, rows[0].upcall), (17, false));
    engine
        .publisher("x")
        .unwrap()
        .send(&pattern(21, 1000))
        .unwrap();
    expect(&subscription, [21], 1000);
}

#[test]
fn a_slow_reader_can_be_disconnected_instead() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let _share = engine.share(place.path()).unwrap();
    let (client, subscription) = overfill(&place, &engine, Overflow::Disconnect);
    expect(&subscription, 1..=3, 1000);
    assert_eq!(subscription.recv().unwrap_err(), RecvError::Overflow);
    assert_eq!(subscription.dropped(), 1);
    drop(subscription);
    let again = client.subscribe(["x"]).unwrap();
    engine.publisher("x").unwrap().send(b"again").unwrap();
    assert_eq!(next(&again).bytes(), b"again");
    let oldest = GroupOptions::default().overflow(Overflow::DropOldest);
    let refused = client.group("y").options(oldest).subscribe().unwrap_err();
    assert!(refused.to_string().contains("DropNewest"), "{refused}");
    // Upcalls have a ring with the same options.
    let upcalls = client.group("y").options(oldest).subscribe_with(|_| ());
    assert_eq!(upcalls.map(drop), Err(refused));
}

#[test]
fn a_publisher_waits_while_receivers_are_slow_and_loses_nothing() {
    let (site, place) = (Site::new(), Place::new());
    let engine = common::admitted(
        site.builder("engine")
            .embedded_service(qsm::Embedded::Always)
            .queue_messages(1),
    );
    let remote = site.node("remote");
    let share = engine
        .share_with(place.options().publish_ring(4096))
        .unwrap();
    let client = place.attach();
    let subscription = remote.subscribe(["x"]).unwrap();
    let publisher = client.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=2000 {
        publisher.send(&pattern(number, 1500)).unwrap();
    }
    common::expect_numbers(&subscription, 1..=2000, |number| pattern(number, 1500));
    let (length, max) = (4089, 4088);
    assert_eq!(
        publisher.send(&vec![0; length]),
        Err(SendError::TooLarge { length, max })
    );
    publisher.send(&pattern(2001, max)).unwrap();
    client.flush(PATIENCE).unwrap();
    common::expect_numbers(&subscription, [2001], |number| pattern(number, max));
    assert_eq!(row(&share, &client).stats.published, 2001);
}

#[test]
fn what_a_process_sent_before_it_left_is_sent_and_all_it_had_is_released() {
    let (site, place) = (Site::new(), Place::new());
    let (engine, remote) = (site.first("engine"), site.node("remote"));
    let (share, told) = place.share_and_tell(&engine);
    let client = place.attach();
    let subscription = remote.subscribe(["x"]).unwrap();
    let publisher = client.publisher("x").unwrap();
    let _own = client.subscribe(["y"]).unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=1000 {
        publisher.send(&pattern(number, 100)).unwrap();
    }
    drop(client);
    assert_eq!(
        publisher.send(b"too late"),
        Err(SendError::Closed(CloseReason::ShutDown))
    );
    common::expect_numbers(&subscription, 1..=1000, |number| pattern(number, 100));
    let pid = std::process::id();
    let expected = [
        ShareEvent::Attached { client: 1, pid },
        ShareEvent::Detached { client: 1, pid },
    ];
    let events: Vec<_> = (0..2)
        .map(|_| told.recv_timeout(PATIENCE).unwrap())
        .collect();
    assert_eq!(events, expected);
    assert_eq!((share.stats().clients, share.stats().attached), (0, 1));
    let stats = engine.stats().unwrap();
    assert!(stats.subscriptions.is_empty(), "{:?}", stats.subscriptions);
}

#[test]
fn publishers_can_be_given_up_and_made_again() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let share = engine.share_with(place.options().groups_max(30)).unwrap();
    let client = place.attach();
    let names: Vec<String> = (0..25).map(|group| format!("group/{group}")).collect();
    for _ in 0..10 {
        let publishers = client.groups(&names).publishers().unwrap();
        assert!(
            publishers
                .iter()
                .map(|publisher| publisher.group())
                .eq(&names)
        );
        publishers
            .iter()
            .for_each(|publisher| publisher.send(b"x").unwrap());
        drop(publishers);
        client.flush(PATIENCE).unwrap();
    }
    assert_eq!(row(&share, &client).stats.publishers, 0);
    let _some = client.groups(&names).publishers().unwrap();
    let refused = client.subscribe(&names).unwrap_err();
    assert!(
        refused.to_string().contains("more than 30 groups"),
        "{refused}"
    );
    assert_eq!(
        client.subscribe([""]).unwrap_err(),
        client.subscribe(["x".repeat(256)]).unwrap_err()
    );
}

#[test]
fn sixty_four_processes_and_not_one_more() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let (tell, told) = channel();
    let options = place.options().on_event(move |event| {
        if matches!(event, ShareEvent::Detached { .. }) {
            tell.send(()).unwrap();
        }
    });
    let share = engine.share_with(options).unwrap();
    let clients: Vec<Node> = (0..64).map(|_| place.attach()).collect();
    let enter = |client: &Node| {
        let subscription = client.subscribe(["x"]).unwrap();
        (subscription, client.publisher("x").unwrap())
    };
    let entered: Vec<_> = thread::scope(|scope| {
        let each = clients.iter().map(|client| scope.spawn(|| enter(client)));
        let each: Vec<_> = each.collect();
        each.into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let refused = Node::attach(place.path()).unwrap_err();
    assert!(matches!(refused, AttachError::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("64 processes"), "{refused}");
    for (_, publisher) in &entered {
        publisher.send(b"hello").unwrap();
    }
    for (subscription, _) in &entered {
        for number in 1..=64 {
            assert_eq!(next(subscription).number(), number);
        }
    }
    assert_eq!((share.stats().clients, share.stats().refused), (64, 1));
    drop(clients);
    (0..64).for_each(|_| told.recv_timeout(PATIENCE).unwrap());
    assert_eq!(share.stats().clients, 0);
    let again = place.attach();
    assert_eq!(counted(&again).client, 65);
}

#[test]
fn many_threads_of_a_process_may_ask_at_once() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let share = engine.share(place.path()).unwrap();
    let client = place.attach();
    thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| (0..20).for_each(|_| assert!(client.attachment().is_ok())));
        }
    });
    assert_eq!(share.stats().cut_off, 0);
}

#[test]
fn the_end_of_the_engine_is_told_to_all_at_once() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let share = engine.share(place.path()).unwrap();
    let client = place.attach();
    let subscription = client.subscribe(["x"]).unwrap();
    let publisher = client.publisher("x").unwrap();
    let events = client.events();
    publisher.send(b"before").unwrap();
    assert_eq!(next(&subscription).bytes(), b"before");
    let waiting = thread::spawn(move || subscription.recv());
    engine.shutdown(PATIENCE).unwrap();
    let reason = CloseReason::EngineGone {
        cause: "the node was shut down".to_owned(),
    };
    assert_eq!(
        waiting.join().unwrap(),
        Err(RecvError::Closed(reason.clone()))
    );
    assert_eq!(
        wait_for(&events, |_| true),
        Event::Closed {
            reason: reason.clone()
        }
    );
    assert_eq!(publisher.send(b"x"), Err(SendError::Closed(reason.clone())));
    assert_eq!(
        client.subscribe(["y"]).unwrap_err(),
        RequestError::Closed(reason.clone())
    );
    assert_eq!(client.closed(), Some(reason));
    assert!(matches!(
        Node::attach(place.path()),
        Err(AttachError::NoEngine { .. })
    ));
    drop(share);
    assert!(!place.path().exists());
}

#[test]
fn a_share_can_be_ended_and_the_node_goes_on() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let share = engine.share(place.path()).unwrap();
    let client = place.attach();
    let subscription = client.subscribe(["x"]).unwrap();
    drop(share);
    let Err(RecvError::Closed(CloseReason::EngineGone { cause })) = subscription.recv() else {
        panic!("it has ended");
    };
    assert!(cause.contains("not shared any more"), "{cause}");
    let _again = engine.share(place.path()).unwrap();
    let client = place.attach();
    let subscription = client.subscribe(["x"]).unwrap();
    engine.publisher("x").unwrap().send(b"x").unwrap();
    assert_eq!(next(&subscription).bytes(), b"x");
    client.shutdown(PATIENCE).unwrap();
    client.shutdown(PATIENCE).unwrap();
}

#[test]
fn limits_and_paths_have_errors_that_say_what_to_do() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let missing = Node::attach(place.path()).unwrap_err();
    assert!(missing.to_string().contains("qsm engine"), "{missing}");
    let options = place
        .options()
        .ring_bytes_max(1 << 20)
        .client_bytes_max(1 << 20);
    let _share = engine.share_with(options).unwrap();
    let mode = fs::metadata(place.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let twice = engine.share(place.path()).unwrap_err();
    assert!(matches!(twice, ShareError::InUse { .. }), "{twice}");
    let odd = engine
        .share_with(place.options().publish_ring(5000))
        .unwrap_err();
    assert!(odd.to_string().contains("power of two"), "{odd}");
    let client = place.attach();
    let large = GroupOptions::default().capacity_bytes(2 << 20);
    let refused = client.group("x").options(large).subscribe().unwrap_err();
    assert!(refused.to_string().contains("1048576"), "{refused}");
    let all = GroupOptions::default().capacity_bytes(1 << 20);
    let _all = client.group("x").options(all).subscribe().unwrap();
    let refused = client.group("y").options(all).subscribe().unwrap_err();
    assert!(
        refused.to_string().contains("client_bytes_max"),
        "{refused}"
    );
    fs::write(place.path().with_file_name("file"), b"").unwrap();
    let file = engine
        .share(place.path().with_file_name("file"))
        .unwrap_err();
    assert!(matches!(file, ShareError::NotASocket { .. }), "{file}");
    let nowhere = engine.share(place.path().join("below")).unwrap_err();
    assert!(matches!(nowhere, ShareError::Io { .. }), "{nowhere}");
    let late = client.publisher("x").unwrap();
    let timeout = late
        .wait_for_members(9, Duration::from_millis(1))
        .unwrap_err();
    let after = Duration::from_millis(1);
    assert!(matches!(timeout, RequestError::TooFewReceivers { after: told, .. } if told == after));
}
