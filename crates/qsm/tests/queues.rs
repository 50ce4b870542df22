//! Queues are bounded: publishers wait, slow readers lose by a declared policy, and all is told.

mod common;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, Site, admitted, block_on, expect_dropped, expect_numbers, pattern, waker};
use qsm::{
    CloseReason, Embedded, GroupOptions, Limits, MessageRef, Node, Overflow, Publisher, Pull,
    Received, RecvError, RequestError, SendError, Upcalls,
};

/// Holds a node's core in an upcall until told to go on.
struct Brake {
    _upcalls: Upcalls,
    publisher: Publisher,
    held: Receiver<()>,
    go_on: Sender<()>,
}

impl Brake {
    fn new(node: &Node) -> Self {
        let (told, held) = channel();
        let (go_on, wait) = channel::<()>();
        let upcall = move |_: qsm::Delivery<'_>| {
            // Both fail only when the test has ended.
            if told.send(()).is_ok() {
                wait.recv().unwrap_or_default();
            }
        };
        Self {
            _upcalls: node.group("brake").subscribe_with(upcall).unwrap(),
            publisher: node.publisher("brake").unwrap(),
            held,
            go_on,
        }
    }

    fn hold(&self) {
        self.publisher.send(b"hold").unwrap();
        self.held.recv_timeout(PATIENCE).unwrap();
    }

    fn release(&self) {
        self.go_on.send(()).unwrap();
    }
}

