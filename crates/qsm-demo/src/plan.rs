//! Who is in which groups, who publishes what. Every process of the demonstration computes the
//! same plan, so that only its size has to be told.

use std::collections::BTreeSet;

use clap::ValueEnum;

/// How large the demonstration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Size {
    /// 9 receivers, 2,214 groups.
    Full,
    /// 6 receivers, about a tenth of the groups: for tests.
    Quick,
}

/// Who publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Source {
    /// Real files, in chunks.
    Files,
    /// Market data: many small messages.
    Ticks,
    /// Measurements of machines.
    Telemetry,
    /// A word to one receiver each, into its inbox.
    Letters,
}

impl Size {
    /// As argument.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Quick => "quick",
        }
    }
}

impl Source {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Files, Self::Ticks, Self::Telemetry, Self::Letters];

    /// For people, and as argument.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Ticks => "ticks",
            Self::Telemetry => "telemetry",
            Self::Letters => "letters",
        }
    }
}

/// Receivers with the same groups but for their inboxes; a bit set of these says who is in a group.
/// They become the regions of the cluster.
type Classes = u8;

const A: Classes = 1;
const B: Classes = 2;
const C: Classes = 4;
const D: Classes = 8;

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Its name.
    pub(crate) name: String,
    /// Who is in it.
    classes: Classes,
    /// Of these, the one that it is the inbox of.
    owner: Option<usize>,
    /// Who publishes to it.
    pub(crate) sources: Vec<Source>,
}

/// All of it.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The groups; their places here are their numbers in reports.
    pub(crate) groups: Vec<Group>,
    /// The class of each receiver.
    receivers: Vec<Classes>,
}

/// The groups of each layout, for the summary.
pub(crate) const LAYOUTS: &str = "exact overlap, hierarchy, cluster-wide, irregular, inboxes";

impl Plan {
    /// Of this size.
    #[must_use]
    pub(crate) fn new(size: Size) -> Self {
        let (share, receivers) = match size {
            Size::Full => (1, vec![A, A, A, A, B, B, B, C, D]),
            Size::Quick => (10, vec![A, A, A, B, B, C]),
        };
        let everybody = receivers.iter().fold(0, |all, class| all | class);
        let mut plan = Self {
            groups: Vec::new(),
            receivers,
        };
        // Exact overlap: a thousand groups with the same members.
        plan.add("equities", 1000 / share, |_| A | B, Source::Ticks);
        // A hierarchy: each level is within the one above.
        plan.add("plant/all", 40 / share, |_| everybody, Source::Telemetry);
        plan.add("plant/north", 200 / share, |_| A | C, Source::Telemetry);
        plan.add("plant/south", 200 / share, |_| B | D, Source::Telemetry);
        plan.add("plant/north/hall-1", 200 / share, |_| A, Source::Telemetry);
        plan.add("plant/south/hall-2", 200 / share, |_| B, Source::Telemetry);
        // Irregular: any mixture. Multiplied by an odd number the bits look random enough.
        let mixed = |at: usize| ((at * 11 + 3) % 15 + 1) as Classes & everybody;
        plan.add("desk", 64 / share, mixed, Source::Ticks);
        let spread = |at: usize| {
            if at.is_multiple_of(2) {
                everybody
            } else {
                A | B
            }
        };
        plan.add("files", 300 / share, spread, Source::Files);
        for owner in 0..plan.receivers() {
            plan.groups.push(Group {
                name: format!("inbox/{}", owner + 1),
                classes: plan.receivers[owner],
                owner: Some(owner),
                sources: vec![Source::Letters],
            });
        }
        // Cluster-wide, and published to by everybody who publishes.
        plan.groups.push(Group {
            name: "announcements".to_owned(),
            classes: everybody,
            owner: None,
            sources: Source::ALL.to_vec(),
        });
        plan
    }

    fn add(
        &mut self,
        name: &str,
        count: usize,
        classes: impl Fn(usize) -> Classes,
        source: Source,
    ) {
        self.groups.extend((0..count).map(|at| Group {
            name: format!("{name}/{at:04}"),
            classes: classes(at),
            owner: None,
            sources: vec![source],
        }));
    }

    /// How many receivers there are.
    #[must_use]
    pub(crate) fn receivers(&self) -> usize {
        self.receivers.len()
    }

    /// Whether this receiver is in this group; false for what does not exist.
    #[must_use]
    pub(crate) fn receives(&self, receiver: usize, group: usize) -> bool {
        match (self.receivers.get(receiver), self.groups.get(group)) {
            (Some(class), Some(group)) => {
                group.classes & class != 0 && group.owner.is_none_or(|owner| owner == receiver)
            }
            _ => false,
        }
    }

