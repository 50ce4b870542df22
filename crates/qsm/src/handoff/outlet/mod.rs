//! From application threads to the core thread: messages.
//!
//! Each publisher has a queue of its own, so that a group whose receivers are slow holds up no
//! other group. A queue that becomes non-empty announces its place once, in
//! [`Shared`](super::shared::Shared); from then on the core takes from it in turn with the others
//! until it is empty (R131-R133: the queue is a feed that registers, and deregisters by itself).
//! While it is registered, a message costs no system call and, beside the queue, one look at the
//! signal.
//!
//! Application threads push, the core thread pops: a file for each.

mod pop;
mod push;
mod timing;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_queue::SegQueue;
use qsm_proto::send::Batching;

use self::timing::QueueTiming;
use crate::handoff::signal::Signal;

/// A publisher's queue.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) name: Arc<str>,
    /// Its place in the core's table of sources.
    pub(crate) slot: u32,
    pub(crate) signal: Signal,
    /// Limits to the wait of its messages for others, if they are not those of the node.
    pub(crate) batching: Option<Batching>,
    /// Of a node with a latency budget.
    timing: Option<QueueTiming>,
    queue: SegQueue<Vec<u8>>,
    /// Messages that take room: queued, or reserved.
    messages: AtomicUsize,
    /// Their bytes.
    bytes: AtomicUsize,
    /// Messages that have come. Reserved room is none until it is filled.
    accepted: AtomicU64,
    /// Messages that have left. Written by the core only.
    taken: AtomicU64,
}

impl Outlet {
    pub(crate) fn new(name: Arc<str>, slot: u32) -> Self {
        Self {
            name,
            slot,
            signal: Signal::idle(),
            batching: None,
            timing: None,
            queue: SegQueue::new(),
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// With these limits to the wait of its messages for others.
    pub(crate) fn within(mut self, batching: Option<Batching>) -> Self {
        self.batching = batching;
        self
    }

    /// With its messages timed, one at a time.
    pub(crate) fn timed(mut self, timed: bool) -> Self {
        self.timing = timed.then(QueueTiming::new);
        self
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Messages that wait to be taken.
    pub(crate) fn messages(&self) -> usize {
        // In this order: what is taken was accepted before.
        let taken = self.taken.load(Ordering::Acquire);
        let waiting = self.accepted.load(Ordering::Acquire).saturating_sub(taken);
        // Bounded by a length in memory.
        usize::try_from(waiting).unwrap_or(usize::MAX)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::handoff::gate::{Gate, GateLimits};
    use crate::handoff::sleepers::Sleepers;

    const EACH: u64 = 10_000;

    fn produce(outlet: &Outlet, gate: &Gate, announcements: &AtomicUsize, announced: &Sleepers) {
        for number in 0..EACH {
            let push = || outlet.push(gate, 8, || number.to_le_bytes().to_vec());
            if gate.sleepers.wait(None, push).unwrap() {
                announcements.fetch_add(1, Ordering::SeqCst);
                announced.wake();
            }
        }
    }

    /// As the core does: takes until nothing more came. Returns how many messages, and the sum of
    /// their numbers.
    fn take_all(outlet: &Outlet, gate: &Gate) -> (u64, u64) {
        let (mut count, mut sum) = (0, 0);
        outlet.signal.begin();
        loop {
            let Some(message) = outlet.pop() else {
                if outlet.signal.end() {
                    return (count, sum);
                }
                outlet.signal.begin();
                continue;
            };
            assert!(outlet.messages() <= gate.limits.messages);
            sum += u64::from_le_bytes(message[..8].try_into().unwrap());
            count += 1;
            outlet.release(gate, message.len());
            gate.sleepers.wake();
        }
    }

    /// Producers fill a small queue and wait for room; the core takes from it whenever it is
    /// announced. A lost announcement or a lost wake-up leaves them all asleep.
    #[test]
    fn nothing_is_lost_between_producers_and_the_core() {
        let (messages, bytes, bytes_total) = (4, 1000, 1000);
        let gate = Gate::new(GateLimits {
            messages,
            bytes,
            bytes_total,
        });
        let outlet = Outlet::new(Arc::from("x"), 0);
        let (announcements, announced) = (AtomicUsize::new(0), Sleepers::default());
        let (mut count, mut sum) = (0, 0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| produce(&outlet, &gate, &announcements, &announced));
            }
            while count < 3 * EACH {
                announced.wait(None, || {
                    (announcements.load(Ordering::SeqCst) > 0).then_some(())
                });
                announcements.fetch_sub(1, Ordering::SeqCst);
                let taken = take_all(&outlet, &gate);
                (count, sum) = (count + taken.0, sum + taken.1);
            }
        });
        assert_eq!(sum, 3 * EACH * (EACH - 1) / 2);
        assert_eq!((outlet.messages(), outlet.bytes(), gate.bytes()), (0, 0, 0));
        assert_eq!(outlet.taken(), 3 * EACH);
    }

    #[test]
    fn reserved_room_counts_against_the_limits_and_is_no_message() {
        let (messages, bytes, bytes_total) = (2, 100, 100);
        let gate = Gate::new(GateLimits {
            messages,
            bytes,
            bytes_total,
        });
        let outlet = Outlet::new(Arc::from("x"), 0);
        assert!(outlet.reserve(&gate, 60));
        assert_eq!(
            (outlet.messages(), outlet.bytes(), gate.bytes()),
            (0, 60, 60)
        );
        assert_eq!(outlet.push(&gate, 41, || vec![1; 41]), None);
        assert!(outlet.push(&gate, 40, || vec![1; 40]).is_some());
        assert!(!outlet.reserve(&gate, 0), "two take room already");
        outlet.fill(&gate, 60, vec![2; 10]);
        assert_eq!(
            (outlet.messages(), outlet.bytes(), gate.bytes()),
            (2, 50, 50)
        );
        assert_eq!(take_all(&outlet, &gate).0, 2);
        assert!(outlet.reserve(&gate, 100));
        outlet.give_back(&gate, 100);
        assert_eq!((outlet.messages(), outlet.bytes(), gate.bytes()), (0, 0, 0));
        assert_eq!(outlet.taken(), 2);
    }
}
