//! Streams that are not received here, and of which nothing is missing here up to some number: it was
//! sent before this node came (R-VIEW-6), or this node has had it and has forgotten the stream.

use std::collections::BTreeMap;

use qsm_wire::{Origin, ViewNumber};

/// Streams remembered at once, as many as a node receives.
const STREAMS_MAX: usize = 1024;

/// Streams that this node has passed over, with the last number that this is certain of.
#[derive(Debug, Default)]
pub(super) struct PassedStreams {
    upto: BTreeMap<Origin, u64>,
    /// The view in which this node had joined then. One that has joined in an earlier view is
    /// concerned with more.
    joined: ViewNumber,
}

impl PassedStreams {
    /// Nothing of that stream is missing up to here at this node, which joined in that view. What
    /// there is no room for will be said again.
    pub(super) fn note(&mut self, joined: ViewNumber, sender: Origin, upto: u64) {
        if joined < self.joined {
            self.upto.clear();
        }
        self.joined = joined;
        if upto > 0 && (self.upto.len() < STREAMS_MAX || self.upto.contains_key(&sender)) {
            let known = self.upto.entry(sender).or_default();
            *known = upto.max(*known);
        }
    }

    /// Up to where nothing of that stream is missing at this node, which joined in that view; 0 if
    /// that is not known.
    pub(super) fn upto(&self, joined: ViewNumber, sender: Origin) -> u64 {
        let known = self.upto.get(&sender).filter(|_| joined >= self.joined);
        known.copied().unwrap_or(0)
    }

    /// The stream is received from now on.
    pub(super) fn forget(&mut self, sender: Origin) {
        self.upto.remove(&sender);
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Incarnation, NodeId};

    use super::*;

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    // Rule R-VIEW-6.
    #[test]
    fn what_was_sent_before_a_stay_was_sent_before_later_ones_but_not_before_earlier_ones() {
        let (mut passed, view) = (PassedStreams::default(), ViewNumber);
        passed.note(view(4), origin(1), 14);
        passed.note(view(4), origin(1), 9);
        assert_eq!(passed.upto(view(4), origin(1)), 14);
        assert_eq!(passed.upto(view(6), origin(1)), 14);
        assert_eq!(passed.upto(view(3), origin(1)), 0);
        passed.note(view(6), origin(2), 1);
        assert_eq!(passed.upto(view(6), origin(1)), 14);
        passed.note(view(3), origin(2), 1);
        assert_eq!(passed.upto(view(6), origin(1)), 0);
        assert_eq!(passed.upto(view(3), origin(2)), 1);
        passed.forget(origin(2));
        assert_eq!(passed.upto(view(3), origin(2)), 0);
    }

    #[test]
    fn so_many_streams_are_remembered() {
        let (mut passed, view) = (PassedStreams::default(), ViewNumber(1));
        let most = STREAMS_MAX as u64;
        (0..=most).for_each(|node| passed.note(view, origin(node), 1));
        (0..=most).for_each(|node| passed.note(view, origin(node), 2));
        assert_eq!(passed.upto(view, origin(most - 1)), 2);
        assert_eq!(passed.upto(view, origin(most)), 0);
    }
}
