use qsm_proto::send::SendStream;

use crate::options::SimOptions;
use crate::violation::Violation;

/// Credit that a receiver leaves whatever stands at its socket, bytes (R-RATE-9), if its buffers hold as much.
const LEAST_BYTES: usize = 64 << 10;
/// Parts into which that is divided, at most: streams of lives that have ended have theirs for a while, and
/// no lease is smaller than half of an equal share.
const PARTS: usize = 64;
const PARTS_PER_NODE: usize = 4;

/// No sender is left without credit for good, whatever packets are lost (R-RATE-11): what it has was said at
/// once, and not in parts.
pub(crate) fn check(options: &SimOptions, stream: &SendStream) -> Result<(), Violation> {
    let granted = LEAST_BYTES
        .min(options.network.receive_buffer_bytes / 2)
        .min(options.limits.receive_bytes);
    let least = granted / PARTS.max(options.nodes.saturating_mul(PARTS_PER_NODE));
    let (sender, has) = (stream.id().origin, stream.window_bytes());
    if has >= least {
        return Ok(());
    }
    let message =
        format!("{sender} has a credit of {has} bytes, and each receiver grants {granted}");
    Err(Violation::new("credit", message))
}
