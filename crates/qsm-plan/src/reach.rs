//! Channels, and by which of them a group reaches its members.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::{ChannelId, GroupId, RegionId};

use crate::cluster::Model;

/// A multicast address and who listens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Channel {
    pub(crate) id: ChannelId,
    pub(crate) regions: BTreeSet<RegionId>,
    /// Nodes in them.
    pub(crate) size: u64,
    /// The smallest channel that contains it.
    pub(crate) parent: Option<usize>,
    /// Number of channels that contain it.
    pub(crate) depth: usize,
    /// Only the groups pinned to it use it: the name in the hints.
    pub(crate) pin: Option<u32>,
}

/// The channels of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) channels: Vec<Channel>,
    /// The smallest channel that a region is in.
    nearest: BTreeMap<RegionId, usize>,
    /// Channels with pins that a region is in.
    pinned: BTreeMap<RegionId, Vec<usize>>,
    /// Groups that use one channel only.
    pub(crate) pins: BTreeMap<GroupId, usize>,
}

/// A region's subscribers of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) region: RegionId,
    pub(crate) size: u32,
    pub(crate) count: u32,
}

/// The way of one message to a group's members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cover {
    /// A packet on each of these, by their place.
    pub(crate) channels: Vec<usize>,
    /// A copy for each member in these.
    pub(crate) copies: Vec<RegionId>,
    /// CPU time of one message, nanoseconds.
    pub(crate) cost: u64,
}

/// A channel while a cover is looked for.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    below: u64,
    wanted: u64,
}

impl Reach {
    /// Channels over these sets of regions, of which any two are disjoint or one contains the
    /// other; and those with pins, which may be anything.
    pub(crate) fn new(mut channels: Vec<Channel>, pins: BTreeMap<GroupId, usize>) -> Self {
        let mut order: Vec<usize> = (0..channels.len())
            .filter(|at| channels[*at].pin.is_none())
            .collect();
        order.sort_by_key(|at| Reverse(channels[*at].regions.len()));
        let mut nearest: BTreeMap<RegionId, usize> = BTreeMap::new();
        for at in order {
            let first = channels[at].regions.first();
            let parent = first.and_then(|region| nearest.get(region).copied());
            channels[at].parent = parent;
            channels[at].depth = parent.map_or(0, |parent| channels[parent].depth + 1);
            for region in &channels[at].regions {
                nearest.insert(*region, at);
            }
        }
        let mut pinned: BTreeMap<RegionId, Vec<usize>> = BTreeMap::new();
        for (at, channel) in channels.iter().enumerate() {
            for region in channel.regions.iter().filter(|_| channel.pin.is_some()) {
                pinned.entry(*region).or_default().push(at);
            }
        }
        Self {
            channels,
            nearest,
            pinned,
            pins,
        }
    }

