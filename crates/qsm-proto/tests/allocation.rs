//! In steady state a message costs no allocation and no copy but the one into its packet (R144),
//! and a group that nothing happens in costs next to nothing (R146).

#[expect(dead_code, reason = "other tests use the rest")]
mod cluster;
mod lan;

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};

use lan::{Lan, PUBLISHER};

struct Counting;

thread_local! {
    /// Constant initialisation and no destructors, so that counting itself never allocates.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
    /// Who allocates is noted.
    static WATCHING: Cell<bool> = const { Cell::new(false) };
    static CULPRITS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// What an allocation takes from the heap: the C library adds a word and rounds up to two, to four
/// at least.
fn heap_bytes(layout: Layout) -> usize {
    const WORD: usize = size_of::<usize>();
    (layout.size() + WORD)
        .next_multiple_of(2 * WORD)
        .max(4 * WORD)
}

// SAFETY: every call goes to the system's allocator unchanged; the counters belong to the calling
// thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        LIVE_BYTES.set(LIVE_BYTES.get().wrapping_add(heap_bytes(layout)));
        if WATCHING.replace(false) {
            CULPRITS.with_borrow_mut(|all| all.push(Backtrace::force_capture().to_string()));
            WATCHING.set(true);
        }
        // SAFETY: the caller's layout is passed on as it is.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.set(LIVE_BYTES.get().wrapping_sub(heap_bytes(layout)));
        // SAFETY: the pointer came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The protocol's functions in the backtraces of these allocations, with how often they were there, most
/// frequent first.
fn culprits(work: impl FnOnce()) -> String {
    WATCHING.set(true);
    work();
    WATCHING.set(false);
    let mut places: Vec<(usize, String)> = Vec::new();
    for trace in CULPRITS.take() {
        let ours = trace.lines().filter(|line| line.contains(" qsm_proto::"));
        let place: Vec<&str> = ours.take(4).map(str::trim).collect();
        let place = place.join(" < ");
        match places.iter_mut().find(|(_, known)| *known == place) {
            Some((count, _)) => *count += 1,
            None => places.push((1, place)),
        }
    }
    places.sort_by(|one, other| other.cmp(one));
    let rows = places
        .iter()
        .map(|(count, place)| format!("{count:6} {place}\n"));
    rows.collect()
}

/// Bytes of the heap that a value holds.
fn held_bytes<T>(value: T) -> usize {
    let before = LIVE_BYTES.get();
    drop(value);
    // What other threads have allocated and this one has freed may have taken it below zero.
    before.wrapping_sub(LIVE_BYTES.get())
}

/// What is left are rounds: a token that is read, changed and passed on at each member; and the
/// index of a stream's packets, which the sender gives back whenever everything it has sent is
/// stable, and on this link every round finds it so.
#[test]
fn messages_allocate_nothing_in_steady_state() {
    const MESSAGES: u64 = 100_000;
    /// Allocations for a round at its leader and the publisher, or for a token at a member.
    const ROUND_MAX: u64 = 12;
    for (members, length) in [(1, 100), (3, 100), (3, 1000), (12, 100), (12, 1000)] {
        let mut lan = Lan::new(members, 16);
        let payload = vec![7; length];
        lan.run(MESSAGES, &payload);
        let counts = |lan: &Lan| {
            [
                lan.members(|stats| stats.messages_delivered),
                lan.members(|stats| stats.ring.rounds),
                lan.members(|stats| stats.ring.tokens_received),
                lan.metered,
                ALLOCATIONS.get(),
            ]
        };
        lan.meter = || ALLOCATIONS.get();
        let before = counts(&lan);
        lan.run(MESSAGES, &payload);
        let after = counts(&lan);
        let [received, rounds, tokens, data, all] =
            core::array::from_fn(|at| after[at] - before[at]);
        println!(
            "{members:2} members, {length:4} bytes: {all:5} allocations, {data:3} of them for data, \
             {rounds:4} rounds, {tokens:5} tokens"
        );
        assert!(rounds > 10, "ACKs ran");
        assert_eq!(received, MESSAGES * members);
        assert!(
            data <= rounds * 2 && all - data <= (rounds + tokens) * ROUND_MAX,
            "of 10,000 messages:\n{}",
            culprits(|| lan.run(10_000, &payload))
        );
    }
}

/// Members are lent the bytes where they were received.
#[test]
fn whole_messages_are_delivered_from_the_buffer_they_were_received_into() {
    const MESSAGES: u64 = 20_000;
    for (members, length) in [(1, 100), (3, 1000), (12, 1000)] {
        let mut lan = Lan::new(members, 16);
        lan.run(MESSAGES, &vec![7; length]);
        let delivered = lan.delivered;
        assert_eq!(delivered.messages, MESSAGES * members);
        assert_eq!(delivered.borrowed, delivered.messages);
    }
}

/// What waits behind a gap is left where it was received, where most of a train is kept anyway: by
/// the only member of a region all of it, until the gap is closed.
#[test]
fn what_waits_behind_a_gap_is_not_copied() {
    const MESSAGES: u64 = 20_000;
    for members in [1, 3] {
        let mut lan = Lan::new(members, 16);
        lan.lose_one_in = 50;
        lan.run(MESSAGES, &[7; 1000]);
        let delivered = lan.delivered;
        assert_eq!(delivered.messages, MESSAGES * members);
        assert!(delivered.left > delivered.messages / 2, "{delivered:?}");
    }
}

/// The largest number of groups that a node may be in by default, named as in `Cluster`.
const GROUPS: u32 = 100_000;
/// R146: bytes for all of them, and for one that a publisher has not used yet.
const HEAP_MAX: usize = 64_000_000;
const GROUP_MAX: usize = 256;

/// What a publisher and a member hold that are in so many groups, before any message and after
/// one to each group, bytes.
fn idle_bytes(groups: u32) -> [usize; 4] {
    let mut lan = Lan::new(1, groups);
    assert_eq!(lan.stats(PUBLISHER).messages_published, 0);
    let fresh = lan.into_nodes().map(held_bytes);
    lan = Lan::new(1, groups);
    lan.run(u64::from(groups), &[7; 10]);
    assert_eq!(lan.delivered.messages, u64::from(groups));
    let [publisher, member] = lan.into_nodes().map(held_bytes);
    [fresh[0], fresh[1], publisher, member]
}

#[test]
fn a_hundred_thousand_groups_fit_into_64_megabytes() {
    let few = idle_bytes(GROUPS / 100);
    let many = idle_bytes(GROUPS);
    let roles = [
        "publisher",
        "member",
        "publisher after traffic",
        "member after traffic",
    ];
    for ((role, few), many) in roles.iter().zip(few).zip(many) {
        let each = (many - few) / (GROUPS - GROUPS / 100) as usize;
        println!("{role:24} {many:9} bytes, {each} a group");
        assert!(many <= HEAP_MAX, "{role}: {many} bytes");
        if *role == "publisher" {
            assert!(each <= GROUP_MAX, "{each} bytes for an idle group");
        }
    }
}
