//! The gateway's word on itself, in the description of its node: for `qsm nodes` and `qsm explain`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use qsm::Node;
use rustix::time::{ClockId, clock_gettime};

use super::account::{Accounts, SiteBooks};
use crate::commands::sites::{GatewayState, LinkState, OtherSite, OutwardState};

/// Time between two words. The node passes on every second one, if it differs.
const INTERVAL: Duration = Duration::from_secs(1);
/// Looks over which rates are told: 10 s.
const LOOKS: usize = 10;

/// Describes the gateway.
pub(super) struct Portrait {
    site: String,
    groups: Vec<String>,
    node: Node,
    accounts: Accounts,
    looks: VecDeque<Look>,
}

/// Counters at one time.
struct Look {
    at: Instant,
    cpu: Duration,
    out: Totals,
    links: Vec<Totals>,
}

/// Counts of a way so far.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    packets: u64,
    repaired: u64,
    messages: u64,
    bytes: u64,
}

impl Portrait {
    pub(super) fn new(site: &str, groups: &[String], node: &Node, accounts: &Accounts) -> Self {
        Self {
            site: site.to_owned(),
            groups: groups.to_vec(),
            node: node.clone(),
            accounts: accounts.clone(),
            looks: VecDeque::new(),
        }
    }

    /// Describes the gateway anew, if that is due.
    pub(super) fn turn(&mut self) {
        let newest = self.looks.back();
        if newest.is_some_and(|newest| newest.at.elapsed() < INTERVAL) {
            return;
        }
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
        self.looks.push_back(self.look());
        let text = self.state().describe();
        // It has room for it, and nobody else is to be told.
        self.node.describe(text).ok();
    }

    fn look(&self) -> Look {
        let (source, traffic) = self.accounts.source.newest().parts();
        let out = Totals {
            packets: source.sent,
            repaired: source.repairs_sent,
            messages: self.accounts.counts.read().messages_forwarded,
            bytes: traffic,
        };
        Look {
            at: Instant::now(),
            cpu: cpu_time(),
            out,
            links: self.accounts.receivers.iter().map(link_totals).collect(),
        }
    }

    fn state(&self) -> GatewayState {
        let mut state = GatewayState::new(&self.site, &self.groups);
        let (Some(first), Some(last)) = (self.looks.front(), self.looks.back()) else {
            return state;
        };
        let time = last.at - first.at;
        let (source, _) = self.accounts.source.newest().parts();
        let out = last.out.since(&first.out, time);
        let cpu = last.cpu.saturating_sub(first.cpu);
        state.cpu_us = narrow(per_second(micros(cpu), time));
        state.out = OutwardState {
            gateways: self.accounts.audience.load(Ordering::Relaxed),
            round_trip_us: narrow(source.round_trip_us),
            loss_ppm: out.loss_ppm(),
            messages: out.messages,
            bytes: out.bytes,
        };
        let mut links = BTreeMap::<&str, Vec<LinkState>>::new();
        let totals = last.links.iter().zip(&first.links);
        for (books, (last, first)) in self.accounts.receivers.iter().zip(totals) {
            let link = link_state(books, last.since(first, time));
            links.entry(&books.site).or_default().push(link);
        }
        let from = links.into_iter().map(|(site, links)| {
            let (_, standby) = self.accounts.turns.stats(site);
            OtherSite {
                site: site.to_owned(),
                publishes: standby.active > 0,
                kept_bytes: rounded(standby.kept_bytes),
                links,
            }
        });
        state.from = from.collect();
        state
    }
}

fn link_totals(books: &SiteBooks) -> Totals {
    let (receiver, traffic) = books.books.newest().parts();
    let needed = receiver.repairs_received - receiver.repairs_unneeded;
    Totals {
        packets: receiver.delivered + receiver.lost,
        repaired: needed + receiver.lost,
        messages: books.gate.read().messages,
        bytes: traffic,
    }
}

fn link_state(books: &SiteBooks, rates: Totals) -> LinkState {
    let gate = books.gate.read();
    LinkState {
        at: books.gateway,
        reach: gate.reach(),
        round_trip_us: narrow(gate.round_trip_us),
        loss_ppm: rates.loss_ppm(),
        messages: rates.messages,
        bytes: rates.bytes,
    }
}

impl Totals {
    /// Rates of messages and bytes, and packets, since then.
    fn since(&self, before: &Self, time: Duration) -> Self {
        Self {
            packets: self.packets.saturating_sub(before.packets),
            repaired: self.repaired.saturating_sub(before.repaired),
            messages: per_second(self.messages.saturating_sub(before.messages), time),
            bytes: per_second(self.bytes.saturating_sub(before.bytes), time),
        }
    }

    /// Share of packets that were repaired, or are lost, of a million.
    fn loss_ppm(&self) -> u32 {
        let share = self.repaired.saturating_mul(1_000_000) / self.packets.max(1);
        narrow(share.min(1_000_000))
    }
}

fn per_second(number: u64, time: Duration) -> u64 {
    let time = micros(time);
    match time {
        0 => 0,
        time => rounded(number.saturating_mul(1_000_000) / time),
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// With two digits, so that what hardly changes is not said again.
fn rounded(number: u64) -> u64 {
    let unit = 10_u64.pow(number.checked_ilog10().unwrap_or(0).saturating_sub(1));
    number / unit * unit
}

fn narrow(number: u64) -> u32 {
    u32::try_from(rounded(number)).unwrap_or(u32::MAX)
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_two_digits_and_losses_are_shares() {
        let before = Totals::default();
        let now = Totals {
            packets: 1000,
            repaired: 5,
            messages: 12_345,
            bytes: 999,
        };
        let rates = now.since(&before, Duration::from_secs(10));
        assert_eq!((rates.messages, rates.bytes), (1200, 99));
        assert_eq!(rates.loss_ppm(), 5000);
        assert_eq!(now.since(&before, Duration::ZERO).messages, 0);
        assert_eq!(before.loss_ppm(), 0);
        assert_eq!(
            [0, 9, 10, 99, 101, u64::MAX].map(rounded)[..5],
            [0, 9, 10, 99, 100]
        );
    }
}