    /// The channels that a region listens to, smallest first; then those with pins.
    pub(crate) fn of(&self, region: RegionId) -> impl Iterator<Item = usize> + '_ {
        let first = self.nearest.get(&region).copied();
        let above = core::iter::successors(first, |at| self.channels[*at].parent);
        above.chain(self.pinned.get(&region).into_iter().flatten().copied())
    }

    /// A node has entered or left a region.
    pub(crate) fn resize(&mut self, region: RegionId, more: bool) {
        let listened: Vec<usize> = self.of(region).collect();
        for at in listened {
            let size = &mut self.channels[at].size;
            *size = if more {
                *size + 1
            } else {
                size.saturating_sub(1)
            };
        }
    }

    /// A region has closed.
    pub(crate) fn close(&mut self, region: RegionId) {
        for channel in &mut self.channels {
            channel.regions.remove(&region);
        }
        self.nearest.remove(&region);
        self.pinned.remove(&region);
    }

    /// The cheapest way to a group's members. Each is reached once.
    pub(crate) fn cover(&self, group: GroupId, parts: &[Part], model: &Model<'_>) -> Cover {
        match self.pins.get(&group) {
            Some(pin) => self.pinned_cover(*pin, parts, model),
            None => self.free_cover(parts, model),
        }
    }

    fn pinned_cover(&self, pin: usize, parts: &[Part], model: &Model<'_>) -> Cover {
        let channel = &self.channels[pin];
        let mut cover = Cover::default();
        let mut wanted = 0;
        for part in parts {
            if channel.regions.contains(&part.region) {
                wanted += u64::from(part.count);
            } else {
                cover.copies.push(part.region);
                cover.cost += model.copies(u64::from(part.count));
            }
        }
        if wanted > 0 {
            cover.channels.push(pin);
            cover.cost += model.channel(channel.size, wanted);
        }
        cover
    }

    fn free_cover(&self, parts: &[Part], model: &Model<'_>) -> Cover {
        let mut sums: BTreeMap<(Reverse<usize>, usize), Sum> = BTreeMap::new();
        let mut cover = Cover::default();
        let key = |at: usize| (Reverse(self.channels[at].depth), at);
        for part in parts {
            let count = u64::from(part.count);
            match self.nearest.get(&part.region) {
                Some(at) => {
                    let sum = sums.entry(key(*at)).or_default();
                    sum.below += model.copies(count);
                    sum.wanted += count;
                }
                None => cover.cost += model.copies(count),
            }
        }
        // From the smallest channels to the largest: one packet, or what is best below.
        let mut used = BTreeSet::new();
        while let Some(((_, at), sum)) = sums.pop_first() {
            let channel = &self.channels[at];
            let one = model.channel(channel.size.max(sum.wanted), sum.wanted);
            let forced = !model.settings.residue && channel.regions.len() == 1;
            let best = if one <= sum.below || forced {
                used.insert(at);
                one
            } else {
                sum.below
            };
            match channel.parent {
                Some(parent) => {
                    let upper = sums.entry(key(parent)).or_default();
                    upper.below += best;
                    upper.wanted += sum.wanted;
                }
                None => cover.cost += best,
            }
        }
        let mut channels = BTreeSet::new();
        for part in parts {
            let first = self.nearest.get(&part.region).copied();
            let above = core::iter::successors(first, |at| self.channels[*at].parent);
            match above.filter(|at| used.contains(at)).last() {
                Some(largest) => {
                    channels.insert(largest);
                }
                None => cover.copies.push(part.region),
            }
        }
        cover.channels = channels.into_iter().collect();
        cover
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rates::Rates;
    use crate::settings::Settings;

    fn channel(id: u32, regions: &[u32], size: u64) -> Channel {
        Channel {
            id: ChannelId(id),
            regions: regions.iter().map(|id| RegionId(*id)).collect(),
            size,
            parent: None,
            depth: 0,
            pin: None,
        }
    }

    fn part(region: u32, size: u32, count: u32) -> Part {
        Part {
            region: RegionId(region),
            size,
            count,
        }
    }

    #[test]
    fn a_group_uses_the_largest_channel_that_few_do_not_want() {
        let reach = Reach::new(
            vec![
                channel(1, &[1], 10),
                channel(2, &[2], 10),
                channel(3, &[1, 2, 3], 21),
                channel(4, &[1, 2], 20),
            ],
            BTreeMap::new(),
        );
        let settings = Settings::default();
        let rates = Rates::default();
        let model = Model {
            settings: &settings,
            rates: &rates,
        };
        let cover = |parts: &[Part]| {
            let cover = reach.cover(GroupId(0), parts, &model);
            let ids: Vec<u32> = cover
                .channels
                .iter()
                .map(|at| reach.channels[*at].id.0)
                .collect();
            let copies: Vec<u32> = cover.copies.iter().map(|region| region.0).collect();
            (ids, copies, cover.cost)
        };
        let all = [part(1, 10, 10), part(2, 10, 10), part(3, 1, 1)];
        assert_eq!(cover(&all), (vec![3], vec![], 5_000));
        assert_eq!(cover(&all[..2]), (vec![4], vec![], 5_000));
        assert_eq!(cover(&all[..1]), (vec![1], vec![], 5_000));
        // One odd member of region 2: a copy. The region without an address: a copy as well.
        let odd = [part(1, 10, 10), part(2, 10, 1), part(3, 1, 1)];
        assert_eq!(cover(&odd), (vec![1], vec![2, 3], 5_000 + 2 * 6_000));
    }
}
