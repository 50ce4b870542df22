//! Which multicast address a region gets (R042-R044, R227-R231).
//!
//! Interfaces filter by Ethernet address, and only the low bits of a multicast address reach it: 23 of
//! IPv4 (32 addresses share one), 32 of IPv6. So the plan keeps those unique, stays away from the ones
//! that everybody receives, lets a freed address rest before it is used again, and when its budget is
//! used up lets regions share the least used address instead of taking one more. Regions of different
//! [tenants](Tenant) share none: of the budget one address is kept for each tenant that hints name
//! and that has none.
//!
//! Everybody receives, in IPv4, 224.0.0.x and all that looks like it to a switch: x.0.0.y, x.128.0.y. In
//! IPv6 it is what looks like the well-known addresses (ff02::1) and the solicited-node ones, of which
//! every host has some (ff02::1:ff00:0/104).
//!
//! IPv6 has room for the cluster in the address: `base:CLUSTER:ID`, the low 64 bits being the cluster's
//! number and a group id. So clusters do not meet, and routers and hosts tell them apart. Ids are of the range for
//! dynamic use (RFC 3307, section 4.3), and clusters begin at different ones, so that on one wire
//! their Ethernet addresses differ as well.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use qsm_proto::{Instant, mix};

use super::zone::Tenant;
use crate::PlanConfig;

/// Group ids of IPv6 that are for dynamic use begin here (RFC 3307, section 4.3).
const DYNAMIC_IDS: u32 = 0x8000_0000;
/// Those that look like solicited-node addresses begin here.
const SOLICITED_NODE_IDS: u32 = 0xff00_0000;

/// Addresses at which others send that are remembered.
const AVOIDED_MAX: usize = 64;

/// The multicast addresses of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPlan {
    config: PlanConfig,
    pool: Pool,
    /// Who uses an address.
    uses: BTreeMap<IpAddr, Use>,
    /// Tenants that an address is kept for.
    named: BTreeSet<Tenant>,
    /// Addresses that can be in use at once.
    capacity: usize,
    /// Ethernet bits of addresses in use, resting, or not ours to give.
    taken: BTreeSet<u32>,
    /// When a resting address may be used again.
    resting: BTreeSet<(Instant, IpAddr)>,
    /// Addresses at which others send, the newest last; they are not given again as long as they are here.
    avoided: VecDeque<IpAddr>,
    /// Where to look for the next address: the one used longest ago comes last.
    cursor: u32,
    /// The cluster's number.
    cluster: u32,
}

/// Use of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Use {
    tenant: Tenant,
    /// Regions of this tenant that have the address.
    regions: u32,
}

/// Whether switches and interfaces treat packets to this address as everybody's (R227, R229).
#[must_use]
pub fn is_flooded(address: IpAddr) -> bool {
    let bits = ethernet_bits(address);
    bits < 0x100 || (address.is_ipv6() && bits >= SOLICITED_NODE_IDS)
}

/// The bits of a multicast address that reach the Ethernet address.
fn ethernet_bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(ip) => ip.to_bits() & 0x007f_ffff,
        IpAddr::V6(ip) => u32::try_from(ip.to_bits() & u128::from(u32::MAX)).unwrap_or(0),
    }
}

/// Whether the pool has addresses that may be given. Those that may not are its lowest or its
/// highest, or all.
pub(crate) fn is_usable(config: &PlanConfig) -> bool {
    let pool = Pool::new(config, 0);
    let ends = [pool.address(0), pool.address(pool.count() - 1)];
    ends.into_iter().any(|end| !is_flooded(end))
}

/// How many addresses of a pool can be in use at once, these bits being taken.
fn capacity(config: &PlanConfig, pool: &Pool, taken: &BTreeSet<u32>) -> usize {
    let tries = u32::try_from(config.budget).unwrap_or(u32::MAX);
    let numbers = 0..pool.count().min(tries.saturating_add(1024));
    let addresses = numbers.map(|number| pool.address(number));
    let usable = addresses.filter(|address| address.is_multicast() && !is_flooded(*address));
    let bits: BTreeSet<u32> = usable.map(ethernet_bits).collect();
    bits.difference(taken).count().min(config.budget)
}

/// How many addresses a plan can have in use at once, but for those that it stays away from.
pub(crate) fn addresses_max(config: &PlanConfig) -> usize {
    capacity(config, &Pool::new(config, 0), &BTreeSet::new())
}

