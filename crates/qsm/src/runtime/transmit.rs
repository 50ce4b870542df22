//! From the protocol to the socket. What the send buffer has no room for is kept and goes first
//! when there is room again; nothing is overtaken and no control packet is lost here.

use std::time::{self, Duration};

use qsm_net::{Ports, SendError, Sent};
use qsm_proto::{CopiesLeft, Destination, Instant, Transmit};
use qsm_record::Recorded;

use crate::runtime::tap::{Direction, Tap, Tapped};
use crate::stats::RuntimeStats;

/// Datagrams or trains sent in one turn; then receiving goes first again. Trains of 64 KiB at
/// 4 GB/s: 1 ms.
const TRAINS_PER_TURN: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Transmitter {
    held: Vec<u8>,
    held_for: Option<(Destination, usize)>,
    /// Copies wait for room in the send buffer where they were polled.
    copies_wait: bool,
    more: bool,
    /// Since when the send buffer has had no room.
    blocked_since: Option<Instant>,
    /// The longest time of that which is over, since it was taken.
    blocked: Duration,
    stats: RuntimeStats,
    tap: Option<Tap>,
}

/// Something that has datagrams to send.
pub(crate) trait Poll {
    fn poll(&mut self, now: Instant) -> Option<Transmit<'_>>;

    /// Copies of what was polled last, at once.
    fn copies(&mut self) -> Option<CopiesLeft<'_>> {
        None
    }
}

impl Poll for Recorded {
    fn poll(&mut self, now: Instant) -> Option<Transmit<'_>> {
        self.poll_transmit(now)
    }

    fn copies(&mut self) -> Option<CopiesLeft<'_>> {
        self.poll_copies()
    }
}

impl Transmitter {
    /// Shows what it sends to the tap, if there is one.
    pub(crate) fn new(tap: Option<Tap>) -> Self {
        Self {
            tap,
            ..Self::default()
        }
    }

    /// Sends what there is, up to the quantum. Returns the bytes of it, as far as the kernel took
    /// them at once.
    pub(crate) fn run(&mut self, now: Instant, from: &mut impl Poll, port: &mut Ports) -> usize {
        let taken = self.send(now, from, port);
        match self.held_for.is_some() || self.copies_wait {
            true => _ = self.blocked_since.get_or_insert(now),
            false => {
                if let Some(since) = self.blocked_since.take() {
                    self.blocked = self.blocked.max(now.since(since));
                }
            }
        }
        taken
    }

    /// The longest time for which the send buffer had no room, since this was asked last.
    pub(crate) fn take_blocked(&mut self, now: Instant) -> Duration {
        let since = self.blocked_since;
        let so_far = since.map_or(Duration::ZERO, |since| now.since(since));
        core::mem::take(&mut self.blocked).max(so_far)
    }

    fn send(&mut self, now: Instant, from: &mut impl Poll, port: &mut Ports) -> usize {
        let mut taken = 0;
        self.more = true;
        if !self.send_held(port) || self.copies_wait && !port.writable() {
            return taken;
        }
        self.copies_wait = false;
        for _ in 0..TRAINS_PER_TURN {
            if port.clones_copies()
                && let Some(copies) = from.copies()
            {
                taken += self.send_copies(copies, port);
                if self.copies_wait {
                    break;
                }
                continue;
            }
            let Some(transmit) = from.poll(now) else {
                self.more = false;
                break;
            };
            let to = transmit.to;
            let (bytes, segment_bytes) = (transmit.bytes, transmit.segment_bytes);
            match hand_over(self.tap.as_ref(), port, to, bytes, segment_bytes) {
                Ok(_) => taken += bytes.len(),
                Err(SendError::WouldBlock { sent }) => {
                    taken += sent.bytes;
                    self.stats.send_blocked += 1;
                    self.held.clear();
                    self.held.extend_from_slice(&bytes[sent.bytes..]);
                    self.held_for = Some((to, segment_bytes));
                    break;
                }
                // Lost, like a packet on the wire; the port counts by kind.
                Err(_) => self.stats.send_failed += 1,
            }
        }
        taken
    }

    /// Sends copies to many at once; returns the bytes that the kernel took. Those that it had no room for stay where
    /// they are.
    fn send_copies(&mut self, copies: CopiesLeft<'_>, port: &mut Ports) -> usize {
        let CopiesLeft {
            to,
            bytes,
            segment_bytes,
        } = copies;
        let before = self
            .tap
            .is_some()
            .then(|| (time::Instant::now(), to.clone()));
        let result = port.send_copies(to, bytes, segment_bytes);
        self.copies_wait = !to.is_empty();
        self.stats.send_blocked += u64::from(self.copies_wait);
        if let (Some(tap), Some((at, asked))) = (&self.tap, before) {
            for peer in asked.iter().filter(|peer| !to.contains(peer)) {
                show(tap, at, Destination::Node(*peer), bytes, segment_bytes);
            }
        }
        result.unwrap_or_else(|_| {
            self.stats.send_failed += 1;
            0
        })
    }

    /// Whether there may be more to send now, or when the socket has room.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// Counters of sends that did not go at once.
    pub(crate) fn stats(&self) -> RuntimeStats {
        self.stats
    }

    fn send_held(&mut self, port: &mut Ports) -> bool {
        let Some((to, segment_bytes)) = self.held_for else {
            return true;
        };
        if !port.writable() {
            return false;
        }
        match hand_over(self.tap.as_ref(), port, to, &self.held, segment_bytes) {
            Ok(_) => {}
            Err(SendError::WouldBlock { sent }) => {
                self.held.drain(..sent.bytes);
                return false;
            }
            Err(_) => self.stats.send_failed += 1,
        }
        self.held_for = None;
        true
    }
}

/// Gives a train to the kernel, and shows what it took.
fn hand_over(
    tap: Option<&Tap>,
    port: &mut Ports,
    to: Destination,
    bytes: &[u8],
    segment_bytes: usize,
) -> Result<Sent, SendError> {
    let Some(tap) = tap else {
        return port.send(to.address(), bytes, segment_bytes);
    };
    let at = time::Instant::now();
    let result = port.send(to.address(), bytes, segment_bytes);
    let sent = match &result {
        Ok(_) => bytes.len(),
        Err(error) => error.sent().bytes,
    };
    if sent > 0 {
        show(tap, at, to, &bytes[..sent], segment_bytes);
    }
    result
}

/// Shows a train that has left.
fn show(tap: &Tap, at: time::Instant, to: Destination, bytes: &[u8], segment_bytes: usize) {
    tap.tell(Tapped {
        at,
        direction: Direction::Sent,
        peer: to.address(),
        group: to.is_group().then_some(to.address()),
        bytes,
        segment_bytes,
    });
}
