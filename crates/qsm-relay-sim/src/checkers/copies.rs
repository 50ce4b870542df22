use std::collections::BTreeSet;

use qsm_relay::Kind;

use crate::network::Network;
use crate::step::{NOBODY, Step};
use crate::violation::Violation;

/// A packet goes by each link once, but for repairs, in a relay's life. R-RELAY-4.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    sent: BTreeSet<(usize, usize, u64)>,
}

impl Copies {
    pub(crate) fn began(&mut self, node: usize) {
        self.sent
            .retain(|(from, to, _)| *from != node && *to != node);
    }

    pub(crate) fn step(&mut self, step: &Step, network: &Network) -> Result<(), Violation> {
        let (from, to) = (step.from, step.to);
        if !step.is_sent() || step.kind != Kind::Data || to == NOBODY {
            return Ok(());
        }
        let fresh = self.sent.insert((from, to, step.sequence()));
        // A child that has moved away is sent to at its old parent, too.
        if fresh || !network.is_parent(from, to) {
            return Ok(());
        }
        let message = format!("{from} sent packet {} to {to} twice", step.sequence());
        Err(Violation::new("copies", message))
    }
}
