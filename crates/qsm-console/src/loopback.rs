//! The warning of a node that reaches this host alone without having been asked to.

use qsm::{Interface, choose_interface};

/// A line for a node on this interface, which was chosen for it; `None` where others are reached.
#[must_use]
pub fn warning(chosen: &Interface) -> Option<String> {
    reason(chosen).map(|reason| format!("WARNING: {reason}"))
}

/// Why loopback was chosen, and the remedy.
pub(crate) fn reason(chosen: &Interface) -> Option<String> {
    if !chosen.loopback {
        return None;
    }
    let (_, why) = choose_interface(None, Some(chosen.family())).ok()?;
    Some(format!(
        "{why}; bring another one up with `ip link set dev NAME up`, or give --interface {} if that \
         is meant",
        chosen.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, loopback: bool) -> Interface {
        Interface {
            name: name.to_owned(),
            index: 1,
            addr: [127, 0, 0, 1].into(),
            mtu: 1500,
            loopback,
            multicast: !loopback,
            medium: qsm::Medium::Wire,
        }
    }

    #[test]
    fn only_loopback_is_warned_of() {
        assert_eq!(warning(&interface("eth0", false)), None);
        let line = warning(&interface("lo", true)).unwrap_or_default();
        assert!(line.contains("--interface lo"), "{line}");
    }
}
