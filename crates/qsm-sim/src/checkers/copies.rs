use std::collections::BTreeSet;

use qsm_proto::OriginDemand;
use qsm_proto::region::Region;
use qsm_wire::{Origin, RegionId};

use super::kept;
use crate::machine::Machine;
use crate::violation::Violation;

/// A packet is given up only when nothing is left of it: no cacher of it that the receiver could
/// ask has its bytes (R083, R201, R-NAK-8). Where messages wait for proof, something is left only as long as a seal for it is
/// as well: at the receiver, or at a cacher of the seal (R-SEC-33).
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
                let asked = |packet: u64, one: Origin| asks_for(region, sender, packet, one);
                let holder = others.iter().find(|(other, node)| {
                    asked(number, *other) && node.holds(region.id(), sender, number)
                });
                let seal = |node| kept::seal_for(node, region.id(), sender, number);
                let provable = || {
                    let mut others = others.iter();
                    seal(machine).is_some()
                        || others
                            .any(|(other, node)| seal(node).is_some_and(|at| asked(at, *other)))
                };
                let waits = region.origin_demand() == Some(OriginDemand::Verified);
                if let Some((holder, _)) = holder.filter(|_| !waits || provable()) {
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

/// Tells whether `one` is a cacher of the packet whom the region's node would ask for it.
fn asks_for(region: &Region, sender: Origin, packet: u64, one: Origin) -> bool {
    let history = region.history();
    let Some(stream) = region.stream(sender) else {
        return false;
    };
    let view = stream.view_of(packet, history);
    let structure = history.nearest(view);
    let mut cachers = history.cachers(view, packet);
    cachers.any(|(_, index)| {
        structure
            .member(index)
            .is_some_and(|member| member.origin == one)
    })
}
