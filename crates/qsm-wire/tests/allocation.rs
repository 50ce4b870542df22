//! Decoding a packet allocates nothing; decoding a membership message allocates in proportion to
//! its bytes, whatever counts it claims (R-PKT-1).

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use qsm_wire::membership::{FromService, ToService};
use qsm_wire::{DecodeError, Kind, Packet};
use support::dice::Dice;
use support::{draw, message};

struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; the counter is a plain cell of the
// calling thread without destructor, so it may be used at any time.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.with(|bytes| bytes.set(bytes.get() + layout.size()));
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

/// Bytes requested by this thread while `work` runs.
fn allocated(work: impl FnOnce()) -> usize {
    let before = BYTES.get();
    work();
    BYTES.get() - before
}

#[test]
fn decoding_and_reading_a_packet_allocates_nothing() {
    for kind in Kind::ALL {
        let mut dice = Dice(11);
        let header = draw::header(&mut dice);
        let bytes = draw::packet(&mut dice, *kind).encode(&header);
        let count = allocated(|| {
            let packet = Packet::decode(&bytes).expect("legal");
            if let qsm_wire::Body::Data(data) = packet.body {
                assert!(data.chunks().count() < 100);
            }
            if let qsm_wire::Body::Token(token) = packet.body {
                assert!(token.slots().all(|slot| slot.naks.iter().count() <= 8));
            }
        });
        assert_eq!(count, 0, "{kind:?}");
    }
}

#[test]
fn a_list_that_claims_four_billion_entries_costs_nothing() {
    // Enter { request: 1, role: Subscriber, names: [.. 4,294,967,295 of them ..] }
    let enter = [2, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
    let count = allocated(|| assert_eq!(ToService::decode(&enter), Err(DecodeError::Truncated)));
    assert_eq!(count, 0);
    // Batch { number: 1, updates: [.. as many ..] }
    let batch = [2, 1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    let count = allocated(|| assert_eq!(FromService::decode(&batch), Err(DecodeError::Truncated)));
    assert_eq!(count, 0);
}

/// The worst case is a list of the shortest update, whose five bytes become a value of about a
/// hundred in a list that has doubled its way up.
#[test]
fn a_mutated_message_allocates_in_proportion_to_its_length() {
    let mut dice = Dice(12);
    for _ in 0..20_000 {
        let variant = dice.below(message::FROM_SERVICE);
        let mut bytes = Vec::new();
        message::from_service(&mut dice, variant).encode(&mut bytes);
        dice.mutate(&mut bytes);
        let count = allocated(|| drop(FromService::decode(&bytes)));
        assert!(
            count <= 1024 + bytes.len() * 200,
            "{count} bytes for {}",
            bytes.len()
        );
    }
}
