//! Receiving and sending do not allocate (contract 2 of the crate).

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{PATIENCE, config, group};
use qsm_net::{Offload, Port, PortConfig};

struct Counting;

thread_local! {
    /// Allocations of this thread; constant initialisation, so counting itself never allocates.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: forwards to the system's allocator, whose contract is the same.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn receiving_and_sending_do_not_allocate() {
    for offload in [Offload::Auto, Offload::Off] {
        let mut port = Port::open(PortConfig {
            offload,
            ..config()
        })
        .unwrap();
        let (group, bytes) = (group(), [5; 200_000]);
        port.join(group).unwrap();
        let before = ALLOCATIONS.get();
        let mut length = 0;
        for _ in 0..10 {
            port.send(group, &bytes, 1000).unwrap();
            port.send(port.local_addr(), &bytes[..10], 10).unwrap();
            while length % 200_010 != 0 || length == 0 || port.counters().sent.bytes > length as u64
            {
                assert!(port.wait(Some(PATIENCE)).unwrap().readable);
                while port.receive().unwrap() > 0 {
                    length += port
                        .datagrams()
                        .map(|datagram| datagram.bytes.len())
                        .sum::<usize>();
                }
            }
        }
        assert_eq!(ALLOCATIONS.get() - before, 0);
        assert_eq!(length, 2_000_100);
    }
}
