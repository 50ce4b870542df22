//! Packets of other clusters at the addresses of regions (R-MEM-20).

use super::World;
use crate::faults::Fault;
use crate::machine::Machine;
use crate::mischief::Mischief;
use crate::violation::Violation;

impl World {
    /// Packets of another cluster come to this host.
    pub(crate) fn meet_foreign(&mut self, host: usize) -> Result<(), Violation> {
        let unheard = self.options.mischief == Mischief::ForeignIgnored;
        let told = self.engine.drive(host, |machine, now, _| match unheard {
            true => machine.shared_regions(),
            false => machine.meet_foreign(now),
        })?;
        if self.is_quiet() {
            self.checkers.foreign.tell(told.into_iter().flatten());
        }
        self.react(host)
    }

    /// Tells whether what nodes say reaches the only service for sure.
    fn is_quiet(&self) -> bool {
        let harmless = |fault: &Fault| {
            matches!(
                fault,
                Fault::Foreign { .. }
                    | Fault::Filter { .. }
                    | Fault::Doom { .. }
                    | Fault::Garbage { .. }
            )
        };
        let mut faults = self.options.faults.iter();
        self.options.services().count() == 1 && faults.all(|(_, fault)| harmless(fault))
    }

    /// A region that has yet to move.
    pub(crate) fn unmoved(&self) -> Option<Violation> {
        let service = self.options.services().next()?;
        let rows = self.engine.machine(service).and_then(Machine::rows)?;
        let options = &self.options;
        let merges = options.plan_unwanted_ppm > 0 || !options.hints.is_empty();
        let spare = options.addresses.is_none() && !merges;
        let judged = self.checkers.foreign.check(&rows.regions, spare);
        judged.err().filter(|_| self.checkers.armed)
    }
}
