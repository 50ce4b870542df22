use std::collections::BTreeSet;

use qsm_wire::{Ranges, SeqRange};

use super::super::sets::{NakSet, RangeSet};
use crate::{Random, Seed};

/// Some numbers of 1..=cutoff, in runs.
fn numbers(random: &mut Random, cutoff: u64) -> BTreeSet<u64> {
    let mut set = BTreeSet::new();
    let mut missing = false;
    for number in 1..=cutoff {
        missing ^= random.chance_ppm(300_000);
        if missing {
            set.insert(number);
        }
    }
    set
}

fn runs(set: &BTreeSet<u64>) -> Vec<SeqRange> {
    let mut runs: Vec<SeqRange> = Vec::new();
    for number in set {
        match runs.last_mut() {
            Some(run) if run.last() + 1 == *number => {
                *run = SeqRange::new(run.first(), *number).unwrap();
            }
            _ => runs.push(SeqRange::one(*number)),
        }
    }
    runs
}

fn nak_set(set: &BTreeSet<u64>, max: usize) -> NakSet {
    let runs = runs(set);
    let kept = &runs[..runs.len().min(max)];
    NakSet::new(kept, runs.len() > max)
}

fn flat(ranges: &[SeqRange]) -> BTreeSet<u64> {
    let runs = ranges.iter().map(|range| range.first()..=range.last());
    runs.flatten().collect()
}

/// Up to where a cut set speaks.
fn horizon(set: &NakSet, cutoff: u64) -> u64 {
    match (set.cut, set.ranges.as_slice().last()) {
        (false, _) => cutoff,
        (true, last) => last.map_or(0, |last| last.last()),
    }
}

// Rule R-TOK-6.
#[test]
fn sets_agree_with_a_naive_computation_under_any_limit() {
    // R069, also with one range.
    let mut random = Random::new(Seed(1), "sets");
    for case in 0..20_000 {
        let cutoff = random.below(60);
        let [a, b] = [(); 2].map(|()| numbers(&mut random, cutoff));
        let max = [1, 1, 2, Ranges::MAX][case % 4];
        let (left, right) = (nak_set(&a, max), nak_set(&b, max));
        let known = horizon(&left, cutoff).min(horizon(&right, cutoff));

        let push: BTreeSet<u64> = a
            .difference(&b)
            .copied()
            .filter(|number| *number <= known)
            .collect();
        assert_eq!(flat(&left.without(&right, cutoff)), push);

        let both: BTreeSet<u64> = a
            .intersection(&b)
            .copied()
            .filter(|number| *number <= known)
            .collect();
        let common = left.common(&right, cutoff);
        if runs(&both).len() <= Ranges::MAX {
            assert_eq!(flat(common.ranges.as_slice()), both);
            assert_eq!(common.cut, left.cut || right.cut);
        } else {
            assert!(common.cut);
            assert!(flat(common.ranges.as_slice()).is_subset(&both));
        }
    }
}

#[test]
fn an_unknown_set_says_nothing() {
    let some = NakSet::new(&[SeqRange::one(3)], false);
    let unknown = NakSet::unknown();
    assert!(some.without(&unknown, 10).is_empty());
    assert!(unknown.without(&some, 10).is_empty());
    assert!(some.common(&unknown, 10).ranges.is_empty());
    assert!(some.common(&unknown, 10).cut);
}

#[test]
fn extreme_numbers_do_not_overflow() {
    let end = SeqRange::new(u64::MAX - 3, u64::MAX - 1).unwrap();
    let long = SeqRange::new(0, u64::MAX - 1).unwrap();
    let left = NakSet::new(&[long, end], true);
    let right = NakSet::new(&[SeqRange::one(0), SeqRange::one(u64::MAX - 2)], false);
    for cutoff in [0, 1, u64::MAX] {
        for (a, b) in [(left, right), (right, left)] {
            assert!(a.without(&b, cutoff).len() <= 2 * Ranges::MAX);
            assert!(a.common(&b, cutoff).ranges.len() <= Ranges::MAX);
        }
    }
    assert_eq!(left.without(&right, u64::MAX).len(), 3);
}

#[test]
fn a_full_range_set_refuses_more() {
    let mut set = RangeSet::new();
    for number in 0..Ranges::MAX {
        assert!(set.push(SeqRange::one(2 * number as u64)));
    }
    assert!(!set.push(SeqRange::one(100)));
    assert_eq!(set.len(), Ranges::MAX);
}
