//! Groups that applications want in other ways beside their order (R-DATA-12).

use super::World;
use crate::checkers::Arrival;
use crate::checkers::lost::LostNumbers;
use crate::engine::Outputs;
use crate::machine::{Loss, Machine, PromptRow};
use crate::pattern::GroupPlan;
use crate::violation::Violation;

impl World {
    /// The application says in which ways it wants groups beside their order.
    pub(super) fn want_promptly(&mut self, host: usize) -> Result<(), Violation> {
        let Some(modes) = self.options.prompt.get(&host) else {
            return Ok(());
        };
        let groups = 0..self.options.groups.len();
        self.engine.drive(host, |machine, local, _| {
            groups.for_each(|group| machine.want(local, &GroupPlan::name(group), modes));
        })?;
        self.react(host)
    }

    /// Judges what a node has handed out or told in another way than in order.
    pub(super) fn handed_out(
        &mut self,
        host: usize,
        row: &PromptRow,
        outputs: &Outputs,
    ) -> Result<(), Violation> {
        let Some(receiver) = self.apps[host].origin.filter(|_| self.checkers.armed) else {
            return Ok(());
        };
        let (id, sender) = match row {
            PromptRow::Given(_, row) => (row.group, row.sender),
            PromptRow::Lost(_, Loss::Messages { group, sender, .. })
            | PromptRow::Vague(_, group, sender) => (*group, *sender),
            PromptRow::Lost(_, Loss::Packets { .. }) => return Ok(()),
        };
        // As for what comes in order.
        let Some(group) = self.group_of(host, id) else {
            return Ok(());
        };
        let (now, base) = (self.engine.now(), self.base(sender, id));
        let checkers = &mut self.checkers;
        let (mode, number) = match *row {
            PromptRow::Given(mode, row) => {
                let arrival = Arrival {
                    receiver,
                    group,
                    sender,
                    number: base + row.number,
                    bytes: outputs.deliveries.bytes(&row),
                };
                checkers.handed_out(now, mode, &arrival)?;
                (mode, base + row.number)
            }
            PromptRow::Lost(mode, Loss::Messages { first, last, .. }) => {
                let lost = LostNumbers {
                    receiver,
                    group,
                    sender,
                    first: base + first,
                    last: base + last,
                };
                checkers.overdue(mode, lost)?;
                (mode, base + last)
            }
            PromptRow::Lost(_, Loss::Packets { .. }) => return Ok(()),
            PromptRow::Vague(mode, ..) => {
                checkers
                    .prompt
                    .lose_vaguely(mode, (receiver, group, sender));
                return Ok(());
            }
        };
        let way = (receiver, group, sender);
        let late = checkers.prompt.late(now, mode, way, number);
        late.filter(|_| self.is_in_time(host)).map_or(Ok(()), Err)
    }

    /// Whether a host is never slow, and has had room for all that came: what gives way for another
    /// packet is not there any more.
    fn is_in_time(&self, host: usize) -> bool {
        let machine = self.engine.machine(host);
        let counters = machine.map(Machine::counters).unwrap_or_default();
        let mut dropped = counters
            .iter()
            .filter(|(name, _)| *name == "discard_memory");
        self.options.is_punctual(host) && dropped.all(|(_, count)| *count == 0)
    }
}
