//! Outgoing control packets, waiting to be polled.
//!
//! Control before data, always (R071, R112, R122): the outbox holds everything that is not fresh
//! data, in one queue per [`Reason`]. It is bounded; when a queue is full the packet is dropped
//! and counted, which is safe because every control message is repeated or replaced by its owner.

use std::collections::VecDeque;

use qsm_wire::{Coverage, seal};

use crate::Destination;
use crate::send::{TRAIN_BYTES_MAX, TRAIN_PACKETS_MAX};

/// Why a packet is sent. The order is the order of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Tokens, their receipts and summaries.
    Token,
    /// ACKs to senders: before membership, which may be this node's goodbye (R-MEM-14).
    Ack,
    /// Sessions, probes and solicitations.
    Membership,
    /// NAKs and pulls.
    Request,
    /// Heartbeats, queries and their answers.
    Status,
    /// Packets sent again.
    Repair,
    /// Fresh packets of a stream.
    Data,
}

impl Reason {
    /// All reasons, in the order of sending.
    pub const ALL: [Self; 7] = [
        Self::Token,
        Self::Ack,
        Self::Membership,
        Self::Request,
        Self::Status,
        Self::Repair,
        Self::Data,
    ];
}

/// Something to send: `bytes` cut into datagrams of `segment_bytes`, the last one possibly shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// Where to.
    pub to: Destination,
    /// One or more datagrams, end to end.
    pub bytes: &'a [u8],
    /// Length of each datagram but the last.
    pub segment_bytes: usize,
    /// What it is for.
    pub reason: Reason,
}

#[derive(Debug)]
struct QueuedDatagram {
    to: Destination,
    bytes: Vec<u8>,
}

/// Bounded queues of single datagrams, one per reason.
#[derive(Debug)]
pub struct Outbox {
    queues: [VecDeque<QueuedDatagram>; Reason::ALL.len()],
    /// Emptied buffers for reuse: no allocation in steady state (R144).
    spare: Vec<Vec<u8>>,
    sending: Vec<u8>,
    /// Repairs that leave together.
    train: Vec<u8>,
    dropped: u64,
}

