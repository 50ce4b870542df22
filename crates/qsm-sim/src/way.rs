use qsm_wire::GroupId;

use crate::machine::Machine;

/// The way of a message when it is published, as its sender knows the group's regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) group: GroupId,
    /// Regions in which the sender knows another receiver.
    pub(crate) regions: u64,
    /// Members there that do not want the group.
    pub(crate) unwanted: u64,
    /// Messages that the sender's streams have taken before.
    pub(crate) taken: u64,
}

impl Way {
    /// The way of a node's next message to a group.
    pub(crate) fn of(machine: &Machine, group: GroupId) -> Option<Self> {
        let me = machine.origin()?;
        let mut way = Self {
            group,
            regions: 0,
            unwanted: 0,
            taken: machine.taken(),
        };
        for region in machine.regions_of(group) {
            let members = region.view().members().iter();
            let others = members.filter(|member| !member.leaving() && member.origin != me);
            let mut empty = true;
            for member in others {
                empty = false;
                way.unwanted += u64::from(!region.takes(member.origin, group));
            }
            way.regions += u64::from(!empty);
        }
        Some(way)
    }
}
