//! Which multicast address a region gets (R042-R044, R227-R231).
//!
//! Interfaces filter by Ethernet address, and 32 IP multicast addresses share each Ethernet
//! address: only the low 23 bits count. So the plan keeps those unique, stays away from the ones
//! that switches flood (224.0.0.x and everything that looks like it: x.0.0.y, x.128.0.y), lets a
//! freed address rest before it is used again, and when its budget is used up lets regions share
//! the least used address instead of taking one more.

use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use qsm_proto::Instant;

use crate::PlanConfig;

/// Bits of an IPv4 multicast address that reach the Ethernet address.
const LOW_BITS: u32 = 0x007f_ffff;

/// The multicast addresses of a cluster.
#[derive(Debug)]
pub struct AddressPlan {
    config: PlanConfig,
    /// How many regions use an address.
    uses: BTreeMap<Ipv4Addr, u32>,
    /// Low bits of addresses in use, resting, or not ours to give.
    taken: BTreeSet<u32>,
    /// When a resting address may be used again.
    resting: BTreeSet<(Instant, Ipv4Addr)>,
    /// Where to look for the next address: the one used longest ago comes last.
    cursor: u32,
}

/// Whether switches and interfaces treat packets to this address as everybody's (R227, R229).
#[must_use]
pub fn is_flooded(address: Ipv4Addr) -> bool {
    u32::from(address) & LOW_BITS < 0x100
}

impl AddressPlan {
    /// An empty plan that never gives addresses with the low bits of those in `avoid`. The
    /// configuration has been checked.
    #[must_use]
    pub fn new(config: PlanConfig, avoid: &[SocketAddr]) -> Self {
        let low = |address: &SocketAddr| match address.ip() {
            IpAddr::V4(ip) => Some(u32::from(ip) & LOW_BITS),
            IpAddr::V6(_) => None,
        };
        Self {
            config,
            uses: BTreeMap::new(),
            taken: avoid.iter().filter_map(low).collect(),
            resting: BTreeSet::new(),
            cursor: 0,
        }
    }

    /// An address for a region, and whether other regions use it too (R-MEM-8).
    pub fn take(&mut self, now: Instant) -> (SocketAddr, bool) {
        self.wake(now);
        let fresh = if self.uses.len() < self.config.budget {
            self.find()
        } else {
            None
        };
        let least = self.uses.iter().min_by_key(|(_, uses)| **uses);
        let address = match (fresh, least) {
            (Some(address), _) => address,
            (None, Some((address, _))) => *address,
            // Nothing in use and nothing free: a tiny pool whose addresses all rest.
            (None, None) => self.wake_oldest(),
        };
        let uses = self.uses.entry(address).or_insert(0);
        *uses += 1;
        self.taken.insert(u32::from(address) & LOW_BITS);
        let shared = *uses > 1;
        (SocketAddr::from((address, self.config.port)), shared)
    }

    /// Takes up an address that a former service gave. `false` when it cannot be used.
    pub fn adopt(&mut self, address: SocketAddr) -> bool {
        let IpAddr::V4(ip) = address.ip() else {
            return false;
        };
        let known = self.uses.contains_key(&ip);
        let low = u32::from(ip) & LOW_BITS;
        let usable = ip.is_multicast() && !is_flooded(ip) && address.port() == self.config.port;
        if !usable || (!known && self.taken.contains(&low)) {
            return false;
        }
        *self.uses.entry(ip).or_insert(0) += 1;
        self.taken.insert(low);
        true
    }

    /// A region has closed.
    pub fn give_back(&mut self, now: Instant, address: SocketAddr) {
        let IpAddr::V4(ip) = address.ip() else { return };
        let Some(uses) = self.uses.get_mut(&ip) else {
            return;
        };
        *uses -= 1;
        if *uses == 0 {
            self.uses.remove(&ip);
            let until = now.after(self.config.quarantine);
            self.resting.insert((until, ip));
        }
    }

