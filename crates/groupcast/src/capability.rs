//! What this process may do.

use std::fs;

use crate::backend::Unavailable;

/// A capability: its bit in `/proc/self/status` and its name.
pub(crate) type Capability = (u32, &'static str);

pub(crate) const NET_ADMIN: Capability = (12, "CAP_NET_ADMIN");
const SYS_ADMIN: Capability = (21, "CAP_SYS_ADMIN");
const BPF: Capability = (39, "CAP_BPF");

/// Says which capability is missing; what else is in the way, the kernel says itself later.
pub(crate) fn require((bit, name): Capability, action: &'static str) -> Result<(), Unavailable> {
    if has(bit) {
        Ok(())
    } else {
        Err(Unavailable::Capability { name, action })
    }
}

/// `CAP_BPF`, or what stood in its place before Linux 5.8.
pub(crate) fn require_bpf() -> Result<(), Unavailable> {
    if has(SYS_ADMIN.0) {
        return Ok(());
    }
    require(BPF, "load an eBPF program")
}

/// Whether the calling thread has it in effect; where that cannot be read, the kernel decides.
fn has(bit: u32) -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    effective.is_none_or(|bits| bits & (1 << bit) != 0)
}
