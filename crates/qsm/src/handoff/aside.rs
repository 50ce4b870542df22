//! Notices of missing items, kept beside a queue of items. They take no room in
//! the queue, so that none is ever dropped, and each has its place in the order of the items.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Notices that wait for one reader, each told exactly; more are counted.
pub(crate) const NOTICES_MAX: usize = 1024;

/// Nothing is aside.
pub(crate) const NOTHING: u64 = u64::MAX;

/// A type that an inbox carries: items, and notices of those that are missing.
pub(crate) trait Item: Sized {
    /// Memory that an item takes beside its content, bytes; 0: only contents count.
    const OVERHEAD: usize = 0;

    /// A notice that so many were dropped; `None`: readers of these look at the count.
    fn dropped(_items: u64) -> Option<Self> {
        None
    }

    /// Number of items that this notice says are missing.
    fn missing(&self) -> u64 {
        0
    }

    /// A notice that others are not to be told as one across, if there is room.
    fn divides(&self) -> bool {
        false
    }

    /// Makes what is read of it final, when it is taken out of the queue; returns its bytes, if they
    /// were charged apart ([`Inbox::charge`](super::inbox::Inbox::charge)).
    fn settle(&mut self) -> usize {
        0
    }

    /// Takes in a notice of what is missing next to what this one says, or returns it.
    fn join(&mut self, next: Self) -> Result<(), Self> {
        Err(next)
    }
}

/// Notices of the places `first..=last`, which no item of the queue is among.
#[derive(Debug)]
struct Run<T> {
    first: u64,
    last: u64,
    notices: Notices<T>,
}

/// Notices that follow each other. What can be told as one is told as one.
#[derive(Debug)]
pub(crate) struct Notices<T>(VecDeque<T>);

/// Notices kept beside one queue. Its lock is entered only where something is missing.
#[derive(Debug)]
pub(crate) struct Aside<T> {
    order: Mutex<Order<T>>,
    /// Nothing is aside that has an earlier place than this.
    from: AtomicU64,
    /// Items are aside that readers have taken.
    holds: AtomicBool,
}

/// An item, and its place.
pub(crate) type Placed<T> = (u64, T);

/// Notices, and items that readers took before they saw that a notice comes first.
#[derive(Debug)]
struct Order<T> {
    /// Ascending, with items of the queue between each two.
    runs: VecDeque<Run<T>>,
    /// Ascending; no more than there are readers.
    held: VecDeque<(u64, T)>,
}

impl<T> Default for Notices<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Item> Notices<T> {
    /// Adds one; beyond the limit only how much it says is missing.
    pub(crate) fn add(&mut self, notice: T) {
        match self.0.len() < NOTICES_MAX {
            true => self.join(notice, true),
            false => self.count(notice),
        }
    }

    /// Adds how much it says is missing, if it says so.
    fn count(&mut self, notice: T) {
        let missing = Some(notice.missing()).filter(|missing| *missing > 0);
        self.join(missing.and_then(T::dropped).unwrap_or(notice), false);
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.0.front()
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.0.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    fn join(&mut self, mut notice: T, in_order: bool) {
        for earlier in self.0.iter_mut().rev() {
            match earlier.join(notice) {
                Ok(()) => return,
                Err(back) => notice = back,
            }
            if in_order && earlier.divides() {
                break;
            }
        }
        self.0.push_back(notice);
    }
}

impl<T> Default for Aside<T> {
    fn default() -> Self {
        Self {
            order: Mutex::default(),
            from: AtomicU64::new(NOTHING),
            holds: AtomicBool::new(false),
        }
    }
}

impl<T: Item> Aside<T> {
    /// No place before this has a notice. To be asked after an item was taken: then what the
    /// writer did before it pushed it, or before it dropped an older one, is seen.
    pub(crate) fn from(&self) -> u64 {
        self.from.load(Ordering::SeqCst)
    }

    /// Items are aside: they come before those of the queue, and no more are to be taken from it
    /// until they have been read. Else the queue, and with it the number of notices between items,
    /// would be as long as what its limits keep out.
    pub(crate) fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }

    /// Adds a notice in its place.
    #[cold]
    pub(crate) fn put(&self, place: u64, notice: T) {
        let mut order = self.lock();
        order.put(place, notice);
        self.from.store(order.first(), Ordering::SeqCst);
    }

    /// Adds a notice in the place of what `drop_one` drops; false if there was nothing.
    #[cold]
    pub(crate) fn put_for(&self, notice: T, drop_one: impl FnOnce() -> Option<u64>) -> bool {
        let mut order = self.lock();
        // First, so that readers who take a later one wait for the notice.
        self.from.store(0, Ordering::SeqCst);
        let dropped = drop_one();
        if let Some(place) = dropped {
            order.put(place, notice);
        }
        self.from.store(order.first(), Ordering::SeqCst);
        dropped.is_some()
    }

    /// Takes what has the first place: the item that a reader has, another, or a notice. True if
    /// items are left that nobody has.
    #[cold]
    pub(crate) fn take(
        &self,
        item: Option<Placed<T>>,
        oldest: impl FnOnce() -> Option<Placed<T>>,
    ) -> (Option<T>, bool) {
        let mut order = self.lock();
        // One that was pushed before the notice comes before it, and after those held.
        let item = match item {
            None if !order.holds() => oldest(),
            item => item,
        };
        if let Some((place, item)) = item {
            order.hold(place, item);
        }
        let next = order.next();
        self.from.store(order.first(), Ordering::SeqCst);
        self.holds.store(order.holds(), Ordering::Relaxed);
        (next, order.holds())
    }

