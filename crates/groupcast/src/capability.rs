//! What this process may do.

use std::fs;

use crate::backend::Unavailable;

/// A Linux capability.
#[derive(Clone, Copy)]
pub(crate) struct Capability {
    /// Bit in `/proc/self/status`.
    bit: u32,
    name: &'static str,
}

pub(crate) const NET_ADMIN: Capability = Capability {
    bit: 12,
    name: "CAP_NET_ADMIN",
};
const SYS_ADMIN: Capability = Capability {
    bit: 21,
    name: "CAP_SYS_ADMIN",
};
const BPF: Capability = Capability {
    bit: 39,
    name: "CAP_BPF",
};

/// Says which capability is missing; what else is in the way, the kernel says itself later.
pub(crate) fn require(needed: Capability, action: &'static str) -> Result<(), Unavailable> {
    if has(needed.bit) {
        Ok(())
    } else {
        Err(Unavailable::Capability {
            name: needed.name,
            action,
        })
    }
}

/// `CAP_BPF`, or what stood in its place before Linux 5.8.
pub(crate) fn require_bpf() -> Result<(), Unavailable> {
    if has(SYS_ADMIN.bit) {
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
