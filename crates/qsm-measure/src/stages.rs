//! The stages of a message's way, seen by taps at the border to the kernel.
//!
//! ```text
//!   due ──► send() ──► handed to the kernel ~~~► read from the kernel ──► upcall
//!      late      handing                 network               delivering
//! ```
//!
//! Timed is the first message of each datagram. Between groups messages may overtake each other at
//! the sender, but not within one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use qsm::{Direction, Tapped};

use crate::clock::Clock;
use crate::latencies::Latencies;
use crate::message::{Stamp, all_stamps, first_stamp};

/// Arrivals that are remembered: far more than pass between a message and the next one, which
/// tells when it was handed over.
const ARRIVALS_MAX: usize = 1024;
/// Departures that wait to be told.
const UNTOLD_MAX: usize = ARRIVALS_MAX;
/// Messages known to be repaired and not yet delivered.
const REPAIRED_MAX: usize = 1 << 20;

/// A sender's side.
#[derive(Debug)]
pub(crate) struct Departures {
    clock: Clock,
    state: Mutex<Departed>,
}

#[derive(Debug)]
struct Departed {
    at: usize,
    /// The newest message that departed.
    newest: u64,
    /// Messages and when they were handed over, the newest at the end.
    untold: VecDeque<(u64, u64)>,
    handing: Latencies,
}

impl Departures {
    /// None yet.
    #[must_use]
    pub(crate) fn new(clock: Clock) -> Self {
        let departed = Departed {
            at: 0,
            newest: 0,
            untold: VecDeque::new(),
            handing: Latencies::new(),
        };
        Self {
            clock,
            state: Mutex::new(departed),
        }
    }

    /// The tap. What is sent again departed when it was sent first.
    pub(crate) fn see(&self, tapped: &Tapped<'_>) {
        if tapped.direction != Direction::Sent {
            return;
        }
        let handed = self.clock.at(tapped.at);
        let mut state = lock(&self.state);
        for datagram in tapped.datagrams() {
            let Some(stamp) = first_stamp(datagram, &mut state.at) else {
                continue;
            };
            if stamp.id > state.newest {
                state.newest = stamp.id;
                state.handing.record(handed.saturating_sub(stamp.called));
                if state.untold.len() == UNTOLD_MAX {
                    state.untold.pop_front();
                }
                state.untold.push_back((stamp.id, handed));
            }
        }
    }

    /// A message that departed, and when, to be told by another one; each is told once.
    pub(crate) fn untold(&self) -> Option<(u64, u64)> {
        lock(&self.state).untold.pop_front()
    }

    /// From the call to handing over.
    #[must_use]
    pub(crate) fn handing(&self) -> Latencies {
        lock(&self.state).handing.clone()
    }
}

/// A receiver's side.
#[derive(Debug)]
pub(crate) struct Arrivals {
    clock: Clock,
    state: Mutex<Arrived>,
}

#[derive(Debug)]
struct Arrived {
    at: usize,
    groups: u64,
    /// Messages and when they were read, the newest at the end.
    recent: VecDeque<(u64, u64)>,
    /// The newest message that came as data do, of each sender and group.
    newest: HashMap<(u16, u64), u64>,
    /// When the last datagram was read.
    read: u64,
    repaired: HashSet<u64>,
    network: Latencies,
    delivering: Latencies,
}

impl Arrivals {
    /// None yet; senders go round so many groups.
    #[must_use]
    pub(crate) fn new(clock: Clock, groups: u32) -> Self {
        let arrived = Arrived {
            at: 0,
            groups: groups.max(1).into(),
            recent: VecDeque::new(),
            newest: HashMap::new(),
            read: 0,
            repaired: HashSet::new(),
            network: Latencies::new(),
            delivering: Latencies::new(),
        };
        Self {
            clock,
            state: Mutex::new(arrived),
        }
    }

    /// The tap.
    pub(crate) fn see(&self, tapped: &Tapped<'_>) {
        if tapped.direction != Direction::Received {
            return;
        }
        let mut state = lock(&self.state);
        state.read = self.clock.at(tapped.at);
        for datagram in tapped.datagrams() {
            if let Some(stamp) = first_stamp(datagram, &mut state.at) {
                // Data is multicast by its sender; a repair may be, too.
                let from = tapped.group.map(|_| tapped.peer.port());
                state.take(stamp.id, from, datagram);
            }
        }
    }

