//! Batches, and the descriptor that says when there is one.

use std::os::fd::AsFd as _;
use std::time::Duration;

use qsm::{CloseReason, GroupOptions, Node, Publisher, RecvError};
use qsm_binding::{Reader, Settings};
use qsm_history::{Bounds, Item, Keeper, Start};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);
const PATIENT: Duration = Duration::from_secs(10);

fn node(test: &str) -> Node {
    member(test, "always")
}

/// Node of the test's cluster, with a membership service `always` or `never`.
fn member(test: &str, embedded: &str) -> Node {
    let mut settings = Settings::default();
    let cluster = format!("binding-{test}-{}", std::process::id());
    for (name, value) in [
        ("cluster", &*cluster),
        ("interface", "lo"),
        ("embedded", embedded),
    ] {
        settings.set(name, value).expect("the setting is one");
    }
    settings.start().expect("a node starts on lo")
}

fn reader(node: &Node) -> (Reader, Publisher) {
    let reader = Reader::new(node.subscribe(["g"]).expect("subscribed"));
    (reader, node.publisher("g").expect("a publisher"))
}

/// Tells whether the descriptor is readable, at last or now.
fn rings(reader: &Reader, patience: Duration) -> bool {
    let descriptor = reader.descriptor().expect("a descriptor is left");
    let descriptor = descriptor.as_fd();
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    let patience = Timespec::try_from(patience).expect("seconds");
    poll(&mut polled, Some(&patience)).expect("polled") == 1
}

fn numbers(batch: &[Item]) -> Vec<u64> {
    let message = |item: &Item| match item {
        Item::Message(message) => message.number(),
        other => panic!("{other:?}"),
    };
    batch.iter().map(message).collect()
}

/// Takes until there are so many.
fn all(reader: &Reader, count: usize, most: usize) -> Vec<u64> {
    let mut taken = Vec::new();
    while taken.len() < count {
        assert!(rings(reader, PATIENT), "{} of {count}", taken.len());
        let batch = reader.take(most, AT_ONCE).expect("the node runs");
        assert!(batch.len() <= most);
        taken.extend(numbers(&batch));
    }
    taken
}

#[test]
fn the_descriptor_is_readable_while_something_is_there() {
    let node = node("bell");
    let (reader, publisher) = reader(&node);
    assert!(!rings(&reader, Duration::ZERO));
    for round in 0..100 {
        let first = round * 7 + 1;
        for _ in 0..7 {
            publisher.send(b"m").expect("sent");
        }
        // Fewer at a time than there are, so that some are left behind.
        let expected: Vec<_> = (first..first + 7).collect();
        assert_eq!(all(&reader, 7, 3), expected);
        assert_eq!(reader.take(10, AT_ONCE), Ok(vec![]));
        assert!(!rings(&reader, Duration::ZERO));
    }
}

#[test]
fn what_came_before_the_descriptor_rings_it() {
    let node = node("before");
    let (reader, publisher) = reader(&node);
    publisher.send(b"1").expect("sent");
    let first = reader.take(10, Some(PATIENT)).expect("the node runs");
    assert_eq!(numbers(&first), [1]);
    publisher.send(b"2").expect("sent");
    assert_eq!(all(&reader, 1, 10), [2]);
}

#[test]
fn the_end_comes_after_everything_and_stays() {
    let node = node("end");
    let (reader, publisher) = reader(&node);
    assert!(!rings(&reader, Duration::ZERO));
    publisher.send(b"1").expect("sent");
    node.shutdown(PATIENT).expect("shut down");
    assert_eq!(all(&reader, 1, 10), [1]);
    for _ in 0..3 {
        assert!(rings(&reader, PATIENT));
        let end = RecvError::Closed(CloseReason::ShutDown);
        assert_eq!(reader.take(10, AT_ONCE), Err(end));
    }
}

#[test]
fn none_are_taken_if_none_are_asked_for() {
    let node = node("none");
    let (reader, publisher) = reader(&node);
    publisher.send(b"1").expect("sent");
    assert_eq!(reader.take(0, None), Ok(vec![]));
    assert_eq!(all(&reader, 1, 1), [1]);
}

/// R-HIST-3, R-HIST-4, by the descriptor alone.
#[test]
fn the_past_comes_first_and_the_descriptor_says_when_to_take() {
    let (first, second) = (node("past"), member("past", "never"));
    let keeper = Keeper::start(&first, ["g"], Bounds::default()).expect("a keeper");
    let publisher = first.publisher("g").expect("a publisher");
    for _ in 0..30 {
        publisher.send(b"m").expect("sent");
    }
    while keeper.stats().messages < 30 {
        std::thread::yield_now();
    }
    let queue = GroupOptions::default();
    let reader = Reader::with_past(&second, ["g"], Start::Last(20), queue, 0).expect("subscribed");
    let mut taken = Vec::new();
    while !matches!(taken.last(), Some(Item::Joined(_))) {
        assert!(rings(&reader, PATIENT), "after {taken:?}");
        let batch = reader.take(7, AT_ONCE).expect("the node runs");
        assert!(batch.len() <= 7);
        taken.extend(batch);
    }
    let Some(Item::Joined(joined)) = taken.pop() else {
        panic!("not joined");
    };
    assert_eq!((joined.kept, joined.missing, joined.keepers), (20, 0, 1));
    let kept = taken.iter().map(|item| match item {
        Item::Kept(message) => message.number(),
        other => panic!("{other:?}"),
    });
    assert!(kept.eq(11..=30));

    publisher.wait_for_members(1, PATIENT).expect("a receiver");
    publisher.send(b"live").expect("sent");
    let live = loop {
        assert!(rings(&reader, PATIENT), "nothing comes live");
        let batch = reader.take(7, AT_ONCE).expect("the node runs");
        if !batch.is_empty() {
            break batch;
        }
    };
    let [Item::Message(message)] = &live[..] else {
        panic!("{live:?}");
    };
    let position = |unread| {
        let position = reader.position(unread).expect("it has a past");
        position.get("g", message.sender())
    };
    assert_eq!((message.number(), position([].iter())), (31, Some(31)));
    assert_eq!(position(live.iter()), Some(30));

    second.shutdown(PATIENT).expect("shut down");
    for _ in 0..3 {
        assert!(rings(&reader, PATIENT));
        let end = RecvError::Closed(CloseReason::ShutDown);
        while let Ok(batch) = reader.take(7, AT_ONCE) {
            assert!(batch.is_empty() && rings(&reader, PATIENT), "{batch:?}");
        }
        assert_eq!(reader.take(7, AT_ONCE), Err(end));
    }
}
