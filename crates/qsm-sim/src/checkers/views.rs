use std::collections::BTreeSet;

use qsm_wire::Origin;

/// In the end every sender sees exactly the members that want the group (R037): `None`, or what
/// differs.
pub(crate) fn difference(
    group: &str,
    publisher: Origin,
    seen: &[Origin],
    wanted: &BTreeSet<Origin>,
) -> Option<String> {
    let seen: BTreeSet<Origin> = seen.iter().copied().collect();
    let list = |origins: Vec<&Origin>| {
        let names: Vec<_> = origins.iter().map(ToString::to_string).collect();
        names.join(" ")
    };
    // Whether a node counts among its own receivers is the node's business.
    let too_many: Vec<_> = seen
        .difference(wanted)
        .filter(|who| **who != publisher)
        .collect();
    let too_few: Vec<_> = wanted
        .difference(&seen)
        .filter(|who| **who != publisher)
        .collect();
    (!too_many.is_empty() || !too_few.is_empty()).then(|| {
        format!(
            "{publisher} publishes to {group}: unknown are [{}], dead or gone are [{}]",
            list(too_few),
            list(too_many)
        )
    })
}
