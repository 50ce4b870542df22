//! Packets of other clusters at the addresses of this node's regions (R-MEM-20).

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::Instant;

/// Packets at an address within [`INTERVAL`] of which the membership service is told: fewer are strays.
pub(crate) const PACKETS: u32 = 16;
const INTERVAL: Duration = Duration::from_secs(1);
/// Pause between two words on one address.
const PAUSE: Duration = Duration::from_secs(10);
/// Addresses that are looked at.
const ADDRESSES_MAX: usize = 64;

/// Addresses at which packets of other clusters have come.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    addresses: BTreeMap<SocketAddr, Seen>,
}

#[derive(Debug)]
struct Seen {
    /// Beginning of the interval in which these packets have come.
    since: Instant,
    packets: u32,
    told_at: Option<Instant>,
}

impl Foreign {
    /// A packet of another cluster has come there. `true`: the membership service is to know.
    pub(crate) fn note(&mut self, now: Instant, at: SocketAddr) -> bool {
        if self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&at) {
            self.addresses
                .retain(|_, seen| now.since(seen.since) < PAUSE);
            if self.addresses.len() >= ADDRESSES_MAX {
                return false;
            }
        }
        let seen = self.addresses.entry(at).or_insert(Seen {
            since: now,
            packets: 0,
            told_at: None,
        });
        if now.since(seen.since) >= INTERVAL {
            (seen.since, seen.packets) = (now, 0);
        }
        seen.packets = seen.packets.saturating_add(1);
        let rested = seen.told_at.is_none_or(|at| now.since(at) >= PAUSE);
        let tells = seen.packets >= PACKETS && rested;
        if tells {
            seen.told_at = Some(now);
        }
        tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([239, 192, 0, 1], port))
    }

    // Rule R-MEM-20.
    #[test]
    fn a_stream_of_foreign_packets_is_told_of_once_in_ten_seconds_and_strays_never() {
        let mut foreign = Foreign::default();
        // Ten a second.
        let strays = (0..100).filter(|one| foreign.note(at(100 * one), address(1)));
        assert_eq!(strays.count(), 0);
        // A hundred a second, for twenty-five seconds.
        let told: Vec<u64> = (0..2500)
            .filter(|one| foreign.note(at(20_000 + 10 * one), address(1)))
            .collect();
        assert_eq!(told.len(), 3, "{told:?}");
    }

    #[test]
    fn so_many_addresses_are_looked_at_and_old_ones_make_room() {
        let mut foreign = Foreign::default();
        for port in 0..1000 {
            assert!(!foreign.note(at(0), address(port)));
        }
        assert_eq!(foreign.addresses.len(), ADDRESSES_MAX);
        foreign.note(at(10_000), address(5000));
        assert_eq!(foreign.addresses.len(), 1);
    }
}
