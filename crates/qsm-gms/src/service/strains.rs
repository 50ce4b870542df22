use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::membership::Strain;
use qsm_wire::{NodeId, RegionId};

/// Age of a word after which it is over: it is said each second.
const FRESH: Duration = Duration::from_millis(2500);
/// Longest time that one word stands for.
const WORD: Duration = Duration::from_millis(1500);
/// Share of the time, percent, from which on a member is taken to read as fast as it can.
const FULL: u8 = 90;
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

/// What a node says of itself in a region.
#[derive(Debug)]
struct Word {
    said: Instant,
    strain: Strain,
    /// For how long senders have waited for it alone.
    charge: Duration,
}

impl Strains {
    /// Notes the word of a node on its last second. Returns for how long senders have waited for it
    /// alone by now.
    pub(super) fn note(
        &mut self,
        now: Instant,
        of: (RegionId, NodeId),
        strain: Strain,
    ) -> Duration {
        self.words.retain(|_, word| now.since(word.said) < FRESH);
        if self.words.len() >= WORDS_MAX && !self.words.contains_key(&of) {
            return Duration::ZERO;
        }
        let others = self.words.range((of.0, NodeId(0))..);
        let others = others.take_while(|((region, _), _)| *region == of.0);
        let others: Vec<&Word> = others
            .filter(|((_, node), _)| *node != of.1)
            .map(|(_, word)| word)
            .collect();
        let waited_for = others.iter().any(|word| word.strain.held >= HALF);
        let alone = !others.iter().any(|word| word.strain.behind >= HALF);
        let counts = strain.behind >= FULL && waited_for && alone;
        let word = self.words.entry(of).or_insert(Word {
            said: now,
            strain,
            charge: Duration::ZERO,
        });
        let time = now.since(word.said).min(WORD);
        (word.said, word.strain) = (now, strain);
        word.charge = match counts {
            true => word.charge + time,
            false => word.charge.saturating_sub(time * RELIEF),
        };
        word.charge
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

    /// Each node says its shares once a second for so long: how long senders have waited for each
    /// alone in the end.
    fn charges(seconds: u64, words: impl Fn(u64) -> Vec<[u8; 2]>) -> Vec<u64> {
        let mut strains = Strains::default();
        let mut charges = Vec::new();
        for second in 0..=seconds {
            let now = Instant(second * 1_000_000_000);
            charges = (1..)
                .zip(words(second))
                .map(|(node, [behind, held])| {
                    strains.note(now, (REGION, NodeId(node)), Strain { behind, held })
                })
                .map(|charge| charge.as_secs())
                .collect();
        }
        charges
    }

    // Rule R-RATE-6.
    #[test]
    fn only_who_is_behind_alone_while_a_sender_is_held_is_charged() {
        assert_eq!(charges(10, |_| vec![[0, 100], [100, 0]]), [0, 10]);
        assert_eq!(
            charges(10, |_| vec![[0, 0], [100, 0]]),
            [0, 0],
            "no sender waits"
        );
        let both = charges(10, |_| vec![[0, 100], [100, 0], [60, 0]]);
        assert_eq!(both, [0, 0, 0], "another is about as slow");
        assert_eq!(charges(10, |_| vec![[0, 100], [80, 0]]), [0, 0]);
        // It is the sender itself that has no time.
        assert_eq!(charges(10, |_| vec![[100, 100], [0, 0]]), [0, 0]);
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
            strains.note(Instant(0), (REGION, NodeId(node)), BEHIND);
        }
        assert_eq!(strains.words.len(), WORDS_MAX);
        let later = Instant(10_000_000_000);
        strains.note(later, (REGION, NodeId(5)), BEHIND);
        assert_eq!(strains.words.len(), 1);
    }
}
