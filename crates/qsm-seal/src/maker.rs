//! The keys of each packet's maker.

use core::fmt;
use std::collections::HashMap;

use aws_lc_rs::hkdf::Prk;
use qsm_wire::{Incarnation, NodeId, Origin};
use zeroize::Zeroizing;

use crate::aead::PacketKey;
use crate::key::{Cipher, ClusterKey, KeyId, SECRET_BYTES, expand};
use crate::layout::Form;

/// Most makers whose keys are kept; where there are more, all are forgotten and derived again.
pub(crate) const MAKERS_MAX: usize = 1 << 16;
const MAKER: core::ops::Range<usize> = 8..20;

/// The keys of one life of a node.
pub(crate) struct MakerKeys {
    data: PacketKey,
    control: PacketKey,
}

impl MakerKeys {
    pub(crate) fn of(&self, form: Form) -> &PacketKey {
        match form {
            Form::Data => &self.data,
            Form::Control => &self.control,
        }
    }
}

impl fmt::Debug for MakerKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakerKeys")
    }
}

/// Derives the keys of makers.
pub(crate) struct Deriver {
    secret: Prk,
    cipher: Cipher,
    id: KeyId,
}

impl Deriver {
    pub(crate) fn new(key: &ClusterKey) -> Self {
        Self {
            secret: key.extract(),
            cipher: key.cipher(),
            id: key.id(),
        }
    }

    /// Number of the key that all are derived from.
    pub(crate) fn id(&self) -> KeyId {
        self.id
    }

    /// `None` if the library refuses, which it does not for keys of this length.
    pub(crate) fn keys(&self, maker: Origin) -> Option<MakerKeys> {
        Some(MakerKeys {
            data: self.key(b"data", maker)?,
            control: self.key(b"control", maker)?,
        })
    }

    fn key(&self, usage: &[u8], maker: Origin) -> Option<PacketKey> {
        let node = maker.node.0.to_le_bytes();
        let incarnation = maker.incarnation.0.to_le_bytes();
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        expand(&self.secret, &[usage, &node, &incarnation], &mut *bytes)?;
        PacketKey::new(self.cipher, &bytes)
    }
}

impl fmt::Debug for Deriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deriver({})", self.id)
    }
}

/// Makers and what is known of each.
pub(crate) type Makers<T> = HashMap<Origin, T>;

/// The maker that a header names. The header is whole.
pub(crate) fn maker_of(datagram: &[u8]) -> Origin {
    let mut bytes = [0; 12];
    bytes.copy_from_slice(&datagram[MAKER]);
    let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
    Origin {
        node: NodeId(u64::from_le_bytes([a, b, c, d, e, f, g, h])),
        incarnation: Incarnation(u32::from_le_bytes([i, j, k, l])),
    }
}
