//! What a node shows in its handshake: who it is, and its token.
//!
//! ```text
//!  | 1 | flags | node (8) | length | name | token |
//! ```

use qsm_wire::NodeId;

const VERSION: u8 = 1;
/// It looks, and is no member.
const OBSERVES: u8 = 1;
/// It has the key of an epoch: it was in before.
const RESUMES: u8 = 2;

/// A node's word on itself, with its token. The token decides what of it is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim<'a> {
    pub(super) node: NodeId,
    pub(super) name: &'a str,
    pub(super) token: &'a [u8],
    pub(super) observes: bool,
    pub(super) resumes: bool,
}

impl<'a> Claim<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let flags = u8::from(self.observes) * OBSERVES + u8::from(self.resumes) * RESUMES;
        let mut bytes = vec![VERSION, flags];
        bytes.extend_from_slice(&self.node.0.to_le_bytes());
        // Names of nodes are shorter.
        bytes.push(u8::try_from(self.name.len()).unwrap_or(0));
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend_from_slice(self.token);
        bytes
    }

    /// `None` for what is no claim.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let ([version, flags], rest) = bytes.split_first_chunk::<2>()?;
        let (node, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first()?;
        let (name, token) = rest.split_at_checked(usize::from(*length))?;
        if *version != VERSION || flags & !(OBSERVES | RESUMES) != 0 {
            return None;
        }
        Some(Self {
            node: NodeId(u64::from_le_bytes(*node)),
            name: core::str::from_utf8(name).ok()?,
            token,
            observes: flags & OBSERVES != 0,
            resumes: flags & RESUMES != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_back_whole_or_not_at_all() {
        for (observes, resumes) in [(false, false), (true, false), (false, true)] {
            let claim = Claim {
                node: NodeId(77),
                name: "press-7/a",
                token: &[1, 2, 3],
                observes,
                resumes,
            };
            let bytes = claim.encode();
            assert_eq!(Claim::decode(&bytes), Some(claim));
            let named = bytes.len() - 3;
            assert!((0..named).all(|length| Claim::decode(&bytes[..length]).is_none()));
            for (at, byte) in [(0, 2), (1, 4), (11, 0xff)] {
                let mut other = bytes.clone();
                other[at] = byte;
                assert_eq!(Claim::decode(&other), None);
            }
        }
    }
}
