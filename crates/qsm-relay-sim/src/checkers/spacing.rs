use core::time::Duration;
use std::collections::BTreeMap;

use qsm_relay::Kind;
use qsm_wire::Instant;

use crate::network::Network;
use crate::plan::Plan;
use crate::step::{NOBODY, Step, What};
use crate::violation::Violation;

/// Shortest time between two NACKs where round trips are measured: of the shortest one.
const SHORTEST: Duration = Duration::from_millis(1);

/// One NACK for a packet goes up from a relay in one and a half round trips, whatever children say,
/// unless the packet came meanwhile. R-RELAY-5, R-RELAY-6.
#[derive(Debug)]
pub(crate) struct Spacing {
    apart: Duration,
    /// By who asks for which packet, and whom.
    last: BTreeMap<(usize, u64, usize), Instant>,
}

impl Spacing {
    pub(crate) fn new(plan: &Plan, retry: Duration) -> Self {
        let apart = if plan.rated { SHORTEST } else { retry };
        let last = BTreeMap::new();
        Self { apart, last }
    }

    pub(crate) fn began(&mut self, node: usize) {
        self.last.retain(|(from, _, _), _| *from != node);
    }

    pub(crate) fn step(&mut self, step: &Step, network: &Network) -> Result<(), Violation> {
        match (step.what, step.kind) {
            (What::Arrived, Kind::Data | Kind::Repair) => {
                let (to, sequence) = (step.to, step.sequence());
                let asked = self.last.range((to, sequence, 0)..=(to, sequence, NOBODY));
                for key in asked.map(|(key, _)| *key).collect::<Vec<_>>() {
                    self.last.remove(&key);
                }
                return Ok(());
            }
            (What::Sent | What::Lost, Kind::Nack) => {}
            _ => return Ok(()),
        }
        let upward = network.is_parent(step.to, step.from);
        if !upward || network.relay(step.from).is_none() {
            return Ok(());
        }
        let released = network.source().released();
        for sequence in &step.numbers {
            let before = self.last.insert((step.from, *sequence, step.to), step.at);
            let soon = before.is_some_and(|before| step.at.since(before) < self.apart);
            if soon && *sequence > released {
                let message = format!("{} asked for {sequence} twice at a time", step.from);
                return Err(Violation::new("spacing", message));
            }
        }
        Ok(())
    }
}
