//! The newest unread message of each key: *conflation*.
//!
//! ```text
//!   messages ─► slot of its key ◄─ taken when it is the slot's turn
//!                    │ was empty
//!                    └────────────► inbox of turns ─► reader
//! ```
//!
//! A message is swapped into the slot of its key. If another one was there, it has been replaced, and
//! the slot has its turn already; else it gets one.

use core::fmt;
use core::hash::Hash;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::atomic::AtomicCell;
use qsm_wire::GroupId;

use crate::error::RecvError;
use crate::handoff::aside::Item;
use crate::handoff::inbox::{Inbox, Offered};
use crate::handoff::message::{Message, MessageRef};
use crate::handoff::received::Received;
use crate::handoff::sink::ForeignQueue;

/// Slots that are looked through for empty ones, at least.
const SLOTS_LEAST: usize = 1024;

/// The message of a key that waits, if one does.
type Slot = AtomicCell<Option<Box<Message>>>;

/// A turn of the queue, as a reader of the newest messages takes it.
pub(crate) enum Turn {
    /// Of a key, while it waits.
    Slot(Arc<Slot>),
    Item(Received),
}

impl Turn {
    /// The item. A turn that has been taken is one.
    pub(crate) fn item(self) -> Option<Received> {
        match self {
            Self::Slot(slot) => slot.take().map(|message| Received::Message(*message)),
            Self::Item(item) => Some(item),
        }
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(_) => f.write_str("Slot"),
            Self::Item(item) => item.fmt(f),
        }
    }
}

impl Item for Turn {
    const OVERHEAD: usize = Received::OVERHEAD;

    fn dropped(items: u64) -> Option<Self> {
        Received::dropped(items).map(Self::Item)
    }

    fn missing(&self) -> u64 {
        match self {
            Self::Slot(_) => 0,
            Self::Item(item) => item.missing(),
        }
    }

    fn divides(&self) -> bool {
        matches!(self, Self::Item(item) if item.divides())
    }

    fn join(&mut self, next: Self) -> Result<(), Self> {
        match (self, next) {
            (Self::Item(item), Self::Item(next)) => item.join(next).map_err(Self::Item),
            (_, next) => Err(next),
        }
    }

    fn settle(&mut self) -> usize {
        let Self::Slot(slot) = self else {
            return 0;
        };
        // Whoever takes a turn out of the queue is the only one to empty its slot.
        let Some(message) = slot.take() else {
            return 0;
        };
        let bytes = message.bytes.len();
        *self = Self::Item(Received::Message(*message));
        bytes
    }
}

/// The writing end, at one core thread.
pub(crate) struct Poster<K, F> {
    inbox: Arc<Inbox<Turn>>,
    key_of: Arc<F>,
    replaced: Arc<AtomicU64>,
    slots: HashMap<K, Arc<Slot>>,
    /// With more slots than this, empty ones go.
    slots_most: usize,
    /// The name of the group of the last message.
    last: Option<(GroupId, Arc<str>)>,
}

impl<K: Eq + Hash, F> Poster<K, F> {
    pub(crate) fn new(
        inbox: &Arc<Inbox<Turn>>,
        key_of: &Arc<F>,
        replaced: &Arc<AtomicU64>,
    ) -> Self {
        Self {
            inbox: Arc::clone(inbox),
            key_of: Arc::clone(key_of),
            replaced: Arc::clone(replaced),
            slots: HashMap::new(),
            slots_most: SLOTS_LEAST,
            last: None,
        }
    }

    fn put(&mut self, key: K, message: Message) -> Offered {
        if self.inbox.is_over() {
            return Offered {
                kept: false,
                dropped: 0,
            };
        }
        let bytes = message.bytes.len();
        let slot = Arc::clone(self.slots.entry(key).or_default());
        self.inbox.charge(bytes);
        if let Some(older) = slot.swap(Some(Box::new(message))) {
            self.inbox.refund(older.bytes.len());
            self.replaced.fetch_add(1, Ordering::Relaxed);
            return Offered {
                kept: true,
                dropped: self.inbox.trim(),
            };
        }
        let offered = self.inbox.offer(0, || Turn::Slot(Arc::clone(&slot)));
        if !offered.kept && slot.take().is_some() {
            self.inbox.refund(bytes);
        }
        self.prune();
        offered
    }

