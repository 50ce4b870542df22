use std::collections::BTreeMap;

use qsm_wire::membership::Member;
use qsm_wire::{Origin, RegionId, ViewNumber};

use crate::violation::Violation;

/// Whoever has a view of a region has the same one: the same members, in the same order, with the
/// same of them leaving (R036, R-VIEW-1: partitions, rings and leaders follow from it).
///
/// A service that starts without memory gives numbers again that nobody it could hear of has
/// heard of (R-MEM-6), so that only views of one run of the service are compared: of the run that
/// made them, since what it has said may be read long after its end.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    /// By region, number, and run of the service.
    views: BTreeMap<(RegionId, ViewNumber, Origin), Known>,
}

#[derive(Debug)]
struct Known {
    by: Origin,
    members: Vec<Member>,
}

impl Agreement {
    /// How many regions there have been.
    pub(crate) fn regions(&self) -> u64 {
        let mut regions: Vec<RegionId> = self.views.keys().map(|key| key.0).collect();
        regions.dedup();
        regions.len() as u64
    }

    /// `node` has this view now, by the word of that run of the service.
    pub(crate) fn check(
        &mut self,
        node: Origin,
        region: RegionId,
        view: ViewNumber,
        service: Origin,
        members: &[Member],
    ) -> Result<(), Violation> {
        let key = (region, view, service);
        let entry = self.views.entry(key).or_insert_with(|| Known {
            by: node,
            members: members.to_vec(),
        });
        if entry.members == members {
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
