//! Orders of a service to its members about epochs, and their receipts, as bytes for their session.
//!
//! ```text
//!  Offer     | 1 | epoch (8) | cipher | secret (32) |
//!  Ratchet   | 2 | epoch (8) | of (8) |
//!  Activate  | 3 | epoch (8) |
//!  receipt   | 4 | epoch (8) |
//! ```

use core::fmt;

use zeroize::Zeroizing;

use crate::key::{Cipher, ClusterKey, SECRET_BYTES};

/// Bytes of the longest order.
const BYTES_MAX: usize = 1 + 8 + 1 + SECRET_BYTES;

/// Number of an epoch, from 1. A later one has a higher number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An order of the service to a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EpochOrder {
    /// The key of an epoch to come. It is a secret: the session must be one that nobody else reads.
    Offer {
        /// The epoch.
        epoch: Epoch,
        /// Its key.
        key: ClusterKey,
    },
    /// The same for a member that can derive it.
    Ratchet {
        /// The epoch to come.
        epoch: Epoch,
        /// The epoch whose key it follows from.
        of: Epoch,
    },
    /// From now on packets are sealed in this epoch.
    Activate {
        /// The epoch.
        epoch: Epoch,
    },
}

/// A member's answer: it has the key of this epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochReceipt {
    /// The epoch.
    pub epoch: Epoch,
}

impl EpochOrder {
    /// As bytes for a session, wiped when they are dropped.
    #[must_use]
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let (kind, epoch) = match self {
            Self::Offer { epoch, .. } => (1, epoch),
            Self::Ratchet { epoch, .. } => (2, epoch),
            Self::Activate { epoch } => (3, epoch),
        };
        // Room for all of it: what a vector leaves behind when it grows is not wiped.
        let mut bytes = Zeroizing::new(Vec::with_capacity(BYTES_MAX));
        bytes.push(kind);
        bytes.extend_from_slice(&epoch.0.to_le_bytes());
        match self {
            Self::Offer { key, .. } => {
                bytes.push(key.cipher().code());
                bytes.extend_from_slice(key.secret());
            }
            Self::Ratchet { of, .. } => bytes.extend_from_slice(&of.0.to_le_bytes()),
            Self::Activate { .. } => {}
        }
        bytes
    }

    /// `None` for what is no order.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (epoch, rest) = epoch_of(rest)?;
        match (kind, rest) {
            (1, [code, secret @ ..]) => {
                let secret: [u8; SECRET_BYTES] = secret.try_into().ok()?;
                let cipher = Cipher::ALL.into_iter().find(|of| of.code() == *code)?;
                let key = ClusterKey::from_secret(cipher, secret);
                Some(Self::Offer { epoch, key })
            }
            (2, _) => match epoch_of(rest)? {
                (of, []) => Some(Self::Ratchet { epoch, of }),
                _ => None,
            },
            (3, []) => Some(Self::Activate { epoch }),
            _ => None,
        }
    }
}

impl EpochReceipt {
    /// As bytes for a session.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [&[4][..], &self.epoch.0.to_le_bytes()].concat()
    }

    /// `None` for what is no receipt.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [4, rest @ ..] => match epoch_of(rest)? {
                (epoch, []) => Some(Self { epoch }),
                _ => None,
            },
            _ => None,
        }
    }
}

fn epoch_of(bytes: &[u8]) -> Option<(Epoch, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    let number = u64::from_le_bytes(*number);
    (number > 0).then_some((Epoch(number), rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn orders(epoch: Epoch, of: Epoch) -> Vec<EpochOrder> {
        let offers = Cipher::ALL.map(|cipher| EpochOrder::Offer {
            epoch,
            key: ClusterKey::generate(cipher).unwrap(),
        });
        let others = [
            EpochOrder::Ratchet { epoch, of },
            EpochOrder::Activate { epoch },
        ];
        offers.into_iter().chain(others).collect()
    }

    proptest! {
        #[test]
        fn orders_and_receipts_are_read_back_whole_or_not_at_all(epoch in 1_u64.., of in 1_u64..) {
            let receipt = EpochReceipt { epoch: Epoch(epoch) };
            prop_assert_eq!(EpochReceipt::decode(&receipt.encode()), Some(receipt));
            prop_assert_eq!(EpochOrder::decode(&receipt.encode()), None);
            for order in orders(Epoch(epoch), Epoch(of)) {
                let bytes = order.encode();
                prop_assert!(bytes.len() <= BYTES_MAX);
                prop_assert_eq!(EpochOrder::decode(&bytes), Some(order));
                prop_assert_eq!(EpochReceipt::decode(&bytes), None);
                let longer = [&bytes[..], &[0]].concat();
                prop_assert_eq!(EpochOrder::decode(&longer), None);
                for length in 0..bytes.len() {
                    prop_assert_eq!(EpochOrder::decode(&bytes[..length]), None);
                }
            }
        }

        #[test]
        fn what_is_read_is_written_again_as_it_was(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some(order) = EpochOrder::decode(&bytes) {
                prop_assert_eq!(&**order.encode(), &bytes[..]);
            }
        }
    }

    #[test]
    fn nobody_sees_a_key_by_printing_an_order() {
        let key = ClusterKey::from_secret(Cipher::Aes256Gcm, [0xab; SECRET_BYTES]);
        let epoch = Epoch(1);
        let printed = format!("{:?}", EpochOrder::Offer { epoch, key });
        assert!(!printed.contains("abab") && !printed.contains("171, 171"));
    }
}
