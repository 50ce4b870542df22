//! What messages contain: a function of (group, sender, number), so that a receiver's checker can
//! tell a true message from an invented or damaged one without the sender's help.

use qsm_proto::{Random, Seed, mix};
use qsm_wire::Origin;

/// How long messages are. The shares are in per cent and are taken in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Share of messages of 0 to 200 bytes, per cent.
    pub small_percent: u32,
    /// Share of messages of about a packet, per cent.
    pub packet_percent: u32,
    /// Share of messages of 2 to 20 packets, per cent; the rest is up to `max_bytes`.
    pub large_percent: u32,
    /// Longest message, bytes.
    pub max_bytes: u32,
}

impl Sizes {
    /// Mostly small messages; one in a hundred is as long as 100 kB.
    pub const MIX: Self = Self {
        small_percent: 80,
        packet_percent: 14,
        large_percent: 5,
        max_bytes: 100_000,
    };

    /// Only messages of at most 200 bytes.
    pub const SMALL: Self = Self {
        small_percent: 100,
        packet_percent: 0,
        large_percent: 0,
        max_bytes: 200,
    };
}

/// Names a message: everything else follows from this number.
#[must_use]
pub fn key(group: usize, sender: Origin, number: u64) -> u64 {
    let group = mix(group as u64 ^ 0x6772_6f75_7000);
    let node = mix(sender.node.0 ^ u64::from(sender.incarnation.0).rotate_left(32));
    mix(group ^ node.rotate_left(17) ^ mix(number))
}

/// How long the message of this key is, bytes.
#[must_use]
pub fn length(sizes: Sizes, key: u64) -> usize {
    let mut random = Random::new(Seed(key), "length");
    let draw = random.below(100);
    let small = u64::from(sizes.small_percent);
    let packet = small + u64::from(sizes.packet_percent);
    let large = packet + u64::from(sizes.large_percent);
    let length = if draw < small {
        random.below(201)
    } else if draw < packet {
        1000 + random.below(1000)
    } else if draw < large {
        2000 + random.below(26_000)
    } else {
        random.below(u64::from(sizes.max_bytes) + 1)
    };
    usize::try_from(length.min(u64::from(sizes.max_bytes))).unwrap_or(0)
}

/// Eight bytes of a message after these.
fn next(word: u64) -> u64 {
    mix(word.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// Replaces `out` by the message of this key.
pub fn fill(key: u64, length: usize, out: &mut Vec<u8>) {
    out.resize(length, 0);
    let mut word = key;
    let (chunks, rest) = out.as_chunks_mut::<8>();
    for chunk in chunks {
        word = next(word);
        *chunk = word.to_le_bytes();
    }
    rest.copy_from_slice(&next(word).to_le_bytes()[..rest.len()]);
}

/// Whether these bytes are the message of this key.
#[must_use]
pub fn matches(key: u64, bytes: &[u8]) -> bool {
    let mut word = key;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        word = next(word);
        if u64::from_le_bytes(*chunk) != word {
            return false;
        }
    }
    rest == &next(word).to_le_bytes()[..rest.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm_wire::{Incarnation, NodeId};

    #[test]
    fn a_message_is_known_by_its_bytes() {
        let sender = Origin {
            node: NodeId(5),
            incarnation: Incarnation(1),
        };
        let mut bytes = Vec::new();
        for number in 1..200 {
            let key = key(3, sender, number);
            let length = length(Sizes::MIX, key);
            fill(key, length, &mut bytes);
            assert_eq!(bytes.len(), length);
            assert!(matches(key, &bytes));
            if length > 8 {
                bytes[length / 2] ^= 1;
                assert!(!matches(key, &bytes));
            }
        }
        assert_ne!(key(3, sender, 1), key(4, sender, 1));
    }
}
