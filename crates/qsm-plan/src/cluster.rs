use std::sync::Arc;

use qsm_wire::GroupId;

use crate::rates::Rates;
use crate::settings::Settings;

/// Cost of a plan or a part of it: nanoseconds of CPU time in 1000 seconds.
pub type Cost = i128;

/// Seconds that a cost is for.
pub(crate) const COST_SECONDS: u32 = 1000;

/// Nodes that may become a region, and how many of them want each group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Its nodes.
    pub(crate) size: u32,
    counts: Counts,
}

/// Number of nodes that want each group; groups ascend.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Counts {
    /// All nodes want all of these.
    Same(Arc<[GroupId]>),
    Each(Vec<(GroupId, u32)>),
}

impl Cluster {
    /// Nodes with the same groups.
    pub(crate) fn of(groups: Arc<[GroupId]>, size: u32) -> Self {
        let counts = Counts::Same(groups);
        Self { size, counts }
    }

    /// Groups that somebody wants.
    pub(crate) fn len(&self) -> usize {
        match &self.counts {
            Counts::Same(groups) => groups.len(),
            Counts::Each(counts) => counts.len(),
        }
    }

    #[inline]
    fn at(&self, at: usize) -> Option<(GroupId, u32)> {
        match &self.counts {
            Counts::Same(groups) => groups.get(at).map(|group| (*group, self.size)),
            Counts::Each(counts) => counts.get(at).copied(),
        }
    }

    /// Each group, and how many nodes want it.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (GroupId, u32)> + '_ {
        (0..self.len()).filter_map(|at| self.at(at))
    }

    /// Number of nodes that want this group.
    pub(crate) fn count(&self, group: GroupId) -> u32 {
        match &self.counts {
            Counts::Same(groups) => match groups.binary_search(&group) {
                Ok(_) => self.size,
                Err(_) => 0,
            },
            Counts::Each(counts) => {
                let found = counts.binary_search_by_key(&group, |(group, _)| *group);
                found.map_or(0, |at| counts[at].1)
            }
        }
    }

    /// Both together.
    pub(crate) fn join(&self, other: &Self) -> Self {
        let size = self.size + other.size;
        if let (Counts::Same(one), Counts::Same(two)) = (&self.counts, &other.counts)
            && one == two
        {
            return Self::of(Arc::clone(one), size);
        }
        let mut counts = Vec::with_capacity(self.len().max(other.len()));
        both(self, other, |group, count| counts.push((group, count)));
        let counts = Counts::Each(counts);
        Self { size, counts }
    }

    /// Without one node, which wants these groups and is in it.
    pub(crate) fn without(&self, groups: &[GroupId]) -> Self {
        let size = self.size - 1;
        if let Counts::Same(same) = &self.counts {
            return Self::of(Arc::clone(same), size);
        }
        let mut rest = groups;
        let left = self.entries().filter_map(|(group, count)| {
            let wanted = rest.first() == Some(&group);
            if wanted {
                rest = &rest[1..];
            }
            let count = count - u32::from(wanted);
            (count > 0).then_some((group, count))
        });
        let counts = Counts::Each(left.collect());
        Self { size, counts }
    }
}

/// Calls with each group that one of the two has, and how many nodes want it in both together.
#[inline]
fn both(one: &Cluster, two: &Cluster, mut call: impl FnMut(GroupId, u32)) {
    let (mut at, mut to) = (0, 0);
    loop {
        match (one.at(at), two.at(to)) {
            (Some((group, count)), Some((other, more))) if group == other => {
                call(group, count + more);
                at += 1;
                to += 1;
            }
            (Some((group, count)), Some((other, _))) if group < other => {
                call(group, count);
                at += 1;
            }
            (_, Some((group, count))) => {
                call(group, count);
                to += 1;
            }
            (Some((group, count)), None) => {
                call(group, count);
                at += 1;
            }
            (None, None) => return,
        }
    }
}

/// The cost model over the present rates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) rates: &'a Rates,
}

