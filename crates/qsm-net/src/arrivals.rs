//! What has arrived together is handed over by its class, not in the order of its arrival.
//!
//! ```text
//!  sockets ── batches, as long as more waits and the port has room ──► sorted ──► class 0
//!                                                                                 class 1
//!                                                                                 ...
//! ```
//!
//! Datagrams stay where they were received; only their places are sorted.

use std::{iter, slice};

use crate::port::Port;
use crate::receive::{Datagram, Place};

/// Classes of datagrams that are told apart; the last one has all higher numbers.
pub const CLASSES: usize = 4;

/// Places of datagrams that have arrived and are not handed over yet, by class.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    places: [Vec<Place>; CLASSES],
    amount: Amount,
}

/// Datagrams that were gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// How many.
    pub datagrams: usize,
    /// Their bytes together.
    pub bytes: usize,
    /// Datagrams that go before others which came sooner.
    pub overtaking: u64,
}

impl Arrivals {
    pub(crate) fn clear(&mut self) {
        self.places.iter_mut().for_each(Vec::clear);
        self.amount = Amount::default();
    }

    pub(crate) fn add(&mut self, place: Place, class: usize, bytes: usize) {
        let class = class.min(CLASSES - 1);
        self.places[class].push(place);
        let later = &self.places[class + 1..];
        self.amount.overtaking += u64::from(later.iter().any(|places| !places.is_empty()));
        self.amount.datagrams += 1;
        self.amount.bytes += bytes;
    }

    pub(crate) fn amount(&self) -> Amount {
        self.amount
    }

    /// The lowest class first; those of one class as they came.
    fn in_order(&self) -> InOrder<'_> {
        self.places.iter().flatten().copied()
    }
}

type InOrder<'a> = iter::Copied<iter::Flatten<slice::Iter<'a, Vec<Place>>>>;

/// What [`Ports::gather`](crate::Ports::gather) has received, in the order in which to handle it.
#[derive(Debug, Clone)]
pub struct Gathered<'a> {
    first: &'a Port,
    second: Option<&'a Port>,
    places: InOrder<'a>,
    amount: Amount,
}

impl<'a> Gathered<'a> {
    pub(crate) fn new(first: &'a Port, second: Option<&'a Port>, arrivals: &'a Arrivals) -> Self {
        Self {
            first,
            second,
            places: arrivals.in_order(),
            amount: arrivals.amount,
        }
    }

    /// How much it is.
    #[must_use]
    pub fn amount(&self) -> Amount {
        self.amount
    }
}

impl<'a> Iterator for Gathered<'a> {
    type Item = Datagram<'a>;

    fn next(&mut self) -> Option<Datagram<'a>> {
        let place = self.places.next()?;
        let second = self.second.filter(|_| place.second);
        Some(second.unwrap_or(self.first).datagram(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which datagrams of these classes are handed over, by when they came.
    fn order(arrivals: &mut Arrivals, classes: &[usize]) -> Vec<u32> {
        arrivals.clear();
        for (index, class) in (0..).zip(classes) {
            arrivals.add(Place::new(0, index), *class, 10);
        }
        assert_eq!(arrivals.amount.datagrams, classes.len());
        assert_eq!(arrivals.amount.bytes, 10 * classes.len());
        arrivals.in_order().map(|place| place.index).collect()
    }

    #[test]
    fn lower_classes_overtake_higher_ones_and_each_keeps_its_order() {
        let mut arrivals = Arrivals::default();
        let came = [3, 2, 1, 0, 99, 2, 0];
        assert_eq!(order(&mut arrivals, &came), [3, 6, 2, 1, 5, 0, 4]);
        assert_eq!(arrivals.amount.overtaking, 5);
    }

    #[test]
    fn what_is_in_order_already_stays_as_it_came() {
        let mut arrivals = Arrivals::default();
        for _ in 0..2 {
            assert_eq!(order(&mut arrivals, &[0, 1, 2, 3, 3]), [0, 1, 2, 3, 4]);
        }
        assert_eq!(arrivals.amount.overtaking, 0);
    }
}