/// The addresses that a plan may give, numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pool {
    V4 {
        first: Ipv4Addr,
        count: u32,
    },
    V6 {
        base: Ipv6Addr,
        /// The bits that are ours: the lowest.
        own: u128,
        cluster: u32,
        first_id: u32,
        count: u32,
    },
}

impl Pool {
    fn new(config: &PlanConfig, cluster: u32) -> Self {
        match config.base {
            IpAddr::V4(base) => {
                let count = 1_u32 << (32 - config.prefix);
                let first = Ipv4Addr::from(base.to_bits() & !(count - 1));
                Self::V4 { first, count }
            }
            IpAddr::V6(base) => {
                let own = u128::MAX >> config.prefix;
                let (first_id, count) = match u32::try_from(own) {
                    Ok(own) if own < u32::MAX => (0, own + 1),
                    _ => (DYNAMIC_IDS, SOLICITED_NODE_IDS - DYNAMIC_IDS),
                };
                Self::V6 {
                    base,
                    own,
                    cluster,
                    first_id,
                    count,
                }
            }
        }
    }

    fn count(&self) -> u32 {
        match *self {
            Self::V4 { count, .. } | Self::V6 { count, .. } => count,
        }
    }

    /// `number` is below the count.
    fn address(&self, number: u32) -> IpAddr {
        match *self {
            Self::V4 { first, .. } => Ipv4Addr::from(first.to_bits() + number).into(),
            Self::V6 {
                base,
                own,
                cluster,
                first_id,
                count,
            } => {
                // Below 2³²: `cluster % count` begins the walk somewhere else for each cluster.
                let turned = (u64::from(number) + u64::from(cluster)) % u64::from(count);
                let id = u64::from(first_id) + turned;
                let low = u128::from(u64::from(cluster) << 32 | id);
                Ipv6Addr::from(base.to_bits() & !own | low & own).into()
            }
        }
    }
}

impl AddressPlan {
    /// An empty plan of the cluster with this number that never gives addresses with the Ethernet
    /// bits of those in `avoid`. The configuration has been checked.
    #[must_use]
    pub fn new(config: PlanConfig, cluster: u32, avoid: &[SocketAddr]) -> Self {
        let avoid = avoid.iter().map(SocketAddr::ip);
        let avoid = avoid.filter(|ip| ip.is_ipv4() == config.base.is_ipv4());
        let pool = Pool::new(&config, cluster);
        let taken: BTreeSet<u32> = avoid.map(ethernet_bits).collect();
        let capacity = capacity(&config, &pool, &taken);
        Self {
            pool,
            config,
            uses: BTreeMap::new(),
            named: BTreeSet::new(),
            capacity,
            taken,
            resting: BTreeSet::new(),
            avoided: VecDeque::new(),
            cursor: 0,
            cluster,
        }
    }

    /// Others send to this address: it is not given again, and the next one is somewhere else, where
    /// another cluster that looks for one, too, does not come.
    pub(crate) fn avoid(&mut self, address: SocketAddr) {
        let ip = address.ip();
        if !ip.is_multicast() || self.avoided.contains(&ip) {
            return;
        }
        self.avoided.push_back(ip);
        if self.avoided.len() > AVOIDED_MAX
            && let Some(oldest) = self.avoided.pop_front()
            && !self.uses.contains_key(&oldest)
        {
            self.taken.remove(&ethernet_bits(oldest));
        }
        let drawn = mix((u64::from(self.cluster) << 32) ^ u64::from(self.cursor));
        let below = drawn % u64::from(self.pool.count());
        self.cursor = u32::try_from(below).unwrap_or(0);
    }

    /// Keeps an address for each of these tenants, as far as there are so many.
    pub(crate) fn keep_for(&mut self, tenants: impl IntoIterator<Item = Tenant>) {
        self.named = tenants.into_iter().collect();
    }

