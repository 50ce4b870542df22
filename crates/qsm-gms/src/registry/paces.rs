//! Paces that hints give to groups by name (R-RATE-8): for how long senders follow a slow receiver, and
//! below which rate none does.

use core::time::Duration;

use qsm_plan::{GroupPace, LaggardFate};
use qsm_wire::{NodeId, RegionId};

use super::Registry;

impl Registry {
    /// For how long senders follow this node where it is slower than others, by the groups that it
    /// receives: as long as the most patient of them wants. `usual` is that of groups without a pace.
    /// [`Duration::MAX`]: always.
    pub(crate) fn patience_with(&self, node: NodeId, usual: Duration) -> Duration {
        let node = self.nodes.get(&node).filter(|_| self.hints.has_paces());
        let groups = node.into_iter().flat_map(|node| node.groups.iter());
        let patience = groups.map(|group| {
            let pace = self.groups.get(*group).and_then(|known| known.pace);
            pace.map_or(usual, |pace| match pace {
                GroupPace::Slowest => Duration::MAX,
                GroupPace::Bounded(time)
                | GroupPace::Demotes(time)
                | GroupPace::Expels(time)
                | GroupPace::AtLeast { time, .. } => time,
                // It holds nobody.
                GroupPace::Uncontrolled => usual,
            })
        });
        patience.max().unwrap_or(usual)
    }

    /// The fate of a node that is slower than others for longer than its groups wait for it: the mildest that
    /// one of them chooses, so that none is given up by another's choice. Rule R-RATE-12.
    pub(crate) fn fate_of(&self, node: NodeId) -> LaggardFate {
        let node = self.nodes.get(&node).filter(|_| self.hints.has_paces());
        let groups = node.into_iter().flat_map(|node| node.groups.iter());
        let fates = groups.map(|group| {
            let pace = self.groups.get(*group).and_then(|known| known.pace);
            pace.map_or(LaggardFate::Apart, GroupPace::fate)
        });
        fates.min().unwrap_or_default()
    }

    /// Packets per second below which no receiver of a region holds a sender: of the region's groups that
    /// with the smallest rate decides. 0: receivers hold senders. Rule R-RATE-10.
    pub(super) fn minimum_of(&self, id: RegionId) -> u32 {
        let region = self.regions.get(id).filter(|_| self.hints.has_minima());
        let groups = region.into_iter().flat_map(|region| region.groups.iter());
        let minima = groups.map(|group| {
            let pace = self.groups.get(*group).and_then(|known| known.pace);
            pace.map_or(0, GroupPace::minimum_packets)
        });
        minima.min().unwrap_or(0)
    }
}
