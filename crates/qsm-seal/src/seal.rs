//! Packets that leave are sealed (R-SEC-2, R-SEC-3).

use core::fmt;
use std::collections::hash_map::Entry;

use qsm_wire::{CHECKSUM_AT, FLAGS_AT, NodeId, SEALED};

use crate::key::{ClusterKey, KeyId};
use crate::layout::{Form, authenticated, control_nonce, data_nonce};
use crate::maker::{Deriver, MAKERS_MAX, MakerKeys, Makers, maker_of};

/// Seals the packets of one node, and those of others that it repairs.
#[derive(Debug)]
pub struct Sealer {
    deriver: Deriver,
    makers: Makers<MakerKeys>,
    /// The node itself: counters are its own, so only in its name they never repeat.
    me: Option<NodeId>,
    counter: u64,
}

impl Sealer {
    /// A node's sealer. There must be one of each node: two would use counters twice.
    #[must_use]
    pub fn new(key: &ClusterKey) -> Self {
        Self {
            deriver: Deriver::new(key),
            makers: Makers::default(),
            me: None,
            counter: 0,
        }
    }

    /// Number of its key.
    #[must_use]
    pub fn key(&self) -> KeyId {
        self.deriver.id()
    }

    /// The counter of the next packet that is not data.
    pub(crate) fn counter(&self) -> u64 {
        self.counter
    }

    /// Bytes by which a packet grows.
    #[must_use]
    pub fn growth(datagram: &[u8]) -> usize {
        Form::of(datagram).tail_bytes()
    }

    /// Appends the packet, sealed. A data packet gives the same bytes each time, but for its hop.
    ///
    /// # Errors
    /// [`SealError`]; nothing is appended.
    pub fn seal(&mut self, datagram: &[u8], out: &mut Vec<u8>) -> Result<(), SealError> {
        let form = Form::of(datagram);
        if datagram.len() < form.head_bytes() {
            return Err(SealError::Short);
        }
        let maker = maker_of(datagram);
        if form == Form::Control && *self.me.get_or_insert(maker.node) != maker.node {
            return Err(SealError::OtherMaker(maker.node));
        }
        if self.makers.len() >= MAKERS_MAX && !self.makers.contains_key(&maker) {
            self.makers.clear();
        }
        let keys = match self.makers.entry(maker) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                place.insert(self.deriver.keys(maker).ok_or(SealError::Refused)?)
            }
        };
        let begin = out.len();
        out.extend_from_slice(datagram);
        let (head, body) = out[begin..].split_at_mut(form.head_bytes());
        head[FLAGS_AT] = SEALED;
        head[CHECKSUM_AT].copy_from_slice(&self.deriver.id().0.to_le_bytes());
        let nonce = match form {
            Form::Data => data_nonce(head),
            Form::Control => control_nonce(self.counter),
        };
        let (known, length) = authenticated(head);
        let Some(tag) = keys.of(form).seal(nonce, &known[..length], body) else {
            out.truncate(begin);
            return Err(SealError::Refused);
        };
        out.extend_from_slice(&tag);
        if form == Form::Control {
            out.extend_from_slice(&self.counter.to_le_bytes());
            self.counter += 1;
        }
        Ok(())
    }
}

/// Why a packet is not sealed: each but [`Self::NoKey`] would be a fault of this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealError {
    /// It is shorter than its header.
    Short,
    /// It is no data, and made in another node's name.
    OtherMaker(NodeId),
    /// The cipher refused.
    Refused,
    /// There is no key yet.
    NoKey,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("the packet is shorter than its header"),
            Self::OtherMaker(node) => write!(f, "the packet is made in the name of node {node}"),
            Self::Refused => f.write_str("the cipher refused the packet"),
            Self::NoKey => f.write_str("there is no key yet"),
        }
    }
}

impl core::error::Error for SealError {}
