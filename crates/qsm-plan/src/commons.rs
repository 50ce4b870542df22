//! Sets of groups that several regions have in common: one region more for all their nodes, which
//! carries these groups, takes a packet for a message instead of one for each region (R020, R022).
//!
//! Regions are noted one after the other. A set that was chosen before stays while most of what it
//! can save is saved by it, though a node here and there has not all of it, and while it saves half of
//! what a new one has to: else all would move, perhaps back and forth. Else groups of exactly the same regions make a set.

use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::GroupId;

use crate::cluster::{COST_SECONDS, Cost, Model};

/// Sets at most; each takes a multicast address.
const SETS_MAX: usize = 64;
/// A node's part in a region more costs a packet in so many seconds: tokens go round while there is
/// traffic, and replace receipts that its own region would have sent.
const TOKEN_SECONDS: u32 = 10;

/// Groups and former sets, by the regions that have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommonSets {
    /// By number.
    groups: Vec<Spread>,
    former: Vec<(Vec<GroupId>, Spread)>,
}

/// Regions all of whose nodes want something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Spread {
    /// The XOR of their hashes, by which equal sets of regions are found.
    sum: u64,
    regions: u32,
    nodes: u64,
}

impl Spread {
    fn add(&mut self, hash: u64, nodes: u32) {
        self.sum ^= hash;
        self.regions += 1;
        self.nodes += u64::from(nodes);
    }
}

/// Packets that a common region saves, and those that it costs, both in 1000 seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommonSaving {
    /// Of messages to its groups.
    pub saved: u64,
    /// Of its tokens.
    pub spent: u64,
}

impl CommonSaving {
    /// A region of so many nodes instead of several, for groups of which these are the messages in 1000
    /// seconds.
    #[must_use]
    pub fn new(rates: impl IntoIterator<Item = u32>, regions: u32, nodes: u64) -> Self {
        let messages: u64 = rates.into_iter().map(u64::from).sum();
        Self {
            saved: messages.saturating_mul(u64::from(regions.saturating_sub(1))),
            spent: nodes.saturating_mul(u64::from(COST_SECONDS / TOKEN_SECONDS)),
        }
    }
}

impl CommonSets {
    /// Nothing is noted yet; these sets, each ascending, were chosen before.
    #[must_use]
    pub fn new(former: impl IntoIterator<Item = Vec<GroupId>>) -> Self {
        let former = former.into_iter().filter(|set| !set.is_empty());
        Self {
            groups: Vec::new(),
            former: former.map(|set| (set, Spread::default())).collect(),
        }
    }

    /// Notes a region of so many nodes with these groups, ascending. `hash`: of this region alone.
    /// Returns how many groups were looked at.
    pub fn note(&mut self, hash: u64, nodes: u32, groups: &[GroupId]) -> usize {
        for group in groups {
            let at = group.0 as usize;
            if self.groups.len() <= at {
                self.groups.resize(at + 1, Spread::default());
            }
            self.groups[at].add(hash, nodes);
        }
        for (set, spread) in &mut self.former {
            if set.iter().all(|group| groups.binary_search(group).is_ok()) {
                spread.add(hash, nodes);
            }
        }
        groups.len() + self.former.len()
    }

    /// The sets that save most, the most worthwhile first, and each at least so many packets in a
    /// second; no group is in two.
    pub(crate) fn select(mut self, least: u32, model: &Model<'_>) -> Vec<Vec<GroupId>> {
        let packet = Cost::from(model.settings.costs.packet);
        let least = Cost::from(least) * Cost::from(COST_SECONDS) * packet;
        let mut sets: BTreeMap<Spread, Vec<GroupId>> = BTreeMap::new();
        let mut known: BTreeSet<Spread> = BTreeSet::new();
        for (set, spread) in core::mem::take(&mut self.former) {
            let taken = |group: &GroupId| sets.values().flatten().any(|other| other == group);
            if self.stays(&set, spread, model) && !set.iter().any(taken) {
                sets.entry(spread).or_default().extend(&set);
                known.insert(spread);
                let chosen = |(group, _): &(GroupId, _)| set.binary_search(group).is_ok();
                let groups = (0..).map(GroupId).zip(&mut self.groups);
                groups
                    .filter(chosen)
                    .for_each(|(_, spread)| *spread = Spread::default());
            }
        }
        let several = |spread: &Spread| spread.regions > 1;
        let groups = (0..).map(GroupId).zip(&self.groups);
        for (group, spread) in groups.filter(|(_, spread)| several(spread)) {
            sets.entry(*spread).or_default().push(group);
        }
        let mut valued: Vec<(Cost, Vec<GroupId>)> = Vec::new();
        for (spread, mut set) in sets {
            set.sort_unstable();
            let saved = saved(&set, spread, model);
            let least = if known.contains(&spread) {
                least / 2
            } else {
                least
            };
            if saved > 0 && saved >= least {
                valued.push((saved, set));
            }
        }
        valued.sort_by(|(one, set), (other, than)| other.cmp(one).then_with(|| set.cmp(than)));
        let best = valued.into_iter().take(SETS_MAX);
        best.map(|(_, set)| set).collect()
    }

