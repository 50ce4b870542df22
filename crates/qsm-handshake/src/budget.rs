//! Limits to handshakes that are begun, all in all and from one address (R-SEC-8).

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Addresses that are told apart; others share one budget.
const ADDRESSES_MAX: usize = 16_384;
/// Time between two words on a flood from one address.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Handshakes that a server takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Handshakes that are not done, at a time; each holds some 30 KB of its client's words at most, and TLS's state.
    pub open: usize,
    /// The same from one address (one /64 with IPv6).
    pub open_from_one: u32,
    /// Handshakes that one address may begin at once.
    pub burst: u32,
    /// Handshakes that one address may begin in a second, after that.
    pub per_second: u32,
}

impl Default for Limits {
    /// 2,048 at a time and 256 from one address, which may begin 512 at once and then 64 in a second.
    fn default() -> Self {
        Self {
            open: 2048,
            open_from_one: 256,
            burst: 512,
            per_second: 64,
        }
    }
}

/// One host, or one network of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Prefix {
    V4([u8; 4]),
    V6([u8; 8]),
    /// All that are not told apart.
    Others,
}

impl Prefix {
    fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip.octets()),
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, g, h, ..] = ip.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

#[derive(Debug, Default)]
struct Account {
    /// When its last beginning is paid (the generic cell rate algorithm, ITU-T I.371).
    paid_at: Duration,
    open: u32,
    refused: u64,
    tell_at: Duration,
}

/// The accounts of all addresses.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    open: usize,
    accounts: BTreeMap<Prefix, Account>,
}

/// The answer to somebody who wants to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    Granted(Prefix),
    Denied,
    /// So many of this address were refused since it was named before.
    DeniedAndTold(u64),
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            open: 0,
            accounts: BTreeMap::new(),
        }
    }

    /// Addresses that are told apart now.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> usize {
        self.accounts.len()
    }

    pub(crate) fn begin(&mut self, now: Duration, ip: IpAddr) -> Leave {
        let prefix = self.prefix(now, ip);
        let interval = Duration::from_secs(1) / self.limits.per_second.max(1);
        let account = self.accounts.entry(prefix).or_default();
        let due = account.paid_at.max(now) + interval;
        let paid = due <= now + interval * self.limits.burst.max(1);
        let room = self.open < self.limits.open && account.open < self.limits.open_from_one;
        if paid && room {
            account.paid_at = due;
            account.open += 1;
            self.open += 1;
            return Leave::Granted(prefix);
        }
        account.refused += 1;
        if account.tell_at > now {
            return Leave::Denied;
        }
        account.tell_at = now + TOLD_EVERY;
        Leave::DeniedAndTold(core::mem::take(&mut account.refused))
    }

    /// One that was begun is done.
    pub(crate) fn end(&mut self, prefix: Prefix) {
        self.open = self.open.saturating_sub(1);
        if let Some(account) = self.accounts.get_mut(&prefix) {
            account.open = account.open.saturating_sub(1);
        }
    }

    fn prefix(&mut self, now: Duration, ip: IpAddr) -> Prefix {
        let prefix = Prefix::of(ip);
        if self.accounts.contains_key(&prefix) {
            return prefix;
        }
        if self.accounts.len() >= ADDRESSES_MAX {
            self.accounts
                .retain(|_, account| account.open > 0 || account.paid_at > now);
        }
        if self.accounts.len() >= ADDRESSES_MAX {
            return Prefix::Others;
        }
        prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        open: 100,
        open_from_one: 20,
        burst: 10,
        per_second: 4,
    };

    fn address(last: u32) -> IpAddr {
        IpAddr::V4((0x0a00_0000 + last).into())
    }

    #[test]
    fn an_address_has_its_burst_and_then_its_rate() {
        let mut budget = Budget::new(LIMITS);
        let mut granted = |at, from| {
            let leave = budget.begin(at, address(from));
            if let Leave::Granted(prefix) = leave {
                budget.end(prefix);
            }
            matches!(leave, Leave::Granted(_))
        };
        let mut count = |at, from| (0..50).filter(|_| granted(at, from)).count();
        assert_eq!(count(Duration::ZERO, 1), 10);
        assert_eq!(count(Duration::ZERO, 2), 10);
        assert_eq!(count(Duration::from_secs(1), 1), 4);
        assert_eq!(count(Duration::from_secs(100), 1), 10);
    }

    #[test]
    fn one_address_cannot_have_all_places_and_is_named() {
        let mut budget = Budget::new(Limits {
            burst: 1000,
            ..LIMITS
        });
        let begin =
            |budget: &mut Budget, from, at| budget.begin(Duration::from_secs(at), address(from));
        let granted = (0..21).filter(|_| matches!(begin(&mut budget, 1, 0), Leave::Granted(_)));
        assert_eq!(granted.count(), 20);
        assert!(matches!(begin(&mut budget, 2, 0), Leave::Granted(_)));
        assert_eq!(begin(&mut budget, 1, 0), Leave::Denied);
        assert_eq!(begin(&mut budget, 1, 10), Leave::DeniedAndTold(2));
        assert_eq!(begin(&mut budget, 1, 10), Leave::Denied);
        budget.end(Prefix::of(address(1)));
        assert!(matches!(begin(&mut budget, 1, 10), Leave::Granted(_)));
    }

    #[test]
    fn there_is_a_bound_on_all_and_on_addresses() {
        let mut budget = Budget::new(LIMITS);
        let granted = (0..200).filter(|from| {
            matches!(
                budget.begin(Duration::ZERO, address(*from)),
                Leave::Granted(_)
            )
        });
        assert_eq!(granted.count(), LIMITS.open);
        for from in 0..100_000 {
            budget.begin(Duration::ZERO, address(from));
        }
        assert!(budget.addresses() <= ADDRESSES_MAX + 1);
    }
}