    /// A message is delivered, now, by the datagram that the tap saw last. Says whether it had to
    /// be repaired.
    pub(crate) fn deliver(&self, stamp: &Stamp, now: u64) -> bool {
        let mut state = lock(&self.state);
        let delivering = now.saturating_sub(state.read);
        state.delivering.record(delivering);
        let earlier = state
            .recent
            .iter()
            .rposition(|(id, _)| *id == stamp.earlier);
        if let Some((_, read)) = earlier.and_then(|place| state.recent.remove(place)) {
            state.network.record(read.saturating_sub(stamp.handed));
        }
        state.repaired.remove(&stamp.id)
    }

    /// From handing over to reading, and from there to the upcall.
    #[must_use]
    pub(crate) fn stages(&self) -> (Latencies, Latencies) {
        let state = lock(&self.state);
        (state.network.clone(), state.delivering.clone())
    }
}

impl Arrived {
    /// A datagram came; `from` is the port that it was multicast from.
    fn take(&mut self, id: u64, from: Option<u16>, datagram: &[u8]) {
        if self.recent.len() == ARRIVALS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((id, self.read));
        let (tag, group) = (Stamp::tag(id), Stamp::index(id) % self.groups);
        let newest = self.newest.entry((tag, group)).or_default();
        if from == Some(tag) && id > *newest {
            *newest = id;
        } else if self.repaired.len() < REPAIRED_MAX {
            // To this node alone, from another one, or after its successors.
            self.repaired
                .extend(all_stamps(datagram).map(|stamp| stamp.id));
        }
    }
}

fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Noise;

    const PORT: u16 = 4242;

    fn stamp(index: u64) -> Stamp {
        Stamp {
            id: Stamp::id(PORT, index),
            earlier: index
                .checked_sub(1)
                .map_or(0, |earlier| Stamp::id(PORT, earlier)),
            handed: 1000 * index.saturating_sub(1),
            ..Stamp::default()
        }
    }

    /// A datagram with these messages.
    fn datagram(indices: &[u64]) -> Vec<u8> {
        let (noise, mut all) = (Noise::new(100), vec![0; 40]);
        for &index in indices {
            noise.write_stamped(&mut all, stamp(index), 0, 1, 100);
        }
        all
    }

    fn read(arrivals: &Arrivals, at: u64, from: Option<u16>, indices: &[u64]) {
        let mut state = lock(&arrivals.state);
        state.read = at;
        state.take(Stamp::id(PORT, indices[0]), from, &datagram(indices));
    }

    #[test]
    fn repaired_is_what_comes_late_from_another_node_or_for_this_one_alone() {
        let (sender, cacher, alone) = (Some(PORT), Some(99), None);
        // Two groups: the even messages and the odd ones.
        let arrivals = Arrivals::new(Clock::monotonic(), 2);
        read(&arrivals, 1, sender, &[1]);
        read(&arrivals, 2, sender, &[0]);
        read(&arrivals, 3, sender, &[4, 5]);
        read(&arrivals, 4, sender, &[2]);
        read(&arrivals, 5, cacher, &[3]);
        read(&arrivals, 6, alone, &[6, 7]);
        let repaired = (0..8).filter(|&index| arrivals.deliver(&stamp(index), 7));
        assert_eq!(repaired.collect::<Vec<_>>(), [2, 3, 6, 7]);
    }

    #[test]
    fn a_packet_is_timed_once_when_a_later_message_tells_when_it_left() {
        let arrivals = Arrivals::new(Clock::monotonic(), 1);
        for index in 0..3 {
            // Handed over at 1000 for each, read 70 later; delivered 5 after that.
            let at = 1000 * index + 70;
            read(&arrivals, at, Some(PORT), &[index]);
            for _ in 0..2 {
                arrivals.deliver(&stamp(index), at + 5);
            }
        }
        let (network, delivering) = arrivals.stages();
        assert_eq!((network.count(), network.max()), (2, Some(70)));
        assert_eq!((delivering.count(), delivering.max()), (6, Some(5)));
    }
}
