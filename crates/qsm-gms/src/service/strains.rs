use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::membership::Strain;
use qsm_wire::{NodeId, RegionId};

/// Age of a word after which it is over, and longest time that it stands for: it is said each second,
/// and one that is slow may say it late.
const FRESH: Duration = Duration::from_millis(2500);
/// Age of a node's last word after which all that it said is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(5);
/// Share of the time, percent, from which on a member is taken to read as fast as it can.
const FULL: u8 = 80;
/// Share from which on one is taken to be not much faster than that.
const HALF: u8 = 50;
/// A second that was not like this takes off as much as so many that were put on.
const RELIEF: u32 = 4;
/// Words kept; beyond that new ones are not.
const WORDS_MAX: usize = 4096;

/// Members that read as fast as they can while senders wait (R-RATE-6), by their own word.
#[derive(Debug, Default)]
pub(super) struct Strains {
    words: BTreeMap<(RegionId, NodeId), Word>,
}

/// A node's word on itself in a region.
#[derive(Debug)]
struct Word {
    said: Instant,
    strain: Strain,
    /// For how long senders have waited for it.
    charge: Duration,
}

impl Strains {
    /// Notes the word of a node on its last second in a region of so many members that are waited
    /// for. Returns for how long senders have waited for it, and others not, by now.
    pub(super) fn note(
        &mut self,
        now: Instant,
        of: (RegionId, NodeId),
        strain: Strain,
        members: usize,
    ) -> Duration {
        self.words
            .retain(|_, word| now.since(word.said) < FORGOTTEN);
        if self.words.len() >= WORDS_MAX && !self.words.contains_key(&of) {
            return Duration::ZERO;
        }
        let [behind, held] = self.others(now, of);
        let minority = (behind + 1) * 2 <= members;
        let counts = strain.behind >= FULL && held > 0 && minority;
        let word = self.words.entry(of).or_insert(Word {
            said: now,
            strain,
            charge: Duration::ZERO,
        });
        let time = now.since(word.said).min(FRESH);
        (word.said, word.strain) = (now, strain);
        word.charge = match counts {
            true => word.charge + time,
            false => word.charge.saturating_sub(time * RELIEF),
        };
        word.charge
    }

    /// Counts the other nodes of the region that say that they are behind, and that they are held.
    fn others(&self, now: Instant, of: (RegionId, NodeId)) -> [usize; 2] {
        let region = self.words.range((of.0, NodeId(0))..);
        let region = region.take_while(|((region, _), _)| *region == of.0);
        let others =
            region.filter(|((_, node), word)| *node != of.1 && now.since(word.said) < FRESH);
        others.fold([0, 0], |[behind, held], (_, word)| {
            let Strain {
                behind: late,
                held: full,
            } = word.strain;
            [
                behind + usize::from(late >= HALF),
                held + usize::from(full >= HALF),
            ]
        })
    }

    /// Forgets what a node has said.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.words.retain(|(_, speaker), _| *speaker != node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGION: RegionId = RegionId(7);
    const BEHIND: Strain = Strain {
        behind: 100,
        held: 0,
    };

    /// Each of so many members says its shares once a second for so long, and the sender that it is
    /// held: how long senders have waited for each in the end.
    fn charges(seconds: u64, words: impl Fn(u64) -> Vec<[u8; 2]>) -> Vec<u64> {
        let mut strains = Strains::default();
        let mut charges = Vec::new();
        for second in 0..=seconds {
            let now = Instant(second * 1_000_000_000);
            let words = words(second);
            let members = words.len();
            charges = (1..)
                .zip(words)
                .map(|(node, [behind, held])| {
                    let (of, strain) = ((REGION, NodeId(node)), Strain { behind, held });
                    strains.note(now, of, strain, members)
                })
                .map(|charge| charge.as_secs())
                .collect();
        }
        charges
    }

    // Rule R-RATE-6.
    #[test]
    fn only_who_is_behind_while_a_sender_is_held_is_charged() {
        assert_eq!(charges(10, |_| vec![[0, 100], [100, 0]]), [0, 10]);
        let unheld = charges(10, |_| vec![[0, 0], [100, 0]]);
        assert_eq!(unheld, [0, 0], "no sender waits");
        assert_eq!(charges(10, |_| vec![[0, 100], [75, 0]]), [0, 0]);
        // It is the sender itself that has no time.
        assert_eq!(charges(10, |_| vec![[100, 100], [0, 0]]), [0, 0]);
    }

    #[test]
    fn several_are_charged_if_at_least_as_many_are_fast() {
        let fast = |number| vec![[0, 100]; number];
        let with = |slow: Vec<[u8; 2]>| charges(10, |_| [fast(2), slow.clone()].concat());
        assert_eq!(with(vec![[100, 0]; 2]), [0, 0, 10, 10]);
        assert_eq!(with(vec![[100, 0], [60, 0]]), [0, 0, 10, 0]);
        let three = with(vec![[100, 0], [60, 0], [60, 0]]);
        assert_eq!(three, [0; 5], "most are about as slow");
    }

    #[test]
    fn one_second_in_ten_without_it_is_forgiven_and_one_in_three_ends_it() {
        let at = |every: u64| {
            move |second: u64| match second % every {
                1 => vec![[0, 100], [0, 0]],
                _ => vec![[0, 100], [100, 0]],
            }
        };
        assert_eq!(charges(20, at(10)), [0, 14]);
        assert!(charges(60, at(3))[1] < 3);
    }

    #[test]
    fn words_are_limited_and_a_silence_ends_them() {
        let mut strains = Strains::default();
        for node in 0..5000 {
            strains.note(Instant(0), (REGION, NodeId(node)), BEHIND, 2);
        }
        assert_eq!(strains.words.len(), WORDS_MAX);
        let later = Instant(10_000_000_000);
        strains.note(later, (REGION, NodeId(5)), BEHIND, 2);
        assert_eq!(strains.words.len(), 1);
    }
}