    /// Forgets keys of which nothing waits, now and then: as many as wait, and as many more.
    fn prune(&mut self) {
        if self.slots.len() > self.slots_most {
            // Nobody else has a slot whose turn is over.
            self.slots.retain(|_, slot| Arc::strong_count(slot) > 1);
            self.slots_most = SLOTS_LEAST.max(2 * self.slots.len());
        }
    }

    fn own(&mut self, message: MessageRef<'_>) -> Message {
        let last = self.last.take();
        let same = last.filter(|(id, name)| *id == message.group_id && **name == *message.group);
        let (_, group) = same.unwrap_or_else(|| (message.group_id, Arc::from(message.group)));
        self.last = Some((message.group_id, Arc::clone(&group)));
        Message {
            group,
            group_id: message.group_id,
            sender: message.sender,
            number: message.number,
            bytes: message.bytes.to_vec(),
        }
    }
}

impl<K, F> ForeignQueue for Poster<K, F>
where
    K: Eq + Hash + Send,
    F: Fn(MessageRef<'_>) -> K + Send + Sync,
{
    fn offer(&mut self, _delivery: u64, message: MessageRef<'_>) -> Offered {
        let key = (self.key_of)(message);
        let message = self.own(message);
        self.put(key, message)
    }

    fn tell(&mut self, notice: Received) {
        self.inbox.tell(Turn::Item(notice));
    }

    fn catch_up(&mut self) -> bool {
        true
    }

    fn wake(&mut self) {
        self.inbox.wake();
    }

    fn close(&self, why: RecvError) {
        self.inbox.close(why);
    }

    fn queued_bytes(&self) -> usize {
        self.inbox.bytes()
    }

    fn dropped(&self) -> u64 {
        self.inbox.dropped()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use qsm_wire::{Incarnation, NodeId, Origin};

    use super::*;
    use crate::handoff::message::{Capacity, Overflow};

    const SENDER: Origin = Origin {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };

    type Key = fn(MessageRef<'_>) -> u8;

    struct Rig {
        inbox: Arc<Inbox<Turn>>,
        replaced: Arc<AtomicU64>,
        poster: Poster<u8, Key>,
    }

    impl Rig {
        fn new(messages: usize, bytes: usize, overflow: Overflow) -> Self {
            let inbox = Arc::new(Inbox::new(Capacity { messages, bytes }, overflow));
            let replaced = Arc::default();
            let key_of: Key = |message| message.bytes[0];
            let poster = Poster::new(&inbox, &Arc::new(key_of), &replaced);
            Self {
                inbox,
                replaced,
                poster,
            }
        }

        /// Offers a message whose first byte is its key.
        fn offer(&mut self, number: u64, bytes: &[u8]) -> Offered {
            offer(&mut self.poster, number, bytes)
        }

        /// Takes all; of messages the numbers, of notices those that are missing, negative.
        fn rest(&self) -> Vec<i64> {
            let next = || self.inbox.try_recv().ok().flatten();
            std::iter::from_fn(next).map(told).collect()
        }

        fn waiting(&self) -> [usize; 2] {
            [self.inbox.messages(), self.inbox.bytes()]
        }

        fn replaced(&self) -> u64 {
            self.replaced.load(Ordering::Relaxed)
        }
    }

    fn offer(poster: &mut Poster<u8, Key>, number: u64, bytes: &[u8]) -> Offered {
        poster.offer(
            number,
            MessageRef {
                group: "g",
                group_id: GroupId(1),
                sender: SENDER,
                number,
                bytes,
            },
        )
    }

    fn told(turn: Turn) -> i64 {
        match turn.item() {
            Some(Received::Message(message)) => message.number().cast_signed(),
            notice => -notice.unwrap().missing().cast_signed(),
        }
    }

    #[test]
    fn the_newest_of_each_key_waits_in_the_place_of_the_first() {
        let mut rig = Rig::new(usize::MAX, 1 << 20, Overflow::DropNewest);
        for (number, bytes) in [(1, b"a1"), (2, b"b1"), (3, b"a2"), (4, b"a3"), (5, b"c1")] {
            assert!(rig.offer(number, bytes).kept);
        }
        assert_eq!((rig.waiting(), rig.replaced()), ([3, 6], 2));
        assert_eq!(rig.rest(), [4, 2, 5]);
        rig.offer(6, b"a4");
        assert_eq!((rig.rest(), rig.replaced()), (vec![6], 2));
        assert_eq!((rig.waiting(), rig.inbox.dropped()), ([0, 0], 0));
    }

    #[test]
    fn keys_beyond_the_limits_go_by_the_policy_and_it_is_told_where() {
        let cases = [
            (Overflow::DropNewest, vec![0, 1, -3]),
            (Overflow::DropOldest, vec![-3, 3, 4]),
            (Overflow::Disconnect, vec![0, 1]),
        ];
        for (overflow, expected) in cases {
            let mut rig = Rig::new(2, 1 << 20, overflow);
            for key in 0..5 {
                rig.offer(key.into(), &[key]);
            }
            assert_eq!(rig.rest(), expected, "{overflow:?}");
            assert_eq!(rig.waiting(), [0, 0]);
        }
    }

    #[test]
    fn messages_that_grow_push_out_those_that_wait_longest() {
        let limit = 2 * Turn::OVERHEAD + 20;
        let mut rig = Rig::new(usize::MAX, limit, Overflow::DropNewest);
        rig.offer(1, &[1; 10]);
        rig.offer(2, &[2; 10]);
        assert_eq!(rig.offer(3, &[2; 11]).dropped, 1);
        assert_eq!((rig.rest(), rig.waiting()), (vec![-1, 3], [0, 0]));
        // One that is larger than all fits alone.
        assert_eq!(rig.offer(4, &[1; 9999]).dropped, 0);
        assert_eq!((rig.rest(), rig.waiting()), (vec![4], [0, 0]));
    }

    #[test]
    fn keys_that_are_read_are_forgotten() {
        let inbox = Arc::new(Inbox::new(
            Capacity {
                messages: usize::MAX,
                bytes: 1 << 30,
            },
            Overflow::DropNewest,
        ));
        let key_of = |message: MessageRef<'_>| message.number;
        let mut poster = Poster::new(&inbox, &Arc::new(key_of), &Arc::default());
        for number in 0..100_000 {
            poster.offer(
                number,
                MessageRef {
                    group: "g",
                    group_id: GroupId(1),
                    sender: SENDER,
                    number,
                    bytes: b"",
                },
            );
            assert!(inbox.try_recv().unwrap().is_some());
            assert!(poster.slots.len() <= SLOTS_LEAST + 1);
        }
    }

    #[test]
    fn the_last_of_each_key_is_read_while_others_are_written() {
        const NUMBERS: u64 = 200_000;
        let Rig {
            inbox,
            replaced,
            mut poster,
        } = Rig::new(usize::MAX, 1 << 20, Overflow::DropNewest);
        let mut last = [0; 5];
        let mut read = 0;
        thread::scope(|scope| {
            scope.spawn(move || {
                for number in 1..=NUMBERS {
                    let key = u8::try_from(number % 5).unwrap();
                    let length = 1 + usize::try_from(number % 7).unwrap();
                    offer(&mut poster, number, &[key; 8][..length]);
                    poster.wake();
                }
                poster.close(RecvError::Overflow);
            });
            while let Ok(turn) = inbox.recv(None) {
                let number = told(turn.unwrap());
                let key = usize::try_from(number % 5).unwrap();
                assert!(number > last[key]);
                last[key] = number;
                read += 1;
            }
        });
        let all = NUMBERS.cast_signed();
        last.sort_unstable();
        assert_eq!(last, [all - 4, all - 3, all - 2, all - 1, all]);
        assert_eq!(read + replaced.load(Ordering::Relaxed), NUMBERS);
        assert_eq!((inbox.messages(), inbox.bytes()), (0, 0));
    }
}
