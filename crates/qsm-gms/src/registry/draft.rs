use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::membership::{Member, Update};
use qsm_wire::{NodeId, Origin, RegionId};

use crate::plan::Signature;

/// The change of one region's members within a batch.
#[derive(Debug, Default)]
pub(super) struct ViewChange {
    pub(super) removed: BTreeSet<Origin>,
    pub(super) leaving: BTreeSet<Origin>,
    /// Members whose entries are made anew.
    pub(super) renewed: BTreeSet<Origin>,
    pub(super) added: Vec<Member>,
}

/// One node's updates, sorted by kind.
#[derive(Debug, Default)]
pub(super) struct NodeUpdates {
    pub(super) seconds: Vec<Update>,
    pub(super) named: Vec<Update>,
    pub(super) regions: Vec<Update>,
    pub(super) views: Vec<Update>,
    pub(super) sources: Vec<Update>,
    pub(super) signers: Vec<Update>,
    pub(super) closed: Vec<Update>,
    pub(super) dead: Vec<Update>,
    pub(super) settled: Vec<Update>,
    pub(super) filters: Vec<Update>,
    pub(super) repairs: Vec<Update>,
    pub(super) terms: Vec<Update>,
}

/// The nodes that must know of a death: they stop waiting for the dead, and they will tell a
/// service that has not seen the death.
#[derive(Debug)]
pub(super) enum DeathAudience {
    /// Members of the regions that it may have sent to, and those who knew it as a member.
    Concerned {
        streams: BTreeSet<RegionId>,
        knew: BTreeSet<NodeId>,
    },
    /// Everybody: where it published to is not known.
    Everybody,
}

/// A batch in the making.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Nodes that are told everything again.
    pub(super) resynced: Vec<NodeId>,
    /// Nodes whose groups change, ascending.
    pub(super) placing: Vec<NodeId>,
    /// Regions that get a new view.
    pub(super) changes: BTreeMap<RegionId, ViewChange>,
    /// Pairs for which it may have changed what the node has to know of the region.
    pub(super) checks: BTreeSet<(RegionId, NodeId)>,
    /// Members of merged regions whose shares have changed.
    pub(super) shares: BTreeSet<(RegionId, NodeId)>,
    /// Nodes that are told of a merged region's groups anew.
    pub(super) retold: BTreeSet<(RegionId, NodeId)>,
    /// By region the signature of its terms: its groups do not change any more in this batch.
    pub(super) signatures: BTreeMap<RegionId, Signature>,
    /// By region that has terms the nodes that are told of it anew.
    pub(super) on_terms: BTreeMap<RegionId, BTreeSet<NodeId>>,
    /// Lives that have ended, and whom that concerns.
    pub(super) deaths: BTreeMap<Origin, DeathAudience>,
    pub(super) updates: BTreeMap<NodeId, NodeUpdates>,
    pub(super) done: Vec<(NodeId, u32)>,
    /// Nodes whose absence is over.
    pub(super) back: Vec<Origin>,
    /// Nodes of which it is waited for that they have all that they have been told.
    pub(super) awaited: BTreeSet<NodeId>,
}

impl Draft {
    pub(super) fn change(&mut self, region: RegionId) -> &mut ViewChange {
        self.changes.entry(region).or_default()
    }

    /// The node is told nothing.
    pub(super) fn is_silent_to(&self, node: NodeId) -> bool {
        self.updates.get(&node).is_none_or(NodeUpdates::is_empty)
    }

    pub(super) fn updates_of(&mut self, node: NodeId) -> &mut NodeUpdates {
        self.updates.entry(node).or_default()
    }
}

impl NodeUpdates {
    fn is_empty(&self) -> bool {
        let lists = [
            &self.seconds,
            &self.named,
            &self.regions,
            &self.views,
            &self.sources,
            &self.closed,
            &self.dead,
            &self.settled,
            &self.filters,
            &self.repairs,
            &self.terms,
            &self.signers,
        ];
        lists.into_iter().all(Vec::is_empty)
    }

    /// All of them, in the order in which to tell them.
    pub(super) fn into_updates(self) -> Vec<Update> {
        let mut updates = self.seconds;
        for mut more in [
            self.named,
            self.regions,
            self.views,
            self.sources,
            self.closed,
            self.dead,
            self.settled,
            self.filters,
            self.repairs,
            self.terms,
            self.signers,
        ] {
            updates.append(&mut more);
        }
        updates
    }
}
