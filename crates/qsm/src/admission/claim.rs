//! What a node shows in its handshake: who it is, and its token or certificates.
//!
//! ```text
//!  | 1 | flags | node (8) | length | name | key for pairs (32), with flag 4 | token or certificates |
//! ```

use qsm_seal::PAIR_KEY_BYTES;
use qsm_wire::NodeId;

const VERSION: u8 = 1;
/// It looks, and is no member.
const OBSERVES: u8 = 1;
/// It has the key of an epoch: it was in before.
const RESUMES: u8 = 2;
/// It has a key for pairs; who only looks needs none.
const PAIRS: u8 = 4;

/// A node's word on itself, with its credential: a token, or certificates. That decides what of it is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim<'a> {
    pub(super) node: NodeId,
    pub(super) name: &'a str,
    pub(super) credential: &'a [u8],
    pub(super) observes: bool,
    pub(super) resumes: bool,
    pub(super) pair_key: Option<[u8; PAIR_KEY_BYTES]>,
}

impl<'a> Claim<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let flags = u8::from(self.observes) * OBSERVES + u8::from(self.resumes) * RESUMES;
        let flags = flags + u8::from(self.pair_key.is_some()) * PAIRS;
        let mut bytes = vec![VERSION, flags];
        bytes.extend_from_slice(&self.node.0.to_le_bytes());
        // Names of nodes are shorter.
        bytes.push(u8::try_from(self.name.len()).unwrap_or(0));
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend(self.pair_key.into_iter().flatten());
        bytes.extend_from_slice(self.credential);
        bytes
    }

    /// `None` for what is no claim.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let ([version, flags], rest) = bytes.split_first_chunk::<2>()?;
        let (node, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first()?;
        let (name, credential) = rest.split_at_checked(usize::from(*length))?;
        if *version != VERSION || flags & !(OBSERVES | RESUMES | PAIRS) != 0 {
            return None;
        }
        let (pair_key, credential) = match flags & PAIRS {
            0 => (None, credential),
            _ => {
                let (key, credential) = credential.split_first_chunk()?;
                (Some(*key), credential)
            }
        };
        Some(Self {
            node: NodeId(u64::from_le_bytes(*node)),
            name: core::str::from_utf8(name).ok()?,
            credential,
            observes: flags & OBSERVES != 0,
            resumes: flags & RESUMES != 0,
            pair_key,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_back_whole_or_not_at_all() {
        let pairs = Some([9; PAIR_KEY_BYTES]);
        for (observes, resumes, pair_key) in [
            (false, false, pairs),
            (true, false, None),
            (false, true, pairs),
        ] {
            let claim = Claim {
                node: NodeId(77),
                name: "press-7/a",
                credential: &[1, 2, 3],
                observes,
                resumes,
                pair_key,
            };
            let bytes = claim.encode();
            assert_eq!(Claim::decode(&bytes), Some(claim));
            let named = bytes.len() - 3;
            assert!((0..named).all(|length| Claim::decode(&bytes[..length]).is_none()));
            for (at, byte) in [(0, 2), (1, 8), (11, 0xff)] {
                let mut other = bytes.clone();
                other[at] = byte;
                assert_eq!(Claim::decode(&other), None);
            }
        }
    }
}
