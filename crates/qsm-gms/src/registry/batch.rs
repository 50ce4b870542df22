use std::collections::{BTreeMap, BTreeSet};

use qsm_proto::Instant;
use qsm_wire::membership::{Member, Sender, Update};
use qsm_wire::{GroupId, NodeId, Origin, RegionId, ViewNumber};

use super::{Node, Registry};

/// Nodes whose last death is remembered; of others everybody is told again.
const BURIED_MAX: usize = 1 << 16;

/// What a batch means for the nodes.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Its number among all batches of the service, from 1.
    pub(crate) number: u64,
    /// What each node concerned has to be told, in the order in which to tell it.
    pub(crate) updates: BTreeMap<NodeId, Vec<Update>>,
    /// Requests that have been carried out.
    pub(crate) done: Vec<(NodeId, u32)>,
}

/// The change of one region's members within a batch.
#[derive(Debug, Default)]
pub(super) struct Touch {
    pub(super) removed: BTreeSet<Origin>,
    pub(super) leaving: BTreeSet<Origin>,
    pub(super) added: Vec<Member>,
}

/// One node's updates, sorted by kind.
#[derive(Debug, Default)]
pub(super) struct Letter {
    pub(super) named: Vec<Update>,
    pub(super) regions: Vec<Update>,
    pub(super) views: Vec<Update>,
    pub(super) sources: Vec<Update>,
    pub(super) closed: Vec<Update>,
    pub(super) dead: Vec<Update>,
    pub(super) settled: Vec<Update>,
}

/// Who must know of a death: they stop waiting for the dead, and they will tell a service that
/// has not seen the death.
#[derive(Debug)]
pub(super) enum Mourners {
    /// Members of the regions that it may have sent to, and those who knew it as a member.
    Near {
        streams: BTreeSet<RegionId>,
        knew: BTreeSet<NodeId>,
    },
    /// Everybody: where it published to is not known.
    All,
}

/// A batch in the making.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Regions that get a new view.
    pub(super) touches: BTreeMap<RegionId, Touch>,
    /// Pairs for which it may have changed what the node has to know of the region.
    pub(super) checks: BTreeSet<(RegionId, NodeId)>,
    /// Former publishers that owe nothing to the region.
    pub(super) parted: BTreeSet<(RegionId, NodeId)>,
    /// Who died, and whom that concerns.
    pub(super) deaths: BTreeMap<Origin, Mourners>,
    pub(super) letters: BTreeMap<NodeId, Letter>,
    pub(super) done: Vec<(NodeId, u32)>,
}

impl Work {
    pub(super) fn touch(&mut self, region: RegionId) -> &mut Touch {
        self.touches.entry(region).or_default()
    }

    /// Whether the node is told nothing.
    pub(super) fn is_silent_to(&self, node: NodeId) -> bool {
        self.letters.get(&node).is_none_or(Letter::is_empty)
    }

    pub(super) fn letter(&mut self, node: NodeId) -> &mut Letter {
        self.letters.entry(node).or_default()
    }
}

impl Registry {
    /// Applies everything that is pending, at once (R040).
    pub(crate) fn apply(&mut self, now: Instant) -> Batch {
        let mut work = Work::default();
        self.stats.batches += 1;
        let recalled: Vec<NodeId> = self.resync.keys().copied().collect();
        self.recall(&mut work);
        self.bury(&mut work);
        self.release_drained(&mut work);
        self.place(now, &mut work);
        let views = self.settle(now, &mut work);
        self.resettle();
        let concerned = self.inform(now, &mut work, &views);
        self.tell_sources(concerned, &mut work);
        self.tell_of_deaths(&mut work);
        self.tell_settled(&mut work);
        self.groups.free_idle(now);
        for id in recalled.into_iter().filter(|id| work.is_silent_to(*id)) {
            // It has said that it knows all there is to know.
            self.confirmed(id, u64::MAX);
        }
        let letters = work.letters.into_iter();
        let updates = letters.map(|(node, letter)| (node, letter.into_updates()));
        Batch {
            number: self.stats.batches,
            updates: updates.filter(|(_, updates)| !updates.is_empty()).collect(),
            done: work.done,
        }
    }

