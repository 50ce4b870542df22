//! Messages that former lives of the node left unconfirmed, until those who flush have been told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{RequestError, Unconfirmed};

/// Ranges kept; of older ones only the number of messages.
const RANGES_MAX: usize = 4096;

/// Number of ranges that a flushing caller has been told of, at one core. The caller keeps it; the
/// core counts on.
pub(crate) type Told = Arc<AtomicU64>;

/// Ranges in the order in which they were given up, numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Voids {
    ranges: VecDeque<Unconfirmed>,
    /// Number of the first one kept.
    first: u64,
    /// Messages of those before it.
    forgotten: u64,
}

impl Voids {
    pub(crate) fn add(&mut self, messages: Unconfirmed) {
        self.ranges.push_back(messages);
        if self.ranges.len() > RANGES_MAX
            && let Some(oldest) = self.ranges.pop_front()
        {
            self.first += 1;
            self.forgotten += oldest.messages();
        }
    }

    /// Number of the next one.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.ranges.len() as u64
    }

    /// Tells those from this number on, if there are any.
    pub(crate) fn tell(&self, from: u64, told: &Told) -> Result<(), RequestError> {
        told.fetch_max(self.next(), Ordering::SeqCst);
        if from >= self.next() {
            return Ok(());
        }
        let skip = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        Err(RequestError::Unconfirmed {
            ranges: self.ranges.iter().skip(skip).cloned().collect(),
            more: if from < self.first { self.forgotten } else { 0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm_wire::Incarnation;

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
        let tell = |voids: &Voids, told: &Told| voids.tell(told.load(Ordering::SeqCst), told);
        assert_eq!(tell(&voids, &one), Ok(()));
        voids.add(range(1));
        let (ranges, more) = (vec![range(1)], 0);
        assert_eq!(
            tell(&voids, &one),
            Err(RequestError::Unconfirmed { ranges, more })
        );
        assert_eq!(tell(&voids, &one), Ok(()));
        voids.add(range(5));
        let ranges = vec![range(1), range(5)];
        assert_eq!(
            tell(&voids, &other),
            Err(RequestError::Unconfirmed { ranges, more })
        );
        // It began before another one was told.
        let ranges = vec![range(5)];
        assert_eq!(
            voids.tell(1, &one),
            Err(RequestError::Unconfirmed { ranges, more })
        );
    }

    #[test]
    fn of_too_many_the_oldest_are_only_counted() {
        let mut voids = Voids::default();
        (0..RANGES_MAX as u64 + 3).for_each(|number| voids.add(range(10 * number)));
        let Err(RequestError::Unconfirmed { ranges, more }) = voids.tell(0, &Told::default())
        else {
            panic!("nothing told");
        };
        assert_eq!((ranges.len(), more), (RANGES_MAX, 6));
        assert_eq!(ranges[0], range(30));
    }
}