    fn lock(&self) -> MutexGuard<'_, Order<T>> {
        // Valid after any panic: every change is one step.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Order<T> {
    fn default() -> Self {
        Self {
            runs: VecDeque::new(),
            held: VecDeque::new(),
        }
    }
}

impl<T: Item> Order<T> {
    /// Adds a notice in its place.
    fn put(&mut self, place: u64, notice: T) {
        let after = self.runs.partition_point(|run| run.first <= place);
        let full = self.is_full();
        if let Some(run) = after.checked_sub(1).map(|before| &mut self.runs[before])
            && (full || run.last + 1 == place)
        {
            // If there are too many, a little early, but told.
            if full {
                run.notices.count(notice);
            } else {
                run.last = place;
                run.notices.add(notice);
            }
            return self.close(after - 1);
        }
        let mut notices = Notices::default();
        notices.add(notice);
        let run = Run {
            first: place,
            last: place,
            notices,
        };
        self.runs.insert(after, run);
        self.close(after);
    }

    /// Puts an item back that a reader has taken.
    fn hold(&mut self, place: u64, item: T) {
        let after = self.held.partition_point(|(held, _)| *held < place);
        self.held.insert(after, (place, item));
    }

    /// The first place that something is in.
    fn first(&self) -> u64 {
        self.first_run().min(self.first_held())
    }

    /// Takes what comes first.
    fn next(&mut self) -> Option<T> {
        if self.first_held() < self.first_run() {
            return self.held.pop_front().map(|(_, item)| item);
        }
        let run = self.runs.front_mut()?;
        let notice = run.notices.pop();
        if run.notices.is_empty() {
            self.runs.pop_front();
        }
        notice
    }

    fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Makes one run of this and the next, if no item is between them.
    fn close(&mut self, at: usize) {
        let next = self.runs.get(at + 1);
        if next.is_none_or(|next| next.first != self.runs[at].last + 1) {
            return;
        }
        if let Some(next) = self.runs.remove(at + 1) {
            let run = &mut self.runs[at];
            run.last = next.last;
            next.notices
                .0
                .into_iter()
                .for_each(|it| run.notices.add(it));
        }
    }

    fn is_full(&self) -> bool {
        let notices = self.runs.iter().map(|run| run.notices.0.len());
        notices.sum::<usize>() >= NOTICES_MAX
    }

    fn first_run(&self) -> u64 {
        self.runs.front().map_or(NOTHING, |run| run.first)
    }

    fn first_held(&self) -> u64 {
        self.held.front().map_or(NOTHING, |(place, _)| *place)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use qsm_wire::{Incarnation, Origin};

    use super::*;
    use crate::handoff::received::{Dropped, Excluded, Lost, LostCause, Received};

    impl Item for usize {}

    fn lost(first: u64, last: u64) -> Received {
        Received::Lost(Lost {
            group: Arc::from("x"),
            sender: Origin::default(),
            first,
            last,
            cause: LostCause::Gone,
        })
    }

    fn dropped(messages: u64) -> Received {
        Received::Dropped(Dropped { messages })
    }

    fn rest(aside: &mut Order<Received>) -> Vec<Received> {
        std::iter::from_fn(|| aside.next()).collect()
    }

    #[test]
    fn neighbours_are_told_as_one_and_others_apart() {
        let mut aside = Order::default();
        aside.put(4, dropped(1));
        aside.put(5, lost(7, 8));
        aside.put(6, dropped(1));
        aside.put(7, lost(9, 9));
        // An item of the queue has place 8.
        aside.put(9, dropped(1));
        assert_eq!(aside.first(), 4);
        assert_eq!(rest(&mut aside), [dropped(2), lost(7, 9), dropped(1)]);
        assert_eq!(aside.first(), NOTHING);
    }

    #[test]
    fn what_is_dropped_in_front_closes_up_with_what_was_told_behind() {
        let mut aside = Order::default();
        aside.put(2, lost(1, 1));
        aside.put(9, lost(5, 5));
        for place in [0, 1, 3, 4] {
            aside.put(place, dropped(1));
        }
        assert_eq!(rest(&mut aside), [dropped(4), lost(1, 1), lost(5, 5)]);
    }

    #[test]
    fn losses_are_not_told_as_one_across_an_exclusion() {
        let mut aside = Order::default();
        let excluded = Received::Excluded(Excluded {
            incarnation: Incarnation(7),
        });
        let told = [lost(1, 2), excluded, lost(3, 4)];
        for (place, notice) in (0..).zip(told.clone()) {
            aside.put(place, notice);
        }
        assert_eq!(rest(&mut aside), told);
    }

    #[test]
    fn items_held_come_in_their_places() {
        let mut aside = Order::default();
        aside.put(3, dropped(1));
        aside.hold(5, lost(5, 5));
        aside.hold(2, lost(2, 2));
        assert_eq!(rest(&mut aside), [lost(2, 2), dropped(1), lost(5, 5)]);
    }

    #[test]
    fn too_many_are_counted_and_none_is_forgotten() {
        let mut aside = Order::default();
        let many = 3 * NOTICES_MAX as u64;
        // With a gap after each, so that no two are one, and an item between.
        for at in 0..many {
            aside.put(2 * at, lost(2 * at + 1, 2 * at + 1));
        }
        let incarnation = Incarnation(7);
        let excluded = Received::Excluded(Excluded { incarnation });
        aside.put(2 * many, excluded.clone());
        let told = rest(&mut aside);
        assert!(told.len() <= NOTICES_MAX + 2);
        assert_eq!(told.iter().map(Received::missing).sum::<u64>(), many);
        assert!(told.contains(&excluded));
    }
}