    /// The groups of a receiver.
    #[must_use]
    pub(crate) fn groups_of(&self, receiver: usize) -> Vec<usize> {
        (0..self.groups.len())
            .filter(|&group| self.receives(receiver, group))
            .collect()
    }

    /// The groups that this source publishes to.
    #[must_use]
    pub(crate) fn published_by(&self, source: Source) -> Vec<usize> {
        let of_source = |group: &usize| self.groups[*group].sources.contains(&source);
        (0..self.groups.len()).filter(of_source).collect()
    }

    /// How many receivers a group has.
    #[must_use]
    pub(crate) fn members(&self, group: usize) -> u32 {
        let members = (0..self.receivers()).filter(|&receiver| self.receives(receiver, group));
        members.map(|_| 1).sum()
    }

    /// Whether this group is some receiver's inbox.
    #[must_use]
    pub(crate) fn is_inbox(&self, group: usize) -> bool {
        let group = self.groups.get(group);
        group.is_some_and(|group| group.owner.is_some())
    }

    /// Regions with an address of their own: sets of receivers with the same groups, inboxes aside.
    #[must_use]
    pub(crate) fn regions(&self) -> usize {
        let classes: BTreeSet<Classes> = self.receivers.iter().copied().collect();
        classes.len()
    }

    /// Receivers that have all their groups but the inbox in common with another.
    #[must_use]
    pub(crate) fn companions(&self) -> usize {
        let alike = |class| {
            self.receivers
                .iter()
                .filter(|&&other| other == class)
                .count()
        };
        let classes = self.receivers.iter();
        classes.filter(|&&class| alike(class) > 1).count()
    }

    /// The cluster-wide group.
    #[must_use]
    pub(crate) fn cluster_wide(&self) -> usize {
        self.groups.len() - 1
    }

    /// The receiver that is killed: the last of the first class, so that others hold the same.
    #[must_use]
    pub(crate) fn victim(&self) -> usize {
        self.receivers
            .iter()
            .rposition(|&class| class == A)
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_size_keeps_its_promises() {
        let plan = Plan::new(Size::Full);
        assert!(plan.groups.len() >= 2000, "{}", plan.groups.len());
        assert!(plan.receivers() >= 6);
        assert_eq!(plan.members(plan.cluster_wide()), 9);
        assert_eq!(plan.groups[plan.cluster_wide()].sources.len(), 4);
    }

    #[test]
    fn every_group_has_a_name_of_its_own_a_member_and_a_source() {
        for size in [Size::Full, Size::Quick] {
            let plan = Plan::new(size);
            let names: BTreeSet<_> = plan.groups.iter().map(|group| &group.name).collect();
            assert_eq!(names.len(), plan.groups.len());
            for (at, group) in plan.groups.iter().enumerate() {
                assert!(plan.members(at) > 0, "{}", group.name);
                assert!(!group.sources.is_empty(), "{}", group.name);
            }
        }
    }

    #[test]
    fn there_are_as_many_regions_as_classes() {
        let regions = |size| {
            let plan = Plan::new(size);
            let shared = |receiver| -> Vec<usize> {
                let groups = plan.groups_of(receiver).into_iter();
                groups.filter(|&group| !plan.is_inbox(group)).collect()
            };
            let sets: BTreeSet<_> = (0..plan.receivers()).map(shared).collect();
            assert_eq!(sets.len(), plan.regions());
            sets.len()
        };
        assert_eq!(regions(Size::Full), 4);
        assert_eq!(regions(Size::Quick), 3);
    }

    #[test]
    fn the_victim_has_companions_with_the_same_groups() {
        for size in [Size::Full, Size::Quick] {
            let plan = Plan::new(size);
            let class = plan.receivers[plan.victim()];
            let same = plan.receivers.iter().filter(|&&other| other == class);
            assert!(same.count() >= 3);
        }
    }

    #[test]
    fn every_receiver_has_an_inbox_that_nobody_else_reads() {
        let plan = Plan::new(Size::Quick);
        let inboxes = |receiver| {
            let groups = plan.groups_of(receiver).into_iter();
            groups.filter(|&group| plan.is_inbox(group))
        };
        let all: BTreeSet<usize> = (0..plan.receivers()).flat_map(inboxes).collect();
        assert_eq!(all.len(), plan.receivers());
        // The last receiver is alone in its class.
        assert_eq!(plan.companions(), 5);
        for &inbox in &all {
            assert_eq!(plan.members(inbox), 1);
            assert_eq!(plan.groups[inbox].sources, [Source::Letters]);
        }
    }
}
