//! Packets for all that their maker signs: every member reads them, and nobody makes them in another's name (R-SEC-17).
//!
//! ```text
//!  | header, 24 bytes | content   signature (64) | tag | counter |
//!                       \------- encrypted -----/
//! ```

use qsm_identity::{NodeKey, NodePublic};
use qsm_wire::{
    CHECKSUM_AT, Coverage, FLAGS_AT, HEADER_BYTES, NodeId, SEALED, SIGNATURE_BYTES, seal,
};

use crate::key::{ClusterKey, KeyId, SECRET_BYTES, expand};
use crate::layout::{Form, authenticated, counter_of};
use crate::maker::maker_of;
use crate::open::{OpenError, Opener};
use crate::order::Epoch;
use crate::seal::{SealError, Sealer};
use crate::window::Windows;

/// A word that no other message signed by a node's key begins with.
const CONTEXT: &[u8] = b"quicksilver packet 1\0";

/// A packet that some member made, and perhaps not the one that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unproven {
    epoch: Epoch,
    maker: NodeId,
    counter: u64,
    /// Length with the signature.
    length: usize,
}

impl Unproven {
    /// The member that it names.
    #[must_use]
    pub fn maker(&self) -> NodeId {
        self.maker
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }
}

/// What is signed in one epoch, and of whom what has come.
#[derive(Debug)]
pub(crate) struct SignedPackets {
    number: KeyId,
    /// Stands for the epoch: a signature is of no use in another one.
    epoch: [u8; SECRET_BYTES],
    windows: Windows,
}

impl SignedPackets {
    pub(crate) fn new(key: &ClusterKey) -> Self {
        let mut epoch = [0; SECRET_BYTES];
        // So few bytes can always be had.
        let derived = expand(&key.extract(), &[b"signed"], &mut epoch);
        debug_assert!(derived.is_some());
        Self {
            number: key.id(),
            epoch,
            windows: Windows::default(),
        }
    }

    /// The bytes that a maker signs.
    fn message(&self, packet: &[u8], counter: u64) -> Vec<u8> {
        let (head, content) = packet.split_at(HEADER_BYTES);
        let (mut head, head_bytes) = authenticated(head);
        head[FLAGS_AT] = SEALED;
        head[CHECKSUM_AT].copy_from_slice(&self.number.0.to_le_bytes());
        [
            CONTEXT,
            &self.epoch,
            &counter.to_le_bytes(),
            &head[..head_bytes],
            content,
        ]
        .concat()
    }

    /// Appends a packet that is not data, signed and sealed.
    pub(crate) fn seal(
        &self,
        sealer: &mut Sealer,
        own: &NodeKey,
        datagram: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        if datagram.len() < HEADER_BYTES {
            return Err(SealError::Short);
        }
        if Form::of(datagram) == Form::Data {
            return Err(SealError::Refused);
        }
        let signature = own.sign(&self.message(datagram, sealer.counter()));
        sealer.seal(&[datagram, &signature].concat(), out)
    }

    /// Opens a packet by the key of the epoch, if it has not been taken before.
    pub(crate) fn open(
        &self,
        opener: &mut Opener,
        epoch: Epoch,
        datagram: &mut [u8],
    ) -> Result<Unproven, OpenError> {
        if datagram.len() < HEADER_BYTES + SIGNATURE_BYTES + Form::Control.tail_bytes() {
            return Err(OpenError::Short);
        }
        let (maker, counter) = (maker_of(datagram).node, counter_of(datagram));
        if !self.windows.is_new(maker, counter) {
            return Err(OpenError::Replayed);
        }
        let length = opener.open_again(datagram)?;
        Ok(Unproven {
            epoch,
            maker,
            counter,
            length,
        })
    }

    /// Length of the packet without its signature, if its maker has this key.
    pub(crate) fn prove(
        &mut self,
        packet: &Unproven,
        maker: &NodePublic,
        datagram: &mut [u8],
    ) -> Result<usize, OpenError> {
        let Unproven { maker: node, .. } = *packet;
        if !self.windows.is_new(node, packet.counter) {
            return Err(OpenError::Replayed);
        }
        let length = packet.length - SIGNATURE_BYTES;
        let (plain, signature) = datagram[..packet.length].split_at(length);
        let message = self.message(plain, packet.counter);
        if !maker.verifies(&message, signature) {
            return Err(OpenError::Forged);
        }
        self.windows.note(node, packet.counter);
        seal(&mut datagram[..length], Coverage::Head);
        Ok(length)
    }
}
