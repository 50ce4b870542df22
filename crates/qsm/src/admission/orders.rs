//! Words about the end of a session, beside those about epochs.
//!
//! ```text
//!  | 5 | cause | reason |
//! ```

use zeroize::Zeroizing;

const KIND: u8 = 5;

/// A service's word that a session is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Over {
    /// The node may shake hands again.
    Again,
    /// The node is shut out, for this reason.
    Expelled(String),
}

impl Over {
    pub(super) fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(vec![KIND]);
        match self {
            Self::Again => bytes.push(1),
            Self::Expelled(reason) => {
                bytes.push(2);
                bytes.extend_from_slice(reason.as_bytes());
            }
        }
        bytes
    }

    /// `None` for what is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [KIND, 1] => Some(Self::Again),
            [KIND, 2, reason @ ..] => {
                let reason = core::str::from_utf8(reason).ok()?;
                Some(Self::Expelled(reason.to_owned()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use qsm_seal::{EpochOrder, EpochReceipt};

    use super::*;

    #[test]
    fn ends_are_read_back_and_are_nothing_else() {
        for over in [Over::Again, Over::Expelled("it was revoked".to_owned())] {
            let bytes = over.encode();
            assert_eq!(Over::decode(&bytes), Some(over));
            assert_eq!(EpochOrder::decode(&bytes), None);
            assert_eq!(EpochReceipt::decode(&bytes), None);
        }
        for bytes in [&[][..], &[KIND], &[KIND, 1, 0], &[KIND, 2, 0xff], &[4, 1]] {
            assert_eq!(Over::decode(bytes), None);
        }
    }
}
