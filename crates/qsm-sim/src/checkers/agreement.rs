use std::collections::BTreeMap;

use qsm_wire::membership::Member;
use qsm_wire::{Origin, RegionId, ViewNumber};

use super::history::History;
use crate::violation::Violation;

/// Whoever has a view of a region has the same one: the same members, in the same order, with the
/// same of them leaving (R036, R-VIEW-1: partitions, rings and leaders follow from it). A service
/// that starts without memory may give numbers again that nobody who lives has heard of
/// (R-MEM-6), so that the dead do not count.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    views: BTreeMap<(RegionId, ViewNumber), (Origin, Vec<Member>)>,
}

impl Agreement {
    /// `node` has this view now.
    pub(crate) fn check(
        &mut self,
        history: &History,
        node: Origin,
        (region, view): (RegionId, ViewNumber),
        members: &[Member],
    ) -> Result<(), Violation> {
        let (first, known) = self
            .views
            .entry((region, view))
            .or_insert_with(|| (node, members.to_vec()));
        if known == members {
            return Ok(());
        }
        if !history.alive(*first) {
            (*first, *known) = (node, members.to_vec());
            return Ok(());
        }
        let list = |members: &[Member]| {
            let names: Vec<_> = members
                .iter()
                .map(|member| format!("{}{}", member.origin, if member.leaving { "-" } else { "" }))
                .collect();
            names.join(" ")
        };
        let message = format!(
            "view {view} of region {region} is [{}] for {first} and [{}] for {node}",
            list(known),
            list(members)
        );
        Err(Violation::new("agreement", message))
    }
}