    /// Nodes with new sessions know what they say they know, and nothing else.
    fn recall(&mut self, work: &mut Work) {
        for (id, reported) in core::mem::take(&mut self.resync) {
            let Some(node) = self.nodes.get_mut(&id) else {
                continue;
            };
            let own = node.home.into_iter().chain(node.leaving.keys().copied());
            let mut regions: BTreeSet<RegionId> =
                own.chain(node.concerned.iter().copied()).collect();
            for group in &node.publishes {
                if let Some(group) = self.groups.get(*group) {
                    regions.extend(&group.regions);
                }
            }
            regions.extend(reported.keys());
            for region in regions {
                let Some(entry) = self.regions.get_mut(region) else {
                    work.letter(id).closed.push(Update::Closed { region });
                    continue;
                };
                let known = entry.audience.entry(id).or_default();
                known.list = None;
                known.sources = 0;
                known.view = match reported.get(&region) {
                    Some(view) if *view == entry.view => *view,
                    _ => ViewNumber(0),
                };
                node.concerned.insert(region);
                work.checks.insert((region, id));
            }
            let dead = self.unheard_deaths.remove(&id).into_iter().flatten();
            let dead = dead.map(|origin| Update::Dead { origin });
            work.letter(id).dead.extend(dead);
            for (region, leave) in node.leaving.iter().filter(|(_, leave)| leave.settled) {
                self.settled.insert((*region, leave.since));
            }
        }
    }

    /// Takes the dead out of everything.
    fn bury(&mut self, work: &mut Work) {
        let mut strangers = core::mem::take(&mut self.strangers);
        for (region, origin) in core::mem::take(&mut self.absent) {
            work.touch(region).removed.insert(origin);
            strangers.insert(origin);
        }
        for origin in strangers {
            work.deaths.insert(origin, Mourners::All);
        }
        for region in core::mem::take(&mut self.inherited) {
            work.touch(region);
        }
        for (region, origin) in core::mem::take(&mut self.stale) {
            work.touch(region).leaving.insert(origin);
        }
        for origin in core::mem::take(&mut self.dead) {
            let Some(node) = self.nodes.remove(&origin.node) else {
                continue;
            };
            self.note_buried(origin);
            for region in &node.concerned {
                if let Some(region) = self.regions.get_mut(*region) {
                    region.audience.remove(&origin.node);
                }
            }
            let member_of = node.home.iter().chain(node.leaving.keys());
            let member_of = member_of.filter_map(|id| self.regions.get(*id));
            let knew = member_of.flat_map(|region| region.audience.keys().copied());
            let knew = knew.collect();
            if let Some(home) = node.home {
                work.touch(home).removed.insert(origin);
                if let Some(region) = self.regions.get_mut(home) {
                    region.active -= 1;
                }
            }
            for region in node.leaving.keys() {
                work.touch(*region).removed.insert(origin);
            }
            self.confirmed(origin.node, u64::MAX);
            self.release_roles(&node);
            let streams = node.streams;
            let mourners = Mourners::Near { streams, knew };
            work.deaths.insert(origin, mourners);
        }
    }

    fn note_buried(&mut self, origin: Origin) {
        self.buried.insert(origin.node, origin.incarnation);
        if self.buried.len() > BURIED_MAX {
            self.buried.pop_first();
        }
    }

    fn release_roles(&mut self, node: &Node) {
        for group in &node.publishes {
            if let Some(group) = self.groups.get_mut(*group) {
                group.publishers.remove(&node.origin.node);
            }
        }
        let pending = node
            .pending
            .subscribe
            .keys()
            .chain(node.pending.publish.keys());
        let held = node.groups.iter().chain(&node.publishes);
        for group in held.chain(pending) {
            self.groups.release(*group);
        }
    }

    /// Takes out the leaving members that have drained; whoever waited for that goes on.
    fn release_drained(&mut self, work: &mut Work) {
        for (region, id) in core::mem::take(&mut self.drained) {
            let Some(node) = self.nodes.get_mut(&id) else {
                continue;
            };
            if node.leaving.remove(&region).is_none() {
                if node.parting.contains_key(&region) {
                    work.parted.insert((region, id));
                    work.checks.insert((region, id));
                }
                continue;
            }
            work.touch(region).removed.insert(node.origin);
            work.checks.insert((region, id));
            if core::mem::take(&mut node.blocked) {
                self.dirty.insert(id);
            }
        }
    }

