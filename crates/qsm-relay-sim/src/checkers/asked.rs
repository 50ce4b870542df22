use std::collections::{BTreeMap, BTreeSet};

use qsm_relay::Kind;

use crate::network::Network;
use crate::step::{NOBODY, Step, What};
use crate::violation::Violation;

/// A repair goes to who has asked its sender for it by a NACK, once for each; and from a relay that
/// lacked the packet itself to all its children, also when parity has brought it. R-RELAY-8, R-RELAY-74.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// NACKs that have come: from whom, to whom, for which packet.
    asked: BTreeMap<(usize, usize, u64), u32>,
    /// Packets that a node has sent since it began: what comes to a relay that it does not take, such as
    /// from an old parent, is not among them.
    passed: BTreeMap<usize, BTreeSet<u64>>,
    /// The packet that has just come to a node that had not passed it on.
    fresh: BTreeMap<usize, u64>,
    /// Packets that parities have been for that have come to a node.
    covered: BTreeMap<usize, BTreeSet<u64>>,
    /// Those of them that it had not passed on when the last packet or parity came.
    restored: BTreeMap<usize, BTreeSet<u64>>,
}

impl Asked {
    pub(crate) fn began(&mut self, node: usize) {
        self.passed.remove(&node);
        self.fresh.remove(&node);
        self.covered.remove(&node);
        self.restored.remove(&node);
    }

    pub(crate) fn step(&mut self, step: &Step, network: &Network) -> Result<(), Violation> {
        match (step.what, step.kind) {
            (What::Arrived, Kind::Nack) => {
                for sequence in &step.numbers {
                    let key = (step.from, step.to, *sequence);
                    *self.asked.entry(key).or_default() += 1;
                }
            }
            (What::Arrived, Kind::Data | Kind::Repair) => {
                let passed = self.passed.entry(step.to).or_default();
                if passed.contains(&step.sequence()) {
                    self.fresh.remove(&step.to);
                } else {
                    self.fresh.insert(step.to, step.sequence());
                }
                // It may be what a parity had waited for.
                self.restorable(step.to);
            }
            (What::Arrived, Kind::Parity) => {
                self.covered
                    .entry(step.to)
                    .or_default()
                    .extend(&step.numbers);
                self.restorable(step.to);
            }
            (What::Sent | What::Lost, Kind::Data) => self.pass(step),
            (What::Sent | What::Lost, Kind::Repair) if step.to != NOBODY => {
                let judged = self.sent(step, network);
                self.pass(step);
                return judged;
            }
            _ => {}
        }
        Ok(())
    }

    /// Packets of parities that a node has not passed on it may restore now.
    fn restorable(&mut self, node: usize) {
        if let Some(covered) = self.covered.get(&node) {
            let passed = self.passed.entry(node).or_default();
            let lacked = covered.difference(passed).copied().collect();
            self.restored.insert(node, lacked);
        }
    }

    fn pass(&mut self, step: &Step) {
        let passed = self.passed.entry(step.from).or_default();
        passed.insert(step.sequence());
    }

    fn sent(&mut self, step: &Step, network: &Network) -> Result<(), Violation> {
        let (from, to, sequence) = (step.from, step.to, step.sequence());
        // Also to a child that has moved, which it does not know yet.
        let down = !network.is_parent(to, from);
        let restored = self.restored.get(&from);
        let lacked = self.fresh.get(&from) == Some(&sequence)
            || restored.is_some_and(|restored| restored.contains(&sequence));
        if down && network.relay(from).is_some() && lacked {
            return Ok(());
        }
        match self.asked.get_mut(&(to, from, sequence)) {
            Some(count) if *count > 0 => {
                *count -= 1;
                Ok(())
            }
            _ => {
                let message = format!("{from} repaired {sequence} for {to}, which has not asked");
                Err(Violation::new("asked", message))
            }
        }
    }
}
