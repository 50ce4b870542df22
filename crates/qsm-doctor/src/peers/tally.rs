//! Outcome of each step at a host.

use std::collections::BTreeMap;

use super::probe::{Head, Way};
use super::words::{Counted, Since};

/// Steps of an examination that are kept; the oldest is forgotten first.
const STEPS_MAX: usize = 4096;

/// Counts of all steps.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    session: u32,
    steps: BTreeMap<u32, Step>,
    pub(crate) since: Since,
}

#[derive(Debug, Default)]
struct Step {
    counted: Counted,
    /// One above the highest number received.
    next: u32,
}

impl Tally {
    /// Nothing yet.
    pub(crate) fn new(session: u32) -> Self {
        Self {
            session,
            ..Self::default()
        }
    }

    fn step(&mut self, head: &Head) -> Option<&mut Step> {
        if head.session != self.session {
            return None;
        }
        if self.steps.len() >= STEPS_MAX && !self.steps.contains_key(&head.step) {
            self.steps.pop_first();
        }
        Some(self.steps.entry(head.step).or_default())
    }

    /// A socket received this. `at` is the way that the socket is for.
    pub(crate) fn received(&mut self, bytes: &[u8], at: Way) {
        let Some(head) = Head::read(bytes) else {
            self.since.foreign += u64::from(at != Way::Unicast);
            return;
        };
        let Some(step) = self.step(&head) else { return };
        if head.way != at {
            step.counted.astray += 1;
            return;
        }
        step.counted.arrived += 1;
        *step.counted.sizes.entry(head.bytes).or_default() += 1;
        step.counted.late += u64::from(head.number < step.next);
        step.next = step.next.max(head.number.saturating_add(1));
    }

    /// A tap saw so many probes.
    pub(crate) fn seen(&mut self, head: &Head, count: u64, by: &Passage<'_>) {
        let Some(step) = self.step(head) else { return };
        let counts = match by.leaving {
            true => &mut step.counted.left,
            false => &mut step.counted.came,
        };
        match counts.get_mut(by.interface) {
            Some(known) => *known += count,
            None => drop(counts.insert(by.interface.to_owned(), count)),
        }
    }

    /// Outcome of a step so far.
    pub(crate) fn counted(&self, step: u32) -> Counted {
        let known = self.steps.get(&step);
        Counted {
            since: self.since,
            ..known.map_or_else(Counted::default, |step| step.counted.clone())
        }
    }
}

/// Where a tap saw something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage<'a> {
    pub(crate) leaving: bool,
    pub(crate) interface: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(session: u32, number: u32, way: Way) -> Vec<u8> {
        let mut bytes = vec![0; 100];
        let head = Head {
            session,
            step: 1,
            number,
            bytes: 100,
            way,
        };
        head.write(&mut bytes);
        bytes
    }

    #[test]
    fn probes_are_counted_by_step_order_and_place() {
        let mut tally = Tally::new(5);
        for number in [0, 2, 1, 3] {
            tally.received(&probe(5, number, Way::Multicast), Way::Multicast);
        }
        tally.received(&probe(5, 4, Way::Beside), Way::Multicast);
        tally.received(&probe(6, 5, Way::Multicast), Way::Multicast);
        tally.received(b"something else", Way::Multicast);
        tally.received(b"something else", Way::Unicast);
        let counted = tally.counted(1);
        assert_eq!((counted.arrived, counted.late, counted.astray), (4, 1, 1));
        assert_eq!(counted.sizes, BTreeMap::from([(100, 4)]));
        assert_eq!(counted.since.foreign, 1);
        assert_eq!(tally.counted(2).arrived, 0);
    }
}
