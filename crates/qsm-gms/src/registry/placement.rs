use core::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_proto::Instant;
use qsm_wire::membership::{Member, Update};
use qsm_wire::{GroupId, NodeId, RegionId};

use super::Registry;
use super::batch::count;
use super::departure::Departure;
use super::draft::Draft;
use crate::plan::Signature;

/// A set of groups and its signature.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GroupSet {
    signature: Signature,
    groups: Arc<[GroupId]>,
}

/// A node that has to be somewhere else.
#[derive(Debug)]
struct Move {
    node: NodeId,
    home: Option<RegionId>,
    set: GroupSet,
}

impl Registry {
    /// Puts every node whose groups changed into the region of exactly its groups.
    pub(super) fn place(&mut self, now: Instant, draft: &mut Draft) {
        let mut moves = Vec::new();
        for id in core::mem::take(&mut draft.placing) {
            let Some(set) = self.target(id) else { continue };
            let home = self.nodes.get(&id).and_then(|node| node.home);
            // Not: whether the home's groups are these; of two regions that a former service's
            // nodes report with the same groups only one is found.
            let stays = match home {
                Some(_) => self.regions.find(set.signature, &set.groups) == home,
                None => set.groups.is_empty(),
            };
            if stays {
                self.carry_out(id, set, draft);
            } else {
                let node = id;
                moves.push(Move { node, home, set });
            }
        }
        self.regroup(&moves, draft);
        for step in moves {
            self.relocate(now, step, draft);
        }
    }

    /// The groups a node will have, with those that it has now if nothing changes.
    fn target(&self, id: NodeId) -> Option<GroupSet> {
        let node = self.nodes.get(&id)?;
        let has = |group: &GroupId| node.groups.binary_search(group).is_ok();
        let changes = node.pending.subscribe.iter();
        let changes: Vec<(GroupId, bool)> = changes
            .filter(|(group, on)| has(group) != **on)
            .map(|(group, on)| (*group, *on))
            .collect();
        if changes.is_empty() {
            return Some(GroupSet {
                signature: node.signature,
                groups: Arc::clone(&node.groups),
            });
        }
        let changed = changes.iter().map(|(group, _)| *group);
        let signature = node.signature ^ self.key.set(changed);
        Some(GroupSet {
            signature,
            groups: merge(&node.groups, &changes),
        })
    }

    /// Where all active members of a region change to the same new set, the region changes its
    /// groups instead of its members, and nobody has to join another address (R044).
    fn regroup(&mut self, moves: &[Move], draft: &mut Draft) {
        let mut tally: BTreeMap<RegionId, (usize, Option<&GroupSet>)> = BTreeMap::new();
        for step in moves {
            let Some(home) = step.home else { continue };
            let (movers, set) = tally.entry(home).or_insert((0, Some(&step.set)));
            *movers += 1;
            *set = set.filter(|set| **set == step.set);
        }
        let mut candidates: Vec<(Reverse<usize>, RegionId, &GroupSet)> = Vec::new();
        for (id, (movers, set)) in tally {
            let whole = self
                .regions
                .get(id)
                .is_some_and(|r| r.active == movers && r.members.len() == r.active);
            if let (true, Some(set)) = (whole, set.filter(|set| !set.groups.is_empty())) {
                candidates.push((Reverse(movers), id, set));
            }
        }
        candidates.sort_by_key(|(movers, id, _)| (*movers, *id));
        for (_, id, GroupSet { signature, groups }) in candidates {
            if self.regions.find(*signature, groups).is_some() {
                continue;
            }
            let former = self.regions.regroup(id, *signature, Arc::clone(groups));
            self.relink(id, &former, groups);
            self.stats.regions_regrouped += 1;
            draft.change(id);
            self.check_audience(id, groups, draft);
        }
    }

    /// Moves the index from the former groups of a region to its new ones.
    pub(super) fn relink(&mut self, id: RegionId, former: &[GroupId], groups: &[GroupId]) {
        for group in former {
            if groups.binary_search(group).is_err() {
                self.groups.unlink(*group, id);
                self.stats.group_touches += 1;
            }
        }
        for group in groups {
            if former.binary_search(group).is_err() {
                self.groups.link(*group, id);
                self.stats.group_touches += 1;
            }
        }
    }

    /// Everybody who is told of a region, or will have to be.
    pub(super) fn check_audience(&self, id: RegionId, groups: &[GroupId], draft: &mut Draft) {
        let audience = self.regions.get(id).map(|region| region.audience.keys());
        let known = audience.into_iter().flatten();
        draft.checks.extend(known.map(|node| (id, *node)));
        for group in groups.iter().filter_map(|group| self.groups.get(*group)) {
            draft
                .checks
                .extend(group.publishers.iter().map(|node| (id, *node)));
        }
    }

