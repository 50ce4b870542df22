//! Faults injected on purpose, at the receiver, after trains were split.
//!
//! Filters in the kernel (nftables, `tc`) see a GSO train as one packet, so on loopback and virtual links they lose 46
//! packets or none. Real networks lose them one by one. Hence the injector sits behind the split. It is deterministic:
//! the n-th datagram of a port meets the same fate for the same seed, whatever the batches; only reordering, which
//! needs a successor in the same batch, depends on how the kernel batched.

use crate::counters::FaultCounters;
use crate::receive::Place;

/// What the injector does, in millionths of all datagrams received (1,000,000 = always).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultConfig {
    /// Start of the random sequence.
    pub seed: u64,
    /// Discarded.
    pub loss_ppm: u32,
    /// Delivered twice in a row; counts among those not lost.
    pub duplicate_ppm: u32,
    /// Swapped with the next datagram of the batch; counts among those neither lost nor duplicated.
    pub reorder_ppm: u32,
    /// One bit changed; counts among those not lost.
    pub damage_ppm: u32,
    /// Only within so many bytes from the first one on; with 0 nothing is damaged.
    pub damage_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Injector {
    config: FaultConfig,
    state: u64,
    order: Vec<Place>,
    held: Option<Place>,
    damage: Vec<Damage>,
}

/// A bit that changes in a datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Damage {
    pub(crate) place: Place,
    /// Drawn; which one it is depends on the datagram's length.
    pub(crate) bit: u64,
}

impl Injector {
    pub(crate) fn new(config: FaultConfig) -> Self {
        Self {
            config,
            state: config.seed,
            order: Vec::new(),
            held: None,
            damage: Vec::new(),
        }
    }

    /// What is to be delivered of the batch, in order.
    pub(crate) fn order(&self) -> &[Place] {
        &self.order
    }

    /// Bits to change in the batch, and within how many first bytes.
    pub(crate) fn damage(&self) -> (&[Damage], usize) {
        (&self.damage, self.config.damage_bytes)
    }

    /// Decides about a batch. Allocates only until the largest batch was seen.
    pub(crate) fn apply(
        &mut self,
        batch: impl Iterator<Item = Place>,
        counters: &mut FaultCounters,
    ) {
        self.order.clear();
        self.damage.clear();
        for place in batch {
            // Always three draws, so that one rate does not change the fate decided by another.
            let lost = self.draw(self.config.loss_ppm);
            let duplicated = self.draw(self.config.duplicate_ppm);
            let reordered = self.draw(self.config.reorder_ppm);
            // Drawn only where it is asked for: the others' draws are as they were.
            let damages = self.config.damage_ppm > 0 && self.config.damage_bytes > 0;
            let damaged = damages && self.draw(self.config.damage_ppm);
            if lost {
                counters.lost += 1;
                continue;
            }
            if damaged {
                counters.damaged += 1;
                let bit = self.next();
                self.damage.push(Damage { place, bit });
            }
            if reordered && self.held.is_none() && !duplicated {
                self.held = Some(place);
                continue;
            }
            self.order.push(place);
            if duplicated {
                counters.duplicated += 1;
                self.order.push(place);
            }
            if let Some(held) = self.held.take() {
                counters.reordered += 1;
                self.order.push(held);
            }
        }
        // No successor: it stays where it was.
        self.order.extend(self.held.take());
    }

    fn draw(&mut self, ppm: u32) -> bool {
        ((self.next() >> 32) * 1_000_000) >> 32 < u64::from(ppm)
    }

    /// splitmix64 (Steele, Lea, Flood 2014): one addition and a mix; any seed will do.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(config: FaultConfig, batch: u32, batches: u32) -> (FaultCounters, Vec<Place>) {
        let mut injector = Injector::new(config);
        let mut counters = FaultCounters::default();
        let mut all = Vec::new();
        for slot in 0..batches {
            let places = (0..batch).map(|index| Place::new(slot as usize, index));
            injector.apply(places, &mut counters);
            all.extend_from_slice(injector.order());
        }
        (counters, all)
    }

    fn config(loss_ppm: u32, duplicate_ppm: u32, reorder_ppm: u32) -> FaultConfig {
        FaultConfig {
            seed: 42,
            loss_ppm,
            duplicate_ppm,
            reorder_ppm,
            ..FaultConfig::default()
        }
    }

    #[test]
    fn damage_changes_what_is_not_lost() {
        let damaging = FaultConfig {
            damage_ppm: 1_000_000,
            damage_bytes: 1,
            ..config(0, 0, 0)
        };
        let (counters, all) = run(damaging, 64, 10);
        assert_eq!((counters.damaged, all.len()), (640, 640));
        let losing = FaultConfig {
            loss_ppm: 1_000_000,
            ..damaging
        };
        assert_eq!(run(losing, 64, 10).0.damaged, 0);
        let nowhere = FaultConfig {
            damage_bytes: 0,
            ..damaging
        };
        assert_eq!(run(nowhere, 64, 10).0.damaged, 0);
    }

    #[test]
    fn no_rates_change_nothing() {
        let (counters, all) = run(config(0, 0, 0), 100, 10);
        assert_eq!(counters, FaultCounters::default());
        assert!(
            all.iter()
                .enumerate()
                .all(|(i, p)| p.slot() * 100 + p.index as usize == i)
        );
        assert_eq!(all.len(), 1000);
    }

    #[test]
    fn full_rates_do_it_always() {
        assert!(run(config(1_000_000, 0, 0), 100, 10).1.is_empty());
        assert_eq!(run(config(0, 1_000_000, 0), 100, 10).1.len(), 2000);
        let (counters, all) = run(config(0, 0, 1_000_000), 5, 1);
        assert_eq!(
            all.iter().map(|p| p.index).collect::<Vec<_>>(),
            [1, 0, 3, 2, 4]
        );
        assert_eq!(counters.reordered, 2);
    }

    #[test]
    fn rates_are_met_and_repeatable() {
        let faults = config(10_000, 20_000, 30_000);
        let (counters, all) = run(faults, 64, 10_000);
        // 640,000 datagrams: expected 6,400, 12,672 and about 18,600; four standard deviations are 320, 446 and 537.
        assert!(counters.lost.abs_diff(6_400) < 320, "{counters:?}");
        assert!(counters.duplicated.abs_diff(12_672) < 446, "{counters:?}");
        assert!(counters.reordered.abs_diff(17_900) < 900, "{counters:?}");
        assert_eq!(
            all.len() as u64,
            640_000 - counters.lost + counters.duplicated
        );
        assert_eq!(run(faults, 64, 10_000), (counters, all));
    }

    #[test]
    fn loss_and_duplication_do_not_depend_on_the_batches() {
        let faults = config(10_000, 20_000, 0);
        let small = run(faults, 10, 1000).0;
        assert_eq!(small, run(faults, 1000, 10).0);
        assert_eq!((small.lost, small.duplicated), (93, 196));
    }
}
