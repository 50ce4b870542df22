use std::collections::BTreeMap;

use crate::violation::Violation;

/// Fewer repairs say nothing.
const REPAIRS_MIN: u64 = 100;

/// With the fast plane on, it is what repairs most: the token plane comes later and takes what is
/// left (R084, R-NAK-9, algorithms §0.2). Judged in runs without disturbances only: where nodes die or move,
/// the token plane has its share.
pub(crate) fn check(stats: &BTreeMap<&'static str, u64>) -> Result<(), Violation> {
    let counted = |name: &str| stats.get(name).copied().unwrap_or(0);
    let fast = counted("repaired_by_cacher") + counted("repaired_by_sender");
    let slow = counted("repaired_by_pull") + counted("repaired_by_push");
    if fast + slow >= REPAIRS_MIN && fast < slow {
        let message = format!(
            "the fast plane is on, but of {} repairs it made only {fast}",
            fast + slow
        );
        return Err(Violation::new("planes", message));
    }
    Ok(())
}
