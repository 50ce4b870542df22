use std::collections::BTreeMap;

use qsm_wire::membership::Member;
use qsm_wire::{Origin, RegionId, ViewNumber};

use crate::violation::Violation;

/// Whoever has a view of a region has the same one: the same members, in the same order, with the
/// same of them leaving (R036, R-VIEW-1: partitions, rings and leaders follow from it).
///
/// A service that starts without memory gives numbers again that nobody it could hear of has
/// heard of (R-MEM-6), so that only views of one life of the service are compared.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    views: BTreeMap<(RegionId, ViewNumber), Known>,
}

#[derive(Debug)]
struct Known {
    by: Origin,
    /// The life of the service.
    service: u64,
    members: Vec<Member>,
}

impl Agreement {
    /// How many regions there have been.
    pub(crate) fn regions(&self) -> u64 {
        let mut regions: Vec<RegionId> = self.views.keys().map(|key| key.0).collect();
        regions.dedup();
        regions.len() as u64
    }

    /// `node` has this view now, in that life of the service.
    pub(crate) fn check(
        &mut self,
        (node, service): (Origin, u64),
        (region, view): (RegionId, ViewNumber),
        members: &[Member],
    ) -> Result<(), Violation> {
        let fresh = || Known {
            by: node,
            service,
            members: members.to_vec(),
        };
        let entry = self.views.entry((region, view)).or_insert_with(fresh);
        if entry.members == members {
            return Ok(());
        }
        if entry.service != service {
            *entry = fresh();
            return Ok(());
        }
        let (first, known) = (entry.by, &entry.members);
        let list = |members: &[Member]| {
            let names: Vec<_> = members
                .iter()
                .map(|member| {
                    format!(
                        "{}{}",
                        member.origin,
                        if member.leaving() { "-" } else { "" }
                    )
                })
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
