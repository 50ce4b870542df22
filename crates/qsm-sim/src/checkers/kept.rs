//! Packets that nodes keep, where they wait for their proof or prove others (R-SEC-32, R-SEC-33).

use qsm_wire::{Origin, RegionId};

use crate::machine::Machine;

/// Tells whether the node has bytes by that number, proven or not.
pub(super) fn keeps(machine: &Machine, region: RegionId, sender: Origin, sequence: u64) -> bool {
    matches!(machine, Machine::Node(node) if node.keeps(region, sender, sequence))
}

/// Number of a seal for that packet that the node keeps.
pub(super) fn seal_for(
    machine: &Machine,
    region: RegionId,
    sender: Origin,
    sequence: u64,
) -> Option<u64> {
    match machine {
        Machine::Node(node) => node.kept_seal_for(region, sender, sequence),
        _ => None,
    }
}
