use std::collections::{BTreeMap, BTreeSet};

use qsm_relay::Kind;

use crate::network::{Network, SOURCE};
use crate::plan::Plan;
use crate::step::{Step, What};
use crate::violation::Violation;

/// Where Data alone is lost: one repair by each link below which nobody has the packet, and none by any
/// other; and NACKs of relays likewise, one of each at the source. R-RELAY-6, R-RELAY-8.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Data that has come, by link and packet.
    came: BTreeSet<(usize, usize, u64)>,
    repairs: BTreeMap<(usize, usize, u64), usize>,
    nacks: BTreeMap<(usize, usize, u64), usize>,
}

impl Scope {
    pub(crate) fn step(&mut self, step: &Step) {
        for sequence in &step.numbers {
            let key = (step.from, step.to, *sequence);
            match (step.what, step.kind) {
                (What::Arrived, Kind::Data) => {
                    self.came.insert(key);
                }
                (What::Sent, Kind::Repair) => *self.repairs.entry(key).or_default() += 1,
                (What::Sent, Kind::Nack) => *self.nacks.entry(key).or_default() += 1,
                _ => {}
            }
        }
    }

    pub(crate) fn end(&self, plan: &Plan, network: &Network) -> Result<(), Violation> {
        let hops = network.hops();
        for (parent, child) in &hops {
            let (parent, child) = (*parent, *child);
            let lacked = self.lacked(&hops, child, plan.packets);
            for sequence in 1..=plan.packets {
                let needed = usize::from(lacked.contains(&sequence));
                let repairs = self.repairs.get(&(parent, child, sequence));
                let repairs = repairs.copied().unwrap_or(0);
                let nacks = self.nacks.get(&(child, parent, sequence));
                let nacks = nacks.copied().unwrap_or(0);
                let fits = match (network.relay(child), parent) {
                    (None, _) => true,
                    (Some(_), SOURCE) => nacks == needed,
                    // Where another one is elected first, a repair may take longer than a repetition.
                    (Some(_), _) => nacks.min(1) == needed,
                };
                if repairs != needed || !fits {
                    let message = format!(
                        "{repairs} repairs of {sequence} to {child}, and {nacks} NACKs from there, where {needed} are needed"
                    );
                    return Err(Violation::new("scope", message));
                }
            }
        }
        Ok(())
    }

    /// Packets that nobody at or below a node has got at first.
    fn lacked(&self, hops: &[(usize, usize)], node: usize, packets: u64) -> BTreeSet<u64> {
        let parent = hops.iter().find(|(_, child)| *child == node);
        let parent = parent.map_or(0, |(parent, _)| *parent);
        let missed = (1..=packets).filter(|it| !self.came.contains(&(parent, node, *it)));
        let mut lacked: BTreeSet<u64> = missed.collect();
        let children = hops.iter().filter(|(parent, _)| *parent == node);
        let below = children.map(|(_, child)| self.lacked(hops, *child, packets));
        if let Some(all) = below.reduce(|all, one| &all & &one) {
            lacked.extend(all);
        }
        lacked
    }
}
