//! The same handles over a node of one's own and over the engine of another process.

mod common;

use std::future::poll_fn;
use std::pin::Pin;

use std::task::{Context, Waker};
use std::time::Instant;

use common::{PATIENCE, Place, Site, block_on, expect_numbers, message, next, pattern};
use futures_core::Stream;
use qsm::{CloseReason, Embedded, Node, Pull, RequestError, SendError, Subscription};

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

/// Enters a group by tasks alone.
async fn exchange(node: Node, group: &'static str) -> Vec<u8> {
    let subscription = node.subscribe_async([group]).await.unwrap();
    let publisher = node.publisher_async(group).await.unwrap();
    publisher
        .send_owned_async("owned".to_owned())
        .await
        .unwrap();
    let received = subscription.recv_async().await.unwrap();
    received.into_message().unwrap().bytes().to_vec()
}

#[test]
fn tasks_enter_groups_of_own_and_attached_nodes() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let _share = engine.share(place.path()).unwrap();
    let attached = place.attach();
    for (node, group) in [(engine, "own"), (attached, "attached")] {
        // Any thread may poll it.
        let (pattern, reader) = (format!("{group}/*"), node.clone());
        let task = std::thread::spawn(move || block_on(exchange(node, group)));
        assert_eq!(task.join().unwrap(), b"owned");
        let made = block_on(reader.groups([format!("{group}/a")]).publishers_async()).unwrap();
        let followed = block_on(reader.subscribe_async([&pattern])).unwrap();
        assert_eq!(followed.followed().unwrap().groups, 1);
        made[0].send(b"found").unwrap();
        assert_eq!(next(&followed).bytes(), b"found");
        let error = block_on(reader.publisher_async("a*")).unwrap_err();
        assert!(matches!(error, RequestError::BadPattern { .. }), "{error}");
        let error = block_on(reader.subscribe_async(["x".repeat(256)])).unwrap_err();
        assert!(matches!(error, RequestError::Refused { .. }), "{error}");
    }
}

/// A task that executors may move from thread to thread.
fn movable<T: Send>(task: T) -> T {
    task
}

/// The service hears of the group, and is told that it is left.
#[test]
fn a_task_that_does_not_wait_any_more_has_entered_nothing() {
    let site = Site::new();
    let node = site.first("node");
    {
        let mut context = Context::from_waker(Waker::noop());
        let mut subscribing = Box::pin(movable(node.subscribe_async(["given/up"])));
        let mut publishing = Box::pin(movable(node.publisher_async("given/up")));
        // Asked, and given up without having looked again.
        drop(subscribing.as_mut().poll(&mut context));
        drop(publishing.as_mut().poll(&mut context));
    }
    let start = Instant::now();
    loop {
        let groups = node.list_groups().unwrap();
        let row = groups.iter().find(|row| row.name == "given/up");
        if row.is_none_or(|row| (row.members, row.publishers) == (0, 0)) {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{groups:?}");
    }
    let subscription = node.subscribe(["given/up"]).unwrap();
    node.publisher("given/up").unwrap().send(b"again").unwrap();
    assert_eq!(next(&subscription).bytes(), b"again");
}

#[test]
fn what_is_written_in_place_is_sent_by_own_and_attached_nodes() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let _share = engine.share(place.path()).unwrap();
    for (node, group) in [(&engine, "own"), (&place.attach(), "attached")] {
        let subscription = node.subscribe([group]).unwrap();
        let publisher = node.publisher(group).unwrap();
        let mut message = publisher.reserve(100).unwrap();
        assert_eq!(&message[..], [0; 100]);
        message[..5].copy_from_slice(b"later");
        message.truncate(5);
        // One that is not committed holds up neither others nor the flush.
        publisher.send_owned(b"sooner".to_vec()).unwrap();
        drop(publisher.try_reserve(10).unwrap());
        node.flush(PATIENCE).unwrap();
        message.commit().unwrap();
        for expected in [&b"sooner"[..], b"later"] {
            assert_eq!(next(&subscription).bytes(), expected);
        }
        let error = publisher.reserve(100 << 20).unwrap_err();
        assert!(matches!(error, SendError::TooLarge { .. }), "{error}");
        let unsent = publisher.try_send_owned(vec![7; 100 << 20]).unwrap_err();
        assert!(matches!(unsent.error, SendError::TooLarge { .. }));
        assert_eq!(unsent.message.len(), 100 << 20);
    }
}

#[test]
fn reserved_room_is_given_back_to_those_who_wait() {
    let site = Site::new();
    let builder = site.builder("node").queue_messages(1);
    let node = builder.embedded_service(Embedded::Always).start().unwrap();
    let subscription = node.subscribe(["x"]).unwrap();
    let publisher = node.publisher("x").unwrap();
    let room = publisher.reserve(10).unwrap();
    assert_eq!(publisher.try_send(b"no"), Err(SendError::Full));
    let unsent = publisher.try_send_owned(b"no".to_vec()).unwrap_err();
    assert_eq!(
        (unsent.error, &unsent.message[..]),
        (SendError::Full, &b"no"[..])
    );
    let waiting = publisher.clone();
    let sender = std::thread::spawn(move || waiting.send_owned(b"yes".to_vec()));
    drop(room);
    sender.join().unwrap().unwrap();
    assert_eq!(next(&subscription).bytes(), b"yes");
    let room = publisher.reserve(3).unwrap();
    node.shutdown(PATIENCE).unwrap();
    assert_eq!(room.commit(), Err(SendError::Closed(CloseReason::ShutDown)));
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
