//! Proof of origin: what this node demands of the streams of others, and the keys that it takes (R-SEC-30 to R-SEC-33).
//!
//! Signing and verifying are functions of bytes and keys, so they are done where packets are numbered and taken, by the
//! types of `qsm-origin`: work that were given out to the runtime would have to come back in order before anything else
//! could be done.

use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_identity::{NodeKey, NodePublic};
use qsm_wire::NodeId;

/// Demand on the packets of others. All nodes of a cluster have to make the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginDemand {
    /// Messages are delivered as ever, and packets that their sender has not made are told
    /// ([`Event::Forged`](crate::Event::Forged)).
    Audit,
    /// Messages wait until their packets are proven. A forged packet is dropped, told, and asked for again.
    Verified,
}

/// What a node has to prove by, and whom it believes.
#[derive(Debug)]
pub(crate) struct Proofs {
    pub(crate) demand: OriginDemand,
    pub(crate) key: Arc<NodeKey>,
    trusted: BTreeMap<NodeId, NodePublic>,
}

impl Proofs {
    /// Most nodes whose keys are known.
    pub(crate) const TRUSTED_MAX: usize = 1 << 16;

    pub(crate) fn new(demand: OriginDemand, key: NodeKey) -> Self {
        Self {
            demand,
            key: Arc::new(key),
            trusted: BTreeMap::new(),
        }
    }

    /// This node has this key. Returns whether there is room for it.
    pub(crate) fn trust(&mut self, node: NodeId, key: NodePublic) -> bool {
        let room = self.trusted.len() < Self::TRUSTED_MAX || self.trusted.contains_key(&node);
        if room {
            self.trusted.insert(node, key);
        }
        room
    }

    pub(crate) fn key_of(&self, node: NodeId) -> Option<NodePublic> {
        self.trusted.get(&node).copied()
    }
}
