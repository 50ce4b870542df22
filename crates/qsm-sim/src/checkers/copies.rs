use std::collections::BTreeSet;

use qsm_wire::{Origin, RegionId};

use crate::machine::Machine;
use crate::violation::Violation;

/// A packet is given up only when nothing is left of it: no cacher of it that the receiver could
/// ask has its bytes (R083, R201, R-NAK-8).
#[derive(Debug, Default)]
pub(crate) struct Copies {
    judged: BTreeSet<(Origin, RegionId, Origin, u64)>,
}

impl Copies {
    /// What `receiver` has given up of this sender until now is not judged.
    pub(crate) fn excuse(&mut self, receiver: Origin, machine: &Machine, sender: Origin) {
        for region in machine.all_regions() {
            let stream = region.stream(sender);
            let given_up = stream
                .into_iter()
                .flat_map(|stream| (1..=stream.highest()).filter(|number| stream.gave_up(*number)));
            self.judged
                .extend(given_up.map(|number| (receiver, region.id(), sender, number)));
        }
    }

    /// `receiver` has given up something of this sender; `others` are the nodes that it could ask.
    pub(crate) fn check(
        &mut self,
        receiver: Origin,
        machine: &Machine,
        sender: Origin,
        others: &[(Origin, &Machine)],
    ) -> Result<(), Violation> {
        for region in machine.all_regions() {
            let Some(stream) = region.stream(sender) else {
                continue;
            };
            let given_up = (1..=stream.highest()).filter(|number| stream.gave_up(*number));
            for number in given_up {
                if !self.judged.insert((receiver, region.id(), sender, number)) {
                    continue;
                }
                let view = stream.view_of(number, region.history());
                let structure = region.history().nearest(view);
                let asked: Vec<Origin> = region
                    .history()
                    .cachers(view, number)
                    .filter_map(|(_, index)| Some(structure.member(index)?.origin))
                    .collect();
                let holder = others.iter().find(|(other, node)| {
                    asked.contains(other) && node.holds(region.id(), sender, number)
                });
                if let Some((holder, _)) = holder {
                    let message = format!(
                        "{receiver} gives up {sender} #{number} in region {}, which {holder} \
                         holds as its cacher",
                        region.id()
                    );
                    return Err(Violation::new("copies", message));
                }
            }
        }
        Ok(())
    }
}
