//! A service's word on members: which keys they have, and where they are (R-SEC-16).
//!
//! ```text
//!  | 7 | for each: node (8) | key for pairs (32) | key of signatures (32) | 4 or 6 | address (4 or 16) | port (2) |
//! ```

use std::net::{IpAddr, SocketAddr};

use qsm_identity::NodePublic;
use qsm_seal::PAIR_KEY_BYTES;
use qsm_wire::NodeId;

const INTRODUCTIONS: u8 = 7;
/// Introductions in a word: as many as fit in what words of lists take.
pub(super) const IN_A_WORD: usize = 10;

/// Keys of a member that it has shown, or proven, in its handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MemberKeys {
    /// For pairs.
    pub(super) pair: [u8; PAIR_KEY_BYTES],
    /// It signs by this one.
    pub(super) signs: NodePublic,
}

/// A member, as the service knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Introduction {
    pub(super) node: NodeId,
    pub(super) keys: MemberKeys,
    /// Where its session comes from.
    pub(super) address: SocketAddr,
}

/// A word of these.
pub(super) fn encode(members: &[Introduction]) -> Vec<u8> {
    let mut word = vec![INTRODUCTIONS];
    for member in members {
        word.extend_from_slice(&member.node.0.to_le_bytes());
        word.extend_from_slice(&member.keys.pair);
        word.extend_from_slice(member.keys.signs.as_bytes());
        match member.address.ip() {
            IpAddr::V4(ip) => {
                word.push(4);
                word.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                word.push(6);
                word.extend_from_slice(&ip.octets());
            }
        }
        word.extend_from_slice(&member.address.port().to_le_bytes());
    }
    word
}

/// The members of a word; `None` for what is none.
pub(super) fn decode(word: &[u8]) -> Option<Vec<Introduction>> {
    let mut rest = word.strip_prefix(&[INTRODUCTIONS])?;
    let mut members = Vec::new();
    while !rest.is_empty() {
        members.push(read(&mut rest)?);
    }
    (!members.is_empty()).then_some(members)
}

fn read(rest: &mut &[u8]) -> Option<Introduction> {
    let node = NodeId(u64::from_le_bytes(take(rest)?));
    let (pair, signs) = (take(rest)?, NodePublic::from_bytes(take(rest)?));
    let ip = match take(rest)? {
        [4] => IpAddr::from(take::<4>(rest)?),
        [6] => IpAddr::from(take::<16>(rest)?),
        _ => return None,
    };
    let port = u16::from_le_bytes(take(rest)?);
    Some(Introduction {
        node,
        keys: MemberKeys { pair, signs },
        address: SocketAddr::new(ip, port),
    })
}

fn take<const BYTES: usize>(rest: &mut &[u8]) -> Option<[u8; BYTES]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A member of this number with keys of nobody.
    pub(in crate::admission) fn member(node: u64, address: &str) -> Introduction {
        Introduction {
            node: NodeId(node),
            keys: MemberKeys {
                pair: [7; PAIR_KEY_BYTES],
                signs: NodePublic::from_bytes([9; 32]),
            },
            address: address.parse().unwrap(),
        }
    }

    #[test]
    fn introductions_are_read_back_whole_or_not_at_all() {
        let members = [member(77, "127.0.0.1:9"), member(78, "[fd00::1]:4481")];
        let word = encode(&members);
        assert_eq!(decode(&word), Some(members.to_vec()));
        let first = encode(&members[..1]).len();
        for length in (0..word.len()).filter(|length| *length != first) {
            assert_eq!(decode(&word[..length]), None, "{length} bytes");
        }
        let mut other = word;
        other[73] = 5;
        assert_eq!(decode(&other), None);
        let full = [member(1, "[fd00::1]:4481"); IN_A_WORD];
        assert!(encode(&full).len() <= 1024);
    }
}
