//! Messages lie in the engine's memory once for all who read them, at whatever speed they do.

mod common;

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use common::{PATIENCE, Place, Site, expect_dropped, expect_numbers, next, pattern};
use qsm::attach::{ClientRow, Share, ShareEvent};
use qsm::{CloseReason, Delivery, GroupOptions, Node, Received, RecvError, Subscription, Upcalls};

/// Of a message in the log or in a ring.
const HEADER_BYTES: usize = 32;

fn length(number: u64) -> usize {
    // Some longer than a block of the log.
    match number % 500 {
        499 => 100_000,
        _ => (number * 37 % 900) as usize,
    }
}

fn content(number: u64) -> Vec<u8> {
    pattern(number, length(number))
}

fn row(share: &Share, client: u32) -> ClientRow {
    let rows = share.clients();
    *rows.iter().find(|row| row.client == client).unwrap()
}

/// Keeps account of what a reader has got: each message whole and in its place, or missing.
struct Account {
    next: u64,
    last: u64,
    done: Sender<u64>,
    dropped: u64,
}

impl Account {
    fn new(last: u64) -> (Self, Receiver<u64>) {
        let (done, ended) = channel();
        let account = Self {
            next: 1,
            last,
            done,
            dropped: 0,
        };
        (account, ended)
    }

    fn note(&mut self, delivery: Delivery<'_>) {
        match delivery {
            Delivery::Message(message) => {
                assert_eq!(message.number, self.next);
                assert!(message.bytes == content(message.number), "{message:?}");
                self.next += 1;
            }
            Delivery::Dropped(dropped) => {
                self.next += dropped.messages;
                self.dropped += dropped.messages;
            }
            other => panic!("{other:?}"),
        }
        if self.next > self.last {
            assert_eq!(self.next, self.last + 1);
            self.done.send(self.dropped).unwrap();
        }
    }
}

/// Upcalls of a client of its own, each of which takes a while.
fn upcalls(
    place: &Place,
    capacity: usize,
    pause: u32,
    last: u64,
) -> (Node, Upcalls, Receiver<u64>) {
    let client = place.attach();
    let (mut account, ended) = Account::new(last);
    let options = GroupOptions::default().capacity_bytes(capacity);
    let upcalls = client
        .group("x")
        .options(options)
        .subscribe_with(move |delivery| {
            (0..pause).for_each(|_| hint::spin_loop());
            account.note(delivery);
        });
    (client, upcalls.unwrap(), ended)
}

#[test]
fn readers_of_one_group_at_all_speeds_get_everything_or_are_told_exactly() {
    const MESSAGES: u64 = 20_000;
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    // So small that readers that are slow hold all of it.
    let share = engine.share_with(place.options().log(1 << 20)).unwrap();
    let speeds = [
        (4 << 20, 0),
        (4 << 20, 0),
        (64 << 20, 20),
        (1 << 20, 50),
        (1 << 18, 500),
    ];
    let readers = speeds.map(|(capacity, pause)| upcalls(&place, capacity, pause, MESSAGES));
    let stopped = place.attach();
    let capacity = 1 << 20;
    let options = GroupOptions::default().capacity_bytes(capacity);
    let unread = stopped.group("x").options(options).subscribe().unwrap();
    let publisher = engine.publisher("x").unwrap();
    for number in 1..=MESSAGES {
        publisher.send(&content(number)).unwrap();
    }
    engine.flush(PATIENCE).unwrap();
    for (client, _upcalls, ended) in &readers {
        let dropped = ended.recv_timeout(PATIENCE).unwrap();
        let row = client.attachment().unwrap().unwrap();
        assert_eq!(
            (row.stats.dropped, row.stats.delivered),
            (dropped, MESSAGES - dropped)
        );
    }
    // What was there first stays, as far as it has room.
    let mut room = capacity;
    let mut kept = 0;
    let taken = |number| HEADER_BYTES + length(number).next_multiple_of(8);
    while let Some(left) = room.checked_sub(taken(kept + 1)) {
        (room, kept) = (left, kept + 1);
    }
    expect_numbers(&unread, 1..=kept, content);
    let Some(Received::Dropped(missing)) = unread.try_recv().unwrap() else {
        panic!("the next one had no room");
    };
    let row = row(&share, stopped.attachment().unwrap().unwrap().client);
    assert!(
        missing.messages <= row.stats.dropped && row.stats.copied > 0,
        "{row}"
    );
    assert_eq!(row.stats.delivered + row.stats.dropped, MESSAGES);
}

#[test]
fn readers_that_keep_up_cost_no_copies_and_without_a_log_each_message_one() {
    for log in [1 << 22, 4096] {
        let (site, place) = (Site::new(), Place::new());
        let engine = site.first("engine");
        let share = engine.share_with(place.options().log(log)).unwrap();
        let clients = [place.attach(), place.attach(), place.attach()];
        let all = clients
            .each_ref()
            .map(|client| client.subscribe(["x"]).unwrap());
        let publisher = engine.publisher("x").unwrap();
        for number in 400..=600 {
            publisher.send(&content(number)).unwrap();
            for subscription in &all {
                let message = next(subscription);
                assert!(message.bytes() == content(number), "message {number}");
            }
        }
        for row in share.clients() {
            let copied = if log == 4096 { 201 } else { 0 };
            assert_eq!((row.stats.delivered, row.stats.copied), (201, copied));
        }
    }
}

