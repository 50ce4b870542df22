use qsm_proto::send::BLOCK_BYTES;
use qsm_wire::Origin;

use crate::machine::Machine;
use crate::options::SimOptions;
use crate::violation::Violation;

/// A sender that has freed packets although members that are away lack them keeps as much as it may
/// (R-VIEW-13), in whole blocks.
pub(crate) fn check(
    sender: Origin,
    machine: &Machine,
    options: &SimOptions,
) -> Result<(), Violation> {
    let (kept, limit) = (machine.retained_bytes(), options.limits.retention_bytes);
    if kept + BLOCK_BYTES > limit {
        return Ok(());
    }
    let message = format!(
        "{sender} lets packets go that members lack, but keeps only {kept} of {limit} bytes"
    );
    Err(Violation::new("retention", message))
}
