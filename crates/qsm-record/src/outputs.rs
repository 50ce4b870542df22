use core::fmt;
use std::net::IpAddr;

use qsm_proto::{Delivery, Miss, Promptness, Transmit};
use qsm_wire::{GroupId, Origin, mix};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What came out of a state machine after one input, as a digest: how many things, and a hash of
/// 64 bits over all of them in their order. Two that differ have the same hash once in 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outputs {
    /// Messages delivered, messages missed, names of groups, datagrams or trains, events, results.
    pub count: u64,
    /// The hash.
    pub hash: u64,
}

/// What is hashed, so that different things with the same bytes differ.
#[derive(Debug, Clone, Copy)]
enum Sort {
    Delivery,
    Name,
    Miss,
    Transmit,
    Event,
    Result,
    Ahead,
}

impl fmt::Display for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:016x})", self.count, self.hash)
    }
}

impl Outputs {
    /// Tells whether nothing came out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a message.
    pub(crate) fn deliver(&mut self, message: &Delivery<'_>) {
        let [node, life] = words(message.sender);
        let words = [message.group.0.into(), node, life, message.number];
        self.add(Sort::Delivery, &words, message.bytes);
    }

    /// Adds a message in another way than in order.
    pub(crate) fn deliver_promptly(&mut self, mode: Promptness, message: &Delivery<'_>) {
        self.add_shown(Sort::Ahead, &mode);
        self.deliver(message);
    }

    /// Adds what will not be delivered in another way than in order.
    pub(crate) fn miss_promptly(&mut self, mode: Promptness, miss: &Miss<'_>) {
        self.add_shown(Sort::Ahead, &mode);
        self.miss(miss);
    }

    /// Adds a group's name.
    pub(crate) fn name(&mut self, group: GroupId, name: &str) {
        self.add(Sort::Name, &[group.0.into()], name.as_bytes());
    }

    /// Adds what will not be delivered.
    pub(crate) fn miss(&mut self, miss: &Miss<'_>) {
        self.add_shown(Sort::Miss, miss);
    }

    /// Adds what is to be sent.
    pub(crate) fn transmit(&mut self, transmit: &Transmit<'_>) {
        let address = transmit.to.address();
        let ip = match address.ip() {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let words = [
            (ip >> 64) as u64,
            ip as u64,
            address.port().into(),
            transmit.to.is_group().into(),
            transmit.segment_bytes as u64,
            transmit.reason as u64,
        ];
        self.add(Sort::Transmit, &words, transmit.bytes);
    }

    /// Adds an event.
    pub(crate) fn event(&mut self, event: &qsm_proto::Event) {
        self.add_shown(Sort::Event, event);
    }

    /// Adds what a call has returned, if that is a number.
    pub(crate) fn number(&mut self, number: u64) {
        self.add(Sort::Result, &[number], &[]);
    }

    /// Adds what a call has returned.
    pub(crate) fn result(&mut self, result: &impl fmt::Debug) {
        self.add_shown(Sort::Result, result);
    }

    /// Adds something rare, by its form for debugging.
    fn add_shown(&mut self, sort: Sort, what: &impl fmt::Debug) {
        let text = format!("{what:?}");
        self.add(sort, &[], text.as_bytes());
    }

    fn add(&mut self, sort: Sort, words: &[u64], bytes: &[u8]) {
        let seed = mix(self.hash ^ (sort as u64 + 1));
        let seed = words.iter().fold(seed, |seed, word| mix(seed ^ word));
        self.hash = xxh3_64_with_seed(bytes, seed);
        self.count += 1;
    }
}

fn words(origin: Origin) -> [u64; 2] {
    [origin.node.0, origin.incarnation.0.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_message_and_its_place_counts() {
        let message = |group, number, bytes| Delivery {
            group: GroupId(group),
            sender: Origin::default(),
            number,
            bytes,
        };
        let of = |messages: &[Delivery<'_>]| {
            let mut outputs = Outputs::default();
            messages.iter().for_each(|message| outputs.deliver(message));
            outputs
        };
        let (a, b) = (message(1, 1, b"a"), message(1, 2, b"a"));
        let all = [
            of(&[]),
            of(&[a]),
            of(&[b]),
            of(&[a, b]),
            of(&[b, a]),
            of(&[message(2, 1, b"a")]),
            of(&[message(1, 1, b"b")]),
            of(&[message(1, 1, b"")]),
        ];
        for (place, outputs) in all.iter().enumerate() {
            assert!(!all[..place].contains(outputs), "{place}: {outputs}");
        }
        assert_eq!(of(&[a, b]), of(&[a, b]));
    }
}
