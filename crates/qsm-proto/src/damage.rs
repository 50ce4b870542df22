//! Datagrams that have changed on their way: who sent them, told at once and then rarely (R-PKT-8).

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;

use crate::Instant;

/// Pause between two words about damage that goes on.
const AGAIN: Duration = Duration::from_secs(10);
/// Addresses named.
const SENDERS_MAX: usize = 8;

/// Datagrams that arrived damaged or cut short, and were dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Their number since it was told before.
    pub datagrams: u64,
    /// Where they came from, as far as their sender's address is whole; 8 at most. One: the fault is
    /// rather at its side; several: at this one.
    pub senders: Vec<SocketAddr>,
    /// Some came from further addresses.
    pub more: bool,
}

/// One line for people, without a full stop.
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} damaged datagrams dropped, from ", self.datagrams)?;
        for (at, sender) in self.senders.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{sender}")?;
        }
        f.write_str(if self.more { " and others" } else { "" })
    }
}

/// Damaged datagrams that are to be told.
#[derive(Debug, Default)]
pub struct DamageLog {
    told: Option<Instant>,
    untold: Damage,
}

impl DamageLog {
    /// A damaged datagram came from there. `Some`: this is to be told now, at most every 10 seconds.
    pub fn note(&mut self, now: Instant, from: SocketAddr) -> Option<Damage> {
        let untold = &mut self.untold;
        untold.datagrams += 1;
        if !untold.senders.contains(&from) {
            match untold.senders.len() < SENDERS_MAX {
                true => untold.senders.push(from),
                false => untold.more = true,
            }
        }
        if self.told.is_some_and(|told| now.since(told) < AGAIN) {
            return None;
        }
        self.told = Some(now);
        Some(core::mem::take(untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 4484))
    }

    #[test]
    fn the_first_is_told_at_once_and_the_others_together() {
        let mut log = DamageLog::default();
        let start = Instant(5_000_000);
        let first = log.note(start, sender(1)).expect("the first is told");
        assert_eq!((first.datagrams, first.senders), (1, vec![sender(1)]));
        for host in 1..=10 {
            assert_eq!(log.note(start.after(AGAIN / 2), sender(host)), None);
        }
        let next = log.note(start.after(AGAIN), sender(2)).expect("10 s later");
        assert_eq!(next.datagrams, 11);
        assert_eq!((next.senders.len(), next.more), (SENDERS_MAX, true));
    }

    #[test]
    fn it_is_a_line_for_people() {
        let damage = Damage {
            datagrams: 3,
            senders: vec![sender(1), sender(2)],
            more: false,
        };
        let line = "3 damaged datagrams dropped, from 10.0.0.1:4484, 10.0.0.2:4484";
        assert_eq!(damage.to_string(), line);
    }
}
