use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use qsm_plan::{GroupPace, ServiceHints};
use qsm_proto::{Instant, mix};
use qsm_wire::membership::{GROUP_NAME_BYTES_MAX, OriginDemand};
use qsm_wire::{GroupId, NodeId, RegionId};

use super::aim::Crowd;

/// How long the number of a group without nodes rests: longer than any drain, so that a late
/// packet is not taken for a message of another group.
const QUARANTINE: Duration = Duration::from_secs(60);

/// A group: its name, and who has to do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) name: String,
    /// Regions whose members receive it: what a message to the group costs (R020).
    pub(crate) regions: BTreeSet<RegionId>,
    /// Nodes that are to receive it.
    pub(crate) receivers: Crowd,
    /// Nodes that send to it.
    pub(crate) publishers: BTreeSet<NodeId>,
    /// The channel that a hint pins it to (R-VIEW-18).
    pub(crate) channel: Option<u32>,
    /// Lifetime of its messages, milliseconds (R-DATA-14); 0: none.
    pub(crate) lifetime_ms: u32,
    /// The pace that a hint gives it (R-RATE-8).
    pub(crate) pace: Option<GroupPace>,
    /// The proof of origin that a hint demands of those who publish to it (R-SEC-34).
    pub(crate) origin: Option<OriginDemand>,
    /// Roles of nodes and changes under way that need the number.
    holds: u32,
}

/// Names and numbers of groups. Numbers are dense so that tables can be indexed by them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct GroupTable {
    groups: Vec<Option<Group>>,
    /// By a hash of the name, which is cheaper to search than names.
    by_name: BTreeSet<(u64, GroupId)>,
    /// Numbers that rest, in the order in which they may be given again; those count that
    /// `rests` has with the same time.
    resting: VecDeque<(Instant, GroupId)>,
    rests: BTreeMap<GroupId, Rest>,
    count: usize,
    /// Groups that lost their last hold or region; freed at the end of the batch.
    idle: Vec<GroupId>,
    /// They pin groups to channels.
    hints: Arc<ServiceHints>,
}

/// Time in which a number is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rest {
    until: Instant,
    /// Hash of the name that the number was given; `None`: it is not known.
    name: Option<u64>,
}

/// Why a name is not one.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fine = !name.is_empty() && name.len() <= GROUP_NAME_BYTES_MAX;
    if fine && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(format!(
        "group name {name:?} is not 1 to {GROUP_NAME_BYTES_MAX} bytes without control characters"
    ))
}

fn hash(name: &str) -> u64 {
    let start = mix(u64::try_from(name.len()).unwrap_or(u64::MAX));
    name.as_bytes().chunks(8).fold(start, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix(hash ^ u64::from_le_bytes(word))
    })
}

impl Group {
    /// Whether some node is to receive it.
    pub(crate) fn is_received(&self) -> bool {
        self.receivers.count() > 0
    }
}

