use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::{NodeId, RegionId, ViewNumber};

/// Views that mark members as leaving, until everybody who is told of the region is known to have
/// them: from then on nobody sends to those members any more (R-VIEW-5).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ViewConfirmations {
    /// Nodes that have not confirmed the view.
    waiting: BTreeMap<(RegionId, ViewNumber), BTreeSet<NodeId>>,
    /// The same by node, with the number of the batch that told it.
    unheard: BTreeMap<NodeId, BTreeSet<(u64, RegionId, ViewNumber)>>,
}

impl ViewConfirmations {
    /// These nodes are told of this view with this batch.
    pub(super) fn open(
        &mut self,
        region: RegionId,
        view: ViewNumber,
        batch: u64,
        nodes: BTreeSet<NodeId>,
    ) {
        for node in &nodes {
            let unheard = self.unheard.entry(*node).or_default();
            unheard.insert((batch, region, view));
        }
        self.waiting.insert((region, view), nodes);
    }

    /// All that the node has been told up to this batch has arrived. Returns the views that
    /// everybody has now.
    pub(super) fn confirm(&mut self, node: NodeId, batch: u64) -> Vec<(RegionId, ViewNumber)> {
        let mut settled = Vec::new();
        let Some(unheard) = self.unheard.get_mut(&node) else {
            return settled;
        };
        while let Some((told, region, view)) = unheard.first().copied() {
            if told > batch {
                break;
            }
            unheard.pop_first();
            let key = (region, view);
            if let Some(waiting) = self.waiting.get_mut(&key) {
                waiting.remove(&node);
                if waiting.is_empty() {
                    self.waiting.remove(&key);
                    settled.push(key);
                }
            }
        }
        if unheard.is_empty() {
            self.unheard.remove(&node);
        }
        settled
    }
}