impl Model<'_> {
    /// One message to all of `size` nodes, of which `count` want it.
    #[inline]
    pub(crate) fn channel(&self, size: u64, count: u64) -> u64 {
        self.settings.costs.channel(size, count)
    }

    /// One message as copies to `count` nodes.
    #[inline]
    pub(crate) fn copies(&self, count: u64) -> u64 {
        self.settings.costs.copies(count)
    }

    /// One message to a region: by its channel or, where that costs less, as copies.
    #[inline]
    fn message(&self, size: u32, count: u32) -> u64 {
        let channel = self.channel(u64::from(size), u64::from(count));
        if self.settings.residue {
            channel.min(self.copies(u64::from(count)))
        } else {
            channel
        }
    }

    /// Returns whether a region's channel carries a group that `count` of its nodes want: else they
    /// are residue.
    #[inline]
    pub(crate) fn carries(&self, size: u32, count: u32) -> bool {
        let channel = self.channel(u64::from(size), u64::from(count));
        !self.settings.residue || size == 1 || channel <= self.copies(u64::from(count))
    }

    #[inline]
    pub(crate) fn rated(&self, group: GroupId, cost: u64) -> Cost {
        Cost::from(self.rates.of(group)) * Cost::from(cost)
    }

    /// A region without messages.
    pub(crate) fn region(&self) -> Cost {
        Cost::from(self.settings.costs.region) * Cost::from(COST_SECONDS)
    }

    /// A region of these nodes.
    pub(crate) fn cost(&self, cluster: &Cluster) -> Cost {
        let messages = cluster
            .entries()
            .map(|(group, count)| self.rated(group, self.message(cluster.size, count)));
        self.region() + messages.sum::<Cost>()
    }

    /// A region of the nodes of both.
    pub(crate) fn joint(&self, one: &Cluster, two: &Cluster) -> Cost {
        let size = one.size + two.size;
        let mut cost = self.region();
        both(one, two, |group, count| {
            cost += self.rated(group, self.message(size, count));
        });
        cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(ids: &[u32]) -> Arc<[GroupId]> {
        ids.iter().map(|id| GroupId(*id)).collect()
    }

    #[test]
    fn counts_follow_nodes_that_come_and_go() {
        let two = Cluster::of(groups(&[1, 2, 5]), 2);
        let one = Cluster::of(groups(&[2, 3]), 1);
        let joined = two.join(&one);
        let counts: Vec<_> = joined.entries().map(|(g, n)| (g.0, n)).collect();
        assert_eq!(counts, [(1, 2), (2, 3), (3, 1), (5, 2)]);
        assert_eq!((joined.count(GroupId(2)), joined.count(GroupId(4))), (3, 0));
        let left = joined.without(&groups(&[2, 3]));
        assert_eq!(
            left.entries().collect::<Vec<_>>(),
            two.entries().collect::<Vec<_>>()
        );
        assert_eq!(left.size, 2);
    }

    // Each term by hand, with the default costs.
    #[test]
    fn a_region_costs_what_its_messages_cost() {
        let settings = Settings::default();
        let mut rates = Rates::default();
        rates.set(GroupId(2), 3000);
        let model = Model {
            settings: &settings,
            rates: &rates,
        };
        let cluster = Cluster::of(groups(&[1, 2]), 9).join(&Cluster::of(groups(&[1, 3]), 1));
        // Group 1 for all; 2 by the channel with one node that does not want it, three times a
        // second; 3 as one copy.
        let expected = 50_000 + 5_000 + 3 * 6_500 + 6_000;
        assert_eq!(model.cost(&cluster), expected * 1000);
        assert!(!model.carries(10, 1) && model.carries(10, 9));
    }

    #[test]
    fn the_joint_cost_is_that_of_the_join() {
        let settings = Settings::default();
        let rates = Rates::default();
        let model = Model {
            settings: &settings,
            rates: &rates,
        };
        let one = Cluster::of(groups(&[1, 2, 8, 9]), 4);
        let two = Cluster::of(groups(&[2, 3, 9, 10]), 3);
        assert_eq!(model.joint(&one, &two), model.cost(&one.join(&two)));
    }
}