    /// Makes the new views; returns each as a difference. Regions without members are closed.
    fn settle(&mut self, now: Instant, work: &mut Work) -> BTreeMap<RegionId, Update> {
        let mut views = BTreeMap::new();
        for (id, touch) in core::mem::take(&mut work.touches) {
            let Some(region) = self.regions.get_mut(id) else {
                continue;
            };
            let base = region.view;
            let view = region.next_view();
            let gone = |member: &Member| touch.removed.contains(&member.origin);
            region.members.retain(|member| !gone(member));
            let leaves = |member: &&mut Member| touch.leaving.contains(&member.origin);
            for member in region.members.iter_mut().filter(leaves) {
                member.left.get_or_insert(view);
            }
            region.members.extend(touch.added.iter().copied());
            if region.members.is_empty() {
                self.close(now, id, work);
                continue;
            }
            region.view = view;
            region.inherited = false;
            self.stats.views += 1;
            if !touch.leaving.is_empty() {
                let audience = region.audience.keys().copied().collect();
                self.settling
                    .open((id, region.view), self.stats.batches, audience);
            }
            let step = Update::View {
                region: id,
                view: region.view,
                base,
                removed: touch.removed.into_iter().collect(),
                leaving: touch.leaving.into_iter().collect(),
                added: touch.added,
            };
            views.insert(id, step);
        }
        views
    }

    fn close(&mut self, now: Instant, id: RegionId, work: &mut Work) {
        let Some(region) = self.regions.remove(now, id) else {
            return;
        };
        self.stats.regions_closed += 1;
        self.stats.group_touches += count(&region.groups);
        for group in region.groups.iter() {
            self.groups.unlink(*group, id);
        }
        for node in region.audience.keys() {
            if let Some(node) = self.nodes.get_mut(node) {
                node.concerned.remove(&id);
                node.parting.remove(&id);
            }
            let closed = Update::Closed { region: id };
            work.letter(*node).closed.push(closed);
        }
    }

    /// After a restart it is not known who has the views that marked members as leaving; all are
    /// told of them now.
    fn resettle(&mut self) {
        for (id, view) in core::mem::take(&mut self.resettle) {
            if let Some(region) = self.regions.get(id) {
                let audience = region.audience.keys().copied().collect();
                self.settling.open((id, view), self.stats.batches, audience);
            }
        }
    }

    /// Tells leaving members that nobody sends to them any more.
    fn tell_settled(&mut self, work: &mut Work) {
        for (id, view) in core::mem::take(&mut self.settled) {
            let Some(region) = self.regions.get(id) else {
                continue;
            };
            let mut leavers = Vec::new();
            for member in region.members.iter().filter(|member| member.leaving()) {
                let node = self.nodes.get_mut(&member.origin.node);
                let leave = node.and_then(|node| node.leaving.get_mut(&id));
                if let Some(leave) = leave.filter(|leave| leave.since == view) {
                    leave.settled = true;
                    leavers.push(member.origin.node);
                }
            }
            if leavers.is_empty() {
                continue;
            }
            let nodes = region.audience.keys().filter_map(|id| self.nodes.get(id));
            // A member may have given up the role and still have something on its way.
            let senders = nodes.filter(|node| node.published).map(Node::as_sender);
            let senders: Vec<Sender> = senders.collect();
            for node in leavers {
                work.letter(node).settled.push(Update::Settled {
                    region: id,
                    view,
                    senders: senders.clone(),
                });
            }
        }
    }

    fn tell_of_deaths(&self, work: &mut Work) {
        for (origin, mourners) in core::mem::take(&mut work.deaths) {
            let told: BTreeSet<NodeId> = match mourners {
                Mourners::All => self.nodes.keys().copied().collect(),
                Mourners::Near { streams, mut knew } => {
                    let regions = streams.iter().filter_map(|id| self.regions.get(*id));
                    let members = regions.flat_map(|region| &region.members);
                    knew.extend(members.map(|member| member.origin.node));
                    knew
                }
            };
            for node in told.into_iter().filter(|id| self.nodes.contains_key(id)) {
                work.letter(node).dead.push(Update::Dead { origin });
            }
        }
    }
}

pub(super) fn count(groups: &[GroupId]) -> u64 {
    u64::try_from(groups.len()).unwrap_or(u64::MAX)
}

impl Letter {
    fn is_empty(&self) -> bool {
        let lists = [
            &self.named,
            &self.regions,
            &self.views,
            &self.sources,
            &self.closed,
            &self.dead,
            &self.settled,
        ];
        lists.into_iter().all(Vec::is_empty)
    }

    fn into_updates(self) -> Vec<Update> {
        let mut updates = self.named;
        for mut more in [
            self.regions,
            self.views,
            self.sources,
            self.closed,
            self.dead,
            self.settled,
        ] {
            updates.append(&mut more);
        }
        updates
    }
}
