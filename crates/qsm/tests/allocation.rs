//! What a message costs in allocations, over loopback, in all threads of both nodes: none from a
//! feed to an upcall (R144), one in each queue that copies it.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use common::{PATIENCE, Site, next};
use qsm::{FeedHandle, Node, Publisher, Pull, Upcalls};

struct Counting;

/// Of all threads.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's layout is passed on as it is.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A feed at one node that sends as many messages as it is told, and an upcall at another.
struct Flow {
    quota: Arc<AtomicU64>,
    feed: FeedHandle,
    reached: Receiver<()>,
    target: Arc<AtomicU64>,
    _upcalls: Upcalls,
}

impl Flow {
    fn new((publisher, receiver): (&Publisher, &Node), length: usize) -> Self {
        let (quota, target) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (told, reached) = channel();
        let (mut received, last) = (0, Arc::clone(&target));
        let upcalls = receiver.group(publisher.group()).subscribe_with(move |_| {
            received += 1;
            if received == last.load(Ordering::SeqCst) {
                told.send(()).unwrap();
            }
        });
        publisher.wait_for_members(1, PATIENCE).unwrap();
        let (mut sent, limit) = (0, Arc::clone(&quota));
        let feed = publisher.feed(move |message: &mut Vec<u8>| {
            if sent == limit.load(Ordering::SeqCst) {
                return Pull::Idle;
            }
            sent += 1;
            message.resize(length, 7);
            Pull::Message
        });
        Self {
            quota,
            feed: feed.unwrap(),
            reached,
            target,
            _upcalls: upcalls.unwrap(),
        }
    }

    /// Sends so many messages and waits for them.
    fn run(&self, messages: u64) {
        self.target.fetch_add(messages, Ordering::SeqCst);
        self.quota.fetch_add(messages, Ordering::SeqCst);
        self.feed.wake();
        self.reached.recv_timeout(PATIENCE).unwrap();
    }
}

/// Both tests count the same counter.
#[test]
fn a_message_allocates_only_in_queues() {
    from_feed_to_upcall();
    from_queue_to_queue();
}

fn from_feed_to_upcall() {
    const MESSAGES: u64 = 100_000;
    /// Allocations for a round at both nodes.
    const ROUND_MAX: u64 = 16;
    for length in [100, 1000] {
        let site = Site::new();
        let (a, b) = (site.first("a"), site.node("b"));
        let publisher = a.publisher("x").unwrap();
        let flow = Flow::new((&publisher, &b), length);
        flow.run(MESSAGES);
        let rounds = || b.stats().unwrap().protocol.ring.rounds;
        let (rounds_before, before) = (rounds(), ALLOCATIONS.load(Ordering::SeqCst));
        flow.run(MESSAGES);
        let allocated = ALLOCATIONS.load(Ordering::SeqCst) - before;
        let rounds = rounds() - rounds_before;
        println!("{allocated} allocations, {MESSAGES} messages of {length} bytes, {rounds} rounds");
        // Beside rounds: what membership says of itself, and this test of its progress.
        let beside = allocated.saturating_sub(rounds * ROUND_MAX);
        assert!(beside * 100 < MESSAGES, "{allocated}, {rounds} rounds");
    }
}

fn from_queue_to_queue() {
    const MESSAGES: u64 = 20_000;
    let site = Site::new();
    let (a, b) = (site.first("a"), site.node("b"));
    let publisher = a.publisher("x").unwrap();
    let subscription = b.subscribe(["x"]).unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let pass = || {
        for _ in 0..MESSAGES {
            publisher.send(&[7; 100]).unwrap();
        }
        (0..MESSAGES).for_each(|_| drop(next(&subscription)));
    };
    pass();
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    pass();
    let allocated = ALLOCATIONS.load(Ordering::SeqCst) - before;
    println!("{allocated} allocations, {MESSAGES} messages by queues");
    // A copy of the message at either end, and a part of each queue for every thirty.
    assert!(allocated * 10 < MESSAGES * 22, "{allocated}");
}
