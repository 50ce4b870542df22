//! What a region demands of its senders, and by which keys they sign (R-SEC-34).

use std::collections::BTreeMap;

use qsm_identity::NodePublic;
use qsm_wire::NodeId;
use qsm_wire::membership::{OriginDemand, Signer};

/// Demand of a region on its senders, with the keys of those who publish there and of some who did: what they sent may
/// come late.
#[derive(Debug)]
pub(crate) struct RegionProof {
    demand: OriginDemand,
    keys: BTreeMap<NodeId, NodePublic>,
}

impl RegionProof {
    /// Keys of former publishers that are kept beside as many as there are now.
    const FORMER: usize = 64;

    /// Goes on with the keys that were known before.
    pub(crate) fn new(demand: OriginDemand, former: Option<Self>) -> Self {
        let keys = former.map(|former| former.keys).unwrap_or_default();
        Self { demand, keys }
    }

    pub(crate) fn demand(&self) -> OriginDemand {
        self.demand
    }

    /// Takes who publishes now. What is no key is none.
    pub(crate) fn take(&mut self, told: &[Signer]) {
        if self.keys.len() > 2 * told.len() + Self::FORMER {
            self.keys.clear();
        }
        for one in told {
            if let Ok(key) = one.key.parse() {
                self.keys.insert(one.origin.node, key);
            }
        }
    }

    pub(crate) fn key_of(&self, node: NodeId) -> Option<NodePublic> {
        self.keys.get(&node).copied()
    }
}

#[cfg(test)]
mod tests {
    use qsm_identity::NodeKey;
    use qsm_wire::{Incarnation, Origin};

    use super::*;

    fn signer(node: u64) -> Signer {
        let origin = Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        };
        let key = NodeKey::from_seed(&[1; 32]).unwrap().public().to_string();
        Signer { origin, key }
    }

    // Rule R-SEC-34.
    #[test]
    fn keys_of_former_publishers_are_kept_up_to_a_bound_and_what_is_no_key_is_none() {
        let mut proof = RegionProof::new(OriginDemand::Audit, None);
        for node in 0..1000 {
            proof.take(&[signer(node)]);
            assert!(proof.key_of(NodeId(node)).is_some());
            assert!(proof.keys.len() <= RegionProof::FORMER + 3);
        }
        let mut none = signer(2000);
        none.key.push('x');
        proof.take(&[none]);
        assert_eq!(proof.key_of(NodeId(2000)), None);
        let proof = RegionProof::new(OriginDemand::Verified, Some(proof));
        assert!(proof.key_of(NodeId(999)).is_some());
        assert_eq!(proof.demand(), OriginDemand::Verified);
    }
}
