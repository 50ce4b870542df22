use qsm_proto::Limits;
use qsm_wire::NodeId;

use crate::violation::Violation;

/// Send windows are lent block by block and receive windows packet by packet, so that a limit
/// may be passed by one of them.
const SLACK_BYTES: usize = 1 << 17;

/// No node holds more than its limits allow (architecture §6: everything has a limit).
pub(crate) fn check(
    node: NodeId,
    limits: &Limits,
    send: usize,
    receive: usize,
) -> Result<(), Violation> {
    let sent = limits.send_bytes + limits.retention_bytes;
    if send > sent + SLACK_BYTES || receive > limits.receive_bytes + SLACK_BYTES {
        let message = format!(
            "node {:x} holds {send} bytes to send of {} and {receive} bytes received of {}",
            node.0, sent, limits.receive_bytes
        );
        return Err(Violation::new("memory", message));
    }
    Ok(())
}