/// Shares the engine with a log that is soon written over. Its events come out of the receiver.
fn share_small(place: &Place, engine: &Node) -> (Share, Receiver<ShareEvent>) {
    let (tell, told) = channel();
    let options = place.options().log(1 << 20);
    let options = options.on_event(move |event| drop(tell.send(event.clone())));
    (engine.share_with(options).unwrap(), told)
}

/// Waits until a process has gone.
fn gone(told: &Receiver<ShareEvent>) {
    while !matches!(
        told.recv_timeout(PATIENCE).unwrap(),
        ShareEvent::Detached { .. }
    ) {}
}

/// So that every block is written over.
fn write_over(engine: &Node, other: &Subscription) {
    let publisher = engine.publisher("y").unwrap();
    for number in 1..=2000 {
        publisher.send(&pattern(number, 1000)).unwrap();
        assert!(next(other).bytes() == pattern(number, 1000));
    }
}

#[test]
fn what_was_not_read_can_be_read_after_the_end() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let (_share, told) = share_small(&place, &engine);
    let (client, other) = (place.attach(), place.attach());
    let (unread, others) = (
        client.subscribe(["x"]).unwrap(),
        other.subscribe(["y"]).unwrap(),
    );
    let publisher = engine.publisher("x").unwrap();
    for number in 1..=300 {
        publisher.send(&content(number)).unwrap();
    }
    engine.flush(PATIENCE).unwrap();
    expect_numbers(&unread, 1..=10, content);
    client.shutdown(PATIENCE).unwrap();
    gone(&told);
    write_over(&engine, &others);
    expect_numbers(&unread, 11..=300, content);
    let closed = Err(RecvError::Closed(CloseReason::ShutDown));
    assert_eq!(unread.recv(), closed);
}

#[test]
fn what_an_upcall_reads_stays_until_it_returns_also_when_the_process_leaves_meanwhile() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let (_share, told) = share_small(&place, &engine);
    let (client, other) = (place.attach(), place.attach());
    let others = other.subscribe(["y"]).unwrap();
    let (entered, inside) = channel();
    let (leave, left) = channel::<()>();
    let (heard, numbers) = channel();
    let first = AtomicBool::new(true);
    let upcalls = client.group("x").subscribe_with(move |delivery| {
        let message = delivery.message().unwrap();
        if first.swap(false, Ordering::SeqCst) {
            entered.send(()).unwrap();
            // Until the sender is dropped.
            assert!(left.recv().is_err());
        }
        assert!(message.bytes == content(message.number), "{message:?}");
        heard.send(message.number).unwrap();
    });
    let _upcalls = upcalls.unwrap();
    let publisher = engine.publisher("x").unwrap();
    for number in 1..=300 {
        publisher.send(&content(number)).unwrap();
    }
    inside.recv_timeout(PATIENCE).unwrap();
    engine.flush(PATIENCE).unwrap();
    client.shutdown(PATIENCE).unwrap();
    write_over(&engine, &others);
    drop(leave);
    // All that had come; then its end.
    for number in 1..=300 {
        assert_eq!(numbers.recv_timeout(PATIENCE).unwrap(), number);
    }
    gone(&told);
}

#[test]
fn an_upcall_may_end_the_attachment() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let (share, told) = place.share_and_tell(&engine);
    let client = Arc::new(place.attach());
    let own = Arc::clone(&client);
    let (heard, numbers) = channel();
    let upcalls = client.group("x").subscribe_with(move |delivery| {
        let number = delivery.message().unwrap().number;
        own.shutdown(PATIENCE).unwrap();
        heard.send(number).unwrap();
    });
    let _upcalls = upcalls.unwrap();
    engine
        .publisher("x")
        .unwrap()
        .send(b"the only one")
        .unwrap();
    assert_eq!(numbers.recv_timeout(PATIENCE).unwrap(), 1);
    gone(&told);
    assert_eq!(share.stats().clients, 0);
}

/// Nothing is told twice and nothing is left out when a reader is outrun again and again.
#[test]
fn a_reader_that_is_outrun_is_told_how_much_it_has_missed_each_time() {
    let (site, place) = (Site::new(), Place::new());
    let engine = site.first("engine");
    let _share = engine.share_with(place.options().log(1 << 20)).unwrap();
    let client = place.attach();
    let options = GroupOptions::default().capacity_bytes(1 << 14);
    let slow = client.group("x").options(options).subscribe().unwrap();
    let other = place.attach();
    let fast = other.subscribe(["x"]).unwrap();
    let publisher = engine.publisher("x").unwrap();
    // 1032 bytes each: 15 have room.
    let mut number = 0;
    for _ in 0..50 {
        let first = number + 1;
        for _ in 0..100 {
            number += 1;
            publisher.send(&pattern(number, 1000)).unwrap();
            assert!(next(&fast).bytes() == pattern(number, 1000));
        }
        expect_numbers(&slow, first..first + 15, |number| pattern(number, 1000));
        expect_dropped(slow.try_recv().unwrap(), 85);
        assert_eq!(slow.try_recv().unwrap(), None);
    }
    assert_eq!(slow.dropped(), 50 * 85);
}
