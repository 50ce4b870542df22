//! Members that multicast does not reach (R-REACH-3), by their own word.

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::membership::NodeRow;
use qsm_wire::{NodeId, Origin, RegionId};

use super::Service;
use crate::ServiceEvent;

/// Age of a word after which it is over: members say it again every 10 s.
const FRESH: Duration = Duration::from_secs(35);
/// Speakers of a member that are remembered; it is deaf because of the others.
const SPEAKERS_MAX: usize = 64;

/// Speakers that members do not hear, and when they said so last.
#[derive(Debug, Default)]
pub(super) struct Deafness {
    listeners: BTreeMap<NodeId, BTreeMap<(RegionId, Origin), Instant>>,
}

impl Deafness {
    /// Notes a member's word; returns whether it has become deaf, or hears everybody again.
    fn note(&mut self, now: Instant, listener: NodeId, of: (RegionId, Origin), deaf: bool) -> bool {
        let speakers = self.listeners.entry(listener).or_default();
        speakers.retain(|_, said| now.since(*said) < FRESH);
        let before = speakers.is_empty();
        if !deaf {
            speakers.remove(&of);
        } else if speakers.len() < SPEAKERS_MAX || speakers.contains_key(&of) {
            speakers.insert(of, now);
        }
        let after = speakers.is_empty();
        if after {
            self.listeners.remove(&listener);
        }
        before != after
    }

    fn is_deaf(&self, now: Instant, listener: NodeId) -> bool {
        let speakers = self.listeners.get(&listener);
        speakers.is_some_and(|said| said.values().any(|said| now.since(*said) < FRESH))
    }

    /// Forgets what a node has said, and what was said of it.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.listeners.remove(&node);
        for speakers in self.listeners.values_mut() {
            speakers.retain(|(_, speaker), _| speaker.node != node);
        }
        self.listeners.retain(|_, speakers| !speakers.is_empty());
    }
}

impl Service {
    /// A member says that the multicast of a node does not reach it, or does again. Rule R-REACH-3.
    pub(super) fn take_deafness(
        &mut self,
        now: Instant,
        listener: NodeId,
        region: RegionId,
        speaker: Origin,
        deaf: bool,
    ) {
        let Some(origin) = self.registry.origin(listener) else {
            return;
        };
        if !self.deafness.note(now, listener, (region, speaker), deaf) {
            return;
        }
        let name = self.registry.name(listener);
        if !deaf {
            self.event(ServiceEvent::Hears { origin, name });
            return;
        }
        self.stats.deaf += 1;
        self.event(ServiceEvent::Deaf {
            origin,
            name,
            speaker,
            speaker_name: self.registry.name(speaker.node),
            address: self.registry.region_address(region),
        });
    }

    /// One line per node.
    pub(super) fn node_rows(&self) -> Vec<NodeRow> {
        let mut rows = self.registry.node_rows();
        for row in &mut rows {
            let node = row.origin.node;
            row.deaf = self.deafness.is_deaf(self.now, node);
            (row.about, row.rates) = self.profiles.of(self.now, node);
            row.grant = self.rights.summary(node);
            row.description = self.descriptions.of(node).cloned();
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::Incarnation;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    fn of(node: u64) -> (RegionId, Origin) {
        let speaker = Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        };
        (RegionId(1), speaker)
    }

    // Rule R-REACH-3.
    #[test]
    fn a_member_is_deaf_from_its_first_speaker_to_its_last() {
        let mut deafness = Deafness::default();
        let listener = NodeId(7);
        assert!(deafness.note(at(0), listener, of(1), true));
        assert!(!deafness.note(at(1), listener, of(2), true));
        assert!(!deafness.note(at(2), listener, of(1), true));
        assert!(!deafness.note(at(3), listener, of(1), false));
        assert!(deafness.is_deaf(at(3), listener));
        assert!(deafness.note(at(4), listener, of(2), false));
        assert!(!deafness.is_deaf(at(4), listener));
        assert!(!deafness.note(at(5), listener, of(2), false));
    }

    #[test]
    fn an_old_word_and_one_of_the_gone_count_for_nothing() {
        let mut deafness = Deafness::default();
        let listener = NodeId(7);
        deafness.note(at(0), listener, of(1), true);
        assert!(deafness.is_deaf(at(34), listener));
        assert!(!deafness.is_deaf(at(35), listener));
        // Told anew.
        assert!(deafness.note(at(40), listener, of(1), true));
        deafness.forget(NodeId(1));
        assert!(!deafness.is_deaf(at(40), listener));
        deafness.note(at(50), listener, of(1), true);
        deafness.forget(listener);
        assert!(!deafness.is_deaf(at(50), listener));
    }
}
