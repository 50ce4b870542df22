//! Subscriptions and their exact classes (algorithms (a), step 1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_wire::{GroupId, NodeId};

use crate::hints::Hints;
use crate::signature::{Signature, SignatureKey};

/// A node's groups.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Subscriber {
    groups: Arc<[GroupId]>,
    signature: Signature,
    domain: u32,
}

/// Nodes with exactly the same groups.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Class {
    groups: Arc<[GroupId]>,
    members: BTreeSet<NodeId>,
}

/// Nodes that stay in one region whatever is planned: a class, or a node that a hint names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) groups: Arc<[GroupId]>,
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) domain: u32,
    /// Hints that keep it apart, ascending.
    pub(crate) apart: Vec<u32>,
    /// The set of nodes that it has to be together with.
    pub(crate) together: Option<u32>,
}

impl Class {
    /// Its nodes as one unit, but for those that hints name.
    fn divide(&self, domain: u32, hints: &Hints, units: &mut Vec<Unit>) {
        let unit = |nodes: Vec<NodeId>, apart: Vec<u32>, together: Option<u32>| Unit {
            groups: Arc::clone(&self.groups),
            nodes,
            domain,
            apart,
            together,
        };
        let mut free = Vec::with_capacity(self.members.len());
        for node in &self.members {
            let (apart, together) = (hints.apart_of(*node), hints.together_of(*node));
            if apart.is_empty() && together.is_none() {
                free.push(*node);
            } else {
                units.push(unit(vec![*node], apart.to_vec(), together));
            }
        }
        if !free.is_empty() {
            units.push(unit(free, Vec::new(), None));
        }
    }
}

/// All nodes and their groups.
#[derive(Debug, Clone)]
pub(crate) struct Census {
    key: SignatureKey,
    nodes: BTreeMap<NodeId, Subscriber>,
    /// Sets with equal signatures are told apart by comparing them.
    classes: BTreeMap<(u32, Signature), Vec<Class>>,
    /// By group.
    wanted_by: Vec<u32>,
}

