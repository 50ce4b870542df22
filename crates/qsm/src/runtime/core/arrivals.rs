//! What has arrived together is handled in the order of its priority, not of its arrival (R121,
//! R122).
//!
//! ```text
//!  sockets ── batches, as long as more waits and the port has room ──► sorted ──► tokens
//!                                                                                 requests
//!                                                                                 repairs
//!                                                                                 data
//! ```
//!
//! Datagrams stay where they were received; only their places are sorted.

use qsm_net::Place;
use qsm_proto::Priority;

use crate::stats::RuntimeStats;

/// Places of datagrams that have arrived and are not handled yet, by priority.
#[derive(Debug)]
pub(super) struct Arrivals<P = Place> {
    places: [Vec<P>; Priority::COUNT],
    /// Datagrams that have overtaken others.
    stats: RuntimeStats,
}

/// Datagrams and bytes received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Amount {
    pub(super) datagrams: usize,
    pub(super) bytes: usize,
}

impl<P: Copy> Arrivals<P> {
    pub(super) fn clear(&mut self) {
        self.places.iter_mut().for_each(Vec::clear);
    }

    pub(super) fn add(&mut self, place: P, datagram: &[u8]) {
        let priority = Priority::of(datagram) as usize;
        self.places[priority].push(place);
        let less_urgent = &self.places[priority + 1..];
        self.stats.received_first += u64::from(less_urgent.iter().any(|places| !places.is_empty()));
    }

    /// Most urgent first; those of one priority as they came.
    pub(super) fn in_order(&self) -> impl Iterator<Item = P> + '_ {
        self.places.iter().flatten().copied()
    }

    /// Counters of arrivals: datagrams that have overtaken others.
    pub(super) fn stats(&self) -> RuntimeStats {
        self.stats
    }
}

impl<P> Default for Arrivals<P> {
    fn default() -> Self {
        Self {
            places: Default::default(),
            stats: RuntimeStats::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Hop, Kind};

    use super::*;

    /// The order in which datagrams of these kinds are handled, by their places.
    fn order(arrivals: &mut Arrivals<usize>, datagrams: &[(Kind, Hop)]) -> Vec<usize> {
        arrivals.clear();
        for (place, (kind, hop)) in datagrams.iter().enumerate() {
            arrivals.add(place, &[1, *kind as u8, 0, *hop as u8]);
        }
        arrivals.in_order().collect()
    }

    // Rule R-TOK-11.
    #[test]
    fn tokens_overtake_requests_repairs_and_data_and_each_kind_keeps_its_order() {
        let mut arrivals = Arrivals::default();
        let came = [
            (Kind::Data, Hop::Direct),
            (Kind::Data, Hop::Push),
            (Kind::Nak, Hop::Direct),
            (Kind::Heartbeat, Hop::Direct),
            (Kind::Data, Hop::Direct),
            (Kind::Data, Hop::CacherRepair),
            (Kind::Token, Hop::Direct),
        ];
        assert_eq!(order(&mut arrivals, &came), [3, 6, 2, 1, 5, 0, 4]);
        assert_eq!(arrivals.stats().received_first, 5);
    }

    #[test]
    fn what_is_in_order_already_stays_as_it_came() {
        let mut arrivals = Arrivals::default();
        let came = [
            (Kind::Session, Hop::Direct),
            (Kind::Pull, Hop::Direct),
            (Kind::Data, Hop::PullRepair),
            (Kind::Data, Hop::Direct),
            (Kind::Absent, Hop::Direct),
        ];
        for _ in 0..2 {
            assert_eq!(order(&mut arrivals, &came), [0, 1, 2, 3, 4]);
        }
        assert_eq!(arrivals.stats().received_first, 0);
    }
}