    /// Moves one node, unless it is still on its way out of the region it wants to enter.
    fn relocate(&mut self, now: Instant, step: Move, draft: &mut Draft) {
        let Move {
            node: id,
            home,
            set,
        } = step;
        let found = self.regions.find(set.signature, &set.groups);
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        if found.is_some_and(|region| node.is_leaving(region)) {
            node.blocked = true;
            return;
        }
        if found.is_some() && found == home {
            // Its region has been regrouped to exactly this.
            self.carry_out(id, set, draft);
            return;
        }
        if let Some(home) = home {
            self.take_leave(now, id, home, draft);
        }
        if set.groups.is_empty() {
            self.carry_out(id, set, draft);
            return;
        }
        let target = found.unwrap_or_else(|| self.create_region(now, &set, draft));
        self.settle_in(id, target, draft);
        self.carry_out(id, set, draft);
    }

    fn take_leave(&mut self, now: Instant, id: NodeId, home: RegionId, draft: &mut Draft) {
        let (Some(node), Some(region)) = (self.nodes.get_mut(&id), self.regions.get_mut(home))
        else {
            return;
        };
        node.home = None;
        let deadline = now.after(self.drain_max);
        let departure = Departure::leave(region.next_view(), deadline);
        node.departures.insert(home, departure);
        region.active -= 1;
        draft.change(home).leaving.insert(node.origin);
        draft.checks.insert((home, id));
        self.deadlines.insert((deadline, home, id));
        self.stats.moves += 1;
    }

    fn create_region(&mut self, now: Instant, set: &GroupSet, draft: &mut Draft) -> RegionId {
        let (id, shared) = self
            .regions
            .create(now, set.signature, Arc::clone(&set.groups));
        self.stats.regions_created += 1;
        self.stats.addresses_shared += u64::from(shared);
        self.stats.group_touches += count(&set.groups);
        for group in set.groups.iter() {
            self.groups.link(*group, id);
        }
        self.check_audience(id, &set.groups, draft);
        id
    }

    fn settle_in(&mut self, id: NodeId, target: RegionId, draft: &mut Draft) {
        let (Some(node), Some(region)) = (self.nodes.get_mut(&id), self.regions.get_mut(target))
        else {
            return;
        };
        node.home = Some(target);
        region.active += 1;
        let joined = region.next_view();
        node.absences.mark(target, joined);
        draft.change(target).added.push(Member {
            origin: node.origin,
            address: node.address,
            joined,
            left: None,
            away: node.absences.reason_in(target),
        });
        draft.checks.insert((target, id));
    }

    /// The rest of a node's pending change: roles, numbers, receipts.
    fn carry_out(&mut self, id: NodeId, set: GroupSet, draft: &mut Draft) {
        let GroupSet { signature, groups } = set;
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let pending = core::mem::take(&mut node.pending);
        for (group, on) in pending.subscribe {
            let had = node.groups.binary_search(&group).is_ok();
            self.groups.change_hold(group, had, on);
        }
        // Share the region's allocation.
        let home = node.home.and_then(|home| self.regions.get(home));
        node.groups = home.map_or(groups, |region| Arc::clone(&region.groups));
        node.signature = signature;
        for (group, on) in pending.publish {
            let had = node.publishes.contains(&group);
            if had != on {
                if on {
                    node.published = true;
                    node.publishes.insert(group);
                } else {
                    node.publishes.remove(&group);
                }
                self.groups.change_publisher(group, id, on);
                let regions = self.groups.get(group).map(|group| &group.regions);
                let regions = regions.into_iter().flatten();
                draft.checks.extend(regions.map(|region| (*region, id)));
            }
            self.groups.change_hold(group, had, on);
        }
        let named = pending.named.into_iter().filter_map(|group| {
            let name = self.groups.get(group)?.name.clone();
            Some(Update::Named { group, name })
        });
        draft.updates_of(id).named.extend(named);
        draft
            .done
            .extend(pending.requests.into_iter().map(|request| (id, request)));
    }
}

/// `groups` with `changes`, both ascending.
fn merge(groups: &[GroupId], changes: &[(GroupId, bool)]) -> Arc<[GroupId]> {
    let mut merged = Vec::with_capacity(groups.len() + changes.len());
    let mut rest = groups;
    for (group, on) in changes {
        let at = rest.partition_point(|other| other < group);
        merged.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        if *on {
            merged.push(*group);
        } else {
            rest = &rest[1..];
        }
    }
    merged.extend_from_slice(rest);
    merged.into()
}
