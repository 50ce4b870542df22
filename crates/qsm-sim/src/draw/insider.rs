use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use qsm_proto::Seed;

use super::dice::Dice;
use crate::insider::{Insider, Lie};
use crate::options::SimOptions;

/// Silence after which a node is gone, the liar that has been shut out among them.
const GONE_AFTER: Duration = Duration::from_secs(10);

/// Draws for one of 16 runs that a member lies for a while, or until faults end, in one to three ways, and
/// that nothing else goes wrong but on the network. All messages are then owed to all that receive their
/// groups.
pub(super) fn add_insider(run: SimOptions) -> SimOptions {
    let mut dice = Dice::of(Seed(run.seed), "insider");
    if run.nodes < 3 || !dice.one_in(16) {
        return run;
    }
    let from = Duration::from_millis(500) + dice.moment(run.duration / 4);
    let until = match dice.one_in(3) {
        true => run.duration,
        false => from + dice.moment(run.duration / 4),
    };
    let lies = (0..dice.range(1, 3)).map(|_| *dice.pick(&Lie::BOUNDED));
    let lies: BTreeSet<Lie> = lies.collect();
    let host = dice.range(1, run.nodes);
    SimOptions {
        insider: Some(Insider {
            host,
            lies,
            from,
            until,
        }),
        faults: Vec::new(),
        gone_after: GONE_AFTER,
        slow_after: Duration::ZERO,
        prompt: BTreeMap::new(),
        lifetimes: BTreeMap::new(),
        paces: BTreeMap::new(),
        ..run
    }
}
