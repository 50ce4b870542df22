//! Which core thread has a group: a function of the group's name and the number of cores.
//!
//! It is the same on all nodes with as many cores, at all times and in all versions. So a core's
//! groups are the same everywhere, and a region, which is nodes with the same groups, lies within
//! one core of each: cores are shards by region, and none needs to know what another does.

use std::sync::Arc;

/// Most core threads of a node. Each is a member of the cluster.
pub const CORES_MAX: usize = 64;

/// The cores of a node, as shards of the space of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shards(pub(crate) usize);

/// The groups of one core.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) core: usize,
    pub(crate) names: Vec<Arc<str>>,
}

impl Shards {
    /// The place of the core that has the group.
    pub(crate) fn of(self, group: &str) -> usize {
        // The high bits, multiplied by the number of cores, instead of a remainder: as even, and
        // twice as many cores cut each share in two.
        let place = (u128::from(hash(group)) * self.0 as u128) >> 64;
        usize::try_from(place).unwrap_or(0)
    }

    /// The groups of each core that has some, in the order of cores. No groups are one share of
    /// none, so that there always is somebody to ask.
    pub(crate) fn split(self, names: &[Arc<str>]) -> Vec<Share> {
        let mut shares = self.split_among_all(names);
        match names.is_empty() {
            true => shares.truncate(1),
            false => shares.retain(|share| !share.names.is_empty()),
        }
        shares
    }

    /// As [`Shards::split`], with a share for each core, also if it has none of the groups.
    pub(crate) fn split_among_all(self, names: &[Arc<str>]) -> Vec<Share> {
        let none = |core| Share {
            core,
            names: Vec::new(),
        };
        let mut shares: Vec<Share> = (0..self.0).map(none).collect();
        for name in names {
            shares[self.of(name)].names.push(Arc::clone(name));
        }
        shares
    }
}

/// FNV-1a (Fowler, Noll, Vo; 64 bits), whose high bits differ little between short names, and the
/// finish of `MurmurHash3` (Appleby), after which all bits depend on all.
fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = name.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<Arc<str>> {
        (0..count)
            .map(|index| Arc::from(format!("prices/{index}")))
            .collect()
    }

    /// Another answer would cut a cluster's regions apart while its nodes are being updated.
    #[test]
    fn the_answer_never_changes() {
        let places = ["", "x", "prices/eur", "prices/usd"].map(|name| Shards(64).of(name));
        assert_eq!(places, PLACES);
    }

    const PLACES: [usize; 4] = [59, 1, 27, 18];

    #[test]
    fn groups_are_spread_evenly_and_more_cores_cut_shares_in_two() {
        let names = names(10_000);
        for cores in [1, 2, 3, 64] {
            let fair = names.len() / cores;
            let shares = Shards(cores).split(&names);
            assert_eq!(shares.len(), cores);
            for share in &shares {
                let count = share.names.len();
                assert!(
                    count > fair * 2 / 3 && count < fair * 3 / 2,
                    "{count} of {cores}"
                );
            }
        }
        for name in &names {
            assert_eq!(Shards(4).of(name) / 2, Shards(2).of(name));
        }
    }

    #[test]
    fn shares_keep_the_order_and_no_groups_are_one_share() {
        let names = names(100);
        for share in Shards(3).split(&names) {
            let mine = names.iter().filter(|name| Shards(3).of(name) == share.core);
            assert!(mine.eq(share.names.iter()));
        }
        let none = Share {
            core: 0,
            names: Vec::new(),
        };
        assert_eq!(Shards(3).split(&[]), [none]);
    }
}