#[test]
fn a_full_queue_refuses_or_waits_and_loses_nothing() {
    let site = Site::new();
    let builder = site.builder("a").embedded_service(Embedded::Always);
    let node = admitted(builder.queue_messages(4));
    let subscription = node.subscribe(["x"]).unwrap();
    let publisher = node.publisher("x").unwrap();
    let brake = Brake::new(&node);
    brake.hold();
    for number in 1..=4 {
        publisher.try_send(&pattern(number, 10)).unwrap();
    }
    assert_eq!(publisher.try_send(b"more"), Err(SendError::Full));
    assert_eq!(publisher.queued(), 4);
    let fifth = pattern(5, 10);
    let mut waiting = Box::pin(publisher.send_async(&fifth));
    let waker = waker();
    assert!(
        waiting
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    brake.release();
    block_on(waiting).unwrap();
    thread::scope(|scope| {
        let threads = (0..3)
            .map(|_| scope.spawn(|| (0..100).for_each(|_| publisher.send(b"threads").unwrap())));
        threads
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    expect_numbers(&subscription, 1..=5, |number| pattern(number, 10));
    expect_numbers(&subscription, 6..=305, |_| b"threads".to_vec());
}

#[test]
fn queued_bytes_are_bounded_but_one_large_message_always_fits() {
    let site = Site::new();
    let builder = site.builder("a").embedded_service(Embedded::Always);
    let node = admitted(builder.queue_bytes(1000).queue_bytes_total(3000));
    let names = ["x", "y", "z"];
    let subscription = node.subscribe(names).unwrap();
    let publishers = node.groups(names).publishers().unwrap();
    let brake = Brake::new(&node);
    brake.hold();
    publishers[0].try_send(&[0; 600]).unwrap();
    assert_eq!(publishers[0].try_send(&[0; 401]), Err(SendError::Full));
    publishers[0].try_send(&[0; 400]).unwrap();
    publishers[1].try_send(&[0; 1900]).unwrap();
    // 2900 bytes and those of the brake's message wait in all.
    assert_eq!(publishers[2].try_send(&[0; 101]), Err(SendError::Full));
    brake.release();
    publishers[2].send(&[0; 5000]).unwrap();
    let lengths = (0..4).map(|_| common::next(&subscription).bytes().len());
    assert_eq!(lengths.sum::<usize>(), 600 + 400 + 1900 + 5000);
}

/// A feed of so many messages of 10,000 bytes, which counts how often it is asked.
fn patterns(messages: u64, asked: Arc<AtomicU64>) -> impl FnMut(&mut Vec<u8>) -> Pull {
    move |message| {
        let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
        message.extend(pattern(number, 10_000));
        if number > messages {
            Pull::End
        } else {
            Pull::Message
        }
    }
}

/// R139: an unbounded feed does not pile up data inside.
#[test]
fn a_feed_is_pulled_only_as_far_as_the_window_allows() {
    const MESSAGES: u64 = 8000;
    let site = Site::new();
    let limits = Limits {
        send_bytes: 1 << 20,
        ..Limits::default()
    };
    let a = admitted(
        site.builder("a")
            .embedded_service(Embedded::Always)
            .limits(limits),
    );
    let b = site.node("b");
    let subscription = b.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let _handle = publisher.feed(patterns(MESSAGES, Arc::default())).unwrap();
    expect_numbers(&subscription, 1..=MESSAGES, |number| {
        pattern(number, 10_000)
    });
    let runtime = a.stats().unwrap().runtime;
    assert_eq!(runtime.messages_pulled, MESSAGES);
    assert!(
        runtime.window_full > 0,
        "80 MB passed a window of 1 MiB without ever filling it"
    );
}

#[test]
fn a_flush_waits_for_what_a_feed_was_asked_for() {
    const MESSAGES: u64 = 200;
    let site = Site::new();
    let limits = Limits {
        send_bytes: 1 << 20,
        ..Limits::default()
    };
    let builder = site.builder("a").embedded_service(Embedded::Always);
    let (a, b) = (admitted(builder.limits(limits)), site.node("b"));
    let subscription = b.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let given = Arc::new(AtomicU64::new(0));
    let feed = patterns(MESSAGES, Arc::clone(&given));
    let _handle = publisher.feed(feed).unwrap();
    assert_eq!(common::next(&subscription).number(), 1);
    let asked = given.load(Ordering::SeqCst).min(MESSAGES);
    a.flush(PATIENCE).unwrap();
    for number in 2..=asked {
        let message = common::message(subscription.try_recv().unwrap());
        assert_eq!(message.number(), number);
    }
}

#[test]
fn an_idle_feed_is_asked_again_when_woken() {
    let site = Site::new();
    let node = site.first("a");
    let subscription = node.subscribe(["x"]).unwrap();
    let publisher = node.publisher("x").unwrap();
    let (give, take) = channel::<Vec<u8>>();
    let feed = move |message: &mut Vec<u8>| match take.try_recv() {
        Ok(bytes) => {
            message.extend(bytes);
            Pull::Message
        }
        Err(_) => Pull::Idle,
    };
    let handle = publisher.feed(feed).unwrap();
    for number in 1..=2000 {
        give.send(pattern(number, 20)).unwrap();
        handle.wake();
        if number % 100 == 0 {
            // Read up to here, so that the feed has become idle many times.
            expect_numbers(&subscription, number - 99..=number, |number| {
                pattern(number, 20)
            });
        }
    }
}

#[test]
fn a_feed_is_asked_again_when_it_said_or_when_woken_before() {
    let site = Site::new();
    let node = site.first("a");
    let subscription = node.subscribe(["x"]).unwrap();
    let publisher = node.publisher("x").unwrap();
    let (begun, pace) = (Instant::now(), Duration::from_millis(1));
    let (give, take) = channel::<Vec<u8>>();
    let mut number = 0;
    let feed = move |message: &mut Vec<u8>| {
        // A hundred at a fixed rate, then what it is given, and nothing before an hour.
        let due = begun + pace * number;
        if number < 100 && Instant::now() < due {
            return Pull::At(due);
        }
        let given = take.try_recv();
        if number >= 100 && given.is_err() {
            return Pull::At(Instant::now() + Duration::from_secs(3600));
        }
        number += 1;
        message.extend(given.unwrap_or_else(|_| pattern(number.into(), 20)));
        Pull::Message
    };
    let handle = publisher.feed(feed).unwrap();
    expect_numbers(&subscription, 1..=100, |number| pattern(number, 20));
    assert!(begun.elapsed() >= pace * 99);
    for number in 101..=200 {
        give.send(pattern(number, 20)).unwrap();
        handle.wake();
        expect_numbers(&subscription, [number], |number| pattern(number, 20));
    }
}

fn overflow(policy: Overflow) -> (Node, qsm::Subscription) {
    let node = Site::new().first("a");
    let options = GroupOptions::default()
        .capacity_messages(10)
        .overflow(policy);
    let subscription = node.group("x").options(options).subscribe().unwrap();
    let publisher = node.publisher("x").unwrap();
    for number in 1..=100 {
        publisher.send(&pattern(number, 10)).unwrap();
    }
    node.flush(PATIENCE).unwrap();
    (node, subscription)
}

#[test]
fn a_slow_reader_loses_the_newest() {
    let (node, subscription) = overflow(Overflow::DropNewest);
    assert_eq!((subscription.queued(), subscription.dropped()), (10, 90));
    expect_numbers(&subscription, 1..=9, |number| pattern(number, 10));
    let publisher = node.publisher("x").unwrap();
    // There is room again, for one, before the others are told of.
    publisher.send(&pattern(101, 10)).unwrap();
    node.flush(PATIENCE).unwrap();
    expect_numbers(&subscription, [10], |number| pattern(number, 10));
    expect_dropped(subscription.try_recv().unwrap(), 90);
    expect_numbers(&subscription, [101], |number| pattern(number, 10));
    assert_eq!(subscription.try_recv(), Ok(None));
    let snapshot = node.stats().unwrap();
    assert_eq!(snapshot.runtime.slow_consumer_drops, 90);
    assert_eq!(snapshot.subscriptions[0].stats.dropped, 90);
}

#[test]
fn a_slow_reader_loses_the_oldest() {
    let (_node, subscription) = overflow(Overflow::DropOldest);
    assert_eq!((subscription.queued(), subscription.dropped()), (10, 90));
    let mut first = subscription.try_recv().unwrap();
    // On a busy machine it may have been away meanwhile.
    if let Some(Received::Back(_)) = first {
        first = subscription.try_recv().unwrap();
    }
    expect_dropped(first, 90);
    expect_numbers(&subscription, 91..=100, |number| pattern(number, 10));
    assert_eq!(subscription.try_recv(), Ok(None));
}

#[test]
fn a_slow_reader_is_disconnected() {
    let (_node, subscription) = overflow(Overflow::Disconnect);
    expect_numbers(&subscription, 1..=10, |number| pattern(number, 10));
    assert_eq!(subscription.try_recv(), Err(RecvError::Overflow));
    assert_eq!(subscription.dropped(), 1);
}

#[test]
fn publishers_have_queues_of_their_own() {
    let site = Site::new();
    let builder = site.builder("a").embedded_service(Embedded::Always);
    let node = admitted(builder.queue_messages(1));
    let (x, y) = (node.publisher("x").unwrap(), node.publisher("y").unwrap());
    let subscription = node.subscribe(["y"]).unwrap();
    let brake = Brake::new(&node);
    brake.hold();
    x.try_send(b"1").unwrap();
    assert_eq!(x.try_send(b"2"), Err(SendError::Full));
    y.try_send(b"1").unwrap();
    let poll = Box::pin(x.send_async(b"2"))
        .as_mut()
        .poll(&mut Context::from_waker(&waker()));
    assert_eq!(poll, Poll::Pending);
    brake.release();
    assert_eq!(common::next(&subscription).bytes(), b"1");
}

#[test]
fn who_publishes_to_a_node_that_sleeps_sends_the_message_himself() {
    let site = Site::new();
    let (a, b) = (site.first("a"), site.node("b"));
    let subscription = b.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let lent = || a.stats().unwrap().runtime.sends_lent;
    let (mut number, begun) = (0, Instant::now());
    // Each message is awaited, so that the core thread has time to fall asleep.
    while lent() == 0 {
        assert!(begun.elapsed() < PATIENCE, "it never slept");
        for _ in 0..20 {
            number += 1;
            publisher.send(&pattern(number, 100)).unwrap();
            expect_numbers(&subscription, [number], |number| pattern(number, 100));
        }
    }
    a.flush(PATIENCE).unwrap();
    assert_eq!(a.stats().unwrap().runtime.messages_pushed, number);
}

#[test]
fn upcalls_for_own_messages_are_the_core_threads_even_if_it_sleeps() {
    let site = Site::new();
    let node = site.first("a");
    let (tell, told) = channel();
    let _upcalls = node
        .group("x")
        .subscribe_with(move |_| tell.send(thread::current().id()).unwrap())
        .unwrap();
    let publisher = node.publisher("x").unwrap();
    let mut threads: Vec<_> = (0..200)
        .map(|_| {
            publisher.send(b"own").unwrap();
            told.recv_timeout(PATIENCE).unwrap()
        })
        .collect();
    threads.dedup();
    assert_eq!(threads.len(), 1);
    assert_ne!(threads[0], thread::current().id());
    assert_eq!(node.stats().unwrap().runtime.sends_lent, 0);
}

/// The first byte is the key.
fn first(message: MessageRef<'_>) -> Option<u8> {
    message.bytes.first().copied()
}

#[test]
fn of_each_key_a_slow_reader_gets_the_newest_message() {
    for cores in [1, 3] {
        let site = Site::new();
        let builder = site.builder("a").embedded_service(Embedded::Always);
        let node = admitted(builder.cores(cores));
        let names = ["x", "y", "z"];
        let latest = node.groups(names).latest_by(first).unwrap();
        // Whatever has come here is there, too, which was first.
        let all = node.subscribe(names).unwrap();
        let publishers = names.map(|name| node.publisher(name).unwrap());
        for round in 0..100 {
            for (key, publisher) in publishers.iter().enumerate() {
                publisher
                    .send(&[u8::try_from(key).unwrap(), round])
                    .unwrap();
            }
        }
        (0..300).for_each(|_| drop(common::next(&all)));
        assert_eq!((latest.queued(), latest.queued_bytes()), (3, 6));
        assert_eq!((latest.replaced(), latest.dropped()), (297, 0));
        let mut read: Vec<_> = (0..3)
            .map(|_| common::message(latest.try_recv().unwrap()).into_bytes())
            .collect();
        read.sort_unstable();
        assert_eq!(read, [[0, 99], [1, 99], [2, 99]]);
        assert_eq!(latest.try_recv(), Ok(None));
        let mut waiting = Box::pin(latest.recv_async());
        let waker = waker();
        let mut context = Context::from_waker(&waker);
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        publishers[1].send(&[7]).unwrap();
        assert_eq!(common::message(block_on(waiting).ok()).bytes(), [7]);
        node.shutdown(PATIENCE).unwrap();
        assert_eq!(latest.recv(), Err(RecvError::Closed(CloseReason::ShutDown)));
    }
}

#[test]
fn the_newest_of_each_key_of_a_pattern_is_refused() {
    let site = Site::new();
    let node = site.first("a");
    let refused = node.group("prices/*").latest_by(first).unwrap_err();
    assert!(matches!(refused, RequestError::Pattern { .. }), "{refused}");
}