    /// An address for a region of this tenant, and whether other regions use it too (R-MEM-8,
    /// R-VIEW-18).
    pub fn take(&mut self, now: Instant, tenant: Tenant) -> (SocketAddr, bool) {
        self.wake(now);
        let fresh = if self.has_room(tenant) {
            self.find()
        } else {
            None
        };
        let own = |at: Tenant| at == tenant;
        let address = fresh.or_else(|| self.least_used(own));
        // Nothing of its own, and its part used by others: beyond the budget, if there are any.
        let address = address.or_else(|| self.find());
        // A tiny pool whose addresses all rest.
        let address = address.or_else(|| (!self.resting.is_empty()).then(|| self.wake_oldest()));
        // Not if there are as many as tenants: channels of one domain share one, and never two domains.
        let same = |at: Tenant| at.domain == tenant.domain && at.stranger == tenant.stranger;
        let address = address.or_else(|| self.least_used(same));
        let address = address.unwrap_or(self.config.base);
        let uses = self
            .uses
            .entry(address)
            .or_insert(Use { tenant, regions: 0 });
        uses.regions += 1;
        self.taken.insert(ethernet_bits(address));
        let shared = uses.regions > 1;
        (SocketAddr::from((address, self.config.port)), shared)
    }

    /// Tells whether a tenant may have one address more within the budget, of which one is kept for
    /// each other tenant that has none.
    fn has_room(&self, tenant: Tenant) -> bool {
        if self.named.is_empty() {
            return self.uses.len() < self.config.budget;
        }
        let present: BTreeSet<Tenant> = self.uses.values().map(|uses| uses.tenant).collect();
        let others = self.named.difference(&present);
        let kept = others.filter(|other| **other != tenant).count();
        self.uses.len() + kept < self.capacity
    }

    fn least_used(&self, fits: impl Fn(Tenant) -> bool) -> Option<IpAddr> {
        let uses = self.uses.iter().filter(|(_, uses)| fits(uses.tenant));
        // One at which others send only where there is no other.
        let least = uses.min_by_key(|(ip, uses)| (self.avoided.contains(ip), uses.regions));
        least.map(|(address, _)| *address)
    }

    /// Takes up an address that a former service gave. `false` when it cannot be used.
    pub fn adopt(&mut self, address: SocketAddr, tenant: Tenant) -> bool {
        let ip = address.ip();
        let uses = self.uses.get(&ip);
        let known = uses.is_some();
        let foreign = uses.is_some_and(|uses| uses.tenant != tenant);
        // Without tenants a former service's addresses may be more than the budget.
        let full = !known && !self.named.is_empty() && !self.has_room(tenant);
        let usable = ip.is_multicast()
            && ip.is_ipv4() == self.config.base.is_ipv4()
            && !is_flooded(ip)
            && address.port() == self.config.port;
        let taken = !known && self.taken.contains(&ethernet_bits(ip));
        if !usable || taken || foreign || full {
            return false;
        }
        let uses = self.uses.entry(ip).or_insert(Use { tenant, regions: 0 });
        uses.regions += 1;
        self.taken.insert(ethernet_bits(ip));
        true
    }

    /// A region turns out to be of another tenant. `false`: others have its address as well, and it
    /// needs another one.
    pub(crate) fn pass_on(&mut self, address: SocketAddr, tenant: Tenant) -> bool {
        let uses = self.uses.get_mut(&address.ip());
        let uses = uses.filter(|uses| uses.tenant == tenant || uses.regions == 1);
        uses.is_some_and(|uses| {
            uses.tenant = tenant;
            true
        })
    }

