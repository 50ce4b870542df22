use qsm_relay::Kind;

use crate::network::{Network, SESSION};
use crate::plan::Plan;
use crate::step::Step;
use crate::violation::Violation;

const NAME: &str = "cache";

/// A relay asks nobody for a packet that it keeps, and keeps no more than it may. R-RELAY-40,
/// R-RELAY-41.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Bytes of the relays from node 1 on.
    limits: Vec<usize>,
}

impl Cache {
    pub(crate) fn new(plan: &Plan) -> Self {
        let limits = plan.caches.clone();
        Self { limits }
    }

    pub(crate) fn step(&self, step: &Step, network: &Network) -> Result<(), Violation> {
        let limit = step.from.checked_sub(1).and_then(|at| self.limits.get(at));
        let (Some(limit), Some(relay)) = (limit, network.relay(step.from)) else {
            return Ok(());
        };
        if relay.kept_bytes() > *limit {
            let message = format!("relay {} keeps more than {limit} bytes", step.from);
            return Err(Violation::new(NAME, message));
        }
        let asks = step.is_sent() && step.kind == Kind::Nack;
        let kept = |sequence: &&u64| relay.keeps(SESSION, **sequence);
        match step.numbers.iter().find(kept) {
            Some(kept) if asks => {
                let message = format!("relay {} asked for {kept}, which it keeps", step.from);
                Err(Violation::new(NAME, message))
            }
            _ => Ok(()),
        }
    }
}