    /// Whether the set saves at least half of what its groups could save if each had all its regions.
    fn stays(&self, set: &[GroupId], spread: Spread, model: &Model<'_>) -> bool {
        let each = set.iter().map(|group| {
            let wide = self.groups.get(group.0 as usize).copied();
            packets(*group, wide.unwrap_or_default(), model)
        });
        let (could, does) = (each.sum::<Cost>(), packets_of(set, spread, model));
        does > 0 && 2 * does >= could
    }
}

/// CPU time that is saved if a set is carried by a region of its own.
fn saved(set: &[GroupId], spread: Spread, model: &Model<'_>) -> Cost {
    let tokens = CommonSaving::new([], spread.regions, spread.nodes).spent;
    let tokens = Cost::from(tokens) * Cost::from(model.settings.costs.packet);
    packets_of(set, spread, model) - tokens
}

fn packets_of(set: &[GroupId], spread: Spread, model: &Model<'_>) -> Cost {
    set.iter().map(|group| packets(*group, spread, model)).sum()
}

/// CPU time of the packets but one that the messages of a group take in these regions.
fn packets(group: GroupId, spread: Spread, model: &Model<'_>) -> Cost {
    let rate = Cost::from(model.rates.of(group));
    let fewer = Cost::from(spread.regions.saturating_sub(1));
    rate * fewer * Cost::from(model.settings.costs.packet)
}

#[cfg(test)]
mod tests {
    use qsm_wire::mix;

    use super::*;
    use crate::{Rates, Settings};

    fn chosen(former: &[&[u32]], regions: &[(u32, &[u32])], rates: &[(u32, u32)]) -> Vec<Vec<u32>> {
        let ids = |set: &[u32]| set.iter().map(|group| GroupId(*group)).collect::<Vec<_>>();
        let mut known = Rates::default();
        for (group, rate) in rates {
            known.set(GroupId(*group), *rate);
        }
        let (settings, rates) = (Settings::default(), known);
        let model = Model {
            settings: &settings,
            rates: &rates,
        };
        let mut sets = CommonSets::new(former.iter().map(|set| ids(set)));
        for (id, (size, groups)) in (1..).zip(regions) {
            sets.note(mix(id), *size, &ids(groups));
        }
        let chosen = sets.select(10, &model).into_iter();
        let chosen = chosen.map(|set| set.iter().map(|group| group.0).collect());
        chosen.collect()
    }

    /// Messages in 1000 seconds that make a set of two regions worthwhile.
    const MANY: u32 = 1_000_000;

    #[test]
    fn groups_of_the_same_regions_are_a_set_if_that_saves_packets() {
        let regions: [(u32, &[u32]); 3] = [(4, &[0, 1, 7]), (4, &[0, 1, 8]), (4, &[0, 9])];
        assert_eq!(chosen(&[], &regions, &[]), Vec::<Vec<u32>>::new());
        // Of one region nothing is common, whatever its rate.
        let rates = [(0, MANY), (1, MANY), (7, MANY)];
        assert_eq!(chosen(&[], &regions, &rates), [vec![0], vec![1]]);
        assert_eq!(chosen(&[], &regions[..2], &rates), [vec![0, 1]]);
    }

    #[test]
    fn a_set_stays_where_a_few_have_not_all_of_it_and_goes_where_most_have_not() {
        let all: &[u32] = &[0, 1];
        let mut regions = vec![(4, all); 9];
        regions.push((4, &[0]));
        let rates = [(0, MANY), (1, MANY)];
        assert_eq!(chosen(&[], &regions, &rates), [vec![0], vec![1]]);
        assert_eq!(chosen(&[all], &regions, &rates), [vec![0, 1]]);
        regions.extend([(4, &[0][..]); 30]);
        assert_eq!(chosen(&[all], &regions, &rates), [vec![0], vec![1]]);
    }

    #[test]
    fn what_has_the_same_regions_as_a_former_set_grows_it() {
        let rates = [(0, MANY), (1, MANY), (2, MANY)];
        let regions: [(u32, &[u32]); 2] = [(4, &[0, 1, 2]), (4, &[0, 1, 2, 3])];
        assert_eq!(chosen(&[&[0, 1]], &regions, &rates), [vec![0, 1, 2]]);
        // A set of groups that nobody has any more is gone.
        assert_eq!(chosen(&[&[50, 51]], &regions, &rates), [vec![0, 1, 2]]);
    }
}