    /// A region has closed.
    pub fn give_back(&mut self, now: Instant, address: SocketAddr) {
        let ip = address.ip();
        let Some(uses) = self.uses.get_mut(&ip) else {
            return;
        };
        uses.regions -= 1;
        if uses.regions == 0 {
            self.uses.remove(&ip);
            if self.avoided.contains(&ip) {
                return;
            }
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

    fn wake_oldest(&mut self) -> IpAddr {
        let Some((_, address)) = self.resting.pop_first() else {
            return self.config.base;
        };
        self.taken.remove(&ethernet_bits(address));
        address
    }

    fn find(&mut self) -> Option<IpAddr> {
        let count = self.pool.count();
        // More than this many cannot be taken; a pool of one Ethernet address ends sooner.
        let tries = u32::try_from(self.taken.len() + 513).unwrap_or(u32::MAX);
        for _ in 0..count.min(tries) {
            let address = self.pool.address(self.cursor);
            self.cursor = (self.cursor + 1) % count;
            let free = !self.taken.contains(&ethernet_bits(address));
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

    const COMMON: Tenant = Tenant {
        domain: 0,
        channel: None,
        stranger: None,
    };

    fn domain(domain: u32) -> Tenant {
        Tenant { domain, ..COMMON }
    }

    // Rule R-VIEW-18.
    #[test]
    fn tenants_share_no_address_and_one_is_kept_for_each() {
        let config = PlanConfig {
            budget: 4,
            ..PlanConfig::default()
        };
        let mut plan = AddressPlan::new(config, 7, &[]);
        let fast = Tenant {
            channel: Some(0),
            ..COMMON
        };
        plan.keep_for([COMMON, domain(1), fast]);
        let common: BTreeSet<_> = (0..9).map(|_| plan.take(Instant(0), COMMON).0).collect();
        assert_eq!(common.len(), 2);
        let red: BTreeSet<_> = (0..9).map(|_| plan.take(Instant(0), domain(1)).0).collect();
        let pinned = plan.take(Instant(0), fast).0;
        assert_eq!(red.len(), 1);
        assert!(common.is_disjoint(&red) && !common.contains(&pinned) && !red.contains(&pinned));
        assert_eq!(plan.in_use(), 4);
        // Nobody has named these, and they share with nobody all the same.
        let stranger = Tenant {
            stranger: Some(crate::plan::Stranger::Node(qsm_wire::NodeId(1))),
            ..COMMON
        };
        let others = [stranger, domain(2)].map(|tenant| plan.take(Instant(0), tenant).0);
        assert_eq!(plan.in_use(), 6);
        assert_ne!(others[0], others[1]);
        // An address of a former service, which others have by now.
        assert!(!plan.adopt(others[0], domain(1)) && plan.adopt(others[0], stranger));
        assert!(!plan.pass_on(others[0], domain(1)) && plan.pass_on(others[1], domain(1)));
    }

    // Rule R-VIEW-18.
    #[test]
    fn a_tenant_without_an_address_takes_one_that_rests() {
        let config = PlanConfig {
            base: IpAddr::from([239, 1, 1, 0]),
            prefix: 30,
            ..PlanConfig::default()
        };
        let mut plan = AddressPlan::new(config, 7, &[]);
        assert_eq!(addresses_max(&config), 4);
        plan.keep_for([COMMON, domain(1)]);
        let held = plan.take(Instant(0), domain(1)).0;
        let common: BTreeSet<_> = (0..9).map(|_| plan.take(Instant(0), COMMON).0).collect();
        assert_eq!(common.len(), 3);
        plan.give_back(Instant(0), held);
        assert!(common.contains(&plan.take(Instant(0), COMMON).0));
        assert_eq!(plan.take(Instant(0), domain(1)), (held, false));
    }

    fn check(plan: &AddressPlan) {
        let mut ethernet = BTreeSet::new();
        for address in plan.uses.keys() {
            assert!(address.is_multicast());
            assert!(!is_flooded(*address), "{address}");
            // The Ethernet addresses as the standards have them (RFC 1112, RFC 2464).
            let mac = match address {
                IpAddr::V4(ip) => {
                    let [_, second, third, fourth] = ip.octets();
                    assert!(third != 0 || second & 0x7f != 0, "{address}");
                    [1, 0, 0x5e, second & 0x7f, third, fourth]
                }
                IpAddr::V6(ip) => {
                    let [.., first, second, third, fourth] = ip.octets();
                    assert!(first != 0xff, "{address}");
                    [0x33, 0x33, first, second, third, fourth]
                }
            };
            assert!(ethernet.insert(mac), "{address}");
        }
        assert!(plan.uses.len() <= plan.config.budget);
    }

    // Rule R-MEM-8.
    #[test]
    fn addresses_in_use_never_share_low_bits_and_are_never_flooded_ones() {
        let pools = [
            ("239.192.0.0", 14, 40),
            ("239.0.0.0", 8, 300),
            ("239.128.0.0", 22, 2000),
            ("224.0.0.0", 4, 100),
            ("239.1.1.4", 30, 10),
            ("ff15::", 64, 40),
            ("ff18:1::", 32, 2000),
            ("ff15::fe:fe80:0", 104, 300),
            ("ff15::4:4", 126, 10),
        ];
        for (seed, (base, prefix, budget)) in (0..).zip(pools) {
            let base: IpAddr = base.parse().unwrap();
            let config = PlanConfig {
                base,
                prefix,
                budget,
                ..PlanConfig::default()
            };
            let discovery = match base {
                IpAddr::V4(_) => IpAddr::from([239, 192, 0, 1]),
                IpAddr::V6(_) => "ff18::ffff:8000:7".parse().unwrap(),
            };
            let mut plan = AddressPlan::new(config, 7, &[(discovery, 1).into()]);
            let mut random = Random::new(Seed(seed), "plan");
            let mut held = Vec::new();
            for step in 0..5000 {
                let now = Instant(step * 100_000_000);
                if held.is_empty() || random.chance_ppm(600_000) {
                    held.push(plan.take(now, COMMON).0);
                } else {
                    let at = usize::try_from(random.below(held.len() as u64)).unwrap();
                    plan.give_back(now, held.swap_remove(at));
                }
                let near = |ip: &&IpAddr| ethernet_bits(**ip) == ethernet_bits(discovery);
                assert_eq!(plan.uses.keys().find(near), None);
                check(&plan);
            }
        }
    }

    #[test]
    fn a_freed_address_rests_before_it_is_given_again() {
        let config = PlanConfig {
            base: IpAddr::from([239, 1, 1, 0]),
            prefix: 30,
            ..PlanConfig::default()
        };
        let mut plan = AddressPlan::new(config, 7, &[]);
        let taken: Vec<_> = (0..4).map(|_| plan.take(Instant(0), COMMON).0).collect();
        plan.give_back(Instant(0), taken[1]);
        let (address, shared) = plan.take(Instant(0).after(Duration::from_secs(9)), COMMON);
        assert!(shared && address != taken[1]);
        plan.give_back(Instant(0), address);
        let (address, shared) = plan.take(Instant(0).after(Duration::from_secs(10)), COMMON);
        assert_eq!((address, shared), (taken[1], false));
    }

    #[test]
    fn beyond_the_budget_the_least_used_address_is_shared() {
        let config = PlanConfig {
            budget: 3,
            ..PlanConfig::default()
        };
        let mut plan = AddressPlan::new(config, 7, &[]);
        let taken: Vec<_> = (0..9).map(|_| plan.take(Instant(0), COMMON).0).collect();
        assert_eq!(plan.in_use(), 3);
        assert!(plan.uses.values().all(|uses| uses.regions == 3));
        for address in taken {
            plan.give_back(Instant(0), address);
        }
        assert_eq!(plan.in_use(), 0);
    }

    #[test]
    fn an_adopted_address_is_not_given_to_another_region() {
        let config = PlanConfig {
            base: IpAddr::from([239, 1, 1, 0]),
            prefix: 30,
            ..PlanConfig::default()
        };
        let mut plan = AddressPlan::new(config, 7, &[]);
        let first = SocketAddr::from(([239, 1, 1, 0], config.port));
        assert!(plan.adopt(first, COMMON));
        assert!(!plan.adopt(SocketAddr::from(([238, 1, 1, 0], config.port)), COMMON));
        assert!(!plan.adopt(SocketAddr::from(([10, 1, 1, 0], config.port)), COMMON));
        let other_family = "ff15::8000:7".parse().unwrap();
        assert!(!plan.adopt(SocketAddr::new(other_family, config.port), COMMON));
        for _ in 0..3 {
            assert_ne!(plan.take(Instant(0), COMMON).0, first);
        }
    }

    #[test]
    fn addresses_of_ipv6_name_the_cluster() {
        let first = |cluster| {
            let mut plan = AddressPlan::new(PlanConfig::v6(), cluster, &[]);
            let (address, _) = plan.take(Instant(0), COMMON);
            let (next, _) = plan.take(Instant(0), COMMON);
            [address, next].map(|address| address.ip().to_string())
        };
        let expected = ["ff15::1234:5678:9234:5678", "ff15::1234:5678:9234:5679"];
        assert_eq!(first(0x1234_5678), expected);
        // Beyond the last id the first follows.
        let expected = ["ff15::7eff:ffff:feff:ffff", "ff15::7eff:ffff:8000:0"];
        assert_eq!(first(0x7eff_ffff), expected);
    }

    #[test]
    fn a_small_pool_of_ipv6_keeps_its_prefix() {
        let config = PlanConfig {
            base: "ff35:40:fd00:1::8000:0".parse().unwrap(),
            prefix: 120,
            budget: 300,
            ..PlanConfig::default()
        };
        let mut plan = AddressPlan::new(config, u32::MAX, &[]);
        let taken: BTreeSet<_> = (0..256)
            .map(|_| plan.take(Instant(0), COMMON).0.ip())
            .collect();
        let first = 0xff35_0040_fd00_0001_0000_0000_8000_0000_u128;
        let inside = |number: u128| IpAddr::from(Ipv6Addr::from(first + number));
        assert_eq!(taken, (0..256).map(inside).collect());
    }
}