    /// Addresses in use.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.uses.len()
    }

    fn wake(&mut self, now: Instant) {
        while let Some(&(until, _)) = self.resting.first() {
            if until > now {
                return;
            }
            self.wake_oldest();
        }
    }

    fn wake_oldest(&mut self) -> Ipv4Addr {
        let Some((_, address)) = self.resting.pop_first() else {
            return self.config.base;
        };
        self.taken.remove(&(u32::from(address) & LOW_BITS));
        address
    }

    fn find(&mut self) -> Option<Ipv4Addr> {
        let count = 1_u32 << (32 - self.config.prefix);
        let base = u32::from(self.config.base) & !(count - 1);
        // More than this many cannot be taken; a pool of one Ethernet address ends sooner.
        let tries = u32::try_from(self.taken.len() + 513).unwrap_or(u32::MAX);
        for _ in 0..count.min(tries) {
            let address = Ipv4Addr::from(base + self.cursor);
            self.cursor = (self.cursor + 1) % count;
            let free = !self.taken.contains(&(u32::from(address) & LOW_BITS));
            if free && address.is_multicast() && !is_flooded(address) {
                return Some(address);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use qsm_proto::{Random, Seed};

    use super::*;

    fn check(plan: &AddressPlan) {
        let mut lows = BTreeSet::new();
        for address in plan.uses.keys() {
            assert!(address.is_multicast());
            assert!(!is_flooded(*address), "{address}");
            let [_, second, third, _] = address.octets();
            assert!(third != 0 || second & 0x7f != 0, "{address}");
            assert!(lows.insert(u32::from(*address) & LOW_BITS), "{address}");
        }
        assert!(plan.uses.len() <= plan.config.budget);
    }

    // Rule R-MEM-8.
    #[test]
    fn addresses_in_use_never_share_low_bits_and_are_never_flooded_ones() {
        let pools = [
            (Ipv4Addr::new(239, 192, 0, 0), 14, 40),
            (Ipv4Addr::new(239, 0, 0, 0), 8, 300),
            (Ipv4Addr::new(239, 128, 0, 0), 22, 2000),
            (Ipv4Addr::new(224, 0, 0, 0), 4, 100),
            (Ipv4Addr::new(239, 1, 1, 4), 30, 10),
        ];
        for (seed, (base, prefix, budget)) in (0..).zip(pools) {
            let config = PlanConfig {
                base,
                prefix,
                budget,
                ..PlanConfig::default()
            };
            let discovery = SocketAddr::from(([239, 192, 0, 1], 1));
            let mut plan = AddressPlan::new(config, &[discovery]);
            let mut random = Random::new(Seed(seed), "plan");
            let mut held = Vec::new();
            for step in 0..5000 {
                let now = Instant(step * 100_000_000);
                if held.is_empty() || random.chance_ppm(600_000) {
                    held.push(plan.take(now).0);
                } else {
                    let at = usize::try_from(random.below(held.len() as u64)).unwrap();
                    plan.give_back(now, held.swap_remove(at));
                }
                assert!(!plan.uses.contains_key(&Ipv4Addr::new(239, 192, 0, 1)));
                check(&plan);
            }
        }
    }

    #[test]
    fn a_freed_address_rests_before_it_is_given_again() {
        let config = PlanConfig {
            base: Ipv4Addr::new(239, 1, 1, 0),
            prefix: 30,
            ..PlanConfig::default()
        };
        let mut plan = AddressPlan::new(config, &[]);
        let taken: Vec<_> = (0..4).map(|_| plan.take(Instant(0)).0).collect();
        plan.give_back(Instant(0), taken[1]);
        let (address, shared) = plan.take(Instant(0).after(Duration::from_secs(9)));
        assert!(shared && address != taken[1]);
        plan.give_back(Instant(0), address);
        let (address, shared) = plan.take(Instant(0).after(Duration::from_secs(10)));
        assert_eq!((address, shared), (taken[1], false));
    }

    #[test]
    fn beyond_the_budget_the_least_used_address_is_shared() {
        let config = PlanConfig {
            budget: 3,
            ..PlanConfig::default()
        };
        let mut plan = AddressPlan::new(config, &[]);
        let taken: Vec<_> = (0..9).map(|_| plan.take(Instant(0)).0).collect();
        assert_eq!(plan.in_use(), 3);
        assert!(plan.uses.values().all(|uses| *uses == 3));
        for address in taken {
            plan.give_back(Instant(0), address);
        }
        assert_eq!(plan.in_use(), 0);
    }

    #[test]
    fn an_adopted_address_is_not_given_to_another_region() {
        let config = PlanConfig {
            base: Ipv4Addr::new(239, 1, 1, 0),
            prefix: 30,
            ..PlanConfig::default()
        };
        let mut plan = AddressPlan::new(config, &[]);
        let first = SocketAddr::from(([239, 1, 1, 0], config.port));
        assert!(plan.adopt(first));
        assert!(!plan.adopt(SocketAddr::from(([238, 1, 1, 0], config.port))));
        assert!(!plan.adopt(SocketAddr::from(([10, 1, 1, 0], config.port))));
        for _ in 0..3 {
            assert_ne!(plan.take(Instant(0)).0, first);
        }
    }
}