impl Outbox {
    /// Most datagrams that wait under one reason. Enough for the repairs of one drained batch
    /// of NAKs; a queue this long at 1 Gbit/s is 12 ms.
    pub const QUEUE_MAX: usize = 1024;

    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self {
            queues: Default::default(),
            spare: Vec::new(),
            sending: Vec::new(),
            train: Vec::new(),
            dropped: 0,
        }
    }

    /// Queues the datagram that `fill` writes into the given empty buffer. A repair keeps the
    /// checksum that it has; others get theirs here.
    pub fn push(&mut self, reason: Reason, to: Destination, fill: impl FnOnce(&mut Vec<u8>)) {
        if self.queues[reason as usize].len() >= Self::QUEUE_MAX {
            self.dropped += 1;
            return;
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        fill(&mut bytes);
        if reason != Reason::Repair {
            seal(&mut bytes, Coverage::Whole);
        }
        self.queues[reason as usize].push_back(QueuedDatagram { to, bytes });
    }

    /// The next datagram, by priority (R-TOK-11, R-RATE-5), or the next repairs for one receiver.
    pub fn pop(&mut self) -> Option<Transmit<'_>> {
        let reason = Reason::ALL
            .into_iter()
            .find(|reason| !self.queues[*reason as usize].is_empty())?;
        let letter = self.queues[reason as usize].pop_front()?;
        let to = letter.to;
        let used = core::mem::replace(&mut self.sending, letter.bytes);
        self.recycle(used);
        let segment_bytes = self.sending.len();
        let bytes = match reason {
            Reason::Repair => self.join_repairs(to),
            _ => &self.sending,
        };
        Some(Transmit {
            to,
            bytes,
            segment_bytes,
            reason,
        })
    }

    /// Tells whether the datagram that [`Outbox::pop`] would return goes to one node.
    #[must_use]
    pub fn is_unicast(&self) -> bool {
        let mut waiting = self.queues.iter();
        let first = waiting.find_map(VecDeque::front);
        first.is_some_and(|next| !next.to.is_group())
    }

    /// The repair that is being sent, and those that follow for the same receiver: a train costs
    /// little more than one packet.
    fn join_repairs(&mut self, to: Destination) -> &[u8] {
        let segment = self.sending.len();
        self.train.clear();
        self.train.extend_from_slice(&self.sending);
        let mut shorter = false;
        for _ in 1..TRAIN_PACKETS_MAX {
            let waiting = &mut self.queues[Reason::Repair as usize];
            let length = waiting.front().map_or(0, |next| next.bytes.len());
            let fits = length <= segment && self.train.len() + length <= TRAIN_BYTES_MAX;
            if shorter || !fits || waiting.front().is_none_or(|next| next.to != to) {
                break;
            }
            let Some(next) = waiting.pop_front() else {
                break;
            };
            self.train.extend_from_slice(&next.bytes);
            self.recycle(next.bytes);
            // Only the last may be.
            shorter = length < segment;
        }
        &self.train
    }

    fn recycle(&mut self, used: Vec<u8>) {
        if used.capacity() > 0 && self.spare.len() < Self::QUEUE_MAX {
            self.spare.push(used);
        }
    }

    /// How many datagrams wait under this reason.
    #[must_use]
    pub fn waiting(&self, reason: Reason) -> usize {
        self.queues[reason as usize].len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Datagrams refused so far because their queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};

    use super::*;

    // Rule R-TOK-11.
    #[test]
    fn a_token_overtakes_everything_that_waits_and_an_ack_all_but_tokens() {
        let mut outbox = Outbox::new();
        let to = Destination::Node(SocketAddr::from(([10, 0, 0, 1], 9)));
        for (number, reason) in (0..).zip(Reason::ALL.into_iter().rev().chain([Reason::Token])) {
            outbox.push(reason, to, |bytes| bytes.push(number));
        }
        let mut sent = Vec::new();
        while let Some(next) = outbox.pop() {
            sent.push((next.reason, next.bytes[0]));
        }
        let first = [(Reason::Token, 6), (Reason::Token, 7), (Reason::Ack, 5)];
        assert_eq!(sent[..3], first);
        assert!(sent.is_sorted_by_key(|(reason, _)| *reason), "{sent:?}");
        assert_eq!(sent.len(), Reason::ALL.len() + 1);
    }

    /// The trains that these repairs leave in: receiver, and the lengths of their packets.
    fn trains(repairs: &[(u8, usize)]) -> Vec<(u8, Vec<usize>)> {
        let mut outbox = Outbox::new();
        for (host, length) in repairs {
            let to = Destination::Node(SocketAddr::from(([10, 0, 0, *host], 9)));
            outbox.push(Reason::Repair, to, |bytes| bytes.resize(*length, *host));
        }
        let mut trains = Vec::new();
        while let Some(next) = outbox.pop() {
            let IpAddr::V4(to) = next.to.address().ip() else {
                break;
            };
            let host = to.octets()[3];
            assert!(next.bytes.iter().all(|byte| *byte == host));
            let packets = next.bytes.chunks(next.segment_bytes);
            trains.push((host, packets.map(<[u8]>::len).collect()));
        }
        trains
    }

    // Rule R-NAK-12.
    #[test]
    fn repairs_for_one_receiver_leave_in_trains_of_equal_packets() {
        assert_eq!(
            trains(&[(1, 9), (1, 9), (1, 5), (1, 9), (2, 9), (2, 10), (1, 9)]),
            [
                (1, vec![9, 9, 5]),
                (1, vec![9]),
                (2, vec![9]),
                (2, vec![10]),
                (1, vec![9])
            ]
        );
        let small = trains(&[(3, 100); TRAIN_PACKETS_MAX + 1]);
        assert_eq!(small, [(3, vec![100; TRAIN_PACKETS_MAX]), (3, vec![100])]);
        let large = trains(&[(3, 9000); 10]);
        assert_eq!(large, [(3, vec![9000; 7]), (3, vec![9000; 3])]);
    }
}
