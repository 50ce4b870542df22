//! From application threads to the core thread: messages, and signals that there are some.
//!
//! Each publisher has a queue of its own, so that a group whose receivers are slow holds up no
//! other group. A queue that becomes non-empty announces its place once, in `ready`; from then on
//! the core takes from it in turn with the others until it is empty (R131-R133: the queue is a
//! feed that registers, and deregisters by itself). While it is registered, a message costs no
//! system call and, beside the queue, one look at the signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};

use crossbeam_queue::SegQueue;

use crate::handoff::sleepers::Sleepers;

/// Whether the core has, or needs, to look at a source.
///
/// ```text
///            raise(): announce                  raise()
///   IDLE ───────────────────────► NOTIFIED ◄────────────── RUNNING
///     ▲                               │ begin()                │ ▲
///     │                               └────────────────────────┼─┘
///     └──────────────────── end(): nothing came meanwhile ─────┘
/// ```
#[derive(Debug)]
pub(crate) struct Signal(AtomicU8);

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const NOTIFIED: u8 = 2;

impl Signal {
    pub(crate) fn idle() -> Self {
        Self(AtomicU8::new(IDLE))
    }

    /// After something was added: true if the core must be told.
    pub(crate) fn raise(&self) -> bool {
        // If it is still notified after our addition, the core has yet to begin, and will see it.
        fence(Ordering::SeqCst);
        self.0.load(Ordering::SeqCst) != NOTIFIED && self.0.swap(NOTIFIED, Ordering::SeqCst) == IDLE
    }

    /// The core begins to look.
    pub(crate) fn begin(&self) {
        self.0.store(RUNNING, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The core found nothing more: true if nothing came meanwhile, and then it need not look
    /// until told.
    pub(crate) fn end(&self) -> bool {
        let idle = self
            .0
            .compare_exchange(RUNNING, IDLE, Ordering::SeqCst, Ordering::SeqCst);
        idle.is_ok()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.0.load(Ordering::SeqCst) == IDLE
    }
}

/// Limits of publishers' queues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GateLimits {
    /// For each publisher.
    pub(crate) messages: usize,
    /// For each publisher.
    pub(crate) bytes: usize,
    /// For all publishers of the core together.
    pub(crate) bytes_total: usize,
}

/// Who may queue a message now, and who waits until he may.
#[derive(Debug)]
pub(crate) struct Gate {
    limits: GateLimits,
    bytes_total: AtomicUsize,
    pub(crate) sleepers: Sleepers,
}

impl Gate {
    pub(crate) fn new(limits: GateLimits) -> Self {
        Self {
            limits,
            bytes_total: AtomicUsize::new(0),
            sleepers: Sleepers::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes_total.load(Ordering::Relaxed)
    }
}

/// Adds if the sum stays within the limit; anything fits when there is nothing yet.
fn admit(sum: &AtomicUsize, more: usize, max: usize) -> bool {
    let add = |old: usize| (old == 0 || old + more <= max).then_some(old + more);
    sum.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add)
        .is_ok()
}

/// A publisher's queue.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) name: Arc<str>,
    /// Its place in the core's table of sources.
    pub(crate) slot: u32,
    pub(crate) signal: Signal,
    queue: SegQueue<Vec<u8>>,
    messages: AtomicUsize,
    bytes: AtomicUsize,
    /// Messages that have left. Written by the core only.
    taken: AtomicU64,
}

impl Outlet {
    pub(crate) fn new(name: Arc<str>, slot: u32) -> Self {
        Self {
            name,
            slot,
            signal: Signal::idle(),
            queue: SegQueue::new(),
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// Queues a copy of the message; `None` if there is no room. True if the core must be told.
    pub(crate) fn push(&self, gate: &Gate, message: &[u8]) -> Option<bool> {
        if !self.admit(gate, message.len()) {
            return None;
        }
        self.queue.push(message.to_vec());
        Some(self.signal.raise())
    }

    /// Whether a message of this length would be queued now; a hint, as others may come first.
    pub(crate) fn has_room(&self, gate: &Gate, length: usize) -> bool {
        let fits = |sum: &AtomicUsize, more: usize, max: usize| {
            let old = sum.load(Ordering::SeqCst);
            old == 0 || old + more <= max
        };
        fits(&self.messages, 1, gate.limits.messages)
            && fits(&self.bytes, length, gate.limits.bytes)
            && fits(&gate.bytes_total, length, gate.limits.bytes_total)
    }

    /// Counts the message if it fits all limits. A sum raised and lowered again may turn another
    /// thread away in between; that one is not forgotten, because the limit that was met is met by
    /// messages that wait, and when these leave, all look again.
    fn admit(&self, gate: &Gate, length: usize) -> bool {
        if !self.has_room(gate, length) || !admit(&self.messages, 1, gate.limits.messages) {
            return false;
        }
        if admit(&self.bytes, length, gate.limits.bytes) {
            if admit(&gate.bytes_total, length, gate.limits.bytes_total) {
                return true;
            }
            self.bytes.fetch_sub(length, Ordering::SeqCst);
        }
        self.messages.fetch_sub(1, Ordering::SeqCst);
        false
    }

    /// The next message; it still counts until [`Outlet::release`].
    pub(crate) fn pop(&self) -> Option<Vec<u8>> {
        self.queue.pop()
    }

    /// A message of this length has left. Those who wait are told by the owner of the gate.
    pub(crate) fn release(&self, gate: &Gate, length: usize) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.messages.fetch_sub(1, Ordering::SeqCst);
        self.bytes.fetch_sub(length, Ordering::SeqCst);
        gate.bytes_total.fetch_sub(length, Ordering::SeqCst);
    }

    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_source_is_announced_once_and_never_forgotten() {
        let signal = Signal::idle();
        assert!(signal.raise(), "the core must be told");
        assert!(!signal.raise(), "it has been told");
        signal.begin();
        assert!(signal.end(), "nothing came meanwhile");
        assert!(signal.raise());
        signal.begin();
        assert!(!signal.raise(), "the core is looking");
        assert!(!signal.end(), "something came meanwhile");
        signal.begin();
        assert!(signal.end());
    }

    const EACH: u64 = 10_000;

    fn produce(outlet: &Outlet, gate: &Gate, announcements: &AtomicUsize, announced: &Sleepers) {
        for number in 0..EACH {
            let push = || outlet.push(gate, &number.to_le_bytes());
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
            sum += u64::from_le_bytes(message[..].try_into().unwrap());
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
}