impl GroupTable {
    /// No groups, of which hints pin some to channels.
    pub(crate) fn new(hints: Arc<ServiceHints>) -> Self {
        Self {
            hints,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupId, &Group)> {
        let numbered = (0..).map(GroupId).zip(&self.groups);
        numbered.filter_map(|(id, group)| Some((id, group.as_ref()?)))
    }

    /// Numbers in use from this one on, ascending.
    pub(crate) fn numbers_from(&self, first: GroupId) -> impl Iterator<Item = GroupId> {
        let at = usize::try_from(first.0).unwrap_or(usize::MAX);
        let numbered = (0..).map(GroupId).zip(&self.groups).skip(at);
        numbered.filter_map(|(id, group)| group.as_ref().map(|_| id))
    }

    pub(crate) fn get(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(usize::try_from(id.0).ok()?)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.groups.get_mut(usize::try_from(id.0).ok()?)?.as_mut()
    }

    pub(crate) fn find(&self, name: &str) -> Option<GroupId> {
        let hash = hash(name);
        let same = (hash, GroupId(0))..=(hash, GroupId(u32::MAX));
        let mut ids = self.by_name.range(same).map(|(_, id)| *id);
        ids.find(|id| self.get(*id).is_some_and(|group| group.name == name))
    }

    /// The number of this name, a new one if need be; it is held once more.
    pub(crate) fn intern(&mut self, now: Instant, name: &str) -> GroupId {
        let id = self.find(name).unwrap_or_else(|| self.create(now, name));
        self.hold(id);
        id
    }

    /// Takes up a group that a former service numbered. `None` when name or number are taken
    /// otherwise, or the number is beyond `count_max`.
    pub(crate) fn adopt(&mut self, id: GroupId, name: &str, count_max: usize) -> Option<GroupId> {
        let index = usize::try_from(id.0).ok()?;
        if let Some(known) = self.find(name) {
            return (known == id).then_some(id);
        }
        if index >= count_max || self.get(id).is_some() {
            return None;
        }
        if self.groups.len() <= index {
            self.groups.resize_with(index + 1, || None);
        }
        self.rests.remove(&id);
        self.put(id, name);
        Some(id)
    }

    /// The number is that of this name, or may be: nothing here contradicts it.
    pub(crate) fn fits(&self, id: GroupId, name: &str, count_max: usize) -> bool {
        if let Some(known) = self.find(name) {
            return known == id;
        }
        let index = usize::try_from(id.0).unwrap_or(usize::MAX);
        match self.groups.get(index) {
            Some(Some(_)) => false,
            Some(None) => {
                let rest = self.rests.get(&id);
                rest.is_some_and(|rest| rest.name.is_none_or(|former| former == hash(name)))
            }
            None => index < count_max,
        }
    }

    /// Numbers below the highest one known that nobody reported rest like freed ones: nodes that
    /// did not report may still use them.
    pub(crate) fn rest_gaps(&mut self, now: Instant) {
        let numbered = (0..).map(GroupId).zip(&self.groups);
        let gaps = numbered.filter(|(_, group)| group.is_none());
        let until = now.after(QUARANTINE);
        self.resting = gaps.map(|(id, _)| (until, id)).collect();
        let rest = Rest { until, name: None };
        self.rests = self.resting.iter().map(|(_, id)| (*id, rest)).collect();
    }

    /// Numbers before `end` that have not been given here rest like freed ones: another service
    /// has given them.
    pub(crate) fn rest_before(&mut self, now: Instant, end: GroupId, count_max: usize) {
        let until = now.after(QUARANTINE);
        for id in self.extend(end, count_max) {
            self.resting.push_back((until, id));
            self.rests.insert(id, Rest { until, name: None });
        }
    }

    /// Makes room for the numbers before `end`, as far as they are below `count_max`; returns
    /// those there was no room for.
    fn extend(&mut self, end: GroupId, count_max: usize) -> impl Iterator<Item = GroupId> + use<> {
        let former = self.groups.len();
        let length = usize::try_from(end.0).unwrap_or(usize::MAX).min(count_max);
        let length = length.max(former);
        self.groups.resize_with(length, || None);
        (0..).map(GroupId).take(length).skip(former)
    }

    fn rest(&mut self, now: Instant, id: GroupId, name: u64) {
        let until = now.after(QUARANTINE);
        let name = Some(name);
        self.resting.push_back((until, id));
        self.rests.insert(id, Rest { until, name });
    }

    /// The next number that has rested.
    fn take_rested(&mut self, now: Instant) -> Option<GroupId> {
        while let Some((until, id)) = self.resting.front().copied()
            && until <= now
        {
            self.resting.pop_front();
            if self.rests.get(&id).is_some_and(|rest| rest.until == until) {
                self.rests.remove(&id);
                return Some(id);
            }
        }
        None
    }

    pub(crate) fn hold(&mut self, id: GroupId) {
        if let Some(group) = self.get_mut(id) {
            group.holds += 1;
        }
    }

    pub(crate) fn release(&mut self, id: GroupId) {
        let Some(group) = self.get_mut(id) else {
            return;
        };
        group.holds -= 1;
        if group.holds == 0 {
            self.idle.push(id);
        }
    }

    /// Turns the hold of a pending change into the hold of a role, or gives both up.
    pub(crate) fn change_hold(&mut self, id: GroupId, had: bool, has: bool) {
        match (had, has) {
            (false, true) => {}
            (true, true) | (false, false) => self.release(id),
            (true, false) => {
                self.release(id);
                self.release(id);
            }
        }
    }

    pub(crate) fn change_publisher(&mut self, id: GroupId, node: NodeId, publishes: bool) {
        let Some(group) = self.get_mut(id) else {
            return;
        };
        if publishes {
            group.publishers.insert(node);
        } else {
            group.publishers.remove(&node);
        }
    }

    pub(crate) fn link(&mut self, id: GroupId, region: RegionId) {
        if let Some(group) = self.get_mut(id) {
            group.regions.insert(region);
        }
    }

    pub(crate) fn unlink(&mut self, id: GroupId, region: RegionId) {
        if let Some(group) = self.get_mut(id) {
            group.regions.remove(&region);
            self.idle.push(id);
        }
    }

    /// Frees the groups that nobody has to do with any more.
    pub(crate) fn free_idle(&mut self, now: Instant) {
        for id in core::mem::take(&mut self.idle) {
            let unused = |group: &&Group| {
                group.holds == 0 && group.regions.is_empty() && group.publishers.is_empty()
            };
            let Some(group) = self.get(id).filter(unused) else {
                continue;
            };
            let key = (hash(&group.name), id);
            self.by_name.remove(&key);
            if let Some(slot) = self.groups.get_mut(key.1.0 as usize) {
                *slot = None;
            }
            self.count -= 1;
            self.rest(now, id, key.0);
        }
    }

    fn create(&mut self, now: Instant, name: &str) -> GroupId {
        let id = self.take_rested(now).unwrap_or_else(|| {
            self.groups.push(None);
            GroupId(u32::try_from(self.groups.len() - 1).unwrap_or(u32::MAX))
        });
        self.put(id, name);
        id
    }

    fn put(&mut self, id: GroupId, name: &str) {
        let lifetime = self.hints.lifetime(name).unwrap_or_default();
        if let Some(slot) = self.groups.get_mut(id.0 as usize) {
            *slot = Some(Group {
                name: name.to_owned(),
                regions: BTreeSet::new(),
                receivers: Crowd::default(),
                publishers: BTreeSet::new(),
                channel: self.hints.channel(name),
                pace: self.hints.pace(name),
                origin: self.hints.origin(name),
                lifetime_ms: u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX),
                holds: 0,
            });
            self.by_name.insert((hash(name), id));
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_reused_only_after_they_have_rested() {
        let mut table = GroupTable::default();
        let now = Instant(0);
        let ids = ["a", "b", "c"].map(|name| table.intern(now, name));
        assert_eq!(ids, [GroupId(0), GroupId(1), GroupId(2)]);
        table.release(ids[1]);
        table.free_idle(now);
        assert_eq!(table.find("b"), None);
        assert_eq!(table.intern(now, "d"), GroupId(3));
        assert_eq!(table.intern(now.after(QUARANTINE), "e"), GroupId(1));
        assert_eq!(table.len(), 4);
    }

    #[test]
    fn a_group_stays_while_a_region_or_a_publisher_has_to_do_with_it() {
        let mut table = GroupTable::default();
        let id = table.intern(Instant(0), "a");
        table.link(id, RegionId(1));
        table.release(id);
        table.free_idle(Instant(0));
        assert_eq!(table.find("a"), Some(id));
        table.unlink(id, RegionId(1));
        table.free_idle(Instant(0));
        assert_eq!(table.find("a"), None);
    }

    #[test]
    fn an_adopted_number_is_refused_when_name_or_number_contradict() {
        let mut table = GroupTable::default();
        assert_eq!(table.adopt(GroupId(5), "a", 10), Some(GroupId(5)));
        assert_eq!(table.adopt(GroupId(5), "a", 10), Some(GroupId(5)));
        assert_eq!(table.adopt(GroupId(5), "b", 10), None);
        assert_eq!(table.adopt(GroupId(6), "a", 10), None);
        assert_eq!(table.adopt(GroupId(u32::MAX), "z", 10), None);
        table.rest_gaps(Instant(0));
        assert_eq!(table.intern(Instant(0), "c"), GroupId(6));
        assert_eq!(table.intern(Instant(0).after(QUARANTINE), "d"), GroupId(0));
    }

    // Rule R-MEM-6.
    #[test]
    fn numbers_that_another_service_has_given_rest() {
        let mut table = GroupTable::default();
        let start = Instant(0);
        assert_eq!(table.adopt(GroupId(1), "a", 10), Some(GroupId(1)));
        table.rest_before(start, GroupId(3), 10);
        table.rest_gaps(start);
        assert_eq!(table.intern(start, "b"), GroupId(3));
        table.rest_before(start, GroupId(2), 10);
        table.rest_before(start, GroupId(6), 10);
        assert_eq!(table.intern(start, "c"), GroupId(6));
        table.rest_before(start, GroupId(u32::MAX), 10);
        assert_eq!(table.intern(start, "d"), GroupId(10));
        let later = start.after(QUARANTINE);
        let given = ["e", "f", "g", "h"].map(|name| table.intern(later, name));
        assert_eq!(given, [GroupId(0), GroupId(2), GroupId(4), GroupId(5)]);
    }

    // Rule R-MEM-6.
    #[test]
    fn a_number_that_is_reported_late_fits_unless_it_may_have_been_given_for_another_name() {
        let mut table = GroupTable::default();
        let later = Instant(0).after(QUARANTINE);
        assert_eq!(table.adopt(GroupId(3), "a", 10), Some(GroupId(3)));
        table.rest_gaps(Instant(0));
        let own = table.intern(Instant(0), "b");
        assert_eq!(own, GroupId(4));
        table.release(own);
        table.free_idle(Instant(0));
        let fits = |table: &GroupTable, id, name| table.fits(GroupId(id), name, 10);
        assert!(fits(&table, 3, "a") && !fits(&table, 3, "z") && !fits(&table, 5, "a"));
        assert!(fits(&table, 0, "z") && fits(&table, 9, "z") && !fits(&table, 10, "z"));
        assert!(fits(&table, 4, "b") && !fits(&table, 4, "z"));
        // Who takes a number that rests has it alone.
        assert_eq!(table.adopt(GroupId(0), "late", 10), Some(GroupId(0)));
        let given = ["c", "d", "e"].map(|name| table.intern(later, name));
        assert_eq!(given, [GroupId(1), GroupId(2), GroupId(4)]);
        assert!(!fits(&table, 1, "z"));
    }
}
