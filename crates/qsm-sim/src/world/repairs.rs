//! The operator's limits: of what is sent again (R-NAK-16), and of all that a node sends (R-RATE-13).

use super::World;
use crate::engine::Outputs;
use crate::machine::Machine;
use crate::violation::Violation;

impl World {
    /// Judges how much a host sends.
    pub(super) fn bounded(&mut self, host: usize, outputs: &Outputs) -> Result<(), Violation> {
        self.limited(host, outputs)?;
        self.throttled(host, outputs)
    }

    /// Judges what a host sends again since it knows that there is a limit.
    fn limited(&mut self, host: usize, outputs: &Outputs) -> Result<(), Violation> {
        let limit = self.options.repair_bytes_per_second;
        let machine = self.engine.machine(host);
        let told = machine.is_some_and(Machine::limits_repairs);
        if !told || limit == 0 || !self.checkers.armed {
            return Ok(());
        }
        let now = self.engine.local(host);
        for repaired in &outputs.repairs {
            self.checkers.repairs.check(now, host, repaired, limit)?;
        }
        Ok(())
    }

    /// Judges all that a host sends, where that is limited (R-RATE-13).
    fn throttled(&mut self, host: usize, outputs: &Outputs) -> Result<(), Violation> {
        if !self.checkers.armed {
            return Ok(());
        }
        let limit = self.options.pace.node_bytes_per_second;
        let now = self.engine.local(host);
        for leaving in &outputs.leaving {
            self.checkers.sending.check(now, host, *leaving, limit)?;
        }
        Ok(())
    }

    /// A node that is in knows the limit in the end.
    pub(super) fn unlimited(&self) -> Option<String> {
        if self.options.repair_bytes_per_second == 0 {
            return None;
        }
        let mut hosts = self.nodes().map(|(host, _)| host);
        let lacks = |host: &usize| {
            let machine = self.engine.machine(*host);
            let served = self.options.has_service_for(*host);
            served && machine.is_some_and(|machine| !machine.limits_repairs())
        };
        let host = hosts.find(lacks)?;
        Some(format!(
            "host {host} has not been told the limit of repairs"
        ))
    }
}
