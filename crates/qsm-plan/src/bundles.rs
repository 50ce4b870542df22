//! Groups that are carried by the same regions, as one.

use std::collections::BTreeMap;

use qsm_wire::mix;

use crate::cluster::{Cluster, Cost, Model};
use crate::work::Work;

/// Units of work of an entry in a map.
const MAP_UNITS: usize = 16;

/// The part of a bundle that a region, or several, have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) bundle: u32,
    /// Messages that its nodes want, in 1000 seconds.
    pub(crate) wanted: Cost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Sign(usize),
    Number(usize),
    Share(usize),
    Done,
}

/// Groups with the same regions, and each region's share of them. Channels are chosen with these,
/// as there are far fewer than groups.
#[derive(Debug)]
pub(crate) struct Bundles {
    /// By group: its regions, as a sum. A collision makes a worse choice of channels, no wrong path.
    signatures: Vec<u128>,
    numbers: BTreeMap<u128, u32>,
    /// Messages of each bundle in 1000 seconds.
    pub(crate) rates: Vec<Cost>,
    /// By region, ascending.
    pub(crate) shares: Vec<Vec<Share>>,
    stage: Stage,
}

fn value(region: usize) -> u128 {
    let half = |salt: u64| u128::from(mix(mix(region as u64 + 1).wrapping_add(salt)));
    half(1) << 64 | half(2)
}

impl Bundles {
    pub(crate) fn new() -> Self {
        Self {
            signatures: Vec::new(),
            numbers: BTreeMap::new(),
            rates: Vec::new(),
            shares: Vec::new(),
            stage: Stage::Sign(0),
        }
    }

    /// Goes on for a slice. `true`: done.
    pub(crate) fn step(
        &mut self,
        regions: &[&Cluster],
        model: &Model<'_>,
        work: &mut Work,
    ) -> bool {
        while !work.is_spent() {
            match self.stage {
                Stage::Sign(at) => match regions.get(at) {
                    Some(region) => self.sign(at, region, model, work),
                    None => self.stage = Stage::Number(0),
                },
                Stage::Number(at) => self.number(at, model, work),
                Stage::Share(at) => match regions.get(at) {
                    Some(region) => self.share(at, region, model, work),
                    None => self.stage = Stage::Done,
                },
                Stage::Done => return true,
            }
        }
        false
    }

    fn sign(&mut self, at: usize, region: &Cluster, model: &Model<'_>, work: &mut Work) {
        self.stage = Stage::Sign(at + 1);
        work.spend(region.len() + 1);
        let value = value(at);
        for (group, count) in region.entries() {
            if model.carries(region.size, count) {
                let group = group.0 as usize;
                if group >= self.signatures.len() {
                    self.signatures.resize(group + 1, 0);
                }
                self.signatures[group] ^= value;
            }
        }
    }

    fn number(&mut self, at: usize, model: &Model<'_>, work: &mut Work) {
        let Some(&signature) = self.signatures.get(at) else {
            self.stage = Stage::Share(0);
            return;
        };
        self.stage = Stage::Number(at + 1);
        work.spend(MAP_UNITS);
        if signature == 0 {
            return;
        }
        let next = u32::try_from(self.rates.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(signature).or_insert(next);
        if number == next {
            self.rates.push(0);
        }
        let group = u32::try_from(at).unwrap_or(u32::MAX);
        self.rates[number as usize] += model.rated(qsm_wire::GroupId(group), 1);
    }

    fn share(&mut self, at: usize, region: &Cluster, model: &Model<'_>, work: &mut Work) {
        self.stage = Stage::Share(at + 1);
        work.spend(region.len() * MAP_UNITS + 1);
        let carried = region
            .entries()
            .filter(|(_, count)| model.carries(region.size, *count));
        let shares = carried.filter_map(|(group, count)| {
            let signature = self.signatures.get(group.0 as usize)?;
            let bundle = *self.numbers.get(signature)?;
            let wanted = model.rated(group, u64::from(count));
            Some(Share { bundle, wanted })
        });
        let mut shares: Vec<Share> = shares.collect();
        shares.sort_unstable_by_key(|share| share.bundle);
        shares.dedup_by(|next, kept| {
            let same = next.bundle == kept.bundle;
            if same {
                kept.wanted += next.wanted;
            }
            same
        });
        self.shares.push(shares);
    }
}

/// The shares of both.
pub(crate) fn sum(one: &[Share], two: &[Share]) -> Vec<Share> {
    let mut all = Vec::with_capacity(one.len().max(two.len()));
    let (mut one, mut two) = (one.iter().peekable(), two.iter().peekable());
    loop {
        match (one.peek(), two.peek()) {
            (Some(first), Some(second)) if first.bundle == second.bundle => {
                let wanted = first.wanted + second.wanted;
                all.push(Share { wanted, ..**first });
                one.next();
                two.next();
            }
            (Some(first), Some(second)) if first.bundle < second.bundle => {
                all.push(**first);
                one.next();
            }
            (_, Some(second)) => {
                all.push(**second);
                two.next();
            }
            (Some(first), None) => {
                all.push(**first);
                one.next();
            }
            (None, None) => return all,
        }
    }
}
