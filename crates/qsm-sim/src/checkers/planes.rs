use std::collections::BTreeMap;

use qsm_testnet::NetworkCounters;

use crate::violation::Violation;

/// Fewer repairs say nothing.
const REPAIRS_MIN: u64 = 100;

/// So many times the fast plane's repairs the token plane may make where views come late.
const LATE_SHARE: u64 = 4;

/// With the fast plane on, it is what repairs most: the token plane comes later and takes what is
/// left (R084, R-NAK-9, algorithms §0.2). Judged in runs without disturbances only: where nodes die or move,
/// the token plane has its share. What a joining host could not hear it learns of from tokens, and
/// its neighbours push it at once: so much is free. Where views come late, a cacher that has not
/// got its view yet does not answer, and the first token brings what it was asked for: most of what
/// was sent in the first moments, and so most of few losses.
pub(crate) fn check(
    stats: &BTreeMap<&'static str, u64>,
    network: &NetworkCounters,
) -> Result<(), Violation> {
    let counted = |name: &str| stats.get(name).copied().unwrap_or(0);
    let fast = counted("repaired_by_cacher") + counted("repaired_by_sender");
    let slow = counted("repaired_by_pull") + counted("repaired_by_push");
    let share = if network.lagged > 0 { LATE_SHARE } else { 1 };
    if fast + slow >= REPAIRS_MIN && (fast + network.data_unheard) * share < slow {
        let message = format!(
            "the fast plane is on, but of {} repairs it made only {fast}",
            fast + slow
        );
        return Err(Violation::new("planes", message));
    }
    Ok(())
}
