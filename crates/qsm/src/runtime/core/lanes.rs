//! Sources that may have something, in a lane for each region whose window they waited for last.
//!
//! When a window is full its lane is closed, and opened again after the protocol's next input: no
//! source of it has to be looked at for that.

use std::collections::{BTreeMap, VecDeque};

use qsm_wire::RegionId;

#[derive(Debug, Default)]
struct Lane {
    slots: VecDeque<u32>,
    closed: bool,
    /// It is among those whose turn comes.
    queued: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// `None`: sources that have not waited for a window yet. This one is never closed.
    lanes: BTreeMap<Option<RegionId>, Lane>,
    /// Lanes that are open and not empty, in the order of their turns.
    turns: VecDeque<Option<RegionId>>,
}

impl Lanes {
    /// A source at the end of its lane.
    pub(super) fn add(&mut self, region: Option<RegionId>, slot: u32) {
        self.lanes.entry(region).or_default().slots.push_back(slot);
        self.queue(region);
    }

    /// The source whose turn it is: the first of the next lane.
    pub(super) fn next(&mut self) -> Option<u32> {
        let region = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&region)?;
        lane.queued = false;
        let slot = lane.slots.pop_front();
        self.queue(region);
        slot
    }

    /// Whether [`Lanes::next`] has one.
    pub(super) fn has_next(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Whether there is none, in closed lanes neither.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.values().all(|lane| lane.slots.is_empty())
    }

    /// The window is full, as this source has found: it and all others wait. It has a message in
    /// its hands, and is the first to try again, so that no others come to have one, too.
    pub(super) fn close(&mut self, region: RegionId, slot: u32) {
        let region = Some(region);
        let lane = self.lanes.entry(region).or_default();
        lane.slots.push_front(slot);
        lane.closed = true;
        if core::mem::take(&mut lane.queued) {
            self.turns.retain(|other| *other != region);
        }
    }

    /// Whether that window was full when last tried.
    pub(super) fn is_closed(&self, region: RegionId) -> bool {
        self.lanes
            .get(&Some(region))
            .is_some_and(|lane| lane.closed)
    }

    /// Windows may have room: the first source of each lane will find out.
    pub(super) fn open(&mut self) {
        self.lanes.retain(|_, lane| !lane.slots.is_empty());
        self.turns.retain(|region| self.lanes.contains_key(region));
        for (region, lane) in &mut self.lanes {
            if core::mem::take(&mut lane.closed) && !core::mem::replace(&mut lane.queued, true) {
                self.turns.push_back(*region);
            }
        }
    }

    fn queue(&mut self, region: Option<RegionId>) {
        if let Some(lane) = self.lanes.get_mut(&region)
            && !(lane.closed || lane.queued || lane.slots.is_empty())
        {
            lane.queued = true;
            self.turns.push_back(region);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lanes: &mut Lanes) -> Vec<u32> {
        core::iter::from_fn(|| lanes.next()).collect()
    }

    #[test]
    fn lanes_take_turns_and_sources_of_one_their_order() {
        let mut lanes = Lanes::default();
        for slot in 0..4 {
            lanes.add(Some(RegionId(7)), slot);
        }
        lanes.add(None, 8);
        lanes.add(None, 9);
        assert_eq!(all(&mut lanes), [0, 8, 1, 9, 2, 3]);
        assert!(lanes.is_empty() && !lanes.has_next());
    }

    #[test]
    fn a_closed_lane_waits_as_a_whole_and_one_source_tries_first() {
        let mut lanes = Lanes::default();
        let (full, other) = (RegionId(1), RegionId(2));
        (0..3).for_each(|slot| lanes.add(Some(full), slot));
        lanes.add(Some(other), 5);
        assert_eq!(lanes.next(), Some(0));
        lanes.close(full, 0);
        lanes.add(Some(full), 3);
        assert_eq!(all(&mut lanes), [5]);
        assert!(lanes.is_closed(full) && !lanes.is_empty());
        lanes.open();
        assert_eq!(lanes.next(), Some(0));
        lanes.close(full, 0);
        assert!(!lanes.has_next());
        lanes.open();
        assert_eq!(all(&mut lanes), [0, 1, 2, 3]);
    }
}
