//! Members that nobody waits for (R-MEM-15).
//!
//! ```text
//!             the detector's word              CaughtUp, not before the pause is over
//!   live ─────────────────────────────► away ─────────────────────────────────────────► live
//! ```
//!
//! Away is a mark of a membership and not a state of a life: a node is a member of several regions
//! while it moves, and catches up in each of them. It keeps its life, its roles and its place until
//! the detector says that it is gone. A region that it enters meanwhile marks it as well: what has
//! silenced it does not end because its groups change.
//!
//! An absence begins with the first mark and ends with the last. If the last region lets the node
//! go, the absence goes on without a mark until the node asks for something: only then it is known
//! to be there.
//!
//! A node that goes away again and again is believed later each time: each way back costs its
//! region two views.

use std::collections::BTreeSet;

use qsm_proto::Instant;
use qsm_wire::membership::AwayReason;
use qsm_wire::{NodeId, RegionId, ViewNumber};

use super::work::Work;
use super::{Node, Registry};

impl Node {
    /// Regions of which it is a member.
    pub(super) fn member_of(&self) -> impl Iterator<Item = RegionId> {
        self.homes().chain(self.leaving())
    }

    /// Regions of which it is a member that stays.
    pub(super) fn homes(&self) -> impl Iterator<Item = RegionId> + use<> {
        let beside = self.private.into_iter().chain(self.commons.clone());
        self.home.into_iter().chain(beside)
    }

    /// Whether the region is one of these.
    pub(super) fn is_at_home(&self, region: RegionId) -> bool {
        self.homes().any(|home| home == region)
    }

    /// The reason for which its home region does not wait for it.
    pub(super) fn away(&self) -> Option<AwayReason> {
        self.absences.reason_in(self.home?)
    }
}

impl Registry {
    /// Nobody is to wait for a node any more, wherever it is a member; `false`: it is away for this
    /// reason already, or a member of nothing.
    pub(super) fn set_away(&mut self, now: Instant, id: NodeId, reason: AwayReason) -> bool {
        let node = self.nodes.get_mut(&id);
        let Some(node) = node.filter(|node| node.life.is_running()) else {
            return false;
        };
        let regions: Vec<RegionId> = node.member_of().collect();
        if regions.is_empty() {
            return false;
        }
        let news = node.absences.begin(now, reason);
        let member = node.origin;
        for id in regions {
            let next = self.regions.get(id).map(|region| (id, region.next_view()));
            if let Some((region, view)) = next
                && node.absences.mark(region, view)
            {
                self.work.push(Work::RenewMember { region, member });
            }
        }
        self.stats.away += u64::from(news);
        news
    }

    /// Members of a region that are waited for. Those that leave it are, too, until they have what was
    /// sent to them before.
    pub(crate) fn members_waited_for(&self, region: RegionId) -> BTreeSet<NodeId> {
        let members = self.regions.get(region).map(|region| &region.members);
        let members = members.into_iter().flatten();
        let there = members.filter(|member| !member.is_away());
        there.map(|member| member.origin.node).collect()
    }

    /// Tells whether somewhere nobody waits for this node.
    pub(crate) fn is_away(&self, id: NodeId) -> bool {
        let node = self.nodes.get(&id);
        node.is_some_and(|node| node.absences.reason().is_some())
    }

    /// The region waits for this node, as a member or for what it sends.
    pub(crate) fn is_waited_for(&self, region: RegionId, id: NodeId) -> bool {
        let node = self.nodes.get(&id);
        let knows = self
            .regions
            .get(region)
            .is_some_and(|region| region.audience.contains_key(&id));
        knows && node.is_some_and(|node| node.absences.reason_in(region).is_none())
    }

    /// The node has caught up in a region, under that view. Repeated and late words change nothing.
    pub(super) fn caught_up(
        &mut self,
        now: Instant,
        id: NodeId,
        region: RegionId,
        view: ViewNumber,
    ) {
        let node = self.nodes.get_mut(&id);
        let Some(node) = node.filter(|node| node.life.is_running()) else {
            return;
        };
        let since = node.absences.since(region);
        let entry = self.regions.get(region);
        let asked = entry.is_some_and(|entry| !entry.is_repopulated_since(view));
        if !asked || since.is_none_or(|since| since > view) {
            return;
        }
        if now < node.absences.ends() {
            self.stats.returns_too_soon += 1;
            return;
        }
        node.absences.unmark(region);
        let member = node.origin;
        self.work.push(Work::RenewMember { region, member });
        self.work.push(Work::Return { node: id });
    }

    /// The node asks for something, or has left a region: an absence that no region marks is over.
    pub(super) fn end_unmarked_absence(&mut self, id: NodeId) {
        let node = self.nodes.get(&id);
        if node.is_some_and(|node| node.absences.is_unmarked()) {
            self.work.push(Work::Return { node: id });
        }
    }
}
