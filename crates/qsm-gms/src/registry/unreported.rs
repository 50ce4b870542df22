//! Lives that somebody has reported to a service without memory, and that have not reported
//! themselves (R-MEM-6): they may be on the other side of a broken network, or stand still. As
//! members they are away; who says hello in time goes on in its life, and all others are dead when
//! the time is over.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use qsm_proto::Instant;
use qsm_wire::membership::{AwayReason, Hello};
use qsm_wire::{Incarnation, NodeId, Origin, RegionId};

use super::Registry;
use super::command::Updates;
use super::work::Work;

/// Lives kept; of others everybody is told that they are over.
const UNREPORTED_MAX: usize = 1 << 16;

/// A life of which others have spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreportedLife {
    incarnation: Incarnation,
    until: Instant,
    /// Where it is a member.
    regions: Vec<RegionId>,
}

/// Those lives, the newest of each node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreportedLives {
    patience: Duration,
    lives: BTreeMap<NodeId, UnreportedLife>,
    /// Lives that are over, which those who report later may not have heard.
    dead: BTreeSet<Origin>,
}

impl UnreportedLives {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            lives: BTreeMap::new(),
            dead: BTreeSet::new(),
        }
    }

    /// Notes lives that are over.
    pub(super) fn note_dead(&mut self, dead: impl IntoIterator<Item = Origin>) {
        self.dead.extend(dead);
        while self.dead.len() > UNREPORTED_MAX {
            self.dead.pop_first();
        }
    }

    /// The nodes whose lives are waited for.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.lives.keys().copied()
    }

    /// Waits for a life; `false`: there is no time or room for it.
    fn wait_for(&mut self, now: Instant, origin: Origin, region: Option<RegionId>) -> bool {
        let Origin { node, incarnation } = origin;
        let known = self.lives.get(&node).map(|life| life.incarnation);
        let full = self.lives.len() >= UNREPORTED_MAX && known.is_none();
        if self.patience.is_zero() || full || known.is_some_and(|known| known != incarnation) {
            return false;
        }
        let life = self.lives.entry(node).or_insert_with(|| UnreportedLife {
            incarnation,
            until: now.after(self.patience),
            regions: Vec::new(),
        });
        life.regions.extend(region);
        true
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.lives.values().map(|life| life.until).min()
    }

    pub(super) fn contains(&self, origin: Origin) -> bool {
        let life = self.lives.get(&origin.node);
        life.is_some_and(|life| life.incarnation == origin.incarnation)
    }

    fn take(&mut self, origin: Origin) -> Option<UnreportedLife> {
        self.contains(origin)
            .then(|| self.lives.remove(&origin.node))?
    }

    fn take_expired(&mut self, now: Instant) -> Option<(Origin, UnreportedLife)> {
        let mut lives = self.lives.iter();
        let (node, life) = lives.find(|(_, life)| life.until <= now)?;
        let (node, incarnation) = (*node, life.incarnation);
        let origin = Origin { node, incarnation };
        Some((origin, self.take(origin)?))
    }
}

impl Registry {
    /// A member of an inherited region has not reported: it is away, or dead if it is not waited
    /// for.
    pub(super) fn miss_member(&mut self, now: Instant, region: RegionId, member: Origin) {
        let other_life = self.nodes.contains_key(&member.node);
        let waits = !other_life && self.unreported.wait_for(now, member, Some(region));
        self.work.push(match waits {
            true => Work::MarkAway {
                region,
                member,
                reason: AwayReason::Unreported,
            },
            false => Work::DropMember { region, member },
        });
    }

    /// A sender has not reported. Who receives from it waits for it, or knows that it is dead.
    pub(super) fn miss_sender(&mut self, now: Instant, origin: Origin) {
        let other_life = self.nodes.contains_key(&origin.node);
        let waits = !other_life && self.unreported.wait_for(now, origin, None);
        if !waits {
            self.work.push(Work::Announce { origin });
        }
    }

    /// The time is over for those who have not said hello.
    pub(super) fn expire_unreported(&mut self, now: Instant) {
        while let Some((origin, life)) = self.unreported.take_expired(now) {
            self.bury(origin, life);
        }
    }

    /// A node that has not reported has another life.
    pub(super) fn end_unreported(&mut self, node: NodeId) {
        if let Some(life) = self.unreported.lives.remove(&node) {
            let incarnation = life.incarnation;
            self.bury(Origin { node, incarnation }, life);
        }
    }

    fn bury(&mut self, member: Origin, life: UnreportedLife) {
        self.unreported.note_dead([member]);
        self.confirm(member.node, u64::MAX);
        self.work.push(Work::Announce { origin: member });
        for region in life.regions {
            self.work.push(Work::DropMember { region, member });
        }
    }

    /// A life that was waited for says hello: it goes on, with the roles and views that it reports.
    pub(super) fn welcome_back(
        &mut self,
        now: Instant,
        origin: Origin,
        hello: Hello,
        updates: &mut Updates,
    ) {
        let Some(life) = self.unreported.take(origin) else {
            return;
        };
        let node = origin.node;
        self.admit(origin, hello.name, hello.address, hello.second);
        self.stats.admitted -= 1;
        self.take_up_groups(now, node, &hello.groups, hello.published);
        let views = hello.regions.iter();
        let views = views.map(|report| (report.region, report.view)).collect();
        let dead = self.deaths_unheard(&hello.senders);
        if let Some(entry) = self.nodes.get_mut(&node) {
            entry.reported.views = views;
            entry.reported.dead = dead;
        }
        for region in life.regions {
            self.take_up_member(now, region, origin);
        }
        self.work.push(Work::Place { node });
        updates.welcomed.push(origin);
    }

    /// Lives that are over, which somebody who receives from these has not been told: it was not
    /// there when the others were.
    fn deaths_unheard(&self, senders: &[Origin]) -> Vec<Origin> {
        let ended = self.ended.iter();
        let ended = ended.map(|(node, incarnation)| Origin {
            node: *node,
            incarnation: *incarnation,
        });
        let lives = |sender: &&Origin| {
            self.origin(sender.node) == Some(**sender) || self.unreported.contains(**sender)
        };
        let gone = senders.iter().filter(|sender| !lives(sender)).copied();
        let dead: BTreeSet<Origin> = self.unreported.dead.iter().copied().collect();
        let dead: BTreeSet<Origin> = dead.into_iter().chain(ended).chain(gone).collect();
        dead.into_iter().collect()
    }

    fn take_up_member(&mut self, now: Instant, id: RegionId, member: Origin) {
        let Some(region) = self.regions.get(id) else {
            return;
        };
        let (signature, view) = (region.signature, region.view);
        let entry = region.members.iter().find(|entry| entry.origin == member);
        let Some(left) = entry.map(|entry| entry.left) else {
            return;
        };
        if let Some(node) = self.nodes.get_mut(&member.node) {
            node.absences.regions.insert(id, view);
        }
        if let Some(since) = left {
            self.take_up_leaver(now, id, member, since);
        } else if self.take_up_home(now, id, signature, member)
            && let Some(region) = self.regions.get_mut(id)
        {
            region.active += 1;
        }
    }
}