impl Census {
    pub(crate) fn new(key: SignatureKey) -> Self {
        Self {
            key,
            nodes: BTreeMap::new(),
            classes: BTreeMap::new(),
            wanted_by: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn classes(&self) -> usize {
        self.classes.values().map(Vec::len).sum()
    }

    /// A node's groups, ascending.
    pub(crate) fn groups(&self, node: NodeId) -> Option<&Arc<[GroupId]>> {
        self.nodes.get(&node).map(|node| &node.groups)
    }

    pub(crate) fn domain(&self, node: NodeId) -> u32 {
        self.nodes.get(&node).map_or(0, |node| node.domain)
    }

    /// Returns whether more than one node wants a group.
    pub(crate) fn is_shared(&self, group: GroupId) -> bool {
        self.wanted_by
            .get(group.0 as usize)
            .is_some_and(|count| *count > 1)
    }

    /// The highest number of a group that was ever wanted, and one more.
    pub(crate) fn groups_end(&self) -> usize {
        self.wanted_by.len()
    }

    /// A node has these groups now; they ascend.
    pub(crate) fn set(&mut self, node: NodeId, domain: u32, groups: Arc<[GroupId]>) {
        let signature = self.key.set(groups.iter().copied());
        self.remove(node);
        for group in groups.iter() {
            self.count(*group, true);
        }
        self.enter(node, domain, signature, groups);
    }

    /// A node enters some groups and leaves others.
    pub(crate) fn change(&mut self, node: NodeId, enter: &[GroupId], leave: &[GroupId]) {
        let former = self.nodes.get(&node);
        let (domain, mut signature) = former.map_or((0, 0), |node| (node.domain, node.signature));
        let groups = former
            .map(|node| Arc::clone(&node.groups))
            .unwrap_or_default();
        let had = |group: &GroupId| groups.binary_search(group).is_ok();
        let (wanted, unwanted) = (ascending(enter), ascending(leave));
        let entered: Vec<GroupId> = wanted.iter().copied().filter(|g| !had(g)).collect();
        // What is in both lists is entered.
        let left = unwanted
            .into_iter()
            .filter(|group| wanted.binary_search(group).is_err());
        let left: Vec<GroupId> = left.filter(had).collect();
        signature ^= self.key.set(entered.iter().chain(&left).copied());
        let groups = merged(&groups, &entered, &left);
        self.take_out(node);
        for group in entered {
            self.count(group, true);
        }
        for group in left {
            self.count(group, false);
        }
        self.enter(node, domain, signature, groups);
    }

    /// A node is gone.
    pub(crate) fn remove(&mut self, node: NodeId) {
        if let Some(former) = self.take_out(node) {
            for group in former.groups.iter() {
                self.count(*group, false);
            }
        }
    }

    fn count(&mut self, group: GroupId, more: bool) {
        let at = group.0 as usize;
        if at >= self.wanted_by.len() {
            self.wanted_by.resize(at + 1, 0);
        }
        let count = &mut self.wanted_by[at];
        *count = if more {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
    }

    fn take_out(&mut self, node: NodeId) -> Option<Subscriber> {
        let former = self.nodes.remove(&node)?;
        let key = (former.domain, former.signature);
        if let Some(same) = self.classes.get_mut(&key) {
            for class in same.iter_mut() {
                class.members.remove(&node);
            }
            same.retain(|class| !class.members.is_empty());
            if same.is_empty() {
                self.classes.remove(&key);
            }
        }
        Some(former)
    }

    fn enter(&mut self, node: NodeId, domain: u32, signature: Signature, groups: Arc<[GroupId]>) {
        let same = self.classes.entry((domain, signature)).or_default();
        let groups = match same.iter_mut().find(|class| class.groups == groups) {
            Some(class) => {
                class.members.insert(node);
                // One allocation for all of the class.
                Arc::clone(&class.groups)
            }
            None => {
                same.push(Class {
                    groups: Arc::clone(&groups),
                    members: BTreeSet::from([node]),
                });
                groups
            }
        };
        let subscriber = Subscriber {
            groups,
            signature,
            domain,
        };
        self.nodes.insert(node, subscriber);
    }

    /// The units of a plan, by their first nodes: neither the key nor the order in which nodes
    /// came decides anything.
    pub(crate) fn units(&self, hints: &Hints) -> Vec<Unit> {
        let mut units = Vec::with_capacity(self.classes.len());
        for (&(domain, _), same) in &self.classes {
            for class in same.iter().filter(|class| !class.groups.is_empty()) {
                class.divide(domain, hints, &mut units);
            }
        }
        units.sort_unstable_by(|one, two| one.nodes[0].cmp(&two.nodes[0]));
        units
    }
}

fn ascending(groups: &[GroupId]) -> Vec<GroupId> {
    let mut groups = groups.to_vec();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// A set with some entered and some left, all ascending.
fn merged(groups: &[GroupId], entered: &[GroupId], left: &[GroupId]) -> Arc<[GroupId]> {
    let mut all = Vec::with_capacity(groups.len() + entered.len());
    let (mut entered, mut left) = (entered, left);
    for group in groups {
        let before = entered.partition_point(|other| other < group);
        all.extend_from_slice(&entered[..before]);
        entered = &entered[before..];
        if left.first() == Some(group) {
            left = &left[1..];
        } else {
            all.push(*group);
        }
    }
    all.extend_from_slice(entered);
    all.into()
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Random, Seed};

    use super::*;

    // R041: what changes step by step is what would be found from the start.
    #[test]
    fn classes_are_those_of_brute_force_after_any_changes() {
        for seed in 0..300 {
            let mut random = Random::new(Seed(seed), "census");
            let mut census = Census::new(SignatureKey::new(&mut random));
            let mut model: BTreeMap<NodeId, BTreeSet<GroupId>> = BTreeMap::new();
            for _ in 0..60 {
                let node = NodeId(random.below(8));
                let mut draw = |most: u64| -> Vec<GroupId> {
                    let count = random.below(most);
                    (0..count)
                        .map(|_| GroupId(random.below(6) as u32))
                        .collect()
                };
                let (enter, leave) = (draw(4), draw(4));
                census.change(node, &enter, &leave);
                let groups = model.entry(node).or_default();
                groups.retain(|group| !leave.contains(group));
                groups.extend(enter);
                if seed % 3 == 0 {
                    census.remove(NodeId(1));
                    model.remove(&NodeId(1));
                }
            }
            let mut classes: BTreeMap<Vec<GroupId>, Vec<NodeId>> = BTreeMap::new();
            for (node, groups) in &model {
                let groups: Vec<GroupId> = groups.iter().copied().collect();
                classes.entry(groups).or_default().push(*node);
            }
            classes.remove(&Vec::new());
            let units = census.units(&Hints::default());
            let found: BTreeMap<Vec<GroupId>, Vec<NodeId>> = units
                .into_iter()
                .map(|unit| (unit.groups.to_vec(), unit.nodes))
                .collect();
            assert_eq!(found, classes, "seed {seed}");
            for group in (0..6).map(GroupId) {
                let count = model
                    .values()
                    .filter(|groups| groups.contains(&group))
                    .count();
                assert_eq!(census.is_shared(group), count > 1);
            }
        }
    }
}
