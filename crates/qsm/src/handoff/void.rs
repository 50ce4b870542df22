//! Messages that former lives of the node left unconfirmed, and receivers that vanished, until those
//! who flush have been told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Flushed, RequestError, Unconfirmed, Unserved};

/// Ranges kept; of older ones only the number of messages.
const RANGES_MAX: usize = 4096;

/// Vanished receivers kept likewise, those of one view and region together.
const UNSERVED_MAX: usize = 256;

/// Numbers behind the last entries that a flushing caller has been told of, at one core. The caller
/// keeps it; the core counts on. An error tells ranges only: receivers are told by the next flush.
#[derive(Debug, Default)]
pub(crate) struct ToldUpto {
    ranges: AtomicU64,
    unserved: AtomicU64,
}

/// One that the caller and the core share.
pub(crate) type Told = Arc<ToldUpto>;

/// What a flush need not tell, as it was when the flush began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ToldBefore {
    ranges: u64,
    unserved: u64,
}

impl ToldUpto {
    /// All entries so far, of which there are so many.
    pub(crate) fn all(next: u64) -> Told {
        Arc::new(Self {
            ranges: next.into(),
            unserved: next.into(),
        })
    }

    /// What has been told by now.
    pub(crate) fn before(&self) -> ToldBefore {
        ToldBefore {
            ranges: self.ranges.load(Ordering::SeqCst),
            unserved: self.unserved.load(Ordering::SeqCst),
        }
    }
}

/// The newest of some entries, numbered, and a sum over the others.
#[derive(Debug)]
struct Newest<T> {
    entries: VecDeque<(u64, T)>,
    /// Number behind the last one forgotten.
    from: u64,
    /// What those forgotten add up to.
    forgotten: u64,
}

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            from: 0,
            forgotten: 0,
        }
    }
}

impl<T: Clone> Newest<T> {
    fn add(&mut self, number: u64, entry: T, most: usize, count: impl Fn(&T) -> u64) {
        self.entries.push_back((number, entry));
        if self.entries.len() > most
            && let Some((number, oldest)) = self.entries.pop_front()
        {
            self.from = number + 1;
            self.forgotten += count(&oldest);
        }
    }

    /// Those from this number on.
    fn since(&self, from: u64) -> Vec<T> {
        let entries = self.entries.iter().filter(|(number, _)| *number >= from);
        entries.map(|(_, entry)| entry.clone()).collect()
    }

    /// What those forgotten add up to, if there are some from this number on.
    fn forgotten_since(&self, from: u64) -> u64 {
        if from < self.from { self.forgotten } else { 0 }
    }
}

/// Ranges in the order in which they were given up, and receivers in the order in which they
/// vanished, numbered together from 0.
#[derive(Debug, Default)]
pub(crate) struct Voids {
    ranges: Newest<Unconfirmed>,
    unserved: Newest<Unserved>,
    next: u64,
}

impl Voids {
    pub(crate) fn add(&mut self, messages: Unconfirmed) {
        let count = Unconfirmed::messages;
        self.ranges.add(self.next, messages, RANGES_MAX, count);
        self.next += 1;
    }

    pub(crate) fn add_unserved(&mut self, unserved: Unserved) {
        let count = Unserved::receivers;
        self.unserved.add(self.next, unserved, UNSERVED_MAX, count);
        self.next += 1;
    }

    /// Number of the next one.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Tells what had not been told before, if there is something.
    pub(crate) fn tell(&self, before: ToldBefore, told: &Told) -> Result<Flushed, RequestError> {
        told.ranges.fetch_max(self.next, Ordering::SeqCst);
        let ranges = self.ranges.since(before.ranges);
        let more = self.ranges.forgotten_since(before.ranges);
        if !ranges.is_empty() || more > 0 {
            return Err(RequestError::Unconfirmed { ranges, more });
        }
        told.unserved.fetch_max(self.next, Ordering::SeqCst);
        Ok(Flushed {
            unserved: self.unserved.since(before.unserved),
            more: self.unserved.forgotten_since(before.unserved),
            ..Flushed::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm_wire::{Incarnation, NodeId, Origin};

    fn range(first: u64) -> Unconfirmed {
        Unconfirmed {
            group: "g".into(),
            incarnation: Incarnation(1),
            first,
            last: first + 1,
        }
    }

    #[test]
    fn each_who_flushes_is_told_once_and_of_all_that_came_since() {
        let mut voids = Voids::default();
        let (one, other) = (Told::default(), Told::default());
        let tell = |voids: &Voids, told: &Told| voids.tell(told.before(), told);
        assert_eq!(tell(&voids, &one), Ok(Flushed::default()));
        voids.add(range(1));
        let (ranges, more) = (vec![range(1)], 0);
        assert_eq!(
            tell(&voids, &one),
            Err(RequestError::Unconfirmed { ranges, more })
        );
        assert_eq!(tell(&voids, &one), Ok(Flushed::default()));
        let early = one.before();
        voids.add(range(5));
        let ranges = vec![range(1), range(5)];
        assert_eq!(
            tell(&voids, &other),
            Err(RequestError::Unconfirmed { ranges, more })
        );
        // It began before another one was told.
        let ranges = vec![range(5)];
        assert_eq!(
            voids.tell(early, &one),
            Err(RequestError::Unconfirmed { ranges, more })
        );
    }

    #[test]
    fn of_too_many_the_oldest_are_only_counted() {
        let mut voids = Voids::default();
        (0..RANGES_MAX as u64 + 3).for_each(|number| voids.add(range(10 * number)));
        let Err(RequestError::Unconfirmed { ranges, more }) =
            voids.tell(ToldBefore::default(), &Told::default())
        else {
            panic!("nothing told");
        };
        assert_eq!((ranges.len(), more), (RANGES_MAX, 6));
        assert_eq!(ranges[0], range(30));
    }

    fn gone(node: u64) -> Unserved {
        Unserved {
            receivers: vec![Origin {
                node: NodeId(node),
                incarnation: Incarnation(1),
            }],
            receivers_more: 0,
            messages: vec![range(node)],
            messages_more: 0,
            cause: qsm_proto::UnservedCause::Gone,
        }
    }

    #[test]
    fn a_flush_names_receivers_that_have_gone_since_the_one_before() {
        let mut voids = Voids::default();
        let told = Told::default();
        let tell = |voids: &Voids| voids.tell(told.before(), &told);
        voids.add_unserved(gone(1));
        let (unserved, more) = (vec![gone(1)], 0);
        let flushed = tell(&voids).unwrap();
        assert_eq!((flushed.unserved, flushed.more), (unserved, more));
        assert!(tell(&voids).unwrap().is_complete());
        (0..UNSERVED_MAX as u64 + 2).for_each(|node| voids.add_unserved(gone(node)));
        let flushed = tell(&voids).unwrap();
        assert_eq!((flushed.unserved.len(), flushed.more), (UNSERVED_MAX, 3));
        assert_eq!(flushed.unserved[0], gone(2));
    }

    #[test]
    fn receivers_are_told_by_the_flush_after_one_that_failed() {
        let mut voids = Voids::default();
        let told = Told::default();
        voids.add_unserved(gone(1));
        voids.add(range(1));
        assert!(voids.tell(told.before(), &told).is_err());
        let flushed = voids.tell(told.before(), &told).unwrap();
        assert_eq!(flushed.unserved, [gone(1)]);
        assert!(voids.tell(told.before(), &told).unwrap().is_complete());
    }
}
