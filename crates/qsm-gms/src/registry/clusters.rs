//! The merged regions of a plan (R-VIEW-16), by their numbers in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_wire::{GroupId, RegionId};

/// Parts of a whole that shares are counted in.
const MILLION: u64 = 1_000_000;

/// Nodes that share a merged region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClusterId {
    /// By the plan, which keeps the number while it goes on with the region.
    Planned(u32),
    /// Because they did so with a former service.
    Former(RegionId),
    /// By a hint, with the number of its set (R-VIEW-18).
    Hinted(u32),
}

/// Nodes that share a region by the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Their region, once one of them is in it.
    pub(super) region: Option<RegionId>,
    /// The groups that the plan gives it, or what nodes that are together have, ascending.
    pub(super) groups: Arc<[GroupId]>,
}

/// The merged regions of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Clusters {
    pub(super) clusters: BTreeMap<ClusterId, Cluster>,
    /// Deliveries of a million that may be unwanted.
    pub(super) unwanted_ppm: u32,
}

impl ClusterId {
    /// Tells whether a hint says so, and not a plan.
    pub(super) fn is_hinted(self) -> bool {
        matches!(self, Self::Hinted(_))
    }
}

impl Clusters {
    /// The region of a cluster, if there is one.
    pub(super) fn region(&self, id: ClusterId) -> Option<RegionId> {
        self.clusters.get(&id)?.region
    }

    /// A region has been made for a cluster.
    pub(super) fn settle(&mut self, id: ClusterId, region: RegionId) {
        if let Some(cluster) = self.clusters.get_mut(&id) {
            cluster.region = Some(region);
        }
    }

    /// The cluster that has this region.
    pub(super) fn of_region(&self, region: RegionId) -> Option<ClusterId> {
        let mut clusters = self.clusters.iter();
        let (id, _) = clusters.find(|(_, cluster)| cluster.region == Some(region))?;
        Some(*id)
    }

    /// A region is closed.
    pub(super) fn close(&mut self, region: RegionId) {
        let of_it = |cluster: &&mut Cluster| cluster.region == Some(region);
        if let Some(cluster) = self.clusters.values_mut().find(of_it) {
            cluster.region = None;
        }
        self.clusters
            .retain(|id, cluster| !id.is_hinted() || cluster.region.is_some());
    }

    /// Tells whether so many unwanted deliveries are few enough among all.
    pub(super) fn accepts(&self, unwanted: u64, deliveries: u64) -> bool {
        unwanted.saturating_mul(MILLION) <= deliveries.saturating_mul(u64::from(self.unwanted_ppm))
    }
}
