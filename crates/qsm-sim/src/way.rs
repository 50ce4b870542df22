use qsm_proto::region::Region;
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
        let takers = |region: &Region| -> Vec<bool> {
            let members = region.view().members().iter();
            let others = members.filter(|member| !member.leaving() && member.origin != me);
            others
                .map(|member| region.takes(member.origin, group))
                .collect()
        };
        let takers: Vec<Vec<bool>> = machine.regions_of(group).map(takers).collect();
        let lanes = takers.iter().filter(|takes| !takes.is_empty());
        let unwanted = takers.iter().flatten().filter(|takes| !**takes);
        Some(Self {
            group,
            regions: lanes.count() as u64,
            unwanted: unwanted.count() as u64,
            taken: machine.taken(),
        })
    }
}
