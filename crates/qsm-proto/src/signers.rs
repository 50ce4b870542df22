//! Demand of a region on its senders, the keys by which they sign, and the groups to which they may not publish (R-SEC-34).

use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_identity::NodePublic;
use qsm_wire::membership::{OriginDemand, Signer};
use qsm_wire::{GroupId, NodeId};

/// Demand of a region on its senders, with the keys and rights of those who publish there and of some who did: what they sent may
/// come late.
#[derive(Debug)]
pub(crate) struct RegionProof {
    demand: OriginDemand,
    known: BTreeMap<NodeId, Publisher>,
}

/// A node that publishes in a region, or did.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) key: NodePublic,
    /// Groups to which it may not publish, ascending.
    pub(crate) barred: Arc<[GroupId]>,
}

impl RegionProof {
    /// Keys of former publishers that are kept beside as many as there are now.
    const FORMER: usize = 64;

    /// Goes on with the keys that were known before.
    pub(crate) fn new(demand: OriginDemand, former: Option<Self>) -> Self {
        let known = former.map(|former| former.known).unwrap_or_default();
        Self { demand, known }
    }

    pub(crate) fn demand(&self) -> OriginDemand {
        self.demand
    }

    /// Takes who publishes now. What is no key is none.
    pub(crate) fn take(&mut self, told: &[Signer]) {
        if self.known.len() > 2 * told.len() + Self::FORMER {
            self.known.clear();
        }
        for one in told {
            if let Ok(key) = one.key.parse() {
                let barred = one.barred.as_slice().into();
                self.known
                    .insert(one.origin.node, Publisher { key, barred });
            }
        }
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<&Publisher> {
        self.known.get(&node)
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
        let barred = vec![GroupId(3)];
        Signer {
            origin,
            key,
            barred,
        }
    }

    // Rule R-SEC-34.
    #[test]
    fn keys_of_former_publishers_are_kept_up_to_a_bound_and_what_is_no_key_is_none() {
        let mut proof = RegionProof::new(OriginDemand::Audit, None);
        for node in 0..1000 {
            proof.take(&[signer(node)]);
            assert!(proof.get(NodeId(node)).is_some());
            assert!(proof.known.len() <= RegionProof::FORMER + 3);
        }
        let mut none = signer(2000);
        none.key.push('x');
        proof.take(&[none]);
        assert!(proof.get(NodeId(2000)).is_none());
        let proof = RegionProof::new(OriginDemand::Verified, Some(proof));
        let last = proof.get(NodeId(999)).unwrap();
        assert_eq!(*last.barred, [GroupId(3)]);
        assert_eq!(proof.demand(), OriginDemand::Verified);
    }
}
